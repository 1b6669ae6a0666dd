"""`kclient configs`: what topics, brokers, groups and their like are set to, and how to change it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kclient.cli import output
from kclient.cli.connection import Connection, described, name_and_value, run_command
from kclient.cli.errors import CommandError, UsageError, close_to
from kclient.cli.properties import read_properties
from kclient.cli.verbs import Verbs, asks

if TYPE_CHECKING:
    from kclient.admin import AlterConfigOp, AsyncAdmin, ConfigEntry, ConfigResource

KINDS = ("topic", "broker", "group", "client-metrics", "broker-logger")
_EXAMPLES = {
    "describe": "kclient configs describe topic orders\nkclient configs describe topic orders --all\n"
    "kclient configs describe broker 1 --all -o json\nkclient configs describe broker   # all brokers",
    "set": "kclient configs set topic orders retention.ms=86400000 cleanup.policy=delete\n"
    "kclient configs set broker 1 --file tls.properties   # passwords belong in files",
    "delete": "kclient configs delete topic orders retention.ms   # back to the default",
    "append": "kclient configs append topic orders cleanup.policy=compact",
    "subtract": "kclient configs subtract topic orders cleanup.policy=compact",
}
_CHANGES = {
    "set": "give settings a value",
    "append": "add to settings that are lists",
    "subtract": "take away from settings that are lists",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = Verbs(parser, _EXAMPLES)
    describe = verbs.add("describe", "what was set, with --all everything", _describe)
    _add_resource(describe)
    describe.add_argument("--all", action="store_true", help="defaults too")
    output.add_output(describe)
    for verb, summary in _CHANGES.items():
        change = verbs.add(verb, summary, _change)
        _add_resource(change)
        change.add_argument("settings", nargs="*", metavar="NAME=VALUE")
        change.add_argument(
            "--file", type=Path, metavar="FILE", help="a .properties file with more of them: for passwords"
        )
    delete = verbs.add("delete", "put settings back to their defaults", _delete)
    _add_resource(delete)
    delete.add_argument("settings", nargs="+", metavar="NAME")


def _add_resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="what it is about")
    name = parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="which one; a broker is a number, without one it is all brokers",
    )
    asks(name, "topics")


def run(options: argparse.Namespace) -> int:
    return run_command(options)


def _resource(options: argparse.Namespace) -> ConfigResource:
    from kclient.admin import ConfigResource, ConfigResourceType

    kind = ConfigResourceType[options.kind.upper().replace("-", "_")]
    name = options.name or ""
    of_broker = options.kind.startswith("broker")
    if of_broker and name and not (name.isascii() and name.isdigit()):
        raise UsageError(f"{name!r} is no broker: they have numbers, as `kclient topics describe` shows them")
    if not name and options.kind != "broker":
        raise UsageError(
            f"which {options.kind}? name it first: kclient configs {options.verb} {options.kind} NAME …"
        )
    return ConfigResource(kind, name)


async def _describe(options: argparse.Namespace, connection: Connection) -> int:
    resource = _resource(options)
    async with connection.admin() as admin:
        if options.kind == "topic":
            await described(admin, [options.name])
        entries = (await admin.describe_configs(resource, include_synonyms=options.all))[resource]
    found = [
        _entry(entry) for _, entry in sorted(entries.items()) if options.all or _is_own(entry, options.kind)
    ]
    if not found and options.output == output.TABLE:
        output.note(f"Nothing is set for {resource}: all is at its default, which --all shows.")
        return 0
    output.rows(options, ("name", "value", "source", "read_only"), found)
    return 0


def _is_own(entry: ConfigEntry, kind: str) -> bool:
    """Whether it was set for this very thing; a broker's own file counts, what topics inherit does not."""
    if entry.source.name == "STATIC_BROKER_CONFIG":
        return kind == "broker"
    if kind == "topic":
        return entry.source.name == "DYNAMIC_TOPIC_CONFIG"
    return not entry.is_default


def _entry(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": "(hidden)" if entry.is_sensitive and entry.value is None else entry.value,
        "source": entry.source.name.lower().replace("_", "-").removesuffix("-config"),
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "type": entry.type.name.lower(),
    }


async def _change(options: argparse.Namespace, connection: Connection) -> int:
    from kclient.admin import AlterConfigOp, OpType

    _take_apart(options)
    resource = _resource(options)
    given = dict(name_and_value(text, options.verb) for text in options.settings)
    if options.file is not None:
        given |= read_properties(options.file)
    if not given:
        raise UsageError(f"nothing to {options.verb}: give NAME=VALUE or --file")
    operation = OpType[options.verb.upper()]
    changes = [AlterConfigOp(name, value, operation) for name, value in given.items()]
    return await _alter(options, connection, resource, changes)


async def _delete(options: argparse.Namespace, connection: Connection) -> int:
    from kclient.admin import AlterConfigOp

    resource = _resource(options)
    changes = [AlterConfigOp.delete(name) for name in options.settings]
    return await _alter(options, connection, resource, changes)


def _take_apart(options: argparse.Namespace) -> None:
    """`set broker NAME=VALUE` is about all brokers, but argparse takes the setting for the broker's name."""
    if options.name is not None and "=" in options.name:
        options.settings.insert(0, options.name)
        options.name = None


async def _alter(
    options: argparse.Namespace,
    connection: Connection,
    resource: ConfigResource,
    changes: list[AlterConfigOp],
) -> int:
    async with connection.admin() as admin:
        if options.kind == "topic":
            await described(admin, [options.name])
        await _check_names(admin, resource, changes)
        await admin.incremental_alter_configs({resource: changes})
    output.note(f"Changed {', '.join(change.name for change in changes)} of {resource}.")
    return 0


async def _check_names(admin: AsyncAdmin, resource: ConfigResource, changes: list[AlterConfigOp]) -> None:
    """A topic tells all its settings, so a misspelt one can be told from them."""
    from kclient.admin import ConfigResourceType

    if resource.type is not ConfigResourceType.TOPIC:
        return
    known = (await admin.describe_configs(resource))[resource]
    for change in changes:
        if change.name not in known:
            hint = close_to(change.name, known) or "; `kclient configs describe topic NAME --all` lists them"
            raise CommandError(f"topics have no setting {change.name!r}{hint}")
