"""`kclient configs` on the embedded broker, and `kclient lag --watch`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.calling import call, ok


def own(topic: str) -> dict[str, str]:
    """What is set for a topic."""
    return {row["name"]: row["value"] for row in ok("configs", "describe", "topic", topic, "-o", "json").json}


def test_settings_of_a_topic_are_set_added_to_and_put_back(topic: str) -> None:
    ok("configs", "set", "topic", topic, "retention.ms=1000", "segment.ms=2000")
    ok("configs", "append", "topic", topic, "cleanup.policy=compact")
    assert own(topic) == {"retention.ms": "1000", "segment.ms": "2000", "cleanup.policy": "delete,compact"}
    ok("configs", "subtract", "topic", topic, "cleanup.policy=delete")
    ok("configs", "delete", "topic", topic, "retention.ms", "segment.ms")
    assert own(topic) == {"cleanup.policy": "compact"}


def test_all_shows_defaults_too(topic: str) -> None:
    everything = ok("configs", "describe", "topic", topic, "--all", "-o", "json").json
    (found,) = [row for row in everything if row["name"] == "retention.ms"]
    assert (found["value"], found["source"]) == ("604800000", "default")
    assert own(topic) == {}
    assert "all is at its default" in ok("configs", "describe", "topic", topic).err


def test_settings_come_from_a_file_where_they_are_secret(topic: str, tmp_path: Path) -> None:
    (tmp_path / "more.properties").write_text("retention.ms=7\n")
    ok("configs", "set", "topic", topic, "--file", str(tmp_path / "more.properties"))
    assert own(topic) == {"retention.ms": "7"}


def test_a_broker_is_a_number_and_without_one_all_are_meant(servers: str) -> None:  # noqa: ARG001
    one = ok("configs", "describe", "broker", "1", "--all", "-o", "json").json
    assert {"name", "value", "source", "read_only", "sensitive", "type"} == set(one[0])
    assert ok("configs", "describe", "broker", "-o", "json").json == []
    refused = call("configs", "describe", "broker", "first")
    assert refused.code == 2
    assert "'first' is no broker" in refused.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["set", "topic"], "which topic? name it first"),
        (["set", "topic", "TOPIC"], "nothing to set: give NAME=VALUE or --file"),
        (["set", "topic", "TOPIC", "novalue"], "must be NAME=VALUE"),
        (["set", "topic", "TOPIC", "retention.m=1"], "did you mean 'retention.ms'"),
        (["set", "topic", "TOPIC", "retention.ms=soon"], "INVALID_CONFIG"),
        (["describe", "topic", "nosuch"], "there is no topic 'nosuch'"),
    ],
)
def test_nonsense_is_refused(topic: str, words: list[str], complaint: str) -> None:
    refused = call("configs", *(topic if word == "TOPIC" else word for word in words))
    assert refused.code in (1, 2)
    assert complaint in refused.err
    assert refused.err.count("\n") == 1


def test_lag_is_watched_until_ctrl_c(topic: str, group: str) -> None:
    ok("groups", "reset", group, "--topic", topic, "--to-latest", "--execute")
    command = [sys.executable, "-m", "kclient.cli.main", "lag", group, "--watch", "0.1", "-o", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        ok("produce", topic, "-p", "0", stdin=b"x\n" * 10)
        later = first
        while later["lag"] == 0:
            later = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, b"")
    assert (first["lag"], first["change"], later["lag"]) == (0, None, 10)
    assert later["change"] > 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_both_kinds_of_groups_are_read_described_and_counted(topic: str, group: str, protocol: str) -> None:
    ok("produce", topic, "-p", "0", stdin=b"1\n2\n3\n")
    words = ("-g", group, "-X", f"group.protocol={protocol}")
    assert ok("consume", topic, *words, "-n", "2").lines == ["1", "2"]
    assert ok("groups", "describe", group).table[1][3:6] == ["2", "3", "1"]
    assert ok("consume", topic, *words, "-e").lines == ["3"]
    assert ok("lag", group, "-o", "json").json[0]["lag"] == 0


def test_what_is_said_on_the_command_line_wins_over_a_file(topic: str, group: str, tmp_path: Path) -> None:
    (tmp_path / "c.properties").write_text("auto.offset.reset=latest\ngroup.id=other\n")
    ok("produce", topic, "-p", "0", stdin=b"1\n")
    words = ("consume", topic, "-e", "-c", str(tmp_path / "c.properties"))
    assert ok(*words, "-g", group, "--from", "beginning").lines == ["1"]
    assert ok(*words, "-g", f"{group}-2").lines == []
    assert ok(*words).lines == ["1"]
    assert "other" not in ok("groups", "list").out.decode().split()
