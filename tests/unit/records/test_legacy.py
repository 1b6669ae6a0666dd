"""Message sets of magic 0 and 1, plain and compressed, as old clients and brokers wrote them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pytest

from kclient.errors import CorruptBatchError, DecompressionLimitError, ProtocolError, UnsupportedCodecError
from kclient.records import Codec, Limits, compress, encode_batch, read_batches
from kclient.types import TimestampType
from tests.unit.records.building import NOW, plain, read_one

APPENDED = 0x08
real_codecs = pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
both = pytest.mark.parametrize("magic", [0, 1])


def message(
    magic: int,
    offset: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    time: int = NOW,
    attributes: int = 0,
) -> bytes:
    """One message as it stands in a set."""
    body = struct.pack(">BB", magic, attributes) + (struct.pack(">q", time) if magic else b"")
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


def wrapped(
    magic: int, offset: int, inner: bytes, codec: Codec, *, attributes: int = 0, time: int = NOW
) -> bytes:
    """A compressed message around a set of others."""
    return message(magic, offset, compress(inner, codec), attributes=codec | attributes, time=time)


def offsets(data: bytes) -> list[int]:
    return [record.offset for found in read_batches(data) for record in found.records("t", 0)]


def values(count: int) -> Sequence[bytes]:
    return [b"value-%d" % number for number in range(count)]


@both
def test_messages_are_read_with_keys_values_and_nulls(magic: int) -> None:
    time = NOW if magic else -1
    data = b"".join(
        message(magic, 10 + place, value, key=key)
        for place, (key, value) in enumerate([(b"k", b"v"), (None, b"v"), (b"k", None), (b"", b"")])
    )
    assert plain(data) == [
        (b"k", b"v", time, ()),
        (None, b"v", time, ()),
        (b"k", None, time, ()),
        (b"", b"", time, ()),
    ]
    assert offsets(data) == [10, 11, 12, 13]


@real_codecs
def test_inner_offsets_of_magic_0_are_final(codec: Codec) -> None:
    inner = b"".join(message(0, 100 + place * 2, value) for place, value in enumerate(values(3)))
    data = wrapped(0, 104, inner, codec)
    assert offsets(data) == [100, 102, 104]
    assert [record[1] for record in plain(data)] == values(3)


@real_codecs
def test_inner_offsets_of_magic_1_count_back_from_the_wrapper(codec: Codec) -> None:
    inner = b"".join(message(1, place, value, time=NOW + place) for place, value in enumerate(values(3)))
    data = wrapped(1, 104, inner, codec)
    assert offsets(data) == [102, 103, 104]
    assert [record[2] for record in plain(data)] == [NOW, NOW + 1, NOW + 2]


def test_compacted_wrappers_keep_their_gaps() -> None:
    inner = message(1, 1, b"a") + message(1, 7, b"b")
    assert offsets(wrapped(1, 50, inner, Codec.GZIP)) == [44, 50]


@both
def test_wrappers_that_come_from_a_producer_have_no_offset_yet(magic: int) -> None:
    inner = b"".join(message(magic, place, b"v") for place in range(4))
    assert offsets(wrapped(magic, 0, inner, Codec.GZIP)) == [0, 1, 2, 3]


def test_append_time_of_the_wrapper_is_that_of_every_message() -> None:
    inner = message(1, 0, b"a", time=5) + message(1, 1, b"b", time=6)
    found = read_one(wrapped(1, 1, inner, Codec.GZIP, attributes=APPENDED, time=NOW))
    records = found.records("t", 0)
    assert [record.timestamp for record in records] == [NOW, NOW]
    assert {record.timestamp_type for record in records} == {TimestampType.LOG_APPEND_TIME}


def test_lz4_of_magic_0_may_have_the_header_checksum_of_old_clients() -> None:
    packed = bytearray(compress(message(0, 5, b"value"), Codec.LZ4))
    packed[6] ^= 0xFF
    assert offsets(message(0, 5, bytes(packed), attributes=Codec.LZ4)) == [5]
    with pytest.raises(CorruptBatchError):
        offsets(message(1, 5, bytes(packed), attributes=Codec.LZ4))


def test_all_formats_may_follow_each_other() -> None:
    data = (
        message(0, 0, b"a")
        + wrapped(1, 2, message(1, 0, b"b") + message(1, 1, b"c"), Codec.SNAPPY)
        + encode_batch([(None, b"d", NOW, ())])
    )
    assert [record[1] for record in plain(data)] == [b"a", b"b", b"c", b"d"]
    assert [found.magic for found in read_batches(data)] == [0, 1, 2]


@both
def test_columns_and_arrow_say_the_same_as_records(magic: int) -> None:
    inner = b"".join(
        message(magic, place, value, key=None if place % 2 else b"k") for place, value in enumerate(values(9))
    )
    found = read_one(wrapped(magic, 8, inner, Codec.GZIP))
    columns, arrow = found.columns(), found.arrow("t", 0)
    assert columns.offsets.tolist() == arrow["offset"].to_pylist() == list(range(9))
    assert arrow["value"].to_pylist() == values(9)
    assert arrow["key"].to_pylist() == [None if place % 2 else b"k" for place in range(9)]
    assert columns.key_sizes.tolist() == [-1 if place % 2 else 1 for place in range(9)]


@both
def test_legacy_batches_are_never_transactional(magic: int) -> None:
    found = read_one(message(magic, 3, b"v"))
    assert not found.is_transactional
    assert not found.is_control
    assert (found.base_offset, found.next_offset, found.leader_epoch) == (3, 4, -1)


def test_a_message_that_the_end_cuts_off_is_left_out() -> None:
    data = message(1, 0, b"a")
    for cut in range(1, len(data)):
        assert offsets(data + data[:cut]) == [0]


@both
def test_checksums_are_compared_outside_and_inside(magic: int) -> None:
    inside = message(magic, 0, b"value").replace(b"value", b"valve")
    for data in (inside, wrapped(magic, 0, inside, Codec.GZIP)):
        with pytest.raises(CorruptBatchError, match="checksum"):
            plain(data)
        assert plain(data, check_crcs=False)[0][1] == b"valve"


@pytest.mark.parametrize(
    "data",
    [
        wrapped(1, 5, b"", Codec.GZIP),
        wrapped(1, 5, message(1, 0, b"v")[:-1], Codec.GZIP),
        wrapped(1, 5, message(1, 0, b"v") + b"12345", Codec.GZIP),
        wrapped(1, 5, message(0, 0, b"v"), Codec.GZIP),
        wrapped(1, 5, wrapped(1, 0, message(1, 0, b"v"), Codec.GZIP), Codec.GZIP),
        wrapped(0, 5, message(0, 6, b"v"), Codec.GZIP),
        wrapped(1, 5, message(1, 9, b"v") + message(1, 2, b"w"), Codec.GZIP),
        wrapped(1, 1, message(1, 0, b"v") + message(1, 9, b"w"), Codec.GZIP),
        wrapped(1, 5, encode_batch([(b"k", b"v", NOW, ())]), Codec.GZIP),
        message(1, 5, None, attributes=Codec.GZIP),
        message(1, -1, b"v"),
    ],
    ids=[
        "empty", "cut inner", "bytes after inner", "other magic", "nested twice", "offset beyond the wrapper",
        "offsets that fall", "negative offset inside", "magic 2 inside", "null value", "negative offset",
    ],
)  # fmt: skip
def test_wrappers_that_make_no_sense_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        plain(data, check_crcs=False)


@both
@pytest.mark.parametrize("size", [-2, 1000, (1 << 31) - 1])
def test_fields_that_leave_the_message_are_corrupt(magic: int, size: int) -> None:
    data = bytearray(message(magic, 7, b"v", key=b"k"))
    struct.pack_into(">i", data, 18 + 8 * magic, size)
    with pytest.raises(CorruptBatchError, match="offset 7"):
        plain(bytes(data), check_crcs=False)


@both
def test_bytes_after_the_value_are_corrupt(magic: int) -> None:
    data = message(magic, 7, b"v") + b"?"
    longer = data[:8] + struct.pack(">i", len(data) - 12) + data[12:]
    with pytest.raises(CorruptBatchError, match="1 bytes are left"):
        plain(longer, check_crcs=False)


def test_undefined_codecs_and_bombs_are_refused_as_in_new_batches() -> None:
    undefined = read_one(message(1, 4, b"v", attributes=7))
    with pytest.raises(UnsupportedCodecError, match="topic t, partition 0, offset 4"):
        undefined.records("t", 0)
    inner = message(1, 0, bytes(1_000_000))
    with pytest.raises(DecompressionLimitError):
        plain(wrapped(1, 0, inner, Codec.GZIP), limits=Limits(1 << 19))


def test_every_cut_and_every_flip_is_a_protocol_error_or_harmless() -> None:
    data = wrapped(0, 1, message(0, 0, b"first") + message(0, 1, b"second"), Codec.SNAPPY) + message(
        1, 2, b"third"
    )
    for place in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[place] ^= 1 << bit
            try:
                plain(bytes(broken), check_crcs=False)
            except ProtocolError:
                continue
