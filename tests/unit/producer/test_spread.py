"""Chunks cut into parts: the vectorised way equals the plain one, and a bad record fails alone."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import pytest

from kclient.errors import ConfigurationError, UnknownTopicOrPartitionError
from kclient.producer.delivery import Chunk
from kclient.producer.part import WIDTH, Odd, Part
from kclient.producer.partitioner import PartitionView, StickyChoice, make_partitioner
from kclient.producer.spread import Spread, _by_hand, _by_index, columns_of, whole
from kclient.records.sizes import record_size_bound

Row = tuple[bytes | None, bytes | None, int, tuple[Any, ...], int | None]


def view(count: int = 7) -> PartitionView:
    return PartitionView(count, tuple(range(count)), lambda _: 0)


def chunk_of(rows: list[Row]) -> Chunk:
    chunk = Chunk("t", threading.Lock(), 0.0, 1.0)
    for key, value, time, headers, given in rows:
        if not chunk.ticks or chunk.ticks[-1] != time:
            chunk.ticks += (len(chunk.flat), time)
        if headers or given is not None:
            chunk.odd = True
            chunk.flat += (key, Odd(value, None, headers, given))
        else:
            chunk.flat += (key, value)
        chunk.size += record_size_bound(key, value, headers)
    return chunk


def rows_of(random: Random, count: int, **kind: bool) -> list[Row]:
    return [
        (
            random.randbytes(random.randrange(9)) if kind.get("keys") or random.random() < 0.5 else None,
            None if random.random() < 0.1 else random.randbytes(random.randrange(50)),
            1000 + (random.randrange(9) if kind.get("times") else 0),
            (("h", b"x"),) if kind.get("headers") and random.random() < 0.5 else (),
            random.randrange(7) if kind.get("given") and random.random() < 0.5 else None,
        )
        for _ in range(count)
    ]


def shape(part: Part) -> tuple[Any, ...]:
    times = part.times if isinstance(part.times, int) else list(part.times)
    headers = None if part.headers is None else list(part.headers)
    watchers = None if part.watchers is None else list(part.watchers)
    fields = list(part.places), list(part.keys), list(part.values), times, headers, watchers
    return part.partition, *fields, part.size


def spread(partitioner: Any = None, batch_size: int = 100) -> Spread:
    return Spread(make_partitioner(partitioner), StickyChoice(batch_size, Random(5)))


@pytest.mark.parametrize("seed", range(60))
def test_cutting_by_index_equals_cutting_by_hand(seed: int) -> None:
    random = Random(seed)
    kind = {name: random.random() < 0.5 for name in ("keys", "times", "headers")}
    rows = rows_of(random, random.randrange(48, 300), **kind)
    chunk = chunk_of(rows)
    chunk.noted = [item for place in range(len(rows)) for item in (place * WIDTH, f"watcher {place}")]
    columns = columns_of(chunk)
    numbers = [random.randrange(-2, 5) for _ in rows]
    plain = sorted(map(shape, _by_hand(chunk, numbers, columns)))
    assert sorted(map(shape, _by_index(chunk, numbers, columns))) == plain
    assert sum(part[-1] for part in plain) == chunk.size


@pytest.mark.parametrize(
    "partitioner", ["murmur2", "consistent", "consistent_random", "round_robin", "sticky"]
)
@pytest.mark.parametrize("seed", range(12))
def test_a_chunk_at_once_goes_where_its_records_would_go_one_by_one(partitioner: str, seed: int) -> None:
    random = Random(seed)
    kind = {name: random.random() < 0.5 for name in ("keys", "times", "headers", "given")}
    rows = rows_of(random, 200, **kind)
    if seed % 3 == 0:
        rows = [(None, *row[1:4], None) for row in rows]
    chunk = chunk_of(rows)
    parts = [part for part, _ in spread(partitioner).cut(chunk, view())]
    one_by_one = spread(partitioner)
    expected = []
    for row in rows:
        ((part, _),) = one_by_one.cut(chunk_of([row]), view())
        expected.append(part.partition)
    found = {place // WIDTH: part.partition for part in parts for place in part.places}
    if partitioner == "sticky" or (partitioner == "murmur2" and seed % 3 == 0):
        # Views differ from call to call above, so the sticky partition is only as good as known.
        assert sorted(found) == list(range(200))
    else:
        keyed = [number for number, row in enumerate(rows) if row[0] or row[4] is not None]
        assert [found[number] for number in keyed] == [expected[number] for number in keyed]
    assert sum(part.size for part in parts) == chunk.size
    assert chunk.left == 200
    assert chunk.flat == []


def test_sticky_records_stay_together_until_a_batch_is_full() -> None:
    chunk = chunk_of([(None, bytes(64), 0, (), None)] * 100)
    parts = [part for part, _ in spread(batch_size=1000).cut(chunk, view())]
    assert sum(len(part) for part in parts) == 100
    runs = sorted(place for part in parts for place in part.places)
    assert runs == list(range(0, 100 * WIDTH, WIDTH))
    assert all(len(part) % 10 == 0 for part in parts)


def test_records_that_share_a_partition_stay_one_part() -> None:
    chunk = chunk_of([(None, b"v", 0, (), None)] * 100)
    ((part, error),) = spread(batch_size=1 << 20).cut(chunk, view())
    assert (len(part), part.size, error) == (100, 3700, None)
    assert part.times == 0
    assert part.headers is None
    assert shape(whole(chunk_of([(b"k", b"v", 3, (), None)]), 4)) == (
        4,
        [0],
        [b"k"],
        [b"v"],
        3,
        None,
        None,
        38,
    )


class Picky:
    """A keyed partitioner that knows some keys only."""

    def partition(self, *asked: Any) -> int:
        return self.partition_many([asked[1]], asked[3].count)[0]

    def partition_many(self, keys: list[bytes], count: int) -> list[int]:
        return [{b"a": 1, b"b": count}[key] for key in keys]


@pytest.mark.parametrize("count", [5, 100])
def test_a_partitioner_that_fails_for_a_record_fails_that_record_only(count: int) -> None:
    rows: list[Row] = [(b"a", b"v", 0, (), None)] * count
    rows[2] = (b"unknown", b"v", 0, (), None)
    rows[4] = (b"b", b"v", 0, (), None)
    cut = spread(Picky()).cut(chunk_of(rows), view())
    failed = {part.places[0] // WIDTH: error for part, error in cut if error is not None}
    assert set(failed) == {2, 4}
    assert all(isinstance(error, ConfigurationError) for error in failed.values())
    assert isinstance(failed[2].__cause__, KeyError)
    assert [(part.partition, len(part)) for part, error in cut if error is None] == [(1, count - 2)]


@pytest.mark.parametrize("count", [3, 100])
def test_a_given_partition_is_taken_also_where_nothing_is_known_of_it(count: int) -> None:
    rows: list[Row] = [(b"k", b"v", 0, (), 6)] * count
    rows[1], rows[2] = (b"k", b"v", 0, (), 7), (b"k", b"v", 0, (), 1 << 63)
    cut = spread().cut(chunk_of(rows), view())
    taken = {(part.partition, len(part)) for part, error in cut if error is None}
    assert taken == {(6, count - 2), (7, 1)}
    (error,) = [error for _, error in cut if error is not None]
    assert isinstance(error, UnknownTopicOrPartitionError)
