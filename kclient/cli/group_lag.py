"""How far groups are: what they have committed, where partitions end, and who reads them.

For `kclient groups describe` and `kclient lag`. As in Kafka's own tool, a group's partitions are those it has
committed and those that members have assigned, and lag is unknown where nothing is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kclient.cli.errors import CommandError, close_to
from kclient.errors import GroupIdNotFoundError

if TYPE_CHECKING:
    from kclient.admin import AsyncAdmin, ConsumerGroupDescription, IsolationLevel
    from kclient.types import OffsetAndMetadata, TopicPartition

COLUMNS = (
    "group",
    "topic",
    "partition",
    "current_offset",
    "log_end_offset",
    "lag",
    "consumer_id",
    "host",
    "client_id",
)
# Groups of consumers have this protocol type; those that only ever committed have none.
_CONSUMERS = ("consumer", "")
_AT_ONCE = 8


async def consumer_groups(admin: AsyncAdmin) -> list[str]:
    """The groups whose offsets can be described: those of consumers."""
    from kclient.admin import GroupType

    return [
        group.group_id
        for group in (await admin.list_groups()).values()
        if group.protocol_type in _CONSUMERS and group.type not in (GroupType.SHARE, GroupType.STREAMS)
    ]


async def described_groups(
    admin: AsyncAdmin, names: Iterable[str], *, missing_ok: bool = False
) -> dict[str, ConsumerGroupDescription]:
    """Groups that must exist; a name that is nearly another's is told so."""
    from kclient.admin import GroupState

    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    found = await admin.describe_consumer_groups(wanted, raise_errors=False)
    gone = [name for name, error in found.errors.items() if isinstance(error, GroupIdNotFoundError)]
    # Before Kafka 4.0 a group that never was is described as a dead one.
    gone += [name for name, group in found.succeeded.items() if group.state is GroupState.DEAD]
    for name in gone if not missing_ok else []:
        known = await consumer_groups(admin)
        hint = close_to(name, known) or "; `kclient groups list` shows what there is"
        raise CommandError(f"there is no group {name!r}{hint}")
    if not missing_ok:
        found.raise_errors()
    return {name: group for name, group in found.succeeded.items() if name not in gone}


async def offset_rows(
    admin: AsyncAdmin, groups: Mapping[str, ConsumerGroupDescription], isolation_level: IsolationLevel
) -> list[dict[str, Any]]:
    """A row for every partition of every group, in the order of the names."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def committed(name: str) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        async with gate:
            return (await admin.list_consumer_group_offsets(name, raise_errors=False)).succeeded

    offsets = dict(zip(groups, await asyncio.gather(*map(committed, groups)), strict=True))
    owners = {name: _owners(group) for name, group in groups.items()}
    partitions = sorted({each for of in (*offsets.values(), *owners.values()) for each in of})
    listed = await admin.list_offsets(partitions, isolation_level=isolation_level, raise_errors=False)
    ends = {partition: found.offset for partition, found in listed.succeeded.items()}
    return [
        _row(name, each, offsets[name].get(each), ends.get(each), owners[name])
        for name in groups
        for each in sorted({*offsets[name], *owners[name]})
    ]


def _owners(group: ConsumerGroupDescription) -> dict[TopicPartition, Any]:
    return {partition: member for member in group.members for partition in member.assignment}


def _row(
    group: str,
    partition: TopicPartition,
    committed: OffsetAndMetadata | None,
    end: int | None,
    owners: Mapping[TopicPartition, Any],
) -> dict[str, Any]:
    current = None if committed is None else committed.offset
    owner = owners.get(partition)
    return {
        "group": group,
        "topic": partition.topic,
        "partition": partition.partition,
        "current_offset": current,
        "log_end_offset": end,
        "lag": None if current is None or end is None else max(0, end - current),
        "consumer_id": owner.member_id if owner else None,
        "host": owner.host if owner else None,
        "client_id": owner.client_id if owner else None,
    }


def by_topic(found: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of each group and topic together."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for row in found:
        key = row["group"], row["topic"]
        total = sums.setdefault(
            key,
            {"group": key[0], "topic": key[1], "partitions": 0, "lag": None, "largest": None, "_who": set()},
        )
        total["partitions"] += 1
        if row["lag"] is not None:
            total["lag"] = (total["lag"] or 0) + row["lag"]
            total["largest"] = max(total["largest"] or 0, row["lag"])
        if row["consumer_id"] is not None:
            total["_who"].add(row["consumer_id"])
    for total in sums.values():
        total["members"] = len(total.pop("_who"))
        yield total
