"""Where a test session gets its plain broker from: jars, a container, or nowhere. Decided by a pure function.

`choose` decides from facts, `look` gathers them, `open_broker` acts.
"""

from __future__ import annotations

import enum
import importlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tools.kafka.cluster import KafkaCluster
from tools.kafka.container import KafkaContainer
from tools.kafka.jars import JarSet
from tools.kafka.jvm import installed_java
from tools.kafka.versions import SUPPORTED_VERSIONS, KafkaVersion


class PlainKafka(Protocol):
    """What every source of a broker offers: one node with a PLAINTEXT listener."""

    @property
    def version(self) -> KafkaVersion: ...

    def bootstrap(self) -> str: ...

    def create_topic(self, name: str, partitions: int = 1) -> None: ...

    def stop(self) -> None: ...


class Source(enum.Enum):
    JARS = "jars"
    CONTAINER = "container"
    NOWHERE = "nowhere"


@dataclass(frozen=True)
class Machine:
    """What is installed. Docker is asked only when it matters: asking can take seconds."""

    java: int | None
    maven: bool
    cached: frozenset[str] = frozenset()
    docker: Callable[[], bool] = field(default=lambda: False)


@dataclass(frozen=True)
class Choice:
    source: Source
    reason: str


def choose(version: KafkaVersion, machine: Machine) -> Choice:
    """Jars where Java and they (or Maven) are there, else a container, else nowhere; and why."""
    lacking = _lacking_for_jars(version, machine)
    if lacking is None:
        return Choice(Source.JARS, f"Java {machine.java} runs Kafka {version}")
    if not machine.docker():
        return Choice(
            Source.NOWHERE, f"Kafka {version} cannot be started: {lacking}, and no Docker engine answers"
        )
    if not version.has_container_image:
        return Choice(
            Source.NOWHERE,
            f"Kafka {version} cannot be started: {lacking}, and there is no container image of it",
        )
    return Choice(Source.CONTAINER, f"a Docker engine answers, and {lacking}")


def _lacking_for_jars(version: KafkaVersion, machine: Machine) -> str | None:
    if machine.java is None:
        return "`java` was not found"
    if machine.java < version.minimum_java:
        return f"Java {version.minimum_java} or newer is needed and `java` is {machine.java}"
    if not machine.maven and version.text not in machine.cached:
        return "its jars are not in the cache and `mvn` was not found"
    return None


def look() -> Machine:
    """The facts about this machine."""
    java = installed_java()
    return Machine(
        java=None if java is None else java.major,
        maven=shutil.which("mvn") is not None,
        cached=frozenset(version for version in SUPPORTED_VERSIONS if JarSet.broker(version).is_cached()),
        docker=docker_answers,
    )


def docker_answers() -> bool:
    """Whether testcontainers would find a Docker engine."""
    try:
        client = importlib.import_module("testcontainers.core.docker_client").DockerClient().client
        return bool(client.ping())
    except Exception:  # noqa: BLE001 - whatever goes wrong, by whichever transport: there is no usable engine
        return False


def open_broker(version: KafkaVersion, source: Source) -> PlainKafka:
    """A started single-node broker."""
    if source is Source.JARS:
        return KafkaCluster(version.text).start()
    if source is Source.CONTAINER:
        return KafkaContainer(version).start()
    raise ValueError(f"there is nowhere to get Kafka {version} from")
