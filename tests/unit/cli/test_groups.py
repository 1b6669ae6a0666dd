"""`kclient groups` and `kclient lag` on the embedded broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kclient import Consumer
from kclient.admin import OffsetSpec
from kclient.broker.api import RequestContext
from kclient.testing import RunningBroker
from kclient.wire.message import Request
from kclient.wire.messages.fetch import ListOffsetsRequest, ListOffsetsResponse
from tests.unit.cli.calling import call, ok

HOUR = 3_600_000


@pytest.fixture
def behind(topic: str, group: str) -> str:
    """The group has read two of ten records of partition 0, which are half an hour apart, and no other."""
    now = int(time.time() * 1000)
    lines = "".join(
        f'{{"value": "{number}", "partition": 0, "timestamp": {now - (10 - number) * HOUR // 2}}}\n'
        for number in range(10)
    )
    ok("produce", topic, "-i", "jsonl", stdin=lines.encode())
    ok("consume", topic, "-g", group, "-n", "2")
    return group


def plan(group: str, *words: str) -> dict[int, int]:
    """The new offsets by partition."""
    found = ok("groups", "reset", group, *words, "-o", "json").json
    return {row["partition"]: row["new_offset"] for row in found}


def test_groups_are_listed_with_their_state(behind: str) -> None:
    assert [behind, "classic", "consumer", "Empty"] in ok("groups", "list").table
    assert behind in {row["group"] for row in ok("groups", "list", "--state", "Empty", "-o", "json").json}
    assert behind not in {
        row["group"] for row in ok("groups", "list", "--state", "Stable", "-o", "json").json
    }


def test_describe_shows_offsets_and_lag(behind: str, topic: str) -> None:
    described = ok("groups", "describe", behind)
    assert described.err == f"Group {behind} has no members at the moment (Empty).\n"
    assert described.table[:2] == [
        [
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
        ],
        [behind, topic, "0", "2", "10", "8"],
    ]


def test_describe_shows_who_owns_what(topic: str, group: str, servers: str) -> None:
    with Consumer(topic, bootstrap_servers=servers, group_id=group, client_id="owner") as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=50)
        rows = ok("groups", "describe", group, "-o", "json").json
        (member,) = ok("groups", "describe", group, "--members", "-o", "json").json
        (state,) = ok("groups", "describe", group, "--state", "-o", "json").json
        refused = call("groups", "reset", group, "--topic", topic, "--to-earliest", "--execute")
        undeletable = call("groups", "delete", group)
        mine = consumer.group_metadata().member_id
    assert [(row["partition"], row["client_id"], row["consumer_id"]) for row in rows] == [
        (0, "owner", mine),
        (1, "owner", mine),
    ]
    assert {row["lag"] for row in rows} == {None}
    assert member["assignment"] == [f"{topic}:0", f"{topic}:1"]
    assert (state["state"], state["members"], state["assignor"]) == ("Stable", 1, "range")
    assert refused.code == undeletable.code == 1
    assert "has 1 member (Stable)" in refused.err
    assert "stop its members first" in undeletable.err


def test_a_misspelt_group_is_answered_with_the_right_name(behind: str) -> None:
    refused = call("groups", "describe", behind[:-1])
    assert refused.code == 1
    assert refused.err.startswith(f"kclient: there is no group {behind[:-1]!r}; did you mean ")
    assert repr(behind) in refused.err


def test_a_reset_is_only_a_plan_until_it_is_executed(behind: str, topic: str) -> None:
    shown = ok("groups", "reset", behind, "--topic", f"{topic}:0", "--to-earliest")
    assert shown.table[1] == [behind, topic, "0", "2", "0"]
    assert shown.err == "This is a plan: nothing was changed. --execute carries it out.\n"
    assert ok("groups", "describe", behind).table[1][3] == "2"
    done = ok("groups", "reset", behind, "--topic", f"{topic}:0", "--to-earliest", "--execute")
    assert done.table == shown.table
    assert ok("groups", "describe", behind).table[1][3:6] == ["0", "10", "10"]


@pytest.mark.parametrize(
    ("words", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-current"], 2),
        (["--to-offset", "5"], 5),
        (["--shift-by", "3"], 5),
        (["--shift-by", "-1"], 1),
        (["--by-duration", "PT1H15M"], 8),
        (["--by-duration", "1h15m"], 8),
        (["--to-datetime", "-2h15m"], 6),
        (["--to-datetime", "-1m"], 10),
    ],
)
def test_every_way_of_resetting(behind: str, topic: str, words: list[str], offset: int) -> None:
    assert plan(behind, "--topic", f"{topic}:0", *words) == {0: offset}


@pytest.mark.parametrize(("offset", "taken"), [("99", 10), ("-3", 0)])
def test_an_offset_outside_of_the_partition_is_moved_into_it(
    behind: str, topic: str, offset: str, taken: int
) -> None:
    done = ok("groups", "reset", behind, "--topic", f"{topic}:0", "--to-offset", offset)
    assert done.table[1][-1] == str(taken)
    assert f"has no offset {offset}, it has 0 to 10: {taken} is taken" in done.err


@pytest.fixture
def open_from_4(cli_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction is open from offset 4 on, which the embedded broker does not have by itself."""

    def answer(_: RequestContext, request: Request[Any]) -> ListOffsetsResponse | None:
        if not isinstance(request, ListOffsetsRequest) or request.isolation_level == 0:
            return None
        known: dict[int, int] = {OffsetSpec.EARLIEST: 0, OffsetSpec.LATEST: 4}
        listed = ListOffsetsResponse.ListOffsetsTopicResponse
        return ListOffsetsResponse(
            topics=[
                listed(
                    name=topic.name,
                    partitions=[
                        listed.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, offset=known.get(each.timestamp, -1)
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    monkeypatch.setattr(cli_broker.broker.faults, "hook", answer)


@pytest.mark.usefixtures("open_from_4")
@pytest.mark.parametrize(
    ("words", "offset"),
    [
        (["--to-current"], 7),
        (["--from-file"], 9),
        (["--to-offset", "9"], 9),
        (["--to-offset", "11"], 10),
        (["--shift-by", "1"], 8),
        (["--to-latest"], 4),
        (["--to-datetime", "-1m"], 4),
    ],
)
def test_an_open_transaction_bounds_the_end_and_times_and_not_offsets(
    behind: str, topic: str, tmp_path: Path, words: list[str], offset: int
) -> None:
    where = ["--topic", f"{topic}:0"]
    ok("groups", "reset", behind, *where, "--to-offset", "7", "--execute")
    if words[0] == "--from-file":
        (tmp_path / "saved.csv").write_text(f"{topic},0,9\n")
        where, words = [], ["--from-file", str(tmp_path / "saved.csv")]
    committed = ["-X", "isolation.level=read_committed"]
    done = ok("groups", "reset", behind, *where, *words, "-o", "json", *committed)
    assert [row["new_offset"] for row in done.json] == [offset]
    assert ("has no offset" in done.err) == (words[-1] == "11")


@pytest.mark.usefixtures("open_from_4")
def test_where_nothing_is_committed_the_end_is_that_of_the_isolation_level(topic: str, group: str) -> None:
    ok("produce", topic, "-p", "0", stdin=b"1\n2\n3\n4\n5\n")
    where = ["--topic", f"{topic}:0", "--to-current"]
    assert plan(group, *where) == {0: 5}
    assert plan(group, *where, "-X", "isolation.level=read_committed") == {0: 4}


def test_all_topics_are_those_with_offsets_and_all_their_partitions(behind: str) -> None:
    assert plan(behind, "--all-topics", "--to-latest") == {0: 10, 1: 0}


def test_a_plan_is_exported_and_read_back(behind: str, topic: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved.csv"
    exported = ok("groups", "reset", behind, "--topic", f"{topic}:0", "--to-current", "--export")
    assert exported.out.decode() == f"{topic},0,2\n"
    saved.write_bytes(exported.out)
    ok("groups", "reset", behind, "--all-topics", "--to-latest", "--execute")
    ok("groups", "reset", behind, "--from-file", str(saved), "--execute")
    assert ok("groups", "describe", behind).table[1][3] == "2"
    saved.write_text(f"other,{topic},0,9\n{behind},{topic},0,4\n")
    assert plan(behind, "--from-file", str(saved)) == {0: 4}


@pytest.mark.parametrize("text", ["topic,0\n", "topic,x,1\n", "\n", "a,b,c,d,e\n"])
def test_a_file_that_is_no_plan_is_refused(behind: str, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    refused = call("groups", "reset", behind, "--from-file", str(tmp_path / "bad.csv"))
    assert (refused.code, refused.out) == (2, b"")
    assert "bad.csv" in refused.err


def test_a_new_group_can_be_given_a_place(topic: str, group: str) -> None:
    ok("produce", topic, "-p", "0", stdin=b"1\n2\n")
    ok("groups", "reset", group, "--topic", topic, "--to-latest", "--execute")
    assert ok("consume", topic, "-g", group, "-e").lines == []


def test_what_was_never_committed_cannot_be_shifted(topic: str, group: str) -> None:
    refused = call("groups", "reset", group, "--topic", topic, "--shift-by", "1")
    assert refused.code == 1
    assert "as nothing is committed for it" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ["--to-earliest"],
        ["--topic", "x:y", "--to-latest"],
        ["--all-topics"],
        ["--all-topics", "--by-duration", "soon"],
    ],
)
def test_a_reset_that_does_not_say_enough_is_a_usage_error(behind: str, words: list[str]) -> None:
    assert call("groups", "reset", behind, *words).code in (1, 2)
    assert call("groups", "reset", behind, *words).out == b""


def test_groups_and_offsets_are_deleted(behind: str, topic: str) -> None:
    ok("groups", "delete-offsets", behind, "--topic", f"{topic}:0")
    assert [row[2] for row in ok("groups", "describe", behind).table[1:]] == ["1"]
    assert call("groups", "delete-offsets", behind, "--topic", "never").code == 1
    assert ok("groups", "delete", behind).err == f"Deleted group {behind}.\n"
    assert call("groups", "delete", behind).code == 1


def test_lag_is_summed_by_topic(behind: str, topic: str) -> None:
    assert ok("lag", behind).table == [
        ["GROUP", "TOPIC", "PARTITIONS", "MEMBERS", "LAG", "LARGEST"],
        [behind, topic, "2", "0", "8", "8"],
    ]
    assert [behind, topic, "2", "0", "8", "8"] in ok("lag").table
    rows = ok("lag", behind, "--partitions", "-o", "json").json
    assert [(row["partition"], row["lag"]) for row in rows] == [(0, 8), (1, 0)]


def test_a_partition_that_there_is_not_is_refused_with_those_of_its_topic(behind: str, topic: str) -> None:
    ok("topics", "create", f"{topic}-other", "-p", "5")
    refused = call(
        "groups", "reset", behind, "--topic", f"{topic}:7", "--topic", f"{topic}-other", "--to-earliest"
    )
    assert refused.err == f"kclient: topic {topic} has no partition 7, but 0 to 1\n"
