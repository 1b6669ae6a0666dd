"""Records as pandas frames: the same rows as Arrow gives, with the types that pandas has for them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from kclient import Producer
from kclient.consumer import Consumer
from kclient.records.arrow import SCHEMA
from kclient.testing import RunningBroker
from tests.unit.consumer.reading import T0, Topic, World, live, part

PATIENCE_MS = 30_000
TYPES = {
    "partition": "int32",
    "offset": "int64",
    "timestamp": "datetime64[ms, UTC]",
    "timestamp_type": "int32",
    "key": "object",
    "value": "object",
    "headers": "object",
}


def types(frame: pd.DataFrame) -> dict[str, str]:
    """Those of the columns, without the topic: pandas 3 has text of its own, older ones have objects."""
    return {str(name): str(kind) for name, kind in frame.dtypes.drop("topic").items()}


def test_a_frame_has_the_columns_of_arrow_and_a_row_for_each_record() -> None:
    async def story(world: World) -> None:
        world.fill(part(), records=300)
        async with world.reader() as consumer:
            frame = await consumer.getpandas(timeout_ms=1000)
            assert list(frame.columns) == SCHEMA.names
            assert types(frame) == TYPES
            assert set(frame["topic"]) == {Topic}
            assert frame["offset"].tolist() == list(range(300))
            assert frame["timestamp"].tolist() == [
                pd.Timestamp(T0 + n, unit="ms", tz="UTC") for n in range(300)
            ]
            assert frame["key"].tolist() == [b"key"] * 300
            assert frame["value"].tolist() == [b"%010d" % number for number in range(300)]
            assert consumer.metrics().records_consumed == 300

    live(story)


def test_a_frame_without_rows_has_the_same_columns() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(auto_offset_reset="latest") as consumer:
            frame = await consumer.getpandas(timeout_ms=1000)
            assert (list(frame.columns), len(frame)) == (SCHEMA.names, 0)
            assert types(frame) == TYPES
            frame = await consumer.getpandas(columns=["value", "offset"])
            assert list(frame.columns) == ["value", "offset"]

    live(story)


def test_frames_can_be_limited_and_taken_in_turn_with_records() -> None:
    async def story(world: World) -> None:
        world.fill_all(2, records=50)
        async with world.reader(2) as consumer:
            frame = await consumer.getpandas(part(1), timeout_ms=1000, max_records=20)
            assert (set(frame["partition"]), frame["offset"].tolist()) == ({1}, list(range(20)))
            assert (await consumer.getone(part(1))).offset == 20
            frame = await consumer.getpandas(part(1), timeout_ms=1000)
            assert frame["offset"].tolist() == list(range(21, 50))
            assert [await consumer.position(part(number)) for number in range(2)] == [0, 50]

    live(story)


def test_deserializers_are_not_called_for_frames() -> None:
    def fail(data: bytes) -> Any:
        raise AssertionError(data)

    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(value_deserializer=fail) as consumer:
            assert (await consumer.getpandas(timeout_ms=1000))["value"][99] == b"0000000099"

    live(story)


def test_the_blocking_consumer_gives_frames_with_nulls_and_headers() -> None:
    with RunningBroker() as running:
        address = running.bootstrap_servers
        with Producer(bootstrap_servers=address) as producer:
            producer.send(
                Topic, b"a teapot", key=None, partition=0, headers=[("trace", b"17"), ("empty", None)]
            )
            producer.send(Topic, None, key=b"customer", partition=0)
        with Consumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
            consumer.assign([part()])
            frames = [consumer.poll_pandas(part(), timeout_ms=PATIENCE_MS, max_records=1) for _ in range(2)]
            frame = pd.concat(frames, ignore_index=True)
            assert frame["offset"].tolist() == [0, 1]
            assert frame["key"].tolist() == [None, b"customer"]
            assert frame["value"].tolist() == [b"a teapot", None]
            assert [list(headers) for headers in frame["headers"]] == [
                [{"key": "trace", "value": b"17"}, {"key": "empty", "value": None}],
                [],
            ]
            assert len(consumer.poll_pandas()) == 0
