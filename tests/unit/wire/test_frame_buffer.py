"""FrameBuffer: any slicing of a stream gives the same frames, and a size field alone allocates little."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import chain, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kclient.errors import FrameTooLargeError, ProtocolError
from kclient.wire.frame import DEFAULT_MAX_FRAME, FrameBuffer

SCRATCH = 64 * 1024
MEGABYTE = 1 << 20


def framed(*payloads: bytes) -> bytes:
    return b"".join(len(payload).to_bytes(4) + payload for payload in payloads)


def feed(buffer: FrameBuffer, stream: bytes, reads: Iterable[int]) -> Iterator[bytes | memoryview]:
    """Pass the stream as a socket would: each read takes what there is, what it asked and what fits."""
    position = 0
    for wanted in chain(reads, repeat(len(stream))):
        if position == len(stream):
            return
        target = buffer.writable()
        assert len(target) > 0
        piece = stream[position : position + min(wanted, len(target))]
        target[: len(piece)] = piece
        position += len(piece)
        yield from buffer.written(len(piece))


def payload_of(size: int, seed: int) -> bytes:
    cycle = bytes((seed + i) % 251 for i in range(251))
    return (cycle * (size // 251 + 1))[:size]


frame_sizes = st.one_of(
    st.integers(0, 40),
    st.integers(0, 3000),
    st.sampled_from([SCRATCH - 5, SCRATCH - 4, SCRATCH - 3, SCRATCH, SCRATCH + 1, 100_000, 300_000]),
)
read_sizes = st.one_of(st.integers(1, 8), st.integers(1, 5000), st.sampled_from([SCRATCH, 10 * MEGABYTE]))


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(frame_sizes, max_size=8),
    reads=st.lists(read_sizes, max_size=40),
    eager=st.sampled_from([1, 1000, SCRATCH, MEGABYTE]),
)
def test_any_slicing_of_any_stream_gives_its_frames(sizes: list[int], reads: list[int], eager: int) -> None:
    payloads = [payload_of(size, seed) for seed, size in enumerate(sizes)]
    frames = list(feed(FrameBuffer(eager=eager), framed(*payloads), reads))
    assert [bytes(frame) for frame in frames] == payloads


@settings(max_examples=150, deadline=None)
@given(
    frames=st.lists(st.tuples(st.integers(SCRATCH, 4 * SCRATCH), st.integers(0, 3)), max_size=12),
    reads=st.lists(read_sizes, max_size=40),
)
def test_no_frame_is_written_over_while_somebody_looks_at_it(
    frames: list[tuple[int, int]], reads: list[int]
) -> None:
    """Each frame is kept until so many others have come; by then it must be what it was."""
    payloads = [payload_of(size, seed) for seed, (size, _) in enumerate(frames)]
    kept: dict[int, bytes | memoryview] = {}
    for number, frame in enumerate(feed(FrameBuffer(), framed(*payloads), reads)):
        kept[number] = frame
        for other in [other for other in kept if other + frames[other][1] <= number]:
            assert bytes(kept.pop(other)) == payloads[other]
        del frame
    assert all(bytes(frame) == payloads[number] for number, frame in kept.items())


def large_ones(buffer: FrameBuffer, *sizes: int) -> list[int]:
    """Where the bytes of large frames are that are let go before the next comes."""
    places = []
    for size in sizes:
        (frame,) = feed(buffer, framed(bytes(size)), [])
        assert isinstance(frame, memoryview)
        places.append(id(frame.obj))
        del frame
    return places


def test_the_buffer_of_a_large_frame_is_used_again_for_one_that_fits() -> None:
    first, second, third = large_ones(FrameBuffer(), MEGABYTE, MEGABYTE, SCRATCH + 1)
    assert first == second == third


def test_nothing_is_kept_of_very_large_frames_and_once_small_ones_come() -> None:
    buffer = FrameBuffer()
    large_ones(buffer, 9 * MEGABYTE)
    assert not buffer._handed_out
    large_ones(buffer, MEGABYTE)
    assert len(buffer._handed_out) == 1
    assert [bytes(frame) for frame in feed(buffer, framed(b"small"), [])] == [b"small"]
    assert not buffer._handed_out


def test_every_cut_of_a_stream_of_small_frames_gives_its_frames() -> None:
    payloads = [b"", b"a", b"bc", b"", b"defgh"]
    stream = framed(*payloads)
    for cut in range(len(stream) + 1):
        for second in range(cut, len(stream) + 1):
            reads = [size for size in (cut, second - cut) if size]
            assert list(feed(FrameBuffer(), stream, reads)) == payloads


def test_a_stream_byte_by_byte_gives_its_frames() -> None:
    payloads = [b"abc", payload_of(SCRATCH, 1), b"def"]
    stream = framed(*payloads)
    frames = list(feed(FrameBuffer(eager=1), stream, [1] * len(stream)))
    assert [bytes(frame) for frame in frames] == payloads


def test_small_frames_are_bytes_of_their_own() -> None:
    buffer = FrameBuffer()
    (first,) = feed(buffer, framed(b"first"), [])
    list(feed(buffer, framed(b"other"), []))
    assert type(first) is bytes
    assert first == b"first"


def test_the_largest_frame_that_fits_the_scratch_buffer_is_bytes_and_one_byte_more_is_a_view() -> None:
    (small,) = feed(FrameBuffer(), framed(bytes(SCRATCH - 4)), [])
    (large,) = feed(FrameBuffer(), framed(bytes(SCRATCH - 3)), [])
    assert type(small) is bytes
    assert type(large) is memoryview
    assert len(large) == SCRATCH - 3


def test_a_large_frame_stays_valid_while_later_frames_arrive() -> None:
    buffer = FrameBuffer()
    expected = payload_of(200_000, 3)
    (large,) = feed(buffer, framed(expected), [])
    for seed in range(5):
        other = payload_of(200_000, seed)
        assert [bytes(frame) for frame in feed(buffer, framed(other, b"small"), [7])] == [other, b"small"]
    assert isinstance(large, memoryview)
    assert large == expected
    assert large.format == "B"


def test_a_frame_of_the_limit_passes_and_one_byte_more_is_refused() -> None:
    assert list(feed(FrameBuffer(max_frame=100), framed(bytes(100)), [])) == [bytes(100)]
    with pytest.raises(FrameTooLargeError, match="frame of 101 bytes is over the limit of 100"):
        list(feed(FrameBuffer(max_frame=100), framed(bytes(101)), []))


def test_a_frame_over_the_limit_is_refused_at_its_size_field() -> None:
    with pytest.raises(FrameTooLargeError, match="frame of 2147483647 bytes"):
        list(feed(FrameBuffer(), b"\x7f\xff\xff\xff", [1, 1, 1, 1]))


def test_an_answer_of_another_protocol_is_refused() -> None:
    with pytest.raises(FrameTooLargeError, match="does not speak Kafka"):
        list(feed(FrameBuffer(), b"HTTP/1.1 400 Bad Request\r\n", []))


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"])
def test_a_negative_size_is_refused(size: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"negative size -\d+"):
        list(feed(FrameBuffer(), size + b"more", []))


def test_the_limit_of_a_buffer_is_100_megabytes_unless_told() -> None:
    assert DEFAULT_MAX_FRAME == 100_000_000
    list(feed(FrameBuffer(), DEFAULT_MAX_FRAME.to_bytes(4), []))
    with pytest.raises(FrameTooLargeError):
        list(feed(FrameBuffer(), (DEFAULT_MAX_FRAME + 1).to_bytes(4), []))


def peak_of(size: int, received: int) -> int:
    """The most bytes allocated while `received` bytes of a frame of `size` arrive."""
    piece = bytes(1000)
    tracemalloc.start()
    try:
        buffer = FrameBuffer()
        list(feed(buffer, size.to_bytes(4), []))
        for _ in range(received // len(piece)):
            target = buffer.writable()
            target[: len(piece)] = piece[: len(target)]
            assert buffer.written(min(len(piece), len(target))) == []
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.alone
def test_a_size_of_90_megabytes_followed_by_few_bytes_allocates_little() -> None:
    assert peak_of(90_000_000, received=10_000) < 1.5 * MEGABYTE


@pytest.mark.alone
def test_what_is_allocated_for_a_large_frame_grows_with_what_arrives() -> None:
    """Each growth copies into a buffer of four times the size; both exist for a moment."""
    for received in (500_000, 3_000_000, 9_000_000):
        assert peak_of(90_000_000, received) < 5 * max(received, MEGABYTE) + 2 * MEGABYTE


def test_a_buffer_says_how_much_of_what_it_waits_for() -> None:
    buffer = FrameBuffer()
    assert repr(buffer) == "<FrameBuffer 0 bytes waiting>"
    list(feed(buffer, b"\0\0", []))
    assert repr(buffer) == "<FrameBuffer 2 bytes waiting>"
    list(feed(buffer, b"\x40\x00abc", []))
    assert repr(buffer) == "<FrameBuffer 7 bytes waiting>"
    large = FrameBuffer()
    list(feed(large, (300_000).to_bytes(4) + b"abc", []))
    assert repr(large) == "<FrameBuffer 3 bytes waiting of a frame of 300000>"
