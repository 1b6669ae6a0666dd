"""Records to batches: the layout, the ways in that must agree, and what cannot be encoded."""

from __future__ import annotations

import itertools
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kclient.errors import EncodeError
from kclient.records import (
    BATCH_OVERHEAD,
    RECORD_OVERHEAD,
    Codec,
    Fields,
    Stamp,
    encode_batch,
    encode_fields,
    encode_flat,
    encode_sparse,
    record_size,
    record_size_bound,
)
from kclient.records.crc import crc32c
from kclient.records.encode import encode_one
from kclient.records.layout import HEADER, BatchHeader
from kclient.records.pieces import RecordTuple, by_columns, by_record, consecutive
from tests.unit.records.building import (
    NOW,
    batches,
    mixed,
    plain,
    read_one,
    record_tuples,
    tupled,
    uniform,
    varied,
)


def test_batch_has_the_bytes_that_the_protocol_describes() -> None:
    stamp = Stamp(
        base_offset=7, leader_epoch=3, producer_id=9, producer_epoch=2, base_sequence=5, transactional=True
    )
    data = encode_batch([(b"key", None, NOW, [("h", b"x")]), (None, b"", NOW - 1, ())], stamp=stamp)
    records = (
        bytes([26, 0, 0, 0, 6]) + b"key" + bytes([1, 2, 2]) + b"h" + bytes([2]) + b"x"
        + bytes([12, 0, 1, 2, 1, 0, 0])
    )  # fmt: skip
    assert data[61:] == records
    header = BatchHeader._make(HEADER.unpack_from(data))
    assert header == BatchHeader(
        base_offset=7,
        length=len(data) - 12,
        leader_epoch=3,
        magic=2,
        crc=crc32c(data[21:]),
        attributes=0x10,
        last_offset_delta=1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=9,
        producer_epoch=2,
        base_sequence=5,
        record_count=2,
    )


def test_attributes_say_codec_and_flags() -> None:
    stamp = Stamp(transactional=True, control=True, append_time=NOW + 5, delete_horizon=NOW - 5)
    data = encode_batch([(b"k", b"v", NOW, ())], stamp=stamp, codec=Codec.ZSTD)
    (attributes,) = struct.unpack_from(">h", data, 21)
    assert attributes == 4 | 0x08 | 0x10 | 0x20 | 0x40
    assert struct.unpack_from(">qq", data, 27) == (NOW - 5, NOW + 5)


@given(st.lists(record_tuples, min_size=1, max_size=20) | batches(), st.sampled_from(Codec))
@settings(max_examples=150, deadline=None)
def test_records_survive_a_round_trip(records: list[RecordTuple], codec: Codec) -> None:
    assert plain(encode_batch(records, codec=codec)) == tupled(records)


@given(batches())
@example(uniform(70))
@example([(None, b"v", NOW, ())] * 70)
@example([(b"k", None, NOW, ())] * 70)
@example([(b"", b"", NOW + index, ()) for index in range(70)])
@example([(b"k", bytes(size), NOW, ()) for size in (8180, 8191, 8192)] * 9)
@example([(bytes(8192), b"v", NOW, ())] * 30)
@example([(b"k", b"v", NOW + 64 * (index // 35), ()) for index in range(70)])
@settings(max_examples=300, deadline=None)
def test_columns_and_loop_encode_the_same_bytes(records: list[RecordTuple]) -> None:
    bare = [(key, value, time, ()) for key, value, time, _ in records]
    fields = Fields(*map(list, zip(*bare, strict=True)))
    base = bare[0][2]
    pieces = by_columns(fields, base)
    expected = by_record(bare, base, consecutive(len(bare)))
    assert pieces is None or b"".join(pieces) == b"".join(expected)


@pytest.mark.parametrize(
    ("records", "known"),
    [
        (uniform(9000, step=100), True),
        ([(None, b"value", NOW, ())] * 100, True),
        ([(b"k" * (index % 90), b"v" * (index % 300), NOW + index // 50, ()) for index in range(200)], True),
        ([(b"k", None, NOW, ())] * 100, False),
        ([(b"k", b"v", NOW - index, ()) for index in range(100)], False),
        ([(b"k", bytes(9000), NOW, ())] * 100, False),
    ],
    ids=["one shape", "no keys", "many sizes", "tombstones", "falling timestamps", "large"],
)
def test_columns_take_the_shapes_they_are_made_for(records: list[RecordTuple], known: bool) -> None:
    fields = Fields(*map(list, zip(*records, strict=True)))
    assert (by_columns(fields, NOW) is not None) is known


@pytest.mark.parametrize("make", [uniform, varied, mixed])
@pytest.mark.parametrize("count", [1, 23, 24, 63, 64, 65, 300, 8191, 8193])
def test_tuples_flat_lists_and_columns_make_the_same_batch(
    make: Callable[[int], list[RecordTuple]], count: int
) -> None:
    records = make(count)
    flat: list[Any] = list(itertools.chain.from_iterable(records))
    fields = Fields(flat[0::4], flat[1::4], flat[2::4], flat[3::4])
    data = encode_batch(records)
    assert encode_flat(flat) == data
    assert encode_fields(fields) == data
    assert plain(data) == tupled(records)


@given(st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=9_000), st.integers(0, 1 << 60))
def test_one_record_by_itself_makes_the_same_batch(
    key: bytes | None, value: bytes | None, timestamp: int
) -> None:
    stamp = Stamp(producer_id=1 << 40, producer_epoch=7, base_sequence=1 << 20, leader_epoch=3)
    expected = encode_batch([(key, value, timestamp, ())], stamp=stamp)
    assert encode_one(key, value, timestamp, stamp) == expected


def test_one_timestamp_may_stand_for_all_records() -> None:
    keys, values = [b"a", b"b", None], [b"1", None, b"3"]
    every = encode_fields(Fields(keys, values, [NOW] * 3, [(), (), ()]))
    assert encode_fields(Fields(keys, values, NOW)) == every
    long = encode_fields(Fields(keys * 20, values * 20, NOW))
    assert [record.timestamp for record in read_one(long).records("t", 0)] == [NOW] * 60


@pytest.mark.parametrize("order", [1, -1], ids=["rising", "falling"])
@pytest.mark.parametrize("count", [5, 50])
def test_max_timestamp_is_the_latest_of_all_records(order: int, count: int) -> None:
    data = encode_batch([(b"k", b"v", NOW + order * index, ()) for index in range(count)])
    assert read_one(data).max_timestamp == max(NOW, NOW + order * (count - 1))


@pytest.mark.alone
def test_payloads_are_copied_once() -> None:
    records = [(b"key-%06d" % index, bytes(4000), NOW, ()) for index in range(1000)]
    encode_batch(records)
    tracemalloc.start()
    data = encode_batch(records)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * len(data)


@given(record_tuples, st.integers(0, 1 << 31), st.integers(-(1 << 62), 1 << 62))
def test_record_size_is_exact_and_bound_is_not_exceeded(
    record: RecordTuple, offset_delta: int, timestamp_delta: int
) -> None:
    key, value, _, headers = record
    encoded = b"".join(by_record([(key, value, timestamp_delta, headers)], 0, consecutive(1)))
    assert record_size(key, value, headers, timestamp_delta) == len(encoded)
    size = record_size(key, value, headers, timestamp_delta, offset_delta)
    assert size <= record_size_bound(key, value, headers)
    if not headers:
        assert size <= len(key or b"") + len(value or b"") + RECORD_OVERHEAD


def test_batch_is_as_large_as_its_records_and_the_overhead() -> None:
    records = mixed(40)
    size = sum(
        record_size(key, value, headers, time - NOW, index)
        for index, (key, value, time, headers) in enumerate(records)
    )
    assert len(encode_batch(records)) == BATCH_OVERHEAD + size


def test_sparse_batches_keep_gaps_and_their_end() -> None:
    records: list[RecordTuple] = [(b"a", b"1", NOW, ()), (b"b", b"2", NOW + 1, ()), (b"c", b"3", NOW + 2, ())]
    data = encode_sparse(list(zip((2, 70, 9000), records, strict=True)), 10_000, stamp=Stamp(base_offset=100))
    found = read_one(data)
    assert [record.offset for record in found.records("t", 0)] == [102, 170, 9100]
    assert (found.base_offset, found.last_offset, found.next_offset) == (100, 10_100, 10_101)


def test_batches_without_records_keep_their_offsets() -> None:
    data = encode_sparse([], 41, stamp=Stamp(base_offset=10), codec=Codec.GZIP)
    found = read_one(data)
    assert found.records("t", 0) == []
    assert len(found.columns().offsets) == 0
    assert found.arrow("t", 0).num_rows == 0
    assert (found.next_offset, found.codec) == (52, Codec.NONE)


@pytest.mark.parametrize(
    "encode",
    [
        lambda: encode_batch([]),
        lambda: encode_batch([("text", b"v", NOW, ())]),  # type: ignore[list-item]
        lambda: encode_batch([(b"k", 5, NOW, ())] * 50),  # type: ignore[list-item]
        lambda: encode_batch([(b"k", b"v", "now", ())]),  # type: ignore[list-item]
        lambda: encode_batch([(b"k", b"v", 1 << 63, ())]),
        lambda: encode_batch([(b"k", b"v", NOW, [("h", "text")])]),  # type: ignore[list-item]
        lambda: encode_batch([(b"k", b"v", NOW, [(b"h", b"x")])]),  # type: ignore[list-item]
        lambda: encode_batch([(b"k", b"v", NOW, ())], stamp=Stamp(producer_epoch=1 << 15)),
        lambda: encode_fields(Fields([b"k"], [b"v", b"w"], NOW)),
        lambda: encode_fields(Fields([b"k"], [b"v"], [NOW, NOW])),
        lambda: encode_fields(Fields([b"k"], [b"v"], NOW, [(), ()])),
        lambda: encode_sparse([(0, (b"k", "text", NOW, ()))], 0),  # type: ignore[list-item]
    ],
)
def test_what_a_batch_cannot_carry_is_an_encode_error(encode: Callable[[], bytes]) -> None:
    with pytest.raises(EncodeError):
        encode()
