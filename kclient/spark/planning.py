"""Ranges of offsets to tasks: large ranges are split as Spark's own source does, small ones packed together.

Pure. A task costs some 25 ms before its first record, so a micro-batch of a few records wants few tasks; but
records of a megabyte are not few when there are hundreds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import InputPartition

from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.spark.options import Options


# Kafka's default for the largest record.
_LARGE_RECORD = 1 << 20


class Range(NamedTuple):
    """The records of one partition from `start` to before `end`; `topic_id` may be empty: not known."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Task(InputPartition):
    """What one task reads, in this order."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(tuple(ranges))
        self.ranges: tuple[Range, ...] = tuple(ranges)


def ranges_between(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], ids: Mapping[str, str]
) -> list[Range]:
    """What is to be read, in the order of partitions."""
    found = [
        Range(key.topic, key.partition, start[key], end[key], ids.get(key.topic, "")) for key in sorted(end)
    ]
    return [each for each in found if each.size]


class Share(NamedTuple):
    """How much ranges that share a task may be: records, bytes (0: no limit); and how many tasks at most."""

    records: int
    size: int
    most_tasks: int | None = None

    def asks_for_sizes(self, ranges: Sequence[Range]) -> bool:
        """Whether it matters how large records are: not if none shares a task, nor for a few records."""
        total = sum(each.size for each in ranges)
        return bool(
            self.size
            and self.records
            and -(-total // self.records) < len(ranges)
            and total > self.size // _LARGE_RECORD
        )


def share_of(options: Options) -> Share:
    return Share(
        options["kclient.recordsPerTask"], options["kclient.bytesPerTask"], options["kclient.maxTasks"]
    )


def plan(
    ranges: Sequence[Range],
    *,
    min_partitions: int | None,
    max_records: int | None,
    share: Share,
    sizes: Callable[[Sequence[Range]], Mapping[str, float]],
) -> list[Task]:
    """The tasks of a read. Who says how many there should be gets them: packing is for those who do not.

    `sizes` tells how many bytes an offset is, by topic; it is asked only where that changes anything.
    """
    pieces = split(ranges, min_partitions, max_records)
    if min_partitions is not None or max_records is not None:
        return [Task([piece]) for piece in pieces]
    known = sizes(pieces) if share.asks_for_sizes(pieces) else {}
    return [Task(group) for group in pack(pieces, share, known)]


def split(ranges: Sequence[Range], min_partitions: int | None, max_records: int | None) -> list[Range]:
    """Ranges of at most `max_records`, and about `min_partitions` of them, large ones split the more."""
    pieces = list(ranges)
    if max_records is not None:
        pieces = [part for each in pieces for part in _cut(each, -(-each.size // max_records))]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(each.size for each in pieces)
    # What stays whole must not take part in the proportions of what is split.
    small = {each for each in pieces if _parts(each.size, total, min_partitions) == 1}
    rest = total - sum(each.size for each in small)
    wanted = max(min_partitions - len(small), 1)
    return [
        part
        for each in pieces
        for part in ([each] if each in small else _cut(each, _parts(each.size, rest, wanted)))
    ]


def _parts(size: int, total: int, wanted: int) -> int:
    """A range's share of the wanted parts; halves are rounded up, as Java does."""
    return max(1, floor(size / total * wanted + 0.5)) if total else 1


def _cut(whole: Range, parts: int) -> list[Range]:
    pieces: list[Range] = []
    start = whole.start
    for left in range(parts, 0, -1):
        end = start + (whole.end - start) // left
        pieces.append(whole._replace(start=start, end=end))
        start = end
    return [piece for piece in pieces if piece.size]


def pack(pieces: Sequence[Range], share: Share, sizes: Mapping[str, float]) -> list[list[Range]]:
    """Groups of about as much as `share` says; 0 records per task packs nothing.

    A range that is too much alone stays whole.
    """
    number = len(pieces)
    loads = [(piece, _load(piece, share, sizes)) for piece in pieces]
    if share.records:
        number = min(number, -(-sum(load for _, load in loads) // share.records))
    if share.most_tasks is not None:
        number = min(number, share.most_tasks)
    groups: list[list[Range]] = [[] for _ in range(number)]
    totals = [0] * number
    # The largest first, each to the group that has least: none ends up with much more than the others.
    for piece, load in sorted(loads, key=lambda each: -each[1]):
        least = totals.index(min(totals))
        groups[least].append(piece)
        totals[least] += load
    return [sorted(group) for group in groups if group]


def _load(piece: Range, share: Share, sizes: Mapping[str, float]) -> int:
    """How much work a range is, in records; those that are large count for more."""
    if not share.size:
        return piece.size
    return ceil(piece.size * max(1.0, sizes.get(piece.topic, 0.0) * share.records / share.size))
