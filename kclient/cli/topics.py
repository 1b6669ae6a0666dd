"""`kclient topics`: list, describe, create, alter, delete. Settings are for `kclient configs`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from kclient.cli import output
from kclient.cli.connection import Connection, described, name_and_value, no_topic, run_command
from kclient.cli.errors import CommandError, UsageError
from kclient.cli.options import positive
from kclient.cli.verbs import Verbs, asks

if TYPE_CHECKING:
    from kclient.admin import AsyncAdmin, TopicDescription

_EXAMPLES = {
    "list": "kclient topics list\nkclient topics list -b kafka-1:9092,kafka-2:9092 -o json",
    "describe": "kclient topics describe orders\nkclient topics describe --under-replicated",
    "create": "kclient topics create orders -p 6 -r 3\n"
    "kclient topics create events --config cleanup.policy=compact --config retention.ms=-1",
    "alter": "kclient topics alter orders -p 12",
    "delete": "kclient topics delete orders\nkclient topics delete old-1 old-2 --if-exists --yes",
}
_PARTITION_COLUMNS = ("topic", "partition", "leader", "replicas", "isr", "offline")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = Verbs(parser, _EXAMPLES)
    listing = verbs.add("list", "names of the topics that you may see", _list)
    listing.add_argument("--internal", action="store_true", help="Kafka's own topics too")
    output.add_output(listing)

    describe = verbs.add("describe", "partitions, their leaders and replicas", _describe)
    asks(describe.add_argument("topics", nargs="*", metavar="TOPIC", help="default: all of them"), "topics")
    describe.add_argument("--internal", action="store_true", help="Kafka's own topics too")
    only = describe.add_mutually_exclusive_group()
    only.add_argument(
        "--under-replicated", action="store_true", help="only partitions of which a replica is not in sync"
    )
    only.add_argument("--unavailable", action="store_true", help="only partitions without a leader")
    output.add_output(describe)

    create = verbs.add("create", "make topics", _create)
    create.add_argument("topics", nargs="+", metavar="TOPIC")
    create.add_argument(
        "-p", "--partitions", type=positive, default=-1, metavar="N", help="default: as the broker is set"
    )
    create.add_argument(
        "-r",
        "--replication-factor",
        type=positive,
        default=-1,
        metavar="N",
        help="default: as the broker is set",
    )
    create.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting such as retention.ms=86400000; may be repeated",
    )
    create.add_argument("--if-not-exists", action="store_true", help="a topic that exists is no failure")

    alter = verbs.add("alter", "give a topic more partitions", _alter)
    asks(alter.add_argument("topic", metavar="TOPIC"), "topics")
    alter.add_argument(
        "-p",
        "--partitions",
        type=positive,
        required=True,
        metavar="N",
        help="how many it shall have, old and new. Records with a key may go elsewhere from then on",
    )

    delete = verbs.add("delete", "remove topics with all their records", _delete)
    asks(delete.add_argument("topics", nargs="+", metavar="TOPIC"), "topics")
    delete.add_argument("--if-exists", action="store_true", help="a topic that does not exist is no failure")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask, on a terminal")


def run(options: argparse.Namespace) -> int:
    return run_command(options)


async def _list(options: argparse.Namespace, connection: Connection) -> int:
    async with connection.admin() as admin:
        found = await admin.list_topics(include_internal=options.internal)
    if options.output == output.TABLE:
        for name in found:
            print(output.cell(name))
        if not found and output.is_terminal(sys.stderr):
            output.note("There are no topics yet: `kclient topics create NAME` makes one.")
    else:
        columns = ("name", "topic_id", "internal")
        output.rows(options, columns, [topic._asdict() for topic in found.values()])
    return 0


async def _describe(options: argparse.Namespace, connection: Connection) -> int:
    async with connection.admin() as admin:
        names = options.topics or list(await admin.list_topics(include_internal=options.internal))
        topics = await described(admin, names)
        configs = await _configs(admin, names)
    trouble = options.under_replicated or options.unavailable
    found = [_topic(topics[name], configs.get(name), options) for name in names]
    if trouble:
        found = [topic for topic in found if topic["partitions"]]
    if options.output == output.TABLE:
        _print_topics(found, brief=trouble)
    else:
        output.rows(options, (), found)
    return 0


async def _configs(admin: AsyncAdmin, names: list[str]) -> dict[str, dict[str, str | None]]:
    """What was set for each topic; nothing of those whose settings this user may not see."""
    from kclient.admin import ConfigResource, ConfigSource

    found = await admin.describe_configs(map(ConfigResource.topic, names), raise_errors=False)
    return {
        resource.name: {
            name: entry.value
            for name, entry in entries.items()
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        }
        for resource, entries in found.succeeded.items()
    }


def _topic(
    topic: TopicDescription, configs: dict[str, str | None] | None, options: argparse.Namespace
) -> dict[str, Any]:
    partitions = [
        {
            "partition": each.partition,
            "leader": each.leader,
            "replicas": list(each.replicas),
            "isr": list(each.isr),
            "offline": list(each.offline_replicas),
        }
        for each in topic.partitions
        if (not options.under_replicated or len(each.isr) < len(each.replicas))
        and (not options.unavailable or each.leader is None)
    ]
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id),
        "internal": topic.internal,
        "partition_count": len(topic.partitions),
        "replication_factor": max((len(each.replicas) for each in topic.partitions), default=0),
        "configs": configs,
        "partitions": partitions,
    }


def _print_topics(topics: list[dict[str, Any]], *, brief: bool) -> None:
    if brief:
        found = [{"topic": topic["topic"]} | each for topic in topics for each in topic["partitions"]]
        if found:
            output.table(_PARTITION_COLUMNS, found)
        return
    for number, topic in enumerate(topics):
        if number:
            print()
        configs = topic["configs"]
        told = "not shown to this user" if configs is None else _told(configs) or "defaults"
        name = output.bold(output.cell(topic["topic"]), sys.stdout)
        print(
            f"{name}  id {topic['topic_id']}, {output.counted(topic['partition_count'], 'partition')}, "
            f"replication factor {topic['replication_factor']}, configs: {told}"
        )
        output.table(_PARTITION_COLUMNS[1:], topic["partitions"])


def _told(configs: dict[str, str | None]) -> str:
    return ", ".join(output.cell(f"{name}={value}") for name, value in sorted(configs.items()))


async def _create(options: argparse.Namespace, connection: Connection) -> int:
    from kclient.admin import NewTopic
    from kclient.errors import TopicAlreadyExistsError

    configs = dict(name_and_value(text, "--config") for text in options.config)
    topics = [
        NewTopic(name, options.partitions, options.replication_factor, configs=configs)
        for name in dict.fromkeys(options.topics)
    ]
    async with connection.admin() as admin:
        outcomes = await admin.create_topics(topics, raise_errors=False)
    for name, created in outcomes.succeeded.items():
        output.note(f"Created topic {name} with {output.counted(created.num_partitions, 'partition')}.")
    for name, error in outcomes.errors.items():
        if not options.if_not_exists or not isinstance(error, TopicAlreadyExistsError):
            raise error
        output.note(f"Topic {name} exists.")
    return 0


async def _alter(options: argparse.Namespace, connection: Connection) -> int:
    async with connection.admin() as admin:
        topic = (await described(admin, [options.topic]))[options.topic]
        count = len(topic.partitions)
        if options.partitions <= count:
            there = output.counted(count, "partition")
            raise CommandError(f"topic {options.topic} has {there}, and they can only become more")
        await admin.create_partitions({options.topic: options.partitions})
    output.note(
        f"Topic {options.topic} has {output.counted(options.partitions, 'partition')} now, {count} before."
    )
    return 0


async def _delete(options: argparse.Namespace, connection: Connection) -> int:
    from kclient.errors import UnknownTopicOrPartitionError

    names = list(dict.fromkeys(options.topics))
    if not options.yes and output.is_terminal(sys.stdin) and output.is_terminal(sys.stderr):
        _confirm(f"Delete {', '.join(names)} with all records?")
    async with connection.admin() as admin:
        outcomes = await admin.delete_topics(names, raise_errors=False)
        for name in outcomes.succeeded:
            output.note(f"Deleted topic {name}.")
        for name, error in outcomes.errors.items():
            if not isinstance(error, UnknownTopicOrPartitionError):
                raise error
            if not options.if_exists:
                raise await no_topic(admin, name, advice="--if-exists accepts that") from error
    return 0


def _confirm(question: str) -> None:
    print(f"{output.neutral(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was deleted")
