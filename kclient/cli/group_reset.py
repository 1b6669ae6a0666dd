"""`kclient groups reset`: where a group shall go on. The plan is shown; only --execute carries it out.

The ways and their meaning are those of Kafka's own tool: an offset outside of a partition becomes its first
or last, a time that no record reaches becomes the end, and the group must have no members.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kclient.cli import output, times
from kclient.cli.connection import Connection, described
from kclient.cli.errors import CommandError, UsageError
from kclient.cli.verbs import Verbs, asks
from kclient.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kclient.admin import AsyncAdmin, IsolationLevel

EXAMPLES = """\
kclient groups reset billing --all-topics --to-earliest             # shows the plan
kclient groups reset billing --all-topics --to-earliest --execute   # does it
kclient groups reset billing --topic orders --to-datetime 2026-11-18T10:00 --execute
kclient groups reset billing --topic orders:0,1 --shift-by -100 --execute
kclient groups reset billing --all-topics --by-duration 1h30m --execute
kclient groups reset billing --all-topics --to-current --export > saved.csv
kclient groups reset billing --from-file saved.csv --execute"""
COLUMNS = ("group", "topic", "partition", "current_offset", "new_offset")


def add_arguments(verbs: Verbs) -> None:
    parser = verbs.add("reset", "move where a group goes on; shows the plan unless --execute", _reset)
    asks(parser.add_argument("group", metavar="GROUP"), "groups")
    scope = parser.add_argument_group("which partitions")
    which = scope.add_mutually_exclusive_group()
    topic = which.add_argument(
        "--topic",
        action="append",
        metavar="TOPIC[:0,1]",
        help="a topic, or some of its partitions; may be repeated",
    )
    asks(topic, "topics")
    which.add_argument("--all-topics", action="store_true", help="all that the group has committed")
    where = parser.add_argument_group("where to").add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="the first record")
    where.add_argument("--to-latest", action="store_true", help="behind the last record")
    where.add_argument(
        "--to-current", action="store_true", help="where it is; the end, where nothing is committed"
    )
    where.add_argument("--to-offset", type=int, metavar="N")
    where.add_argument("--shift-by", type=int, metavar="N", help="so many records on, below 0 back")
    where.add_argument(
        "--to-datetime", metavar="WHEN", help="the first record from a time on: 2026-11-18T10:00, -1h"
    )
    where.add_argument("--by-duration", metavar="SPAN", help="the same, so long before now: 1h30m, PT1H30M")
    where.add_argument(
        "--from-file", type=Path, metavar="FILE", help="as a file says: lines of topic,partition,offset"
    )
    parser.add_argument("--execute", action="store_true", help="do it; without this it is only shown")
    parser.add_argument("--export", action="store_true", help="print the plan as such a file")
    output.add_output(parser)


async def _reset(options: argparse.Namespace, connection: Connection) -> int:
    from kclient.cli.group_lag import described_groups

    if options.from_file is None and not options.topic and not options.all_topics:
        raise UsageError("which partitions? give --topic TOPIC (may be repeated) or --all-topics")
    if options.from_file is not None and (options.topic or options.all_topics):
        raise UsageError("--from-file says itself which partitions: leave out --topic and --all-topics")
    async with connection.admin() as admin:
        groups = await described_groups(admin, [options.group], missing_ok=True)
        group = groups.get(options.group)
        if group is not None and group.members:
            raise CommandError(
                f"group {options.group} has {output.counted(len(group.members), 'member')} ({group.state}), "
                "which would go on: stop them, then reset it"
            )
        found = await admin.list_consumer_group_offsets(options.group)
        committed = {partition: each for partition, each in found.items() if each is not None}
        plan = await _plan(options, admin, committed, connection.isolation_level)
        _show(options, plan, committed)
        if options.execute:
            await admin.alter_consumer_group_offsets(options.group, plan)
    if options.execute:
        output.note(f"Group {options.group} goes on there.")
    elif not options.export:
        output.note("This is a plan: nothing was changed. --execute carries it out.")
    return 0


async def _plan(
    options: argparse.Namespace,
    admin: AsyncAdmin,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    isolation_level: IsolationLevel,
) -> dict[TopicPartition, int]:
    from kclient.admin import OffsetSpec

    if options.from_file is not None:
        wanted = from_file(options.from_file, options.group)
        await described(admin, {partition.topic for partition in wanted})
    else:
        wanted = dict.fromkeys(await _scope(options, admin, committed), 0)

    async def offsets(at: int, isolation: IsolationLevel = isolation_level) -> dict[TopicPartition, int]:
        found = await admin.list_offsets(list(wanted), at, isolation_level=isolation)
        return {partition: listed.offset for partition, listed in found.items()}

    first, end = await offsets(OffsetSpec.EARLIEST), await offsets(OffsetSpec.LATEST)

    async def at_time(milliseconds: int) -> dict[TopicPartition, int]:
        found = await offsets(milliseconds)
        return {partition: end[partition] if at < 0 else at for partition, at in found.items()}

    if options.to_earliest:
        return first
    if options.to_latest:
        return end
    if options.to_datetime is not None:
        return await at_time(times.moment(options.to_datetime))
    if options.by_duration is not None:
        return await at_time(max(0, times.moment("now") - times.span(options.by_duration)))
    wish = _wish(options, committed, wanted, end)
    # Records of an open transaction count: a group may have read them, and must not be sent back for them.
    bound = await offsets(OffsetSpec.LATEST, "read_uncommitted")
    return within(first, bound, {each: wish(each) for each in wanted})


def _wish(
    options: argparse.Namespace,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    from_file: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> Callable[[TopicPartition], int]:
    """The ways that are about offsets, which may turn out to be outside of the partition."""
    if options.from_file is not None:
        return from_file.__getitem__
    if options.to_offset is not None:
        return lambda _: int(options.to_offset)
    if options.shift_by is None:
        return lambda partition: committed[partition].offset if partition in committed else end[partition]

    def shifted(partition: TopicPartition) -> int:
        if partition not in committed:
            raise CommandError(
                f"{partition.topic}:{partition.partition} cannot be shifted, as nothing is committed for "
                "it; --to-earliest or --to-offset gives it a place first"
            )
        return committed[partition].offset + int(options.shift_by)

    return shifted


def within(
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    wanted: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offsets, moved into what their partitions have."""
    plan = {}
    for partition, offset in wanted.items():
        plan[partition] = min(max(offset, first[partition]), end[partition])
        if plan[partition] != offset:
            output.warn(
                f"{partition.topic}:{partition.partition} has no offset {offset}, "
                f"it has {first[partition]} to {end[partition]}: {plan[partition]} is taken"
            )
    return plan


async def _scope(
    options: argparse.Namespace, admin: AsyncAdmin, committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> list[TopicPartition]:
    if options.all_topics:
        if not committed:
            raise CommandError(
                f"group {options.group} has committed nothing yet: name the topics with --topic TOPIC"
            )
        topics = await described(admin, {partition.topic for partition in committed})
        return [TopicPartition(name, each.partition) for name in topics for each in topics[name].partitions]
    topics = await described(admin, {text.partition(":")[0] for text in options.topic})
    there = [TopicPartition(name, each.partition) for name in topics for each in topics[name].partitions]
    found = chosen(options.topic, there)
    for text in options.topic:
        name, numbers = _topic_and_partitions(text)
        missing = [number for number in numbers or () if TopicPartition(name, number) not in there]
        if missing:
            last = len(topics[name].partitions) - 1
            raise CommandError(f"topic {name} has no partition {missing[0]}, but 0 to {last}")
    return found


def chosen(texts: Iterable[str], there: Collection[TopicPartition]) -> list[TopicPartition]:
    """Those of the partitions that `TOPIC` or `TOPIC:0,1` name."""
    wishes = [_topic_and_partitions(text) for text in texts]
    return [
        partition
        for partition in sorted(there)
        if any(
            partition.topic == name and (numbers is None or partition.partition in numbers)
            for name, numbers in wishes
        )
    ]


def _topic_and_partitions(text: str) -> tuple[str, set[int] | None]:
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    if not all(number.isascii() and number.isdigit() for number in numbers.split(",")):
        raise UsageError(f"--topic {text!r} must be TOPIC or TOPIC:0,1,2")
    return name, {int(number) for number in numbers.split(",")}


def from_file(path: Path, group: str) -> dict[TopicPartition, int]:
    """Lines of topic,partition,offset, or with the group in front: then those of this group."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = [(number, line) for number, line in enumerate(csv.reader(file), 1) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is no CSV file: {error}") from error
    wanted: dict[TopicPartition, int] = {}
    for number, line in lines:
        if len(line) == 4 and line[0] != group:
            continue
        try:
            topic, partition, offset = line[1:] if len(line) == 4 else line
            wanted[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: write topic,partition,offset") from error
    if not wanted:
        raise UsageError(f"{path} has no line for group {group}")
    return wanted


def _show(
    options: argparse.Namespace,
    plan: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    if options.export:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows((each.topic, each.partition, plan[each]) for each in sorted(plan))
        return
    found: list[dict[str, Any]] = [
        {
            "group": options.group,
            "topic": each.topic,
            "partition": each.partition,
            "current_offset": committed[each].offset if each in committed else None,
            "new_offset": plan[each],
        }
        for each in sorted(plan)
    ]
    output.rows(options, COLUMNS, found)
