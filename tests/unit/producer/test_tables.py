"""Tables as people bring them: of every kind that speaks Arrow, checked by column and row, sent in pieces."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow
import pyarrow.compute
import pytest

from kclient.broker import Broker
from kclient.errors import BufferFullError, RecordTooLargeError
from kclient.producer import AsyncProducer, ProducerConfig, table_rows
from kclient.producer.many import Many, Source, columns_from
from kclient.producer.tables import records_from
from kclient.records.packed import Packed
from kclient.wire.api import ApiKey
from tests.support.producing import producing, values, written

pa: Any = pyarrow
pc: Any = pyarrow.compute

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def source(table: Any, check_size: Any = lambda *_: None, **config: Any) -> Source:
    return records_from("t", table, ProducerConfig(**config), check_size)


def many(table: Any, **config: Any) -> Many:
    """The records of a table that is one piece."""
    [found] = source(table, **config).pieces
    return found


def sent(table: Any, **config: Any) -> list[tuple[bytes | None, bytes | None, int, int | None]]:
    """Key, value, timestamp (7 is now) and partition of each row, as they go into batches."""
    rows: list[Any] = []
    for piece in source(table, **config).pieces:
        found = columns_from(ProducerConfig(**config), piece, 7)
        total = len(found.values)
        times = [found.times] * total if isinstance(found.times, int) else [int(time) for time in found.times]
        rows += zip(found.keys, found.values, times, found.given or [None] * total, strict=True)
    return rows


def test_all_columns_become_fields() -> None:
    table = pa.table(
        {
            "value": pa.array([b"a", None, b"c"], pa.binary()),
            "key": pa.array(["x", "y", None]),
            "partition": pa.array([0, None, 2], pa.int32()),
            "timestamp": pa.array([1_000_000, 2_000_000, 3_000_999], pa.timestamp("us", "UTC")),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None, []], HEADERS),
        }
    )
    for each in (pa.concat_tables([table[:1], table[1:]]), table.to_batches()[0]):
        assert many(each) == Many(
            "t",
            [b"a", None, b"c"],
            [b"x", b"y", None],
            [0, None, 2],
            [1000, 2000, 3000],
            [(("h", b"1"),), (), ()],
            0,
        )


@pytest.mark.parametrize("rows", [3, 300])
@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.string_view(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_binary()),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.json_(pa.string()),
    ],
)
def test_every_kind_of_text_and_bytes_is_bytes(kind: Any, rows: int) -> None:
    texts = ["ä", None, "", "", "a longer text than a view can hold"] * rows
    wanted = [None if text is None else text.encode() for text in texts]
    if isinstance(kind, pa.RunEndEncodedType):
        array: Any = pc.run_end_encode(pa.array(texts))
    elif isinstance(kind, pa.DictionaryType):
        array = pa.array(wanted if "binary" in str(kind) else texts).dictionary_encode().cast(kind)
    elif isinstance(kind, pa.BaseExtensionType):
        array = pa.ExtensionArray.from_storage(kind, pa.array(texts))
    else:
        array = pa.array(wanted if "binary" in str(kind) else texts, kind)
    table = pa.table({"value": array, "key": array})
    assert [row[:2] for row in sent(table)] == list(zip(wanted, wanted, strict=True))
    # A slice begins within its buffers.
    assert [row[1] for row in sent(table.slice(2, 2 * rows))] == wanted[2 : 2 + 2 * rows]


def test_bytes_of_one_length_and_columns_of_nulls_are_taken() -> None:
    table = pa.table({"value": pa.array([b"abcd", None], pa.binary(4)), "key": pa.nulls(2)})
    assert sent(table) == [(None, b"abcd", 7, None), (None, None, 7, None)]


@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([pa.array([b"abc", None] * 40), pa.array([b"", b"d" * 60])]),
        pa.chunked_array([pa.array(["abc", None] * 40), pa.array(["", "d" * 60])]),
        pa.array(["abc", None, "d" * 60] * 40).dictionary_encode(),
        pa.chunked_array(
            [pa.array(["abc", None] * 40).dictionary_encode(), pa.array(["d"]).dictionary_encode()]
        ),
        pa.array(["abc", None, "d" * 60] * 40).cast(pa.string_view()),
        pa.array(["abc", None, "d" * 60] * 40).cast(pa.large_binary()),
    ],
)
def test_pieces_have_all_rows_in_order(monkeypatch: pytest.MonkeyPatch, column: Any) -> None:
    count = len(column)
    texts = [None if each is None else bytes(each) for each in column.cast(pa.large_binary()).to_pylist()]
    table = pa.table({"value": column, "key": column, "timestamp": range(count), "partition": [5] * count})
    wanted = [(text, text, number, 5) for number, text in enumerate(texts)]
    [usual] = source(table).pieces
    assert isinstance(usual.values, Packed)  # also where it came in chunks
    assert sent(table) == wanted
    monkeypatch.setattr(table_rows, "_PIECE_BYTES", 40)
    monkeypatch.setattr(table_rows, "_JOINED_ROWS", 1)
    assert len(list(source(table).pieces)) >= 5
    assert sent(table) == wanted


def test_a_table_of_many_chunks_is_not_copied_as_a_whole() -> None:
    # Views have to be written out to be sent: that would show.
    chunk = pa.array(["x" * 1_000] * 10_000).cast(pa.string_view())
    table = pa.table({"value": pa.chunked_array([chunk] * 20)})
    before = pa.total_allocated_bytes()
    most = 0
    for piece in source(table).pieces:
        assert len(piece.values)
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 60_000_000
    assert table.nbytes > 150_000_000


@pytest.mark.parametrize("kind", ["dictionary", "runs", "chunks"])
def test_long_rows_that_share_their_bytes_are_not_written_out_as_a_whole(kind: str) -> None:
    text, rows = pa.array([b"x" * 1_000_000]), 200
    column = {
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int16()), text),
        "runs": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), text),
        "chunks": lambda: pa.chunked_array([text] * rows),
    }[kind]()
    found = source(pa.table({"value": column}))
    assert not found.at_once
    sizes = [[len(value) for value in piece.values if value is not None] for piece in found.pieces]
    assert sum(map(len, sizes)) == rows
    assert max(map(sum, sizes)) <= 1 << 25


class Stream:
    """What speaks Arrow and is nothing that pyarrow knows; it is read once."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._reader = pa.RecordBatchReader.from_batches(schema, batches)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._reader.__arrow_c_stream__(requested_schema)


def batches(count: int, rows: int = 10, **more: Any) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        values = [b"%d" % (number * rows + row) for row in range(rows)]
        yield pa.record_batch({"value": values, **{name: make(number) for name, make in more.items()}})


@pytest.mark.parametrize("options", [{}, {"value_serializer": lambda value: value}])
def test_what_speaks_arrow_is_sent(options: dict[str, Any]) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        schema = pa.schema({"value": pa.binary()})
        wanted = [b"%d" % number for number in range(50)]
        for table in (
            Stream(batches(5), schema),
            pa.RecordBatchReader.from_batches(schema, batches(5)),
            pa.array([{"value": value} for value in wanted]),
        ):
            delivered = await (await producer.send_arrow("t", table))
            assert len(delivered) == 50
        assert values(broker) == wanted * 3

    producing(check, **options)


def test_frames_of_polars_and_relations_of_duckdb_are_sent() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await (await producer.send_arrow("t", polars.DataFrame({"value": ["a", "b"], "key": [b"k", None]})))
        relation = duckdb.sql(
            "select 'c' as value, date '2026-01-02' as timestamp, map {'h': 'x'} as headers, 0 as partition"
        )
        await (await producer.send_arrow("t", relation))
        found = [(record.key, record.value, record.headers) for record in written(broker)]
        assert found == [(b"k", b"a", ()), (None, b"b", ()), (None, b"c", (("h", b"x"),))]
        assert written(broker)[2].timestamp == 1_767_312_000_000

    producing(check)


@pytest.mark.parametrize("kind", [polars.Categorical(), polars.Enum(["a", "b"])])
@pytest.mark.parametrize("rows", [4, 400])
def test_categories_of_polars_are_text(kind: Any, rows: int) -> None:
    column = polars.Series(["a", None, "b", "a"] * (rows // 4), dtype=kind)
    wanted = [b"a", None, b"b", b"a"] * (rows // 4)
    found = sent(polars.DataFrame({"value": column, "key": column}))
    assert [(key, value) for key, value, *_ in found] == list(zip(wanted, wanted, strict=True))


def test_a_stream_is_read_as_it_is_sent_and_says_what_it_has_sent_when_it_fails() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        def stream() -> Iterator[pa.RecordBatch]:
            yield from batches(3, 5_000, timestamp=lambda _: [1] * 5_000)
            yield pa.record_batch({"value": [b"fine", b"bad"], "timestamp": [1, -1]})

        schema = pa.schema({"value": pa.binary(), "timestamp": pa.int64()})
        with pytest.raises(ValueError, match=r"column 'timestamp', row 15001: -1") as info:
            await producer.send_arrow("t", Stream(stream(), schema))
        assert info.value.__notes__ == ["the first 15000 records are sent all the same"]
        await producer.flush()
        assert len(written(broker)) == 15_000

    producing(check)


def test_of_a_table_nothing_is_sent_where_any_row_is_wrong() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        good = next(batches(1, 9_000, timestamp=lambda _: [1] * 9_000))
        bad = pa.record_batch({"value": [b"x" * 100], "timestamp": [-5]})
        with pytest.raises(ValueError, match="column 'timestamp', row 9000: -5"):
            await producer.send_arrow("t", pa.Table.from_batches([good, bad]))
        large = pa.record_batch({"value": [b"", b"x" * 2_000_000], "timestamp": [1, 1]})
        with pytest.raises(RecordTooLargeError, match=r"^row 9001 for topic t takes 2000036 bytes"):
            await producer.send_arrow("t", pa.Table.from_batches([good, large]))
        await producer.flush()
        assert written(broker) == []

    producing(check)


def test_rows_that_find_no_room_fail_and_the_first_are_sent() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.faults.delay(ApiKey.PRODUCE, 20, times=None)
        deliveries = await producer.send_arrow("t", pa.Table.from_batches(batches(40, 5_000)))
        assert len(deliveries) == 200_000
        with pytest.raises(BufferFullError):
            await deliveries
        first = min(deliveries.errors())
        assert list(deliveries.errors()) == list(range(first, 200_000))
        await producer.flush()
        assert len(written(broker)) == 1 + first > 1

    producing(check, buffer_memory=400_000, max_block_ms=1_000)


@pytest.mark.parametrize(
    ("timestamps", "milliseconds"),
    [
        (pa.array([1, None], pa.timestamp("s")), [1_000, 7]),
        (pa.array([1, None], pa.timestamp("ms", "UTC")), [1, 7]),
        (pa.array([1_999, 0], pa.timestamp("us")), [1, 0]),
        (pa.array([1_999_999, 0], pa.timestamp("ns")), [1, 0]),
        (pa.array([datetime.date(2026, 1, 2), None], pa.date32()), [1_767_312_000_000, 7]),
        (pa.array([datetime.date(2026, 1, 2), None], pa.date64()), [1_767_312_000_000, 7]),
        (pa.nulls(2), [7, 7]),
        (pa.array([5, 1 << 62], pa.uint64()), [5, 1 << 62]),
        (pa.array([5.0, float("nan")]), [5, 7]),
        (pa.array([5, None], pa.int64()).dictionary_encode(), [5, 7]),
        (pc.run_end_encode(pa.array([5, 5], pa.int64())), [5, 5]),
    ],
)
@pytest.mark.parametrize("rows", [1, 100])
def test_timestamps_of_every_kind_become_milliseconds(
    timestamps: Any, milliseconds: list[int], rows: int
) -> None:
    column = pa.chunked_array([timestamps] * rows)
    found = sent(pa.table({"value": ["a", "b"] * rows, "timestamp": column}))
    assert [row[2] for row in found] == milliseconds * rows


@pytest.mark.parametrize(
    ("timestamps", "error"),
    [
        (
            pa.array([0, 1 << 62], pa.timestamp("s")),
            r"column 'timestamp', row 1: 4611686018427387904: .*later",
        ),
        (pa.array([0, -1], pa.timestamp("ns")), r"column 'timestamp', row 1: -1: .*before 1970"),
        (pa.array([0, (1 << 64) - 1], pa.uint64()), r"column 'timestamp', row 1: .* too large"),
        (pa.array([0.0, 1.5]), r"column 'timestamp', row 1: 1\.5: it is no whole number"),
        (pa.array([0.0, float("inf")]), r"column 'timestamp', row 1: inf"),
        (pa.array([0, 1], pa.duration("s")), r"column 'timestamp' is duration\[s\], not a timestamp"),
        (pa.array([0, 1], pa.time64("us")), r"column 'timestamp' is time64\[us\]"),
        (pa.array(["2026-01-01", ""]), "column 'timestamp' is string"),
        (pa.array([True, False]), "column 'timestamp' is bool"),
        (pa.array([decimal.Decimal("1.5"), None]), "column 'timestamp' is decimal"),
    ],
)
def test_timestamps_that_are_none_are_refused(timestamps: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        source(pa.table({"value": ["a", "b"], "timestamp": timestamps}))


@pytest.mark.parametrize(
    ("partitions", "numbers"),
    [
        (pa.array([3, None], pa.int8()), [3, None]),
        (pa.array([3.0, float("nan")]), [3, None]),
        (pa.array([3.0, None], pa.float16()), [3, None]),
        (pa.nulls(2), [None, None]),
        (pa.array([3, 4], pa.uint64()).dictionary_encode(), [3, 4]),
    ],
)
def test_partitions_of_every_kind_of_number_are_taken(partitions: Any, numbers: list[int | None]) -> None:
    table = pa.table({"value": ["a", "b"], "partition": partitions})
    assert [row[3] for row in sent(table)] == numbers


def test_of_a_large_table_the_highest_partition_is_known_before_the_first_row_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_rows, "_PIECE_BYTES", 10)
    assert source(pa.table({"value": ["a"] * 100, "partition": [*range(98), None, 3]})).partition == 97
    assert source(pa.table({"value": ["a"] * 100, "partition": [None] * 100})).partition is None


@pytest.mark.parametrize(
    ("partitions", "error"),
    [
        (pa.array([0, -1]), "column 'partition', row 1: -1: a partition is a number from 0 on"),
        (pa.array([0, 1 << 31]), "column 'partition', row 1: 2147483648"),
        (pa.array([0.0, 0.5]), r"column 'partition', row 1: 0\.5: it is no whole number"),
        (pa.array([True, False]), "column 'partition' is bool, not whole numbers"),
        (pa.array(["0", "1"]), "column 'partition' is string"),
    ],
)
def test_partitions_that_are_none_are_refused(partitions: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        source(pa.table({"value": ["a", "b"], "partition": partitions}))


@pytest.mark.parametrize(
    "headers",
    [
        pa.array([[{"key": "h", "value": b"1"}], None], HEADERS),
        pa.array([[{"value": b"1", "key": "h"}], None]),
        pa.array([[{"name": "h", "data": b"1"}], []]),
        pa.array([[("h", b"1")], None], pa.map_(pa.string(), pa.binary())),
        pa.array([[("h", "1")], None], pa.map_(pa.string(), pa.string())),
        pa.array([{"h": b"1", "absent": None}, None]),
    ],
)
def test_headers_of_every_kind_are_taken(headers: Any) -> None:
    assert many(pa.table({"value": ["a", "b"], "headers": headers})).headers == [(("h", b"1"),), ()]


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        (pa.array([1, 2]), "column 'headers' is int64, not lists"),
        (pa.array([[1], []]), "column 'headers', row 0: header 1 is no pair"),
        (pa.array([None, [{"key": "h", "value": 1}]]), "column 'headers', row 1: header 'h' is int"),
        (
            pa.array([None, [{"key": b"h", "value": b""}]]),
            "column 'headers', row 1: header name b'h' is bytes",
        ),
    ],
)
def test_headers_that_are_none_are_refused(headers: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        source(pa.table({"value": ["a", "b"], "headers": headers}))


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"key": [b"k"]}, r"the table has the columns \['key'\]: 'value' is missing"),
        (
            {"value": [b"v"], "timestamp_ms": [1]},
            "column 'timestamp_ms' is no part of a record.*did you mean 'timestamp'",
        ),
        ({"value": [b"v"], "keys": [b"k"]}, "column 'keys' .*did you mean 'key'"),
        ({"Value": [b"v"]}, "column 'Value' .*did you mean 'value'"),
        (
            {"value": [b"v"], "amount": [1]},
            "column 'amount' is no part of a record.*leave it out, or put it into 'value'",
        ),
        ({"value": [1]}, "column 'value' is int64, not bytes or text: .*value_serializer"),
        ({"value": [b"v"], "key": [True]}, "column 'key' is bool, not bytes or text: .*key_serializer"),
    ],
)
def test_columns_that_are_no_part_of_a_record_are_refused(columns: dict[str, Any], error: str) -> None:
    for table in (pa.table(columns), pd.DataFrame(columns)):
        with pytest.raises((TypeError, ValueError), match=error):
            source(table)


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pa.table([["a"], ["b"]], names=["value", "value"])
    for table in (twice, pd.DataFrame([["a", "b"]], columns=["value", "value"])):
        with pytest.raises(ValueError, match="2 columns 'value': rename all but one"):
            source(table)


def test_what_was_consumed_can_be_sent_on() -> None:
    consumed = pa.table(
        {
            "topic": ["o"],
            "partition": pa.array([1], pa.int32()),
            "offset": [7],
            "timestamp": pa.array([5], pa.timestamp("ms", "UTC")),
            "timestamp_type": pa.array([0], pa.int8()),
            "key": [b"k"],
            "value": [b"v"],
            "headers": pa.array([[]], HEADERS),
        }
    )
    assert many(consumed)[:5] == ("t", [b"v"], [b"k"], [1], [5])


def test_what_is_no_table_is_refused() -> None:
    columns = (pa.array([b"a"]), pa.chunked_array([[b"a"]]), polars.Series("value", ["a"]))
    for table in ([b"a"], {"value": [b"a"]}, b"a", None, np.array([1]), *columns):
        with pytest.raises(TypeError, match=r"is no table: give an Arrow table"):
            source(table)


def test_frames_of_pandas_are_taken_as_people_make_them() -> None:
    frame = pd.DataFrame(
        {
            "value": ["text", b"bytes", None],
            "key": pd.Categorical(["k", None, "k"]),
            "partition": [1, None, 2],  # which makes it float
            "timestamp": [pd.Timestamp(5, unit="ms"), pd.NaT, pd.Timestamp(6, unit="ms", tz=None)],
            "headers": [[("h", "text"), ("h", b"bytes")], {"a": b"1"}, None],
        },
        index=[7, 8, 9],
    )
    assert many(frame) == Many(
        "t",
        [b"text", b"bytes", None],
        [b"k", None, b"k"],
        [1, None, 2],
        [5, None, 6],
        [(("h", b"text"), ("h", b"bytes")), (("a", b"1"),), ()],
        0,
    )
    plain = frame.drop(columns="headers").assign(value=["a", "b", "c"])
    assert [row[1:] for row in sent(plain)] == [(b"a", 5, 1), (b"b", 7, None), (b"c", 6, 2)]
    with pytest.raises(TypeError, match=r"column 'value', row 2: 3 is int, not bytes or text"):
        many(frame.assign(value=["a", b"b", 3]))
    with pytest.raises(ValueError, match=r"column 'timestamp', row 1: 'soon'"):
        many(plain.assign(timestamp=pd.Series([1, "soon", 2], dtype=object, index=plain.index)))


def test_a_frame_whose_index_would_be_lost_is_refused() -> None:
    frame = pd.DataFrame({"key": ["k"], "value": ["a"]}).set_index("key")
    with pytest.raises(ValueError, match=r"index is 'key', and only columns are sent: .*reset_index\(\)"):
        source(frame)
    assert sent(frame.reset_index()) == [(b"k", b"a", 7, None)]
    assert sent(frame.reset_index(drop=True)) == [(None, b"a", 7, None)]
    assert sent(frame.rename_axis(index="day")) == [(None, b"a", 7, None)]


def test_a_serializer_is_given_the_objects_of_a_frame() -> None:
    given: list[Any] = []

    def serialize(value: Any) -> bytes:
        given.append(value)
        return b"."

    frame = pd.DataFrame({"value": [{"a": 1}, {"b": 2}, None], "key": [1, 2, 3]})
    sent(frame, value_serializer=serialize, key_serializer=serialize)
    assert given == [{"a": 1}, {"b": 2}, None, 1, 2, 3]


@pytest.mark.parametrize("rows", [2, 100])
def test_a_serializer_is_given_the_text_of_a_table(rows: int) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        table = pa.table({"value": ["ä"] * rows, "key": ["text"] * rows})
        await (await producer.send_arrow("t", table))
        await (await producer.send_pandas("t", table.to_pandas()))
        assert [(record.key, record.value) for record in written(broker)] == [(b"text", b"\xe4")] * 2 * rows

    producing(check, value_serializer=lambda text: text.encode("latin-1"))


def test_a_serializer_that_fails_says_for_which_row() -> None:
    def serialize(value: int) -> bytes:
        return b"%d" % (1 // value)

    with pytest.raises(ZeroDivisionError) as info:
        sent(pa.table({"value": [1, 1, 0, 1]}), value_serializer=serialize)
    assert info.value.__notes__ == ["value of row 2, to topic t"]
    with pytest.raises(ZeroDivisionError) as info:
        columns_from(ProducerConfig(value_serializer=serialize), Many("t", [1, 0]), 7)
    assert info.value.__notes__ == ["value of record 1, to topic t"]


@pytest.mark.parametrize("value", [b"v", "v"])
def test_a_key_serializer_is_asked_for_a_key_that_is_not_given_however_a_record_is_sent(value: Any) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send("t", value)
        await producer.send_many("t", [value])
        await producer.send_arrow("t", pa.table({"value": [value]}))
        await producer.send_arrow(
            "t",
            Stream(iter([pa.record_batch({"value": [value]})]), pa.schema({"value": pa.array([value]).type})),
        )
        await producer.send_pandas("t", pd.DataFrame({"value": [value]}))
        await producer.flush()
        assert [record.key for record in written(broker)] == [b"None"] * 5

    producing(
        check,
        key_serializer=lambda key: str(key).encode(),
        value_serializer=lambda given: given if isinstance(given, bytes) else given.encode(),
    )


def test_tables_and_frames_are_sent() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await (await producer.send_arrow("t", pa.table({"value": [b"1", b"2"]})))
        frame = pd.DataFrame(
            {
                "value": ["three", "four"],
                "key": pd.Categorical(["k", "k"]),
                "timestamp": pd.to_datetime([1, 2], unit="s"),
            }
        )
        await (await producer.send_pandas("t", frame))
        for nothing in (
            pa.table({"value": pa.array([], pa.binary())}),
            pd.DataFrame({"value": []}, dtype=str),
        ):
            assert len(await (await producer.send_arrow("t", nothing))) == 0
        assert values(broker) == [b"1", b"2", b"three", b"four"]
        assert [(record.key, record.timestamp) for record in written(broker)[2:]] == [
            (b"k", 1000),
            (b"k", 2000),
        ]

    producing(check)
