"""Kafka's own command-line tools work on the broker: topics, settings, console, groups, verifiable clients.

A JVM takes its time to start, so what does not depend on one another starts together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.broker.conftest import Stage
from tools.kafka import commands
from tools.kafka.errors import KafkaToolError
from tools.kafka.jars import JarSet
from tools.kafka.jvm import CommandRunner, installed_java
from tools.kafka.versions import KafkaVersion
from tools.kafka.workspace import Workspace

_VERSION = "4.3.1"
_JARS = JarSet.broker(_VERSION)
_JAVA = installed_java()
_PATIENCE = 30.0

pytestmark = [
    pytest.mark.skipif(
        _JAVA is None or not _JARS.is_cached(), reason=f"needs Java and Kafka {_VERSION}'s jars"
    ),
    pytest.mark.parametrize("broker", ["memory"], indirect=True),
]

Tool = Callable[..., str]
Tools = Callable[..., list[str]]
_PROTOCOLS = ("classic", "consumer")


@pytest.fixture
def tool(servers: str) -> Iterator[Tool]:
    """Runs a tool against the broker and gives back what it printed."""
    assert _JAVA is not None
    with Workspace() as workspace:
        runner = CommandRunner(_JAVA, _JARS.class_path, workspace)

        def run(name: str, *args: str, stdin: str = "") -> str:
            main = commands.resolve(name, _JARS.directory)
            complete = commands.with_bootstrap(name, args, servers, KafkaVersion.parse(_VERSION))
            return runner.run(main, complete, stdin=stdin, timeout=_PATIENCE).stdout

        yield run


@pytest.fixture
def tools(tool: Tool) -> Iterator[Tools]:
    """Runs several tools at once; each is a list of a name and arguments."""
    with ThreadPoolExecutor() as pool:
        yield lambda *calls: list(pool.map(lambda call: tool(*call), calls))


def events(printed: str, name: str) -> list[dict[str, Any]]:
    """The events of one name among the JSON lines that a verifiable client prints."""
    lines: Sequence[dict[str, Any]] = [
        json.loads(line) for line in printed.splitlines() if line.startswith("{")
    ]
    return [line for line in lines if line["name"] == name]


def test_topics_are_created_listed_and_described(tool: Tool, tools: Tools) -> None:
    tool("topics", "--create", "--topic", "made", "--partitions", "3", "--config", "retention.ms=5000")

    listed, described, configs = tools(
        ["topics", "--list"],
        ["topics", "--describe", "--topic", "made"],
        ["configs", "--describe", "--entity-type", "topics", "--entity-name", "made"],
    )
    assert listed.split() == ["made"]
    assert "PartitionCount: 3" in described
    assert "retention.ms=5000" in described
    assert described.count("Leader: 1") == 3
    assert "retention.ms=5000" in configs


def test_the_console_consumer_prints_what_the_console_producer_read(tool: Tool, tools: Tools) -> None:
    tool("console-producer", "--topic", "lines", "--compression-codec", "zstd", stdin="one\ntwo\nthree\n")

    consume = ["console-consumer", "--topic", "lines", "--from-beginning", "--max-messages", "3"]
    printed = tools(
        *([*consume, "--group", name, "--command-property", f"group.protocol={name}"] for name in _PROTOCOLS)
    )
    assert [lines.split() for lines in printed] == [["one", "two", "three"]] * 2

    listed, described = tools(
        ["consumer-groups", "--list"], ["consumer-groups", "--describe", "--all-groups"]
    )
    assert sorted(listed.split()) == ["classic", "consumer"]
    rows = [line.split()[:6] for line in described.splitlines() if line.startswith(_PROTOCOLS)]
    assert sorted(rows) == [[name, "lines", "0", "3", "3", "0"] for name in _PROTOCOLS]


def test_verifiable_consumers_get_what_the_verifiable_producer_sent(
    broker: Stage, tool: Tool, tools: Tools
) -> None:
    broker.create_topic("verified", partitions=2)
    sent = tool("verifiable-producer", "--topic", "verified", "--max-messages", "1000", "--acks", "-1")
    assert len(events(sent, "producer_send_success")) == 1000

    consume = ["verifiable-consumer", "--topic", "verified", "--max-messages", "1000", "--verbose"]
    consume += ["--reset-policy", "earliest"]
    for got in tools(*([*consume, "--group-id", name, "--group-protocol", name] for name in _PROTOCOLS)):
        values = {event["value"] for event in events(got, "record_data")}
        assert values == {str(number) for number in range(1000)}
        assert sum(event["count"] for event in events(got, "records_consumed")) == 1000
        assert all(event["success"] for event in events(got, "offsets_committed"))


def test_features_are_described_and_what_there_is_none_of_is_refused_with_a_reason(
    servers: str, tool: Tool, tools: Tools
) -> None:
    tool("topics", "--create", "--topic", "moved")
    described, groups, loggers = tools(
        ["org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", servers, "describe"],
        ["configs", "--describe", "--entity-type", "groups", "--entity-name", "billing"],
        ["configs", "--describe", "--entity-type", "broker-loggers", "--entity-name", "1"],
    )
    assert "group.version" in described
    assert "billing" in groups
    assert "configs for broker-logger 1 are" in loggers
    with pytest.raises(KafkaToolError, match="has no quorum of controllers to describe"):
        tool(
            "org.apache.kafka.tools.MetadataQuorumCommand",
            "--bootstrap-server", servers, "describe", "--status",
        )  # fmt: skip
    with pytest.raises(KafkaToolError, match="no settings of single groups"):
        tool(
            "configs", "--alter", "--entity-type", "groups", "--entity-name", "billing",
            "--add-config", "consumer.session.timeout.ms=46000",
        )  # fmt: skip


def test_partitions_are_reassigned(tmp_path: Path, servers: str, tool: Tool) -> None:
    tool("topics", "--create", "--topic", "moved")
    plan = tmp_path / "plan.json"
    moved = {"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": ["any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    command = ["org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--bootstrap-server", servers]
    said = tool(*command, "--reassignment-json-file", str(plan), "--execute")
    assert "Successfully started partition reassignment for moved-0" in said
    said = tool(*command, "--reassignment-json-file", str(plan), "--verify")
    assert "Reassignment of partition moved-0 is completed." in said
