"""The command beside Kafka's own tools and kcat, on a real broker: the same numbers, the same bytes."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from uuid import uuid4

import pytest

from kclient import Consumer
from tests.unit.cli.calling import call, ok
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import BrokerPool
from tools.kafka.security import USERS
from tools.kafka.versions import DEFAULT_VERSION

_KCAT = shutil.which("kcat") or shutil.which("kafkacat")


@pytest.fixture
def kafka_with_tools(broker_pool: BrokerPool, monkeypatch: pytest.MonkeyPatch) -> KafkaCluster:
    broker_pool.require_jars(DEFAULT_VERSION)
    broker = broker_pool.broker(DEFAULT_VERSION)
    assert isinstance(broker, KafkaCluster)
    monkeypatch.setenv("KCLIENT_BOOTSTRAP_SERVERS", broker.bootstrap())
    return broker


@pytest.fixture
def topic(kafka_with_tools: KafkaCluster) -> str:
    """Three partitions: forty records in the first, the oldest thirty hours old; three in the second."""
    name = f"cli-{uuid4().hex[:8]}"
    kafka_with_tools.create_topic(name, partitions=3)
    for age in (30, 20, 10, 1):
        lines = b"".join(b"%d-%d\n" % (age, number) for number in range(10))
        ok("produce", name, "-p", "0", "-t", f"-{age}h", stdin=lines)
    ok("produce", name, "-p", "1", stdin=b"a\nb\nc\n")
    return name


def rows(text: str, group: str) -> list[list[str]]:
    """The lines of a tool's table that are about a group."""
    return sorted(line.split() for line in text.splitlines() if line.startswith(group))


def test_offsets_lag_and_owners_are_those_of_kafkas_own_tool(
    kafka_with_tools: KafkaCluster, topic: str
) -> None:
    group = f"cli-{uuid4().hex[:8]}"
    ok("consume", topic, "-g", group, "-n", "12")
    ask = ["--describe", "--group", group]
    # Without automatic commits: a record that comes with the partitions would change what is compared.
    with Consumer(
        topic, bootstrap_servers=kafka_with_tools.bootstrap(), group_id=group, enable_auto_commit=False
    ) as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        ours = ok("groups", "describe", group).out.decode()
        theirs = kafka_with_tools.run_tool("consumer-groups", ask).stdout
    assert rows(ours, group) == rows(theirs, group)
    assert len(rows(ours, group)) == 3
    total = sum(int(row[5]) for row in rows(ours, group))
    assert ok("lag", group, "-o", "json").json[0]["lag"] == total == 43 - 12


@pytest.mark.parametrize(
    "way",
    [
        ["--shift-by", "-7"],
        ["--to-datetime", "2026-01-01T00:00:00.000"],
        ["--by-duration", "PT15H"],
        ["--to-offset", "25"],
    ],
    ids=lambda way: way[0],
)
def test_reset_plans_are_those_of_kafkas_own_tool(
    kafka_with_tools: KafkaCluster, topic: str, way: list[str]
) -> None:
    group = f"cli-{uuid4().hex[:8]}"
    ok("groups", "reset", group, "--topic", topic, "--to-latest", "--execute")
    ask = ["--reset-offsets", "--group", group, "--topic", topic, *way, "--dry-run"]
    theirs = rows(kafka_with_tools.run_tool("consumer-groups", ask).stdout, group)
    ours = rows(ok("groups", "reset", group, "--topic", topic, *way).out.decode(), group)
    assert [[*row[:3], row[4]] for row in ours] == theirs
    assert len(theirs) == 3


@pytest.mark.skipif(_KCAT is None, reason="kcat is not installed: try `make kcat`")
def test_formats_give_the_bytes_that_kcat_gives(kafka_with_tools: KafkaCluster) -> None:
    topic = f"cli-{uuid4().hex[:8]}"
    kafka_with_tools.create_topic(topic)
    ok("produce", topic, "-k", "key", "-H", "a=1", "-H", "b=2", stdin=b"text\n\xff\xfe\n")
    ok("produce", topic, "--null", "gone", stdin=b"gone\n\n")
    text = r"%t|%p|%o|%T|%k|%s|%K|%S|%R|%h|%%\t\x41\n"
    assert _KCAT is not None
    theirs = subprocess.run(
        [_KCAT, "-b", kafka_with_tools.bootstrap(), "-C", "-t", topic, "-e", "-q", "-f", text],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert ok("consume", topic, "-e", "-f", text).out == theirs.stdout


@pytest.mark.skipif(_KCAT is None, reason="kcat is not installed: try `make kcat`")
@pytest.mark.parametrize(
    "line", ["-o beginning", "-K : -D ;", "-o -3", "-o 2 -c 1", "-J", "-p 0 -Z -f %o:%s,", "-o s@1 -K="]
)
def test_the_words_of_kcat_give_what_kcat_gives(kafka_with_tools: KafkaCluster, line: str) -> None:
    topic = f"cli-{uuid4().hex[:8]}"
    kafka_with_tools.create_topic(topic)
    words = ["-P", "-b", kafka_with_tools.bootstrap(), "-t", topic, "-K", ":"]
    ok(*words, stdin=b"a:1\nb:2\nc:3\nd:4\n")
    assert _KCAT is not None
    subprocess.run([_KCAT, *words], input=b"e:5\nf:6\n", timeout=60, check=True)
    reading = ["-C", "-b", kafka_with_tools.bootstrap(), "-t", topic, "-e", "-q", *line.split()]
    theirs = subprocess.run([_KCAT, *reading], capture_output=True, timeout=60, check=True).stdout
    ours = ok(*reading).out
    if "-J" in reading:
        assert [json.loads(each)["payload"] for each in theirs.splitlines()] == [
            json.loads(each)["value"] for each in ours.splitlines()
        ]
    else:
        assert ours == theirs


def test_a_new_group_begins_at_the_very_millisecond_it_is_told(kafka_with_tools: KafkaCluster) -> None:
    topic = f"cli-{uuid4().hex[:8]}"
    kafka_with_tools.create_topic(topic, partitions=2)
    begin = int(time.time() * 1000) - 60_000
    lines = [json.dumps({"value": str(n), "timestamp": begin + n, "partition": n % 2}) for n in range(30)]
    ok("produce", topic, "-i", "jsonl", stdin="\n".join(lines).encode())
    read = ok("consume", topic, "-e", "-g", f"group-of-{topic}", "--from", str(begin + 7)).lines
    assert sorted(map(int, read)) == list(range(7, 30))


def test_topics_and_settings_are_those_of_kafkas_own_tool(kafka_with_tools: KafkaCluster) -> None:
    topic = f"cli-{uuid4().hex[:8]}"
    ok("topics", "create", topic, "-p", "2", "-r", "1", "--config", "retention.ms=123456")
    ok("configs", "append", "topic", topic, "cleanup.policy=compact")
    ok("topics", "alter", topic, "-p", "4")
    (ours,) = ok("topics", "describe", topic, "-o", "json").json
    theirs = kafka_with_tools.run_tool("topics", ["--describe", "--topic", topic]).stdout
    assert "PartitionCount: 4" in theirs
    assert ours["partition_count"] == len(ours["partitions"]) == 4
    for name, value in ours["configs"].items():
        assert f"{name}={value}" in theirs
    assert ours["configs"]["retention.ms"] == "123456"
    assert ours["configs"]["cleanup.policy"] == "delete,compact"
    ok("topics", "delete", topic)


def test_a_user_without_permission_is_told_so(secured_kafka: KafkaCluster, tmp_path: Path) -> None:
    path = tmp_path / "bob.properties"
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={login} \\\n  username="bob" password="{USERS["bob"]}";\n'
    )
    reach = ("-b", secured_kafka.bootstrap("SASL_PLAINTEXT"), "-c", str(path))
    assert ok("topics", "list", *reach).lines == ["for-bob"]
    for words in (
        ["consume", "for-alice", "-e"],
        ["produce", "for-alice"],
        ["topics", "create", "forbidden"],
    ):
        refused = call(*words, *reach, stdin=b"x\n")
        assert refused.code == 1
        assert refused.err.endswith("(TOPIC_AUTHORIZATION_FAILED); this user needs an ACL for the topic\n")
    denied = call("groups", "describe", "any", *reach)
    assert denied.err.endswith("(GROUP_AUTHORIZATION_FAILED); this user needs an ACL for the group\n")
    path.write_text(path.read_text().replace(USERS["bob"], "wr0ng"))
    refused = call("topics", "list", *reach)
    assert refused.code == 1
    assert "check the user, the password" in refused.err
    assert "wr0ng" not in refused.err
