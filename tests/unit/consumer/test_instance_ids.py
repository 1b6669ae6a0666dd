"""Two KIP-848 members with one `group_instance_id`: the second waits, and says for what."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.consumer.members import Crowd, in_a_crowd
from tests.unit.consumer.test_modern import join


def test_a_static_member_that_waits_for_its_id_says_so_at_once_and_no_more_once_it_has_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(crowd: Crowd) -> None:
        first = await join(crowd, group_instance_id="a")
        await crowd.settled(first)
        second = await join(crowd, group_instance_id="a")
        await asyncio.sleep(1)
        health = second.membership.health()
        assert "UNRELEASED_INSTANCE_ID" in str(health.refused)
        assert health.last_error == health.refused
        assert second.membership.take_error() is None  # one that was killed may have had it: then it passes
        said = [each.getMessage() for each in caplog.records if "group_instance_id='a'" in each.getMessage()]
        assert len(said) == 1
        await first.vanish()
        await crowd.settled(second, within=60)
        assert second.membership.health().refused is None

    in_a_crowd(story)
