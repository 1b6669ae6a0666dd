"""Whole consumers in groups, in virtual time over many seeds: see `flock`."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.consumer.cursor import Cursor
from kclient.testing.simulation import until
from tests.unit.consumer.flock import SESSION, Flock, herd, in_a_flock
from tests.unit.consumer.reading import parts

KINDS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "modern": {"group_protocol": "consumer"},
}
SEEDS = 8
PARTITIONS = 6

of_every_kind = pytest.mark.parametrize("kind", KINDS)


@of_every_kind
@pytest.mark.parametrize("auto", [True, False], ids=["auto commit", "manual commits"])
def test_every_record_is_worked_on_whatever_happens_to_the_members(kind: str, auto: bool) -> None:
    for seed in range(SEEDS):
        in_a_flock(herd, KINDS[kind] | {"enable_auto_commit": auto}, seed=seed)


@of_every_kind
def test_consumers_that_close_commit_what_they_have_done(kind: str) -> None:
    async def story(flock: Flock) -> None:
        flock.write()
        for _ in range(3):
            await flock.come()
        await flock.calm()
        await flock.end()
        flock.members.clear()
        committed = await flock.committed()
        assert committed == {each: len(flock.done[each]) for each in parts(PARTITIONS)}

    # Too long for the clock to have done it.
    in_a_flock(story, KINDS[kind] | {"auto_commit_interval_ms": 600_000})


@of_every_kind
def test_a_consumer_that_closes_leaves_at_once(kind: str) -> None:
    async def story(flock: Flock) -> None:
        flock.write()
        first, second = await flock.come(), await flock.come()
        await until(lambda: {len(owned) for owned in flock.owned().values()} == {3}, 60)
        del flock.members[second.host]
        await second.leave()
        # Sooner than the broker could have missed it.
        await until(lambda: len(first.consumer.assignment()) == PARTITIONS, SESSION / 2)

    in_a_flock(story, KINDS[kind])


# Controls: consumers that are broken on purpose have to be found out.


def found_out(options: dict[str, Any]) -> bool:
    try:
        for seed in range(SEEDS):
            in_a_flock(herd, options, seed=seed)
    except AssertionError:
        return True
    return False


def test_committing_what_is_still_being_worked_on_loses_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cursor, "settled", Cursor.consumed)
    assert found_out(KINDS["eager"])


def test_going_on_at_the_end_instead_of_where_the_group_is_loses_records() -> None:
    assert found_out(KINDS["cooperative"] | {"enable_auto_commit": False, "auto_offset_reset": "latest"})
