"""Which records `kclient consume` reads: from where to where, alone or as a member of a group.

Alone, every partition has a first offset and, unless reading goes on for ever, an offset to stop before; both
are looked up once, at the start. In a group the coordinator says which partitions are read from where.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kclient.cli.connection import Connection, described
from kclient.cli.errors import UsageError
from kclient.cli.output import check_reader, is_terminal, note
from kclient.cli.progress import Progress
from kclient.cli.times import moment
from kclient.consumer import AsyncConsumer
from kclient.consumer.config import ConsumerConfig
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.admin import AsyncAdmin, IsolationLevel
    from kclient.cli.formats import BytesRecord

    Write: TypeAlias = Callable[[Iterable[BytesRecord]], None]
    BytesConsumer: TypeAlias = AsyncConsumer[bytes | None, bytes | None]

_POLL_MS = 200
_AT_A_TIME = 2_000
# A member without partitions may get some with its next heartbeat; after this time it will not.
_WITHOUT_PARTITIONS = 10.0


@dataclass(frozen=True)
class Wish:
    """What was asked for. `start` and `until` are words or times in ms, `offset` is below 0 from the end."""

    topics: tuple[str, ...]
    start: str | int | None
    offset: int | None
    until: str | int | None
    count: int | None
    partitions: frozenset[int] | None
    group: str | None

    @classmethod
    def of(cls, options: argparse.Namespace) -> Wish:
        start = options.start
        until = options.until
        wish = cls(
            topics=tuple(dict.fromkeys(options.topics)),
            start=start if start in (None, "beginning", "end") else moment(start),
            offset=options.offset,
            until=until if until in (None, "end") else moment(until),
            count=options.count,
            partitions=frozenset(options.partition) if options.partition else None,
            group=options.group,
        )
        wish._check()
        return wish

    def _check(self) -> None:
        if self.group is None:
            return
        if self.partitions is not None or self.offset is not None or isinstance(self.until, int):
            raise UsageError(
                "-g shares partitions among members and goes on where the group is: it goes with --from, -e "
                "and -n, not with -p, --offset or --until TIME; `kclient groups reset` moves a group"
            )


async def read(wish: Wish, connection: Connection, write: Write) -> None:
    """Hand records to `write` until all that was wished for is written."""
    async with connection.admin() as admin:
        topics = await described(admin, wish.topics)
        partitions = [
            TopicPartition(name, each.partition)
            for name, topic in topics.items()
            for each in topic.partitions
            if wish.partitions is None or each.partition in wish.partitions
        ]
        _check_partitions(wish, partitions)
        if wish.group is None:
            starts, bounds = await _bounds(wish, admin, partitions, connection.isolation_level)
    shown = not is_terminal(sys.stdout)
    if wish.group is not None:
        async with _consumer(connection, **_group_options(wish, connection)) as consumer:
            consumer.subscribe(wish.topics, listener=_FromTime.of(wish, consumer))
            with Progress("reading", wish.count, shown=shown) as progress:
                await _read_in_group(wish, consumer, write, progress)
        return
    if bounds is not None:
        starts = {partition: at for partition, at in starts.items() if at < bounds[partition]}
        if not starts:
            return
    # A file for another client may name a group: whoever reads alone stays out of it.
    async with _consumer(connection, group_id=None, auto_offset_reset="earliest") as consumer:
        consumer.assign(starts)
        for partition, at in starts.items():
            consumer.seek(partition, at)
        total = wish.count if bounds is None else sum(bounds[each] - starts[each] for each in starts)
        most = wish.count if total is None else min(total, wish.count or total)
        with Progress("reading", most, shown=shown) as progress:
            await _read_alone(wish, consumer, bounds, write, progress)


def _check_partitions(wish: Wish, found: list[TopicPartition]) -> None:
    missing = (wish.partitions or frozenset()) - {each.partition for each in found}
    if missing:
        raise UsageError(
            f"there is no partition {', '.join(map(str, sorted(missing)))} in {', '.join(wish.topics)}; "
            f"`kclient topics describe {wish.topics[0]}` shows what there is"
        )


@asynccontextmanager
async def _consumer(connection: Connection, **more: Any) -> AsyncIterator[BytesConsumer]:
    """A started consumer. Ctrl-C finds all written that it has handed out, so all of that is committed."""
    client: BytesConsumer = AsyncConsumer(**connection.options_for(ConsumerConfig, **more))
    try:
        await connection.started(client.start)
        yield client
    except asyncio.CancelledError:
        await client.close()
        raise
    except BaseException:
        await client.__aexit__(*sys.exc_info())
        raise
    else:
        await client.close()


async def _bounds(
    wish: Wish, admin: AsyncAdmin, partitions: list[TopicPartition], isolation_level: IsolationLevel
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int] | None]:
    """The first offset of each partition to read, and the one to stop before; None to go on."""
    from kclient.admin import OffsetSpec

    async def offsets(at: int) -> dict[TopicPartition, int]:
        found = await admin.list_offsets(partitions, at, isolation_level=isolation_level)
        return {partition: listed.offset for partition, listed in found.items()}

    first, end = await asyncio.gather(offsets(OffsetSpec.EARLIEST), offsets(OffsetSpec.LATEST))

    async def at_time(milliseconds: int) -> dict[TopicPartition, int]:
        found = await offsets(milliseconds)
        return {partition: end[partition] if at < 0 else at for partition, at in found.items()}

    if wish.offset is not None:
        starts = {
            partition: max(first[partition], min(end[partition], wish.offset))
            if wish.offset >= 0
            else max(first[partition], end[partition] + wish.offset)
            for partition in partitions
        }
    elif isinstance(wish.start, int):
        starts = await at_time(wish.start)
    else:
        starts = end if wish.start == "end" else first
    if wish.until == "end":
        return starts, end
    if isinstance(wish.until, int) and wish.until <= time.time() * 1000:
        return starts, await at_time(wish.until)
    return starts, None


async def _read_alone(
    wish: Wish,
    consumer: BytesConsumer,
    bounds: dict[TopicPartition, int] | None,
    write: Write,
    progress: Progress,
) -> None:
    left = set(consumer.assignment())
    hint = _Hint(wish, consumer)
    while left and progress.done != wish.count:
        wait = _POLL_MS
        if isinstance(wish.until, int) and bounds is None:  # a time to come
            wait = int(min(wait, max(0, wish.until - time.time() * 1000)))
        batch = await consumer.getmany(timeout_ms=wait, max_records=_at_most(wish, progress))
        for partition, records in batch.items():
            wanted = _within(records, wish.offset or 0, sys.maxsize if bounds is None else bounds[partition])
            write(wanted)
            progress.advance(len(wanted))
        if bounds is None and isinstance(wish.until, int) and time.time() * 1000 >= wish.until:
            bounds = await _ends_at(consumer, wish.until)  # we may be behind: what came in time is still read
        if bounds is not None:
            for partition in list(left):
                # By position: behind the last record there may be a marker, or what compaction has taken.
                if await consumer.position(partition) >= bounds[partition]:
                    left.discard(partition)
                    consumer.pause(partition)
        elif not batch:
            check_reader()
            hint.give()


async def _ends_at(consumer: BytesConsumer, milliseconds: int) -> dict[TopicPartition, int]:
    """The offset of each partition to stop before, for a time that has just passed."""
    partitions = list(consumer.assignment())
    found = await consumer.offsets_for_times(dict.fromkeys(partitions, milliseconds))
    ends = await consumer.end_offsets(partitions)
    return {each: ends[each] if (at := found[each]) is None else at.offset for each in partitions}


def _within(records: list[BytesRecord], first: int, end: int) -> list[BytesRecord]:
    """Those to be shown: the end of a partition may be behind our end, or not yet at the offset asked for."""
    if first <= records[0].offset and records[-1].offset < end:
        return records
    return [record for record in records if first <= record.offset < end]


async def _read_in_group(wish: Wish, consumer: BytesConsumer, write: Write, progress: Progress) -> None:
    idle_since: float | None = None
    hint = _Hint(wish, consumer)
    while progress.done != wish.count:
        batch = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_at_most(wish, progress))
        for records in batch.values():
            write(records)
            progress.advance(len(records))
        if batch:
            idle_since = None
            continue
        check_reader()
        hint.give()
        if wish.until != "end":
            continue
        group = consumer.health().group
        if group is None or group.state != "stable":
            continue
        lags = [consumer.lag(partition) for partition in consumer.assignment()]
        if lags and all(lag == 0 for lag in lags):
            return
        if not lags:
            idle_since = idle_since or time.monotonic()
            if time.monotonic() - idle_since > _WITHOUT_PARTITIONS:
                note("Other members of the group have all the partitions.")
                return


def _at_most(wish: Wish, progress: Progress) -> int:
    return min(_AT_A_TIME, sys.maxsize if wish.count is None else wish.count - progress.done)


class _Hint:
    """Tells people once that everything there is has been read and that the command waits."""

    def __init__(self, wish: Wish, consumer: BytesConsumer) -> None:
        self._consumer = consumer
        self._due = wish.until is None and is_terminal(sys.stderr) and is_terminal(sys.stdout)

    def give(self) -> None:
        if not self._due:
            return
        lags = [self._consumer.lag(partition) for partition in self._consumer.assignment()]
        if lags and all(lag == 0 for lag in lags):
            self._due = False
            note("-- this is the end; waiting for more, Ctrl-C ends (-e exits here) --")


def _group_options(wish: Wish, connection: Connection) -> dict[str, Any]:
    """The group, and where it begins without offsets: as --from says, or a property, or at the beginning."""
    if wish.start is None:
        reset = connection.options_for(ConsumerConfig).get("auto_offset_reset", "earliest")
    else:
        reset = "latest" if wish.start == "end" else "earliest"
    return {"group_id": wish.group, "auto_offset_reset": reset}


class _FromTime:
    """Has partitions for which the group has committed nothing begin at a time.

    `auto.offset.reset=by_duration:` would count from the moment at which it looks, some time after the call.
    """

    def __init__(self, consumer: BytesConsumer, milliseconds: int) -> None:
        self._consumer = consumer
        self._milliseconds = milliseconds

    @classmethod
    def of(cls, wish: Wish, consumer: BytesConsumer) -> _FromTime | None:
        return cls(consumer, wish.start) if isinstance(wish.start, int) else None

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        consumer, partitions = self._consumer, sorted(assigned)
        committed = await asyncio.gather(*map(consumer.committed, partitions))
        new = [each for each, found in zip(partitions, committed, strict=True) if found is None]
        if not new:
            return
        found = await consumer.offsets_for_times(dict.fromkeys(new, self._milliseconds))
        ends = await consumer.end_offsets(new)
        for partition in new:
            at = found[partition]
            consumer.seek(partition, ends[partition] if at is None else at.offset)
