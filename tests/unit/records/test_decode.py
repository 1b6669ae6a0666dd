"""Batches to records, columns and Arrow: what each batch of magic 2 means, whichever decoder reads it."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kclient.errors import ProtocolError
from kclient.records import (
    Codec,
    Limits,
    ModernBatch,
    Stamp,
    encode_batch,
    encode_sparse,
    read_batches,
    with_append_time,
)
from kclient.records.columns import decode_columns
from kclient.records.pieces import RecordTuple
from kclient.records.uniform import decode_runs
from kclient.types import Record, TimestampType
from tests.unit.records.building import (
    DECODERS,
    NOW,
    batches,
    decoder,
    mixed,
    plain,
    read_one,
    record_tuples,
    sealed,
    tupled,
    uniform,
    varied,
    wide,
)

every_decoder = pytest.mark.parametrize("name", DECODERS)
every_shape = pytest.mark.parametrize("make", [uniform, varied, wide, mixed])


@every_decoder
@every_shape
@pytest.mark.parametrize("count", [1, 7, 64, 65, 200, 8200])
def test_every_decoder_reads_every_shape(
    name: str, make: Callable[[int], list[RecordTuple]], count: int
) -> None:
    data = encode_batch(make(count), stamp=Stamp(base_offset=1000))
    with decoder(name):
        found = read_one(data)
        records = found.records("topic", 3)
        columns = found.columns()
    assert [(r.key, r.value, r.timestamp, r.headers) for r in records] == tupled(make(count))
    assert [record.offset for record in records] == list(range(1000, 1000 + count))
    assert columns.offsets.tolist() == list(range(1000, 1000 + count))
    assert columns.timestamps.tolist() == [record.timestamp for record in records]
    for starts, sizes, payloads in (
        (columns.key_starts, columns.key_sizes, [record.key for record in records]),
        (columns.value_starts, columns.value_sizes, [record.value for record in records]),
    ):
        assert payloads == [
            None if size < 0 else bytes(columns.buffer[start : start + size])
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        ]


def test_records_have_all_that_is_known_of_them() -> None:
    data = encode_batch([(b"key", None, NOW, [("h", None)])], stamp=Stamp(base_offset=9, leader_epoch=4))
    (record,) = read_one(data).records("orders", 2)
    assert record == Record(
        topic="orders",
        partition=2,
        offset=9,
        timestamp=NOW,
        timestamp_type=TimestampType.CREATE_TIME,
        key=b"key",
        value=None,
        headers=(("h", None),),
        leader_epoch=4,
        serialized_key_size=3,
        serialized_value_size=-1,
    )
    assert type(record) is Record


@every_decoder
def test_payloads_are_bytes_whatever_the_buffer_is(name: str) -> None:
    data = encode_batch(uniform(100))
    with decoder(name):
        for buffer in (data, bytearray(data), memoryview(bytearray(data))):
            for found in read_batches(buffer):
                for record in found.records("t", 0):
                    assert type(record.key) is bytes
                    assert type(record.value) is bytes


def test_fast_decoders_take_the_shapes_they_are_made_for() -> None:
    for records, runs, columns in (
        (uniform(9000), True, True),
        (varied(500), False, True),
        (wide(500), False, True),
    ):
        found = read_one(encode_batch(records))
        assert isinstance(found, ModernBatch)
        section = memoryview(encode_batch(records))[61:]
        assert (decode_runs(section, found.header) is not None) is runs
        assert (decode_columns(section, found.header) is not None) is columns


def _outcome(data: bytes, name: str) -> object:
    """All that comes out of `data`, or the error."""
    with decoder(name):
        try:
            return [found.records("t", 0) for found in read_batches(data, check_crcs=False)]
        except ProtocolError as error:
            return type(error), str(error)


@given(st.lists(record_tuples, min_size=1, max_size=30) | batches(), st.booleans(), st.data())
@example(mixed(100), False, None)
@settings(max_examples=250, deadline=None)
def test_all_decoders_agree_on_everything(
    records: list[RecordTuple], stamped: bool, data: st.DataObject | None
) -> None:
    encoded = encode_batch(records, stamp=Stamp(append_time=NOW if stamped else None))
    if data is not None:
        broken = bytearray(encoded)
        places = st.integers(21, len(broken) - 1)
        values = st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255)
        for place, value in data.draw(st.lists(st.tuples(places, values), max_size=3)):
            broken[place] = value
        encoded = bytes(broken)
    outcomes = [_outcome(encoded, name) for name in DECODERS]
    assert all(outcome == outcomes[0] for outcome in outcomes[1:])


@pytest.mark.parametrize("make", [uniform, wide])
@pytest.mark.parametrize("place", [0, 64, 150])
def test_one_odd_byte_in_one_record_of_many_is_seen_by_every_decoder(
    make: Callable[[int], list[RecordTuple]], place: int
) -> None:
    data = encode_batch(make(200))
    found = read_one(data).columns()
    key, key_size, value, value_size = (int(column[place]) for column in found[3:7])
    previous = int(found.value_starts[place - 1] + found.value_sizes[place - 1]) + 1 if place else 0
    payloads = {*range(key, key + key_size - 1), *range(value + 1, value + value_size - 1)}
    for at in range(61 + previous, 61 + value + value_size + 1):
        if at - 61 in payloads:
            continue
        for new in (data[at] ^ 1, data[at] ^ 2, data[at] ^ 0x80, data[at] - 2 & 0xFF, 0, 0xFF):
            broken = bytearray(data)
            broken[at] = new
            outcomes = [_outcome(bytes(broken), name) for name in DECODERS]
            assert all(outcome == outcomes[0] for outcome in outcomes[1:]), (at, new)


@every_decoder
def test_large_fields_among_small_ones_are_read(name: str) -> None:
    records: list[RecordTuple] = [(b"k" * (index % 9), bytes(index * 100), NOW, ()) for index in range(200)]
    records[77] = (bytes(30_000), None, NOW, ())
    with decoder(name):
        assert plain(encode_batch(records)) == tupled(records)


@every_decoder
@pytest.mark.parametrize("gap", [2, 64, 100])
def test_gaps_between_offsets_are_kept(name: str, gap: int) -> None:
    deltas = list(range(5, 5 + 200 * gap, gap))
    data = encode_sparse(list(zip(deltas, uniform(200), strict=True)), 50_000, stamp=Stamp(base_offset=7))
    with decoder(name):
        found = read_one(data)
        assert [record.offset for record in found.records("t", 0)] == [7 + delta for delta in deltas]
        assert found.columns().offsets.tolist() == [7 + delta for delta in deltas]
        assert found.next_offset == 50_008


@every_decoder
@every_shape
def test_append_time_is_the_timestamp_of_every_record(
    name: str, make: Callable[[int], list[RecordTuple]]
) -> None:
    data = with_append_time(encode_batch(make(200)), NOW + 1234)
    with decoder(name):
        found = read_one(data)
        assert {record.timestamp for record in found.records("t", 0)} == {NOW + 1234}
        assert {record.timestamp_type for record in found.records("t", 0)} == {TimestampType.LOG_APPEND_TIME}
        assert set(found.columns().timestamps.tolist()) == {NOW + 1234}


@every_decoder
def test_timestamps_count_from_the_delete_horizon_where_there_is_one(name: str) -> None:
    data = encode_batch(uniform(200), stamp=Stamp(delete_horizon=NOW - 1_000_000))
    with decoder(name):
        found = read_one(data)
        assert isinstance(found, ModernBatch)
        assert found.delete_horizon == NOW - 1_000_000
        assert [record.timestamp for record in found.records("t", 0)] == [r[2] for r in uniform(200)]
    plain_batch = read_one(encode_batch(uniform(2)))
    assert isinstance(plain_batch, ModernBatch)
    assert plain_batch.delete_horizon is None


@every_decoder
@pytest.mark.parametrize("span", [1 << 40, 1 << 56, 1 << 62])
def test_timestamps_may_lie_far_apart(name: str, span: int) -> None:
    records: list[RecordTuple] = [(b"k", b"v", NOW + span * (index % 2), ()) for index in range(200)]
    with decoder(name):
        assert plain(encode_batch(records)) == tupled(records)


@every_decoder
def test_varints_that_are_longer_than_needed_are_read(name: str) -> None:
    data = encode_batch([(b"key", b"value", NOW, ())] * 40)
    body = data[62:76]
    # The key length 3 as 86 80 00 instead of 06: two bytes more.
    longer = body[:3] + b"\x86\x80\0" + body[4:]
    records = b"".join(
        bytes([(len(longer)) << 1]) + longer[:2] + bytes([index << 1]) + longer[3:] for index in range(40)
    )
    with decoder(name):
        assert plain(sealed(data[:61] + records)) == plain(data)


@every_decoder
def test_header_keys_that_are_not_utf8_keep_what_can_be_read(name: str) -> None:
    data = encode_batch([(b"k", b"v", NOW, [("name", b"x")])] * 60)
    with decoder(name):
        found = read_one(sealed(data.replace(b"name", b"n\xffme")))
        assert {record.headers for record in found.records("t", 0)} == {
            (("n\N{REPLACEMENT CHARACTER}me", b"x"),)
        }
        assert found.arrow("t", 0)["headers"][0].as_py() == [
            {"key": "n\N{REPLACEMENT CHARACTER}me", "value": b"x"}
        ]


@every_decoder
def test_one_record_may_have_many_headers(name: str) -> None:
    records: list[RecordTuple] = [
        (b"k", b"v", NOW, [("h", b"%d" % n) for n in range(index)]) for index in range(99)
    ]
    with decoder(name):
        assert plain(encode_batch(records)) == tupled(records)


def test_batches_follow_each_other() -> None:
    sizes = (1, 200, 60, 3)
    starts = list(itertools.accumulate(sizes, initial=0))
    data = b"".join(
        encode_batch(mixed(size), stamp=Stamp(base_offset=start), codec=codec)
        for size, start, codec in zip(sizes, starts, Codec, strict=False)
    )
    found = list(read_batches(data))
    assert [(batch.base_offset, batch.next_offset) for batch in found] == list(itertools.pairwise(starts))
    assert plain(data) == [record for size in sizes for record in tupled(mixed(size))]


@pytest.mark.parametrize("cut", [1, 11, 12, 16, 17, 60, 61, 62, 100])
def test_a_batch_that_the_end_cuts_off_is_left_out(cut: int) -> None:
    data = encode_batch(mixed(10))
    assert len(list(read_batches(data + data[:cut]))) == 1
    assert list(read_batches(data[:cut])) == []


@pytest.mark.parametrize("nothing", [None, b"", bytearray()])
def test_nothing_holds_no_batches(nothing: bytes | None) -> None:
    assert list(read_batches(nothing)) == []


def test_checksums_are_compared_only_when_asked() -> None:
    data = encode_batch([(b"key", b"value", NOW, ())])
    broken = data.replace(b"value", b"valve")
    assert plain(broken, check_crcs=False) == [(b"key", b"valve", NOW, ())]
    with pytest.raises(ProtocolError, match="checksum"):
        plain(broken)


def test_reading_a_batch_does_not_decompress_it() -> None:
    data = encode_batch(uniform(100), codec=Codec.ZSTD)
    nothing = Limits(max_batch_bytes=0)
    found = read_one(data, limits=nothing)
    assert (found.last_offset, found.codec, found.size) == (99, Codec.ZSTD, len(data))
    with pytest.raises(ProtocolError):
        found.records("t", 0)


def test_repr_shows_what_the_batch_is() -> None:
    found = read_one(encode_batch(uniform(100), stamp=Stamp(base_offset=50), codec=Codec.LZ4))
    assert repr(found) == f"ModernBatch(offsets 50-149, magic 2, attributes 0x3, {found.size} bytes)"


def test_counts_beyond_the_tables_are_read() -> None:
    count = 70_000
    data = encode_batch([(b"k", b"v", NOW, ())] * count)
    assert [record.offset for record in read_one(data).records("t", 0)] == list(range(count))
    assert struct.unpack_from(">i", data, 57) == (count,)
    with decoder("columns"):
        assert read_one(data).columns().offsets.tolist() == list(range(count))
