"""What members of a classic group write to each other."""

from __future__ import annotations

import pytest

from kclient.consumer.group.assignors.base import Member
from kclient.consumer.group.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kclient.errors import ProtocolError
from kclient.types import TopicPartition

OWNED = (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))
FULL = Member(("b", "a"), b"data", OWNED, generation=7, rack="r1")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, Member(("b", "a"), b"data")),
        (1, Member(("b", "a"), b"data", OWNED)),
        (2, Member(("b", "a"), b"data", OWNED, 7)),
        (3, FULL),
    ],
)
def test_every_version_carries_what_it_can(version: int, expected: Member) -> None:
    assert decode_subscription(encode_subscription(FULL, version)) == expected


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    data = encode_subscription(FULL)
    assert decode_subscription(b"\x00\x09" + data[2:] + b"something new") == FULL


def test_the_instance_id_comes_from_outside() -> None:
    assert decode_subscription(encode_subscription(FULL), "i1").group_instance_id == "i1"


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_survives_the_way(version: int) -> None:
    assert decode_assignment(encode_assignment(OWNED, version)) == list(OWNED)


def test_no_bytes_are_an_empty_assignment() -> None:
    assert decode_assignment(b"") == []


@pytest.mark.parametrize("data", [b"\x00", b"\xff\xff\x00\x00", b"\x00\x01\x00\x00\x00\x05"])
def test_nonsense_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_subscription(data)
