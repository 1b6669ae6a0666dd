"""Arrow's columns hold so many bytes: calls end before, and no row is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kclient.broker.topics import PartitionState
from kclient.consumer import AsyncConsumer, arrow
from kclient.records import Codec, encode_batch, read_batches
from kclient.records import arrow as columns
from kclient.testing import RunningBroker
from tests.unit.consumer.reading import T0, Topic, World, live, part
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of, fill

GROUPS: list[dict[str, str]] = [{}, {"group_id": "billing"}]
Header = tuple[str, bytes | None]


def _partition(world: World) -> PartitionState:
    return world.broker.create_topic(Topic, 1).partitions[0]


def _append(
    state: PartitionState,
    values: list[bytes],
    codec: Codec = Codec.ZSTD,
    *,
    key: bytes | None = b"key",
    headers: tuple[Header, ...] = (),
    times: int = 1,
) -> None:
    data = encode_batch([(key, value, T0, headers) for value in values], codec=codec)
    for _ in range(times):
        state.log.append(data, leader_epoch=0)
    state.wake()


async def _rows(consumer: AsyncConsumer[Any, Any], most: int | None = 100_000) -> list[int]:
    found = (await consumer.getarrow(timeout_ms=1_000, max_records=most, columns=["offset"])).column(0)
    return [offset.as_py() for offset in found]


async def _polled(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    return [row["offset"] for row in (await consumer.getpandas(max_records=100_000)).to_dict("records")]


@pytest.mark.parametrize("read", [_rows, _polled])
@pytest.mark.parametrize("of_batch", [1, 20, 60, 700])
def test_a_call_with_a_number_of_rows_ends_before_it_passes_the_bytes_and_loses_none(
    monkeypatch: pytest.MonkeyPatch, of_batch: int, read: Callable[..., Any]
) -> None:
    monkeypatch.setattr(arrow, "MOST_BYTES_OF_ROWS", 1_000_000)

    async def story(world: World) -> None:
        state = _partition(world)
        _append(state, [bytes(1_000)] * of_batch, times=2_800 // of_batch)
        end = state.log.end_offset
        async with world.reader() as consumer:
            await asyncio.sleep(3)
            found: list[int] = []
            while len(found) < end:
                some = await read(consumer)
                assert 0 < len(some) <= 1_000
                found += some
                assert await consumer.position(part()) == len(found)
            assert found == list(range(end))

    live(story)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("count", [5, 40, 90, 250])
@pytest.mark.parametrize(
    ("around", "of_call"),
    [
        ((b"key", ()), 8),  # 1,000 bytes of value each
        ((bytes(1_900), ()), 4),
        ((None, (("h", bytes(1_500)), ("i", bytes(1_500)))), 2),
        ((None, (("h" * 1_500, None),)), 1),  # as text it could be thrice as long
        ((None, (("h", bytes(9_000)),)), 1),  # alone it fits into nothing less
    ],
)
def test_a_batch_that_columns_cannot_hold_is_handed_out_over_several_calls(
    monkeypatch: pytest.MonkeyPatch,
    codec: Codec,
    count: int,
    around: tuple[bytes | None, tuple[Header, ...]],
    of_call: int,
) -> None:
    key, headers = around
    monkeypatch.setattr(arrow, "COLUMN_BYTES", 8_000)

    async def story(world: World) -> None:
        state = _partition(world)
        _append(state, [bytes(1_000)] * count, codec, key=key, headers=headers)
        async with world.reader() as consumer:
            first = await consumer.getarrow(timeout_ms=1_000)
            assert first.num_rows == min(of_call, count)
            assert first.column("key").to_pylist() == [key] * first.num_rows
            assert (
                first.column("headers").to_pylist()
                == [[{"key": name, "value": value} for name, value in headers]] * first.num_rows
            )
            assert await consumer.position(part()) == first.num_rows
            found = first.column("offset").to_pylist()
            while len(found) < count:
                some = await _rows(consumer, 3)
                assert 0 < len(some) <= min(3, of_call)
                found += some
            assert found == list(range(count))
            consumer.seek(part(), count - 1)
            assert await _rows(consumer, None) == [count - 1]

    live(story, config={"message.max.bytes": "10000000"})


def test_the_name_of_the_topic_counts_where_records_are_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "COLUMN_BYTES", 400)

    async def story(world: World) -> None:
        name = "t" * 100
        state = world.broker.create_topic(name, 1).partitions[0]
        _append(state, [b""] * 10, key=None)
        async with world.consumer(name) as consumer:
            calls = [(await consumer.getarrow(timeout_ms=60_000)).num_rows for _ in range(3)]
            assert calls == [4, 4, 2]

    live(story)


def test_records_behind_a_part_of_a_batch_can_be_read_as_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "COLUMN_BYTES", 8_000)

    async def story(world: World) -> None:
        _append(_partition(world), [bytes(1_000)] * 100)
        async with world.reader() as consumer:
            assert len(await _rows(consumer)) == 8
            found = (await consumer.getmany(timeout_ms=1_000))[part()]
            assert [record.offset for record in found] == list(range(8, 100))

    live(story)


def test_a_table_with_other_rows_than_records_is_an_error_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World) -> None:
        state = _partition(world)
        _append(state, [b"v"] * 600, times=2)
        async with world.reader() as consumer:
            await asyncio.sleep(3)
            with monkeypatch.context() as broken:
                broken.setattr(arrow, "concat_batches", lambda tables, _: tables[0].slice(0, 599))
                with pytest.raises(RuntimeError, match="1200 records became 599 rows"):
                    await consumer.getarrow()
            assert await _rows(consumer) == list(range(1_200))

    live(story)


def test_batches_that_do_not_become_one_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [columns.arrow_from_records([])] * 2
    rows = pa.table({"a": [1, 2]})
    chunked = pa.Table.from_batches([*rows.to_batches(), *rows.to_batches()])
    assert columns.concat_batches(tables).num_rows == 0

    class Kept(pa.Table):  # as tables are that one chunk cannot hold
        @staticmethod
        def from_batches(*_: Any) -> Any:
            class Uncombined:
                num_rows = chunked.num_rows

                def combine_chunks(self) -> Any:
                    return chunked

            return Uncombined()

    monkeypatch.setattr(pa, "Table", Kept)
    with pytest.raises(RuntimeError, match="4 records became 2 rows"):
        columns.concat_batches(rows.to_batches() * 2)


def test_offsets_that_would_wrap_around_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = "t" * 60
    records = [(bytes(60), bytes(60), T0 + at, (("k" * 60, None),)) for at in range(60)]
    batches = [next(read_batches(encode_batch(records[:count], codec=Codec.ZSTD))) for count in (2, 60)]

    monkeypatch.setattr(columns, "COLUMN_BYTES", 100)
    for name in ("topic", "key", "value", "headers"):
        for batch in batches:
            with pytest.raises(OverflowError, match="where an Arrow array holds 100"):
                batch.arrow(topic, 0, [name])
    assert batches[1].arrow(topic, 0, ["offset", "partition"]).num_rows == 60


@pytest.mark.parametrize("options", GROUPS)
def test_a_topic_of_zeros_is_read_to_its_end(options: dict[str, str]) -> None:
    """What a process needs for more than 2 GiB of values is far less."""

    async def story(world: World) -> None:
        state = _partition(world)
        _append(state, [bytes(22_000)] * 700, times=143)
        async with world.consumer(Topic, **options) as consumer:
            rows = size = 0
            while rows < state.log.end_offset:
                table = await consumer.getarrow(timeout_ms=60_000, max_records=200_000, columns=["value"])
                rows += table.num_rows
                size += table.num_rows * len(table.column("value")[-1].as_py())
                assert await consumer.position(part()) == rows
            assert (rows, size) == (100_100, 100_100 * 22_000)

    live(story)


@pytest.mark.parametrize("call", ["poll_arrow", "poll_pandas"])
def test_blocking_calls_end_before_columns_are_full_and_lose_no_row(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(arrow, "COLUMN_BYTES", 3_000)
    with RunningBroker() as running:
        running.broker.create_topic("orders", 1)
        fill(running, part())
        with consumer_of(running) as consumer:
            consumer.assign([part()])
            rows: list[int] = []
            while len(rows) < 1_000:
                table = getattr(consumer, call)(timeout_ms=PATIENCE_MS, max_records=5_000)
                assert 0 < len(table) < 600
                rows += map(int, table["offset"].to_numpy())
            assert rows == list(range(1_000))
