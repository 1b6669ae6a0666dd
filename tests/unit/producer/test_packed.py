"""Tables on their way through a producer: the same partitions, order and records as if sent as lists."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kclient import AsyncProducer
from kclient.broker import Broker
from kclient.producer.delivery import Chunk
from kclient.producer.many import packed_pieces, pieces_of
from kclient.producer.outbox import Outbox, Rules
from kclient.producer.part import Columns, Part
from kclient.producer.partitioner import PartitionView, StickyChoice, make_partitioner
from kclient.producer.spread import Spread
from kclient.records.packed import Block, Packed
from tests.support.producing import producing, written

VIEW = PartitionView(7, tuple(range(7)), lambda _: 0)


def columns_of(rows: list[tuple[bytes | None, bytes | None]], **more: Any) -> tuple[Columns, Columns]:
    """The same records as lists and as columns of Arrow."""
    keys, values = [row[0] for row in rows], [row[1] for row in rows]
    lists = Columns(keys, values, more.get("times", 5), None, more.get("given", [None] * len(rows)))
    block = Block(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
    packed_keys, packed_values = block.columns()
    return lists, lists._replace(keys=packed_keys, values=packed_values)


def rows_of(random: Random, count: int, nulls: float) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (
            None if random.random() < nulls else random.randbytes(random.randrange(40)),
            None if random.random() < 0.1 else random.randbytes(random.randrange(90)),
        )
        for _ in range(count)
    ]


def cut(columns: Columns, partitioner: Any) -> list[tuple[Any, ...]]:
    chunk = Chunk("t", threading.Lock(), 0.0, 1.0)
    chunk.columns, chunk.size = columns, sum(columns.sizes())
    spread = Spread(make_partitioner(partitioner), StickyChoice(500, Random(5)))
    return sorted(
        (
            part.partition,
            list(part.places),
            list(part.keys),
            list(part.values),
            list_of(part),
            part.size,
            error,
        )
        for part, error in spread.cut(chunk, VIEW)
    )


def list_of(part: Part) -> list[int]:
    return [part.times] if isinstance(part.times, int) else [int(time) for time in part.times]


@pytest.mark.parametrize("nulls", [0.0, 1.0])
@pytest.mark.parametrize("partitioner", [None, "sticky", "fnv1a", "round_robin", "consistent_random"])
def test_columns_of_arrow_are_spread_as_lists_are(partitioner: Any, nulls: float) -> None:
    random = Random(3)
    lists, packed = columns_of(rows_of(random, 300, nulls), times=list(range(300)))
    assert cut(packed, partitioner) == cut(lists, partitioner)


def test_where_some_keys_are_null_the_others_keep_their_partitions() -> None:
    lists, packed = columns_of(rows_of(Random(4), 300, 0.4))
    ours = {key: number for number, _, keys, *_ in cut(packed, None) for key in keys if key is not None}
    theirs = {key: number for number, _, keys, *_ in cut(lists, None) for key in keys if key is not None}
    assert ours == theirs
    assert sum(len(found[1]) for found in cut(packed, None)) == 300


@pytest.mark.parametrize("given", [[3] * 60, [0, 1, 2] * 20, [None, 1] * 30])
def test_partitions_that_are_given_are_kept(given: list[int | None]) -> None:
    lists, packed = columns_of(rows_of(Random(5), 60, 0.0), given=given)
    assert cut(packed, None) == cut(lists, None)


def test_a_partition_that_is_not_known_gets_its_records_alone() -> None:
    lists, packed = columns_of(rows_of(Random(6), 60, 0.0), given=[9, 1] * 30)
    assert cut(packed, None) == cut(lists, None)
    assert [(number, len(places), error) for number, places, *_, error in cut(packed, None)] == [
        (1, 30, None),
        (9, 30, None),
    ]


def test_columns_of_arrow_are_cut_where_lists_are() -> None:
    lists, packed = columns_of(rows_of(Random(7), 400, 0.2), times=list(range(400)))
    assert isinstance(packed.keys, Packed)
    sizes = np.array(lists.sizes())
    ours = [shape(*piece) for piece in packed_pieces(packed, sizes, 900)]
    assert ours == [shape(*piece) for piece in pieces_of(lists, lists.sizes(), 900)]
    assert len(ours) > 10


def shape(piece: Columns, size: int) -> tuple[Any, ...]:
    assert not isinstance(piece.times, int)
    return list(piece.keys), list(piece.values), list(piece.times), size


def test_an_outbox_cuts_a_part_at_the_same_record() -> None:
    batches = []
    for columns in columns_of(rows_of(Random(8), 200, 0.0)):
        chunk = Chunk("t", threading.Lock(), 0.0, 1.0)
        part = Part(chunk, 0, range(0, 1000, 5), *columns[:4], sum(columns.sizes()))
        chunk.cut([part], 200)
        outbox = Outbox("t", 0, Rules(2_000, 0, 5, False), None)  # type: ignore[arg-type]
        outbox.add(part)
        taken: list[list[bytes | None]] = []
        while outbox and len(taken) < 100:
            batch = outbox.take()
            assert batch is not None
            outbox.flying.clear()
            taken.append([value for part in batch.parts for value in part.values])
        batches.append(taken)
    assert batches[0] == batches[1]
    assert len(batches[0]) > 5


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_a_table_arrives_whole_and_in_order(kind: Any) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        rows = 3_000
        values = [f"value {number}" for number in range(rows)]
        times = [1_700_000_000_000 + number * 977 % 10_007 for number in range(rows)]
        table = pa.table(
            {"value": pa.array(values).cast(kind), "timestamp": pa.array(times, pa.timestamp("ms"))}
        )
        delivered = await (await producer.send_arrow("t", table))
        assert [each.offset for each in delivered] == list(range(rows))
        assert delivered[17].timestamp == times[17]
        found = written(broker)
        assert [record.value for record in found] == [value.encode() for value in values]
        assert [record.timestamp for record in found] == times

    producing(check, batch_size=20_000)


def test_a_serializer_and_headers_still_see_every_record() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        table = pa.table({"value": [b"%d" % number for number in range(100)], "key": [b"k"] * 100})
        await (await producer.send_arrow("t", table))
        assert [record.value for record in written(broker)] == [b"<%d>" % number for number in range(100)]
        headers = pa.array([[{"key": "h", "value": b"x"}]] * 100)
        await (await producer.send_arrow("t", table.append_column("headers", headers)))
        assert written(broker)[-1].headers == (("h", b"x"),)

    producing(check, value_serializer=lambda value: b"<%b>" % value)


def test_rows_with_timestamps_share_a_batch_with_single_records() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        rows = pa.table(
            {"value": [b"row %d" % number for number in range(100)], "timestamp": list(range(100))}
        )
        await producer.send("t", b"before", timestamp_ms=7)
        deliveries = await producer.send_arrow("t", rows)
        await producer.send("t", b"after", timestamp_ms=8)
        await producer.flush()
        await deliveries
        found = [(record.value, record.timestamp) for record in written(broker)]
        assert found == [
            (b"before", 7),
            *((b"row %d" % number, number) for number in range(100)),
            (b"after", 8),
        ]

    producing(check, linger_ms=1_000)
