"""Damaged and random bytes through the decoder of every message in every version, and through frames."""

from __future__ import annotations

import time
import tracemalloc
from functools import cache
from random import Random
from typing import Any

import pytest

from kclient.errors import EncodeError, ProtocolError
from kclient.wire.api import ApiKey
from kclient.wire.frame import FrameBuffer, decode_request, decode_response, encode_request, encode_response
from kclient.wire.message import Message, Request
from kclient.wire.messages import request_class
from kclient.wire.messages.fetch import FetchResponse
from kclient.wire.messages.metadata import FindCoordinatorRequest, MetadataResponse
from kclient.wire.varint import encode_uvarint
from tests.fuzz.harness import SLOWEST_CASE, Target, cases, fuzz, peak_allocation, warm_up
from tests.support.catalogue import every_version, versions_of
from tests.support.instances import random_instance

MESSAGES_SHARE = 0.40
FRAMES_SHARE = 0.10
SAMPLES = 6


def check_stable(message: Message, version: int) -> None:
    """What was decoded encodes, and the result decodes to the same; it need not be the bytes that came."""
    try:
        encoded = message.encode(version)
    except EncodeError:
        return
    assert type(message).decode(encoded, version).encode(version) == encoded


def message_target(message: type[Message], version: int) -> Target:
    rng = Random(f"{message.__name__} {version}")
    return Target(
        name=f"{message.__name__} v{version}",
        decode=lambda data: message.decode(data, version),
        samples=[random_instance(message, version, rng).encode(version) for _ in range(SAMPLES)],
        check=lambda decoded: check_stable(decoded, version),
    )


@cache
def message_targets() -> list[Target]:
    return [message_target(message, version) for message, version in every_version()]


def request_target(request: type[Request[Any]], version: int) -> Target:
    rng = Random(f"request {request.__name__} {version}")
    instances = [random_instance(request, version, rng) for _ in range(2)]
    return Target(
        name=f"frame of {request.__name__} v{version}",
        decode=decode_request,
        samples=[
            encode_request(instance, version, rng.getrandbits(31), "client")[4:] for instance in instances
        ],
    )


def response_target(request: type[Request[Any]], version: int) -> Target:
    rng = Random(f"response {request.__name__} {version}")
    instances = [random_instance(request.response, version, rng) for _ in range(2)]
    return Target(
        name=f"frame of {request.response.__name__} v{version}",
        decode=lambda data: decode_response(data, request, version),
        samples=[encode_response(instance, version, rng.getrandbits(31))[4:] for instance in instances],
    )


def stream_target() -> Target:
    """A stream of frames, cut anywhere; its own damaged size fields decide what comes out."""

    def decode(data: bytes) -> list[bytes]:
        buffer, frames = FrameBuffer(max_frame=1 << 24), []
        rng = Random(len(data))
        while data:
            target = buffer.writable()
            size = min(rng.choice((1, 3, 50, 1 << 20)), len(target), len(data))
            target[:size], data = data[:size], data[size:]
            frames += [bytes(frame) for frame in buffer.written(size)]
        return frames

    payloads = [Random(size).randbytes(size) for size in (0, 1, 7, 100, 20_000)]
    stream = b"".join(len(payload).to_bytes(4) + payload for payload in payloads)
    return Target(name="stream of frames", decode=decode, samples=[stream, stream * 2])


def frame_targets() -> list[Target]:
    requests = [request_class(key) for key in ApiKey]
    framed = [(request, version) for request in requests for version in versions_of(request)]
    targets = [make(*pair) for pair in framed for make in (request_target, response_target)]
    return [*targets, *[stream_target()] * (len(targets) // 10)]


def test_damaged_messages_of_every_version_give_a_message_or_a_protocol_error() -> None:
    targets = message_targets()
    count = cases(MESSAGES_SHARE)
    tally = fuzz(targets, count)
    assert tally.decoded + tally.refused == count
    if count >= len(targets):
        assert len(tally.names) == len(targets)
        # A control: inputs that are all refused at once, or never, would test nothing.
        assert tally.decoded > count // 50
        assert tally.refused > count // 4


def test_damaged_frames_give_a_message_or_a_protocol_error() -> None:
    tally = fuzz(frame_targets(), cases(FRAMES_SHARE))
    assert tally.decoded > 0
    assert tally.refused > 0


@pytest.mark.alone
def test_no_damaged_message_allocates_more_than_its_bytes_can_hold() -> None:
    """An empty element may take one byte on the wire and an object in memory, so the factor is not small."""
    targets = message_targets()
    warm_up(targets)
    tracemalloc.start()
    try:
        for number in range(cases(0.02)):
            target = targets[number * 7 % len(targets)]
            assert peak_allocation(target, number) < 2 << 20, f"{target.name}, case {number}"
    finally:
        tracemalloc.stop()


# Where an array or a record set starts: as many elements as the field can say, and next to nothing after it.
HUGE_ARRAYS: list[tuple[type[Message], int, str]] = [
    (MetadataResponse, 0, "7fffffff"),
    (MetadataResponse, 3, "00000000 7fffffff"),
    (MetadataResponse, 9, "00000000 ffffffff0f"),
    (MetadataResponse, 9, "00000000 ffffffff07"),
    (FetchResponse, 4, "00000000 7fffffff"),
    (FetchResponse, 12, "00000000 0000 00000000 ffffffff0f"),
    # One topic, and in it as many partitions.
    (FetchResponse, 4, "00000000 00000001 0001 74 7fffffff"),
    (FetchResponse, 12, "00000000 0000 00000000 02 02 74 ffffffff0f"),
    # One partition, and in it as many aborted transactions, or as many bytes of records.
    (FetchResponse, 4, "00000000 00000001 0001 74 00000001 00000000 0000" + "00" * 16 + "7fffffff"),
    (FetchResponse, 4, "00000000 00000001 0001 74 00000001 00000000 0000" + "00" * 20 + "7fffffff"),
]


@pytest.mark.alone
@pytest.mark.parametrize(("message", "version", "start"), HUGE_ARRAYS)
def test_a_count_that_the_data_does_not_back_allocates_nothing(
    message: type[Message], version: int, start: str
) -> None:
    data = bytes.fromhex(start).ljust(20, b"\0")
    with pytest.raises(ProtocolError):
        message.decode(data, version)  # the codec is compiled now, which allocates too
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="announced, more than the data holds"):
            message.decode(data, version)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def empty_keys(count: int) -> bytes:
    """One byte each is the least that an element can take, so this is the most that a count can ask for."""
    return b"\0" + encode_uvarint(count + 1) + b"\1" * count + b"\0"


def test_a_message_of_a_million_empty_elements_is_decoded_within_a_second() -> None:
    data = empty_keys(1_000_000)
    started = time.process_time()
    assert len(FindCoordinatorRequest.decode(data, 4).coordinator_keys) == 1_000_000
    assert time.process_time() - started < SLOWEST_CASE


@pytest.mark.alone
def test_a_message_of_many_empty_elements_takes_memory_in_proportion_to_its_size() -> None:
    data = empty_keys(50_000)
    FindCoordinatorRequest.decode(data, 4)
    tracemalloc.start()
    try:
        FindCoordinatorRequest.decode(data, 4)
        assert tracemalloc.get_traced_memory()[1] < 16 * len(data)
    finally:
        tracemalloc.stop()
