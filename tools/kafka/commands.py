"""Kafka's own command-line tools under names that do not change from version to version."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools.kafka.versions import KafkaVersion

# Friendly name -> (class without its package, the option that takes the bootstrap address)
_TOOLS: dict[str, tuple[str, str | None]] = {
    "acls": ("AclCommand", "--bootstrap-server"),
    "broker-api-versions": ("BrokerApiVersionsCommand", "--bootstrap-server"),
    "configs": ("ConfigCommand", "--bootstrap-server"),
    "console-consumer": ("ConsoleConsumer", "--bootstrap-server"),
    "console-producer": ("ConsoleProducer", "--bootstrap-server"),
    "consumer-groups": ("ConsumerGroupCommand", "--bootstrap-server"),
    "dump-log": ("DumpLogSegments", None),
    "storage": ("StorageTool", None),
    "topics": ("TopicCommand", "--bootstrap-server"),
    "verifiable-consumer": ("VerifiableConsumer", "--bootstrap-server"),
    "verifiable-producer": ("VerifiableProducer", "--bootstrap-server"),
}
_ONCE_BROKER_LIST = ("ConsoleProducer", "VerifiableProducer", "VerifiableConsumer")
# Tools moved from the Scala packages (last two) to the Java ones, a few with every release: take what the
# jars hold.
_PACKAGES = (
    "org.apache.kafka.tools.consumer.group",
    "org.apache.kafka.tools.consumer",
    "org.apache.kafka.tools",
    "kafka.tools",
    "kafka.admin",
)


def resolve(name: str, jars: Path) -> str:
    """The full class of a tool. A name with dots is a class already."""
    if "." in name:
        return name
    if name not in _TOOLS:
        raise ValueError(
            f"no Kafka tool is called {name!r}; there are {', '.join(_TOOLS)}, or give a full class name"
        )
    simple = _TOOLS[name][0]
    held = _classes(jars)
    for package in _PACKAGES:
        if f"{package}.{simple}" in held:
            return f"{package}.{simple}"
    raise ValueError(f"the jars in {jars} have no tool {name!r} (class {simple})")


def with_bootstrap(name: str, args: Sequence[str], bootstrap: str, version: KafkaVersion) -> list[str]:
    """The arguments with the cluster's address in front, unless they name one or the tool takes none."""
    simple, option = _TOOLS.get(name, (name, None))
    if option is None or any(arg in ("--bootstrap-server", "--broker-list", "--zookeeper") for arg in args):
        return list(args)
    if simple in _ONCE_BROKER_LIST and not version.tools_take_bootstrap_server:
        option = "--broker-list"
    return [option, bootstrap, *args]


def _classes(jars: Path) -> set[str]:
    names: set[str] = set()
    for pattern in ("kafka_2.13-*.jar", "kafka-tools-[0-9]*.jar"):
        for path in jars.glob(pattern):
            with zipfile.ZipFile(path) as archive:
                names.update(entry.removesuffix(".class").replace("/", ".") for entry in archive.namelist())
    return names
