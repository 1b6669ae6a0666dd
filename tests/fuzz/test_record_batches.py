"""Damaged and random bytes through every way out of a record batch, which must also agree with each other."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest

from kclient.errors import DecompressionLimitError, ProtocolError
from kclient.records import Codec, RecordBatch, compress, read_batches
from kclient.records.layout import HEADER, HEADER_SIZE, PREFIX_SIZE
from kclient.records.objects import BytesRecord, Origin
from tests.fuzz.batches import (
    COMPRESSED,
    all_batches,
    batch_of,
    legacy_targets,
    message,
    scalar_records,
    section_targets,
    whole_batch_targets,
)
from tests.fuzz.harness import SLOWEST_CASE, cases, fuzz

SECTIONS_SHARE = 0.16
BATCHES_SHARE = 0.15
LEGACY_SHARE = 0.12
CHECKED_SHARE = 0.07

TOPIC, PARTITION = "topic", 3


def plain(records: list[BytesRecord]) -> list[tuple[Any, ...]]:
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


def from_columns(batch: RecordBatch) -> list[tuple[Any, ...]]:
    columns = batch.columns()
    buffer = bytes(columns.buffer)

    def cut(start: int, size: int) -> bytes | None:
        return buffer[start : start + size] if size >= 0 else None

    headers: list[list[tuple[str, bytes | None]]] = [[] for _ in columns.offsets]
    if columns.headers is not None:
        for index, key, key_size, value, value_size in zip(*map(list, columns.headers), strict=True):
            name = buffer[key : key + key_size].decode(errors="replace")
            headers[index].append((name, cut(value, value_size)))
    return [
        (offset, timestamp, cut(key, key_size), cut(value, value_size), tuple(own))
        for offset, timestamp, key, key_size, value, value_size, own in zip(
            columns.offsets.tolist(),
            columns.timestamps.tolist(),
            columns.key_starts.tolist(),
            columns.key_sizes.tolist(),
            columns.value_starts.tolist(),
            columns.value_sizes.tolist(),
            headers,
            strict=True,
        )
    ]


def from_arrow(batch: RecordBatch) -> list[tuple[Any, ...]]:
    table: Any = batch.arrow(TOPIC, PARTITION)
    table.validate(full=True)
    timestamps = table.column("timestamp").cast(pa.int64()).to_pylist()
    columns = (table.column(name).to_pylist() for name in ("offset", "key", "value", "headers"))
    return [
        (offset, timestamp, key, value, tuple((item["key"], item["value"]) for item in headers))
        for timestamp, offset, key, value, headers in zip(timestamps, *columns, strict=True)
    ]


def from_objects(batch: RecordBatch) -> list[tuple[Any, ...]]:
    return plain(batch.records(TOPIC, PARTITION))


def from_reference(batch: RecordBatch) -> list[tuple[Any, ...]]:
    origin = Origin(TOPIC, PARTITION, batch.timestamp_type, batch.leader_epoch)
    return plain(scalar_records(batch, origin))


WAYS_OUT = (from_objects, from_columns, from_arrow)


def outcome(way: Callable[[RecordBatch], Any], batch: RecordBatch) -> Any:
    """What comes out: records, or the kind of ProtocolError.

    Not the error itself: in its traceback are the frames of the decoder with all their buffers.
    """
    try:
        return way(batch)
    except ProtocolError as error:
        return type(error)


def is_accepted(batch: RecordBatch) -> bool:
    """Decode with the reference and in one of three ways, by turns. Both give the same, or both refuse."""
    expected = outcome(from_reference, batch)
    way = WAYS_OUT[crc32(batch._view) % len(WAYS_OUT)]
    found = outcome(way, batch)
    assert found == expected, f"{way.__name__} gave {found!r}, the reference {expected!r}"
    return isinstance(expected, list)


def decode_alike(data: bytes) -> None:
    if not all(is_accepted(batch) for batch in all_batches(data)):
        raise ProtocolError("refused in every way")


def checked(data: bytes) -> int:
    return sum(len(batch.records(TOPIC, PARTITION)) for batch in read_batches(data))


def test_damaged_records_behind_a_right_header_are_decoded_alike_in_every_way_or_refused() -> None:
    count = cases(SECTIONS_SHARE)
    tally = fuzz(section_targets(decode_alike), count)
    assert tally.refused > count // 4
    assert tally.decoded > count // 50


def test_damaged_batches_of_every_codec_are_decoded_alike_in_every_way_or_refused() -> None:
    tally = fuzz(whole_batch_targets(decode_alike), cases(BATCHES_SHARE))
    assert tally.refused > 0
    assert tally.decoded > 0


def test_damaged_messages_of_the_old_formats_are_decoded_alike_in_every_way_or_refused() -> None:
    tally = fuzz(legacy_targets(decode_alike), cases(LEGACY_SHARE))
    assert tally.refused > 0
    assert tally.decoded > 0


def test_damage_that_the_checksums_can_see_is_refused() -> None:
    tally = fuzz([*whole_batch_targets(checked), *legacy_targets(checked)], cases(CHECKED_SHARE))
    assert tally.refused > 0


def batch_with(section: bytes, record_count: int, codec: Codec = Codec.NONE) -> bytes:
    """A batch whose header is right but for the checksum, around any bytes."""
    length = HEADER_SIZE - PREFIX_SIZE + len(section)
    last = max(record_count - 1, 0)
    return HEADER.pack(0, length, 0, 2, 0, codec, last, 0, 0, -1, -1, -1, record_count) + section


RECORD = bytes.fromhex("0e 00 00 00 01 00 00 00")  # a null key, an empty value, no headers
HOSTILE_BATCHES = {
    "as many records as a header can say": batch_with(RECORD, 2**31 - 1),
    "a record as long as a varint can say": batch_with(bytes.fromhex("feffffff0f") + bytes(20), 1),
    "a key as long as a varint can say": batch_with(bytes.fromhex("28 00 00 00 feffffff0f") + bytes(15), 1),
    "as many headers as a varint can say": batch_with(bytes.fromhex("1a 00 00 00 01 00 feffffff0f 00 00"), 1),
    "a length that only 64 bits hold": batch_with(bytes.fromhex("feffffffffffffffff01") + bytes(10), 1),
    "a gzip trailer of 4 GB": batch_with(compress(RECORD, Codec.GZIP)[:-4] + b"\xff" * 4, 1, Codec.GZIP),
    "a zstd frame of 2^62 bytes": batch_with(
        bytes.fromhex("28b52ffd c0 00") + (1 << 62).to_bytes(8, "little") + bytes(8), 1, Codec.ZSTD
    ),
    "a bare snappy block of 4 GB": batch_with(bytes.fromhex("ffffffff0f") + bytes(20), 1, Codec.SNAPPY),
    "snappy blocks of 2 GB": batch_with(
        b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"\0\0\0\5\xfe\xff\xff\xff\7" * 50, 1, Codec.SNAPPY
    ),
    "lz4 blocks of 4 MB each": batch_with(
        bytes.fromhex("04224d18 60 70 73") + bytes.fromhex("01000000 00") * 100, 1, Codec.LZ4
    ),
    "a message key of 2 GB": message(1, 0, b"key", b"value").replace(b"\0\0\0\3key", b"\x7f\xff\xff\xffkey"),
}


def decode_all(way: Callable[[RecordBatch], Any], data: bytes) -> None:
    for batch in all_batches(data):
        way(batch)


@pytest.mark.alone
@pytest.mark.parametrize("way", [from_reference, *WAYS_OUT])
@pytest.mark.parametrize("name", HOSTILE_BATCHES)
def test_a_length_that_the_data_does_not_back_allocates_little(
    name: str, way: Callable[[RecordBatch], Any]
) -> None:
    """Compressed data may be given 16 MB to expand into, however little there is of it."""
    with pytest.raises(ProtocolError):  # once before counting: it may be the first to import something
        decode_all(way, HOSTILE_BATCHES[name])
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode_all(way, HOSTILE_BATCHES[name])
        assert tracemalloc.get_traced_memory()[1] < (17 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.alone
@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)
def test_a_bomb_is_refused_in_a_second_and_bounded_memory(codec: Codec) -> None:
    bomb = batch_with(compress(bytes(160 << 20), codec), 1, codec)
    (batch,) = all_batches(bomb)
    tracemalloc.start()
    try:
        started = time.process_time()
        with pytest.raises(DecompressionLimitError):
            batch.records(TOPIC, PARTITION)
        assert time.process_time() - started < SLOWEST_CASE
        assert tracemalloc.get_traced_memory()[1] < (100 << 20)
    finally:
        tracemalloc.stop()


def test_a_batch_that_is_cut_anywhere_gives_nothing_and_no_error() -> None:
    data = batch_of("mixed sizes", 5)
    for length in range(len(data)):
        assert all_batches(data[:length]) == []
