"""Groups of three of which one is killed: nothing is lost and the two that are left share the partitions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker.conftest import Stage
from tests.broker.killing import TOPIC, Members
from tests.broker.librdkafka import produce
from tools.kafka.jars import JarSet
from tools.kafka.jvm import COMMAND_FLAGS, class_path_flags, installed_java
from tools.kafka.versions import DEFAULT_VERSION

_PARTITIONS = 6
_JAVA = installed_java()
_JARS = JarSet.broker(DEFAULT_VERSION)
_QUICK = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200}

Command = Callable[[str, Path], list[str]]


def confluent(**config: Any) -> Command:
    def command(servers: str, _: Path) -> list[str]:
        common = {"bootstrap.servers": servers, "group.id": "strangers", "auto.offset.reset": "earliest"}
        return _python("confluent", {**common, **config})

    return command


def python_client(name: str) -> Command:
    def command(servers: str, _: Path) -> list[str]:
        options = {
            "bootstrap_servers": servers,
            "group_id": "strangers",
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 2000,
            "heartbeat_interval_ms": 200,
        }
        return _python(name, options)

    return command


def _python(client: str, options: dict[str, Any]) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "tests.broker.member", client, json.dumps(options)]


def verifiable_consumer(protocol: str) -> Command:
    def command(servers: str, directory: Path) -> list[str]:
        assert _JAVA is not None
        properties = directory / "consumer.properties"
        classic = "heartbeat.interval.ms=200\n" if protocol == "classic" else ""
        properties.write_text(f"fetch.max.wait.ms=100\n{classic}")
        main = "org.apache.kafka.tools.VerifiableConsumer"
        args = ["--bootstrap-server", servers, "--topic", TOPIC, "--group-id", "strangers", "--verbose"]
        args += ["--group-protocol", protocol, "--reset-policy", "earliest"]
        args += ["--command-config", str(properties)]
        if protocol == "classic":
            args += ["--session-timeout", "2000"]
        return [_JAVA.program, *COMMAND_FLAGS, *class_path_flags(_JAVA, _JARS.class_path), main, *args]

    return command


_java = pytest.mark.skipif(
    _JAVA is None or not _JARS.is_cached(), reason=f"needs Java and Kafka {DEFAULT_VERSION}'s jars"
)


@pytest.mark.parametrize("broker", ["memory"], indirect=True)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(confluent(**_QUICK), id="confluent range"),
        pytest.param(
            confluent(**_QUICK, **{"partition.assignment.strategy": "cooperative-sticky"}),
            id="confluent cooperative-sticky",
        ),
        pytest.param(confluent(**{"group.protocol": "consumer"}), id="confluent consumer uniform"),
        pytest.param(
            confluent(**{"group.protocol": "consumer", "group.remote.assignor": "range"}),
            id="confluent consumer range",
        ),
        pytest.param(python_client("aiokafka"), id="aiokafka"),
        pytest.param(python_client("kafka-python"), id="kafka-python"),
        pytest.param(verifiable_consumer("classic"), id="java classic", marks=_java),
        pytest.param(verifiable_consumer("consumer"), id="java consumer", marks=_java),
    ],
)
def test_a_group_of_three_reads_everything_though_one_is_killed(
    broker: Stage, servers: str, command: Command
) -> None:
    broker.create_topic(TOPIC, partitions=_PARTITIONS)
    values = [str(number) for number in range(600)]
    with Members() as members:
        for _ in range(3):
            members.start(command(servers, members.directory))
        members.until(lambda: members.share(members.all, _PARTITIONS))
        produce(servers, TOPIC, [value.encode() for value in values[:300]])
        members.until(lambda: members.values() == set(values[:300]))
        assert all(member.values for member in members.all)

        members.all[0].kill()
        produce(servers, TOPIC, [value.encode() for value in values[300:]])

        members.until(lambda: members.share(members.all[1:], _PARTITIONS))
        members.until(lambda: members.values() == set(values))
