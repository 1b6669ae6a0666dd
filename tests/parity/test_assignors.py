"""kclient's assignors against Java's own: the same groups, the same assignments."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kclient.consumer.group.assignors.base import Assignment, Assignor
from kclient.consumer.group.assignors.cooperative import CooperativeStickyAssignor
from kclient.consumer.group.assignors.range import RangeAssignor
from kclient.consumer.group.assignors.roundrobin import RoundRobinAssignor
from kclient.consumer.group.assignors.sticky import StickyAssignor
from tests.parity.assignor_cases import Case, random_case
from tools.kafka.cluster import run_java
from tools.kafka.versions import CLIENTS_VERSION

ASSIGNORS: tuple[type[Assignor], ...] = (
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
)
COMPARED = 1000
CASES = 1100  # some have no answer of Java's to compare with
PROGRAM = Path(__file__).with_name("Assignors.java")


def written(assignment: Assignment) -> str:
    """In the words of Assignors.java, whose sets are sorted as text."""
    return ";".join(
        f"{member}={','.join(sorted(f'{topic}:{number}' for topic, number in partitions))}"
        for member, partitions in sorted(assignment.items())
    )


def java_went_wrong(case: Case, answer: str) -> bool:
    """Whether Java's sticky assignor gave a member what it does not want, or failed.

    It overlooks members without topics where they come first, and with owners of an older generation it does
    not ask whether they still subscribe to the topic, or are still under consideration. kclient does.
    """
    if answer.startswith("error: java.lang.NullPointerException"):
        return True
    for given in answer.split(";"):
        member, _, partitions = given.partition("=")
        topics = {partition.rpartition(":")[0] for partition in partitions.split(",") if partition}
        if not topics.issubset(case.members[member].topics):
            return True
    return False


@pytest.mark.usefixtures("clients_jar")
def test_every_assignor_gives_everyone_what_javas_gives() -> None:
    cases: list[tuple[type[Assignor], Case]] = [
        (kind, random_case(kind.name, Random(f"{kind.name} {number}")))
        for kind in ASSIGNORS
        for number in range(CASES)
    ]
    lines = "".join(f"{case.line(kind.name)}\n" for kind, case in cases)
    answers = run_java(PROGRAM.read_text(), CLIENTS_VERSION, stdin=lines, timeout=240).stdout.splitlines()
    assert len(answers) == len(cases)
    compared = dict.fromkeys(ASSIGNORS, 0)
    different = []
    for (kind, case), theirs in zip(cases, answers, strict=True):
        if java_went_wrong(case, theirs):
            continue
        ours = written(kind().assign(case.layout, case.members))
        compared[kind] += 1
        if ours != theirs:
            different.append(f"{case.line(kind.name)}\n  ours   {ours}\n  Java's {theirs}")
    assert not different, f"{len(different)} of {sum(compared.values())} differ, the first:\n" + "\n".join(
        different[:2]
    )
    assert all(count >= COMPARED for count in compared.values()), compared
