"""Members whose application does not ask for records in time, with either protocol, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.testing.simulation import until
from tests.unit.consumer.members import Crowd, in_a_crowd

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def busy(protocol: str) -> dict[str, Any]:
    return {"group_protocol": protocol, "max_poll_interval_ms": 30_000}


@PROTOCOLS
def test_a_member_comes_back_though_its_application_waits_before_the_group_hears_of_the_call(
    protocol: str,
) -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", **busy(protocol))
        await crowd.settled(member)
        member.positions.waits = False
        await until(lambda: member.state == "out", 60)
        member.positions.waits = True  # on a thread of its own, it is faster than the news of its call
        await asyncio.sleep(10)
        member.membership.polled()
        await crowd.settled(member, within=10)

    in_a_crowd(story)


@PROTOCOLS
def test_a_member_leaves_though_nobody_comes_to_run_its_listener(protocol: str) -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders", **busy(protocol))
        second = await crowd.member("orders", group_protocol=protocol)
        await crowd.settled(first, second)
        came_by = asyncio.Event()

        class Carried:
            async def on_partitions_lost(self, _: object) -> None:
                await came_by.wait()

        first.membership.listen(Carried())
        held = first.owned
        first.positions.waits = False
        await until(lambda: len(second.owned) == 6, 60)
        assert first.positions.fenced == held
        first.membership.polled()
        first.positions.waits = True
        came_by.set()
        await crowd.settled(first, second)

    in_a_crowd(story)
