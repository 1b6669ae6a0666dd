"""Bytes that are no batches: one family of errors, with the place, and no memory for what is not there."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable

import pytest

from kclient.errors import CorruptBatchError, ProtocolError, UnsupportedCodecError
from kclient.records import Codec, Limits, Stamp, encode_batch, read_batches
from kclient.records.varint import decode32, decode64, encode
from tests.unit.records.building import DECODERS, NOW, decoder, mixed, patched, plain, sealed, uniform, varied

every_decoder = pytest.mark.parametrize("name", DECODERS)
BATCH = encode_batch(uniform(300), stamp=Stamp(base_offset=77))
ONE = encode_batch([(b"key", b"value", NOW, [("h", b"x")])], stamp=Stamp(base_offset=77))
LONG = encode_batch([(b"key", b"value", NOW, ())] * 40)
FIRST = 15


def _with_body(body: bytes, length: bytes | None = None) -> bytes:
    """A batch of 40 records of which the first has this body."""
    return sealed(LONG[:61] + (length or encode(len(body))) + body + LONG[61 + FIRST :])


GOOD = LONG[62 : 61 + FIRST]
UP_TO_HEADERS = GOOD[:-1]


@every_decoder
@pytest.mark.parametrize(
    "data",
    [
        patched(BATCH, 57, struct.pack(">i", 301)),
        patched(BATCH, 57, struct.pack(">i", 299)),
        patched(BATCH, 57, struct.pack(">i", -1)),
        patched(patched(BATCH, 23, b"\x7f\xff\xff\xff"), 57, b"\x7f\xff\xff\xff"),
        patched(BATCH, 23, struct.pack(">i", 298)),
        patched(BATCH, 23, struct.pack(">i", -1)),
        patched(BATCH, 0, struct.pack(">q", -1)),
        patched(BATCH, 0, struct.pack(">q", (1 << 63) - 5)),
        patched(BATCH, 27, struct.pack(">q", (1 << 63) - 1)),
        sealed(BATCH[:-1]),
        sealed(BATCH + b"\0"),
        sealed(BATCH[:61]),
    ],
    ids=[
        "count too high", "count too low", "negative count", "huge count", "delta beyond the last",
        "negative last delta", "negative offset", "offset overflow", "timestamp overflow", "cut", "longer",
        "no records",
    ],
)  # fmt: skip
def test_headers_that_do_not_fit_their_records_are_corrupt(name: str, data: bytes) -> None:
    with decoder(name), pytest.raises(CorruptBatchError):
        plain(data)


@every_decoder
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (_with_body(GOOD, encode(-1)), "claims -1 of"),
        (_with_body(GOOD, encode(-100)), "claims -"),
        (_with_body(GOOD, encode(1 << 30)), "claims 1073741824 of"),
        (_with_body(GOOD, b"\xff\xff\xff\xff\xff\x01"), "more than 5 bytes"),
        (_with_body(GOOD, encode(len(GOOD) + 1)), "should end at"),
        (_with_body(GOOD, encode(len(GOOD) - 1)), "should end at"),
        (_with_body(b"\0\0\0" + encode(-2) + b"\0\0"), "field of -2"),
        (_with_body(b"\0\0\0" + encode(-100) + b"\0\0"), "field of -2 bytes"),
        (_with_body(b"\0\0\0" + encode(1 << 29) + b"\0\0"), "end before"),
        (_with_body(b"\0\0\0" + b"\x80\x80\x80\x80\x10" + b"\0\0"), "33 bits"),
        (_with_body(b"\0\0\0\x01" + encode(-2) + b"\0"), "field of -2"),
        (_with_body(b"\0\0\0\x01" + encode(99) + b"\0"), "should end at"),
        (_with_body(b"\0" + b"\xff" * 10 + b"\x01" + b"\0\x01\x01\0"), "more than 10 bytes"),
        (_with_body(b"\0" + b"\xff" * 9 + b"\x7f" + b"\0\x01\x01\0"), "70 bits"),
        (_with_body(b"\0\0" + encode(-1) + b"\x01\x01\0"), "offset delta -1"),
        (_with_body(b"\0\0" + encode(40) + b"\x01\x01\0"), "offset delta 40"),
        (_with_body(UP_TO_HEADERS + encode(-1)), "claims -1 headers"),
        (_with_body(UP_TO_HEADERS + encode(1 << 20) + bytes(50)), "claims 1048576 headers"),
        (_with_body(UP_TO_HEADERS + encode(1) + encode(-1) + encode(0)), "header key of -1"),
        (_with_body(UP_TO_HEADERS + encode(1) + encode(9) + b"h" + encode(0)), "header value of -61"),
        (_with_body(UP_TO_HEADERS + encode(1) + encode(1) + b"h" + encode(-2)), "header value of -2"),
        (_with_body(UP_TO_HEADERS + encode(1) + encode(1) + b"h" + encode(7)), "should end at"),
        (_with_body(UP_TO_HEADERS + encode(2) + encode(1) + b"h" + encode(5000) + b"\2h\0"), "end before"),
        (_with_body(UP_TO_HEADERS + encode(0) + b"\0"), "should end at"),
        (_with_body(UP_TO_HEADERS), "should end at"),
        (_with_body(b"", b"\0"), "field of -54"),
    ],
    ids=[
        "negative length", "negative length of two bytes", "length beyond the end", "length of six bytes",
        "length one too high", "length one too low", "key of -2", "key of -100", "key beyond the end",
        "key of 33 bits", "value of -2", "value beyond the end", "timestamp of 11 bytes",
        "timestamp of 70 bits",
        "negative delta", "delta beyond the last", "-1 headers", "headers beyond the end", "header key of -1",
        "header key beyond the end", "header value of -2", "header value beyond the end",
        "first header beyond the end", "bytes left over",
        "no header count", "empty",
    ],
)  # fmt: skip
def test_records_that_do_not_fit_their_bytes_are_corrupt(name: str, data: bytes, reason: str) -> None:
    with decoder(name), pytest.raises(CorruptBatchError, match=reason):
        plain(data)


@every_decoder
@pytest.mark.parametrize("count", [60, 250])
def test_sizes_below_null_are_corrupt_even_when_all_records_have_them(name: str, count: int) -> None:
    record = bytes([15 << 1, 0, 0, 0]) + encode(-2) + encode(9) + bytes(10)
    records = (record[:3] + bytes([min(index, 63) << 1]) + record[4:] for index in range(count))
    head = encode_batch([(b"k", b"v", NOW, ())] * count)[:61]
    with decoder(name), pytest.raises(CorruptBatchError, match="field of -2"):
        plain(sealed(head + b"".join(records)))


@every_decoder
@pytest.mark.parametrize("make", [uniform, varied, mixed])
def test_a_flipped_bit_in_a_long_batch_is_never_silent(
    name: str, make: Callable[[int], list[tuple[bytes, ...]]]
) -> None:
    data = encode_batch(make(250))  # type: ignore[arg-type]
    chance = random.Random(5)
    with decoder(name):
        for _ in range(60):
            broken = bytearray(data)
            broken[chance.randrange(21, len(broken))] ^= 1 << chance.randrange(8)
            with pytest.raises(CorruptBatchError, match="checksum"):
                plain(bytes(broken))


@pytest.mark.parametrize("number", [5, 6, 7])
def test_codecs_that_kafka_does_not_define_are_unsupported(number: int) -> None:
    data = patched(ONE, 21, struct.pack(">h", number))
    (found,) = read_batches(data)
    with pytest.raises(UnsupportedCodecError, match=f"codec {number}"):
        found.records("t", 0)
    with pytest.raises(UnsupportedCodecError, match="offset 77"):
        _ = found.codec


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_unknown_magic_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"magic {magic}"):
        plain(patched(ONE, 16, bytes([magic])))


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_lengths_shorter_than_a_header_are_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match="offset 77"):
        plain(ONE[:8] + struct.pack(">i", length) + ONE[12:])


def test_errors_say_where() -> None:
    data = sealed(ONE[:-1])
    (found,) = read_batches(data)
    with pytest.raises(ProtocolError) as caught:
        found.records("orders", 3)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 3, 77)
    with pytest.raises(ProtocolError, match="topic orders, partition 3, offset 77"):
        found.arrow("orders", 3)
    with pytest.raises(ProtocolError, match="offset 77"):
        found.columns()
    with pytest.raises(ProtocolError, match="offset 77"):
        list(read_batches(ONE[:-1] + b"?"))
    with pytest.raises(ProtocolError, match="offset 77"):
        list(read_batches(patched(ONE, 57, struct.pack(">i", 2))))


@pytest.mark.alone
@every_decoder
def test_no_memory_is_taken_for_records_that_are_not_there(name: str) -> None:
    data = patched(patched(BATCH, 23, b"\x7f\xff\xff\xff"), 57, b"\x7f\xff\xff\xff")
    nested = _with_body(UP_TO_HEADERS + encode(1 << 29) + bytes(50))
    with decoder(name):
        plain(BATCH)
        tracemalloc.start()
        for broken, reason in ((data, "cannot be in"), (nested, "headers in")):
            with pytest.raises(CorruptBatchError, match=reason):
                plain(broken)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1_000_000


def test_mutated_batches_raise_nothing_but_protocol_errors() -> None:
    """A short run of what tests/fuzz does at length, over all codecs and ways out."""
    chance = random.Random(20)
    limits = Limits(max_batch_bytes=1 << 20)
    seeds = [
        encode_batch(make(n), codec=codec)
        for make in (uniform, varied, mixed)
        for n in (3, 60, 200)
        for codec in Codec
    ]
    wrong = 0
    for _ in range(3000):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data) if chance.random() < 0.5 else 90)] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        try:
            for found in read_batches(bytes(data), check_crcs=False, limits=limits):
                found.records("t", 0)
                found.columns()
        except ProtocolError:
            wrong += 1
    assert 0 < wrong < 3000


def test_varints_are_bounded_by_their_type() -> None:
    assert decode32(encode(-(1 << 31)), 0) == (-(1 << 31), 5)
    assert decode64(encode(-(1 << 63)), 0) == (-(1 << 63), 10)
    for bad in (b"\x80" * 5 + b"\0", b"\xff\xff\xff\xff\x1f"):
        with pytest.raises(CorruptBatchError):
            decode32(bad, 0)
    for bad in (b"\x80" * 10 + b"\0", b"\xff" * 9 + b"\x02"):
        with pytest.raises(CorruptBatchError):
            decode64(bad, 0)
