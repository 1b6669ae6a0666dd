"""`kclient groups`: list, describe, reset and delete groups and offsets. Resetting is in `group_reset`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from kclient.cli import group_reset, output
from kclient.cli.connection import Connection, run_command
from kclient.cli.errors import CommandError
from kclient.cli.verbs import Verbs, asks

if TYPE_CHECKING:
    from kclient.admin import ConsumerGroupDescription

_EXAMPLES = {
    "list": "kclient groups list\nkclient groups list --state Empty",
    "describe": "kclient groups describe billing\nkclient groups describe billing --members\n"
    "kclient groups describe --state -o json",
    "reset": group_reset.EXAMPLES,
    "delete": "kclient groups delete billing",
    "delete-offsets": "kclient groups delete-offsets billing --topic orders:0,1",
}
_STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = Verbs(parser, _EXAMPLES)
    listing = verbs.add("list", "groups, their kind and what they are doing", _list)
    listing.add_argument("--state", choices=_STATES, action="append", help="only those; may be repeated")
    output.add_output(listing)

    describe = verbs.add("describe", "offsets, lag and owner of every partition of a group", _describe)
    asks(describe.add_argument("groups", nargs="*", metavar="GROUP", help="default: all of them"), "groups")
    what = describe.add_mutually_exclusive_group()
    what.add_argument("--members", action="store_true", help="the members and what they have assigned")
    what.add_argument("--state", action="store_true", help="what the group is doing, and its coordinator")
    output.add_output(describe)

    group_reset.add_arguments(verbs)

    delete = verbs.add("delete", "remove groups without members, with their offsets", _delete)
    asks(delete.add_argument("groups", nargs="+", metavar="GROUP"), "groups")

    offsets = verbs.add("delete-offsets", "remove what a group has committed for topics", _delete_offsets)
    asks(offsets.add_argument("group", metavar="GROUP"), "groups")
    topic = offsets.add_argument(
        "--topic",
        action="append",
        required=True,
        metavar="TOPIC[:0,1]",
        help="of which, with or without partitions; no member may subscribe to it; may be repeated",
    )
    asks(topic, "topics")


def run(options: argparse.Namespace) -> int:
    return run_command(options)


async def _list(options: argparse.Namespace, connection: Connection) -> int:
    from kclient.admin import GroupState

    states = [GroupState(word) for word in options.state or ()]
    async with connection.admin() as admin:
        found = await admin.list_groups(states=states)
    if not found and options.output == output.TABLE:
        output.note("There are no groups: one comes into being with `kclient consume TOPIC -g GROUP`.")
        return 0
    output.rows(
        options,
        ("group", "type", "protocol", "state"),
        [
            {
                "group": group.group_id,
                "type": group.type.lower(),
                "protocol": group.protocol_type or None,
                "state": str(group.state),
            }
            for group in found.values()
        ],
    )
    return 0


async def _describe(options: argparse.Namespace, connection: Connection) -> int:
    from kclient.cli import group_lag

    async with connection.admin() as admin:
        names = options.groups or await group_lag.consumer_groups(admin)
        groups = await group_lag.described_groups(admin, names)
        if options.members:
            columns: tuple[str, ...] = (
                "group",
                "consumer_id",
                "host",
                "client_id",
                "partitions",
                "assignment",
            )
            found = [row for group in groups.values() for row in _members(group)]
        elif options.state:
            columns = ("group", "coordinator", "assignor", "state", "members")
            found = [_state(group) for group in groups.values()]
        else:
            columns = group_lag.COLUMNS
            found = await group_lag.offset_rows(admin, groups, connection.isolation_level)
    if options.output == output.TABLE:
        for name, group in groups.items():
            if not group.members:
                output.note(f"Group {name} has no members at the moment ({group.state}).")
        if not found:
            return 0
    output.rows(options, columns, found)
    return 0


def _members(group: ConsumerGroupDescription) -> list[dict[str, Any]]:
    return [
        {
            "group": group.group_id,
            "consumer_id": member.member_id,
            "instance_id": member.group_instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partitions": len(member.assignment),
            "assignment": [f"{each.topic}:{each.partition}" for each in sorted(member.assignment)],
        }
        for member in group.members
    ]


def _state(group: ConsumerGroupDescription) -> dict[str, Any]:
    where = group.coordinator
    return {
        "group": group.group_id,
        "type": group.type.lower(),
        "coordinator": None if where is None else f"{where.endpoint} ({where.node_id})",
        "assignor": group.partition_assignor or None,
        "state": str(group.state),
        "members": len(group.members),
    }


async def _delete(options: argparse.Namespace, connection: Connection) -> int:
    from kclient.cli.group_lag import described_groups

    names = list(dict.fromkeys(options.groups))
    async with connection.admin() as admin:
        await described_groups(admin, names)
        outcomes = await admin.delete_consumer_groups(names, raise_errors=False)
    for name in outcomes.succeeded:
        output.note(f"Deleted group {name}.")
    outcomes.raise_errors()
    return 0


async def _delete_offsets(options: argparse.Namespace, connection: Connection) -> int:
    from kclient.cli.group_lag import described_groups

    async with connection.admin() as admin:
        await described_groups(admin, [options.group])
        committed = await admin.list_consumer_group_offsets(options.group)
        wanted = group_reset.chosen(options.topic, committed)
        if not wanted:
            raise CommandError(
                f"group {options.group} has committed nothing for {', '.join(options.topic)}; "
                f"`kclient groups describe {options.group}` shows what it has"
            )
        outcomes = await admin.delete_consumer_group_offsets(options.group, wanted, raise_errors=False)
    for partition in outcomes.succeeded:
        output.note(f"Deleted the offset of {options.group} for {partition.topic}:{partition.partition}.")
    outcomes.raise_errors()
    return 0
