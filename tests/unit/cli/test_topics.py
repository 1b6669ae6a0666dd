"""`kclient topics` on the embedded broker."""

from __future__ import annotations

import pytest

from kclient.testing import RunningBroker
from tests.unit.cli.calling import call, ok


def test_list_prints_one_name_a_line(topic: str) -> None:
    assert topic in ok("topics", "list").lines


def test_list_for_programs_is_json(topic: str) -> None:
    found = [each for each in ok("topics", "list", "-o", "json").json if each["name"] == topic]
    assert [each["internal"] for each in found] == [False]


def test_internal_topics_are_listed_on_request(topic: str, group: str) -> None:
    ok("consume", topic, "-g", group, "-e")
    assert "__consumer_offsets" not in ok("topics", "list").lines
    assert "__consumer_offsets" in ok("topics", "list", "--internal").lines


def test_describe_shows_leader_replicas_and_settings(topic: str) -> None:
    ok("configs", "set", "topic", topic, "retention.ms=5000")
    head, *table = ok("topics", "describe", topic).lines
    assert head.startswith(f"{topic}  id ")
    assert head.endswith("2 partitions, replication factor 1, configs: retention.ms=5000")
    assert [line.split() for line in table] == [
        ["PARTITION", "LEADER", "REPLICAS", "ISR"],
        ["0", "1", "1", "1"],
        ["1", "1", "1", "1"],
    ]


def test_describe_for_programs_has_everything(topic: str) -> None:
    (found,) = ok("topics", "describe", topic, "-o", "json").json
    assert found["partition_count"] == 2
    assert found["partitions"][1] == {"partition": 1, "leader": 1, "replicas": [1], "isr": [1], "offline": []}


def test_partitions_in_trouble_are_found_and_others_left_out() -> None:
    with RunningBroker(nodes=2) as running:
        servers = running.bootstrap_servers
        ok("topics", "create", "both", "-p", "1", "-r", "2", "-b", servers)
        ok("topics", "create", "alone", "-p", "4", "-r", "1", "-b", servers)
        ask = ("topics", "describe", "-o", "json", "-b", servers)
        assert ok(*ask, "--under-replicated").json == ok(*ask, "--unavailable").json == []
        running.call(running.broker.stop_node(2))
        behind = {each["topic"] for each in ok(*ask, "--under-replicated").json}
        (dead,) = ok(*ask, "--unavailable").json
    assert "both" in behind
    assert dead["topic"] == "alone"
    assert {each["leader"] for each in dead["partitions"]} == {None}
    assert 0 < len(dead["partitions"]) < 4


def test_create_takes_settings(servers: str) -> None:  # noqa: ARG001
    ok("topics", "create", "compacted", "--config", "cleanup.policy=compact")
    assert ok("configs", "describe", "topic", "compacted").table[1][:2] == ["cleanup.policy", "compact"]


def test_a_topic_that_exists_is_a_failure_unless_that_is_fine(topic: str) -> None:
    refused = call("topics", "create", topic)
    assert (refused.code, refused.out) == (1, b"")
    assert refused.err == (
        f"kclient: topic {topic}: Topic '{topic}' already exists (TOPIC_ALREADY_EXISTS); "
        "--if-not-exists accepts that\n"
    )
    assert ok("topics", "create", topic, "--if-not-exists").err == f"Topic {topic} exists.\n"


def test_alter_adds_partitions(topic: str) -> None:
    assert ok("topics", "alter", topic, "-p", "5").err == f"Topic {topic} has 5 partitions now, 2 before.\n"
    assert ok("topics", "describe", topic, "-o", "json").json[0]["partition_count"] == 5


def test_alter_says_that_partitions_cannot_become_fewer(topic: str) -> None:
    refused = call("topics", "alter", topic, "-p", "1")
    assert refused.code == 1
    assert "has 2 partitions, and they can only become more" in refused.err


def test_delete_removes_the_topic(topic: str) -> None:
    ok("topics", "delete", topic)
    assert topic not in ok("topics", "list").lines
    assert call("topics", "delete", topic).code == 1
    assert ok("topics", "delete", topic, "--if-exists").err == ""


@pytest.mark.parametrize(
    "words", [["topics", "describe"], ["topics", "delete"], ["consume", "-e"], ["topics", "alter", "-p", "9"]]
)
def test_a_misspelt_topic_is_answered_with_the_right_name(topic: str, words: list[str]) -> None:
    refused = call(*words, topic[:-1])
    assert refused.code == 1
    assert refused.err.startswith(f"kclient: there is no topic {topic[:-1]!r}; did you mean {topic!r}")
    assert refused.err.count("\n") == 1
    assert refused.out == b""


def test_a_topic_that_is_not_there_need_not_be_made_to_be_deleted(topic: str) -> None:
    missing = call("topics", "delete", "quite-another")
    assert (missing.code, missing.err.count("\n")) == (1, 1)
    assert "there is no topic 'quite-another'; --if-exists accepts that" in missing.err
    assert "create" not in missing.err
    misspelt = call("topics", "delete", topic[:-1])
    assert f"did you mean '{topic}'" in misspelt.err
    assert "create" not in misspelt.err
