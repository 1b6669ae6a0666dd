"""What whole consumers commit: partitions without a position, and offsets that no broker can take."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kclient.errors import ConfigurationError, NoOffsetError
from kclient.types import OffsetAndMetadata
from tests.unit.consumer.reading import World, live, part

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
GROUP = "billing"


async def commit(world: World, offset: int) -> None:
    async with world.consumer(group_id=GROUP) as consumer:
        await consumer.commit({part(0): offset})


async def committed(world: World, number: int) -> int | None:
    async with world.consumer(group_id=GROUP) as consumer:
        found = await consumer.committed(part(number))
        return None if found is None else found.offset


@PROTOCOLS
@pytest.mark.parametrize("auto", [True, False], ids=["auto commit", "manual commits"])
def test_a_partition_without_a_position_does_not_keep_others_from_being_committed(
    protocol: str, auto: bool
) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        await commit(world, 40)
        options = {"group_id": GROUP, "group_protocol": protocol, "enable_auto_commit": auto}
        async with world.consumer("orders", auto_offset_reset="none", **options) as consumer:
            taken = 0
            for _ in range(10):
                with suppress(NoOffsetError):
                    taken += sum(map(len, (await consumer.getmany(timeout_ms=1_000)).values()))
                await asyncio.sleep(1)
            assert taken == 60
            assert consumer.health().partitions[part(1)].position is None
            if not auto:
                await consumer.commit()
        assert await committed(world, 0) == 100
        assert await committed(world, 1) is None

    live(story)


@pytest.mark.parametrize(
    "given",
    [
        2**63,
        OffsetAndMetadata(5, leader_epoch=2**31),
        OffsetAndMetadata(5, leader_epoch=-2),
        OffsetAndMetadata(5, "\ud800"),
        OffsetAndMetadata(5, b"half way"),  # type: ignore[arg-type]
        OffsetAndMetadata("5"),  # type: ignore[arg-type]
    ],
    ids=["offset", "epoch", "negative epoch", "text without an encoding", "bytes", "text as offset"],
)
def test_what_no_broker_can_take_is_refused_before_others_are_affected(given: Any) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.consumer(group_id=GROUP) as consumer:
            consumer.assign([part(0)])
            consumer.commit_nowait({part(1): 7})
            with pytest.raises(ConfigurationError, match=r"(offset|metadata|leader_epoch)"):
                await consumer.commit({part(0): given})
            with pytest.raises(ConfigurationError):
                consumer.commit_nowait({part(0): given})
            with pytest.raises(ConfigurationError):
                consumer.seek(part(0), given)
            await consumer.commit({part(0): 3})
        assert await committed(world, 1) == 7

    live(story)
