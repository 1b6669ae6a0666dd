"""Where reading begins, where it goes on, and what happens when that place is not there (any more)."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from kclient.consumer import OffsetAndTimestamp
from kclient.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    LogTruncationError,
    NoOffsetError,
    OffsetOutOfRangeError,
)
from kclient.records import encode_batch
from kclient.testing.simulation import until
from kclient.types import OffsetAndMetadata
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import T0, Topic, World, live, offsets, part, parts, take
from tests.unit.consumer.test_commits_of_consumers import GROUP, committed


@pytest.mark.parametrize(
    ("policy", "first"), [("earliest", 0), ("latest", 100), ("by_duration:PT50S", 50), ("by_duration:P1D", 0)]
)
def test_without_a_position_the_policy_says_where_to_begin(policy: str, first: int) -> None:
    async def story(world: World) -> None:
        state = world.broker.create_topic(Topic, 1).partitions[0]
        now = int(world.sim.clock.wall() * 1000)
        for number in range(100):  # one record a second, until now
            state.log.append(
                encode_batch([(None, b"", now - (100 - number) * 1000 + 500, ())]), leader_epoch=0
            )
        async with world.reader(auto_offset_reset=policy) as consumer:
            assert await consumer.position(part()) == first

    live(story)


def test_a_duration_in_which_nothing_was_written_begins_at_the_end() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(auto_offset_reset="by_duration:PT1S") as consumer:
            assert await consumer.position(part()) == 100

    live(story)


def test_without_a_policy_and_a_commit_the_application_is_told_until_it_seeks() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.reader(2, auto_offset_reset="none") as consumer:
            for _ in range(2):
                with pytest.raises(NoOffsetError, match="topic orders, partition") as raised:
                    await consumer.getmany(timeout_ms=1000)
                assert raised.value.topic == Topic
            consumer.seek(part(0), 10)
            consumer.seek(part(1), 20)
            found = await take(consumer, 170)
            assert {key: records[0].offset for key, records in found.items()} == {part(0): 10, part(1): 20}

    live(story)


@pytest.mark.parametrize(("policy", "goes_on"), [("earliest", 60), ("latest", 100)])
def test_an_offset_that_is_gone_is_left_by_the_policy(policy: str, goes_on: int) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        world.broker.topics.partition(*part()).log.delete_before(60)
        async with world.reader(auto_offset_reset=policy) as consumer:
            consumer.seek(part(), 5)
            assert not await consumer.getmany(timeout_ms=1) or policy == "earliest"
            await asyncio.sleep(1)
            await consumer.getmany(timeout_ms=1000, max_records=1)
            world.fill(part())
            found = await take(consumer, 1)
            assert found[part()][0].offset in (goes_on, goes_on + 1)

    live(story)


def test_without_a_policy_and_a_commit_a_position_is_not_waited_for() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(auto_offset_reset="none") as consumer:
            before = world.sim.loop.time()
            for _ in range(2):
                with pytest.raises(NoOffsetError):
                    await consumer.position(part())
            assert world.sim.loop.time() - before < 1
            consumer.seek(part(), 7)
            assert await consumer.position(part()) == 7

    live(story)


def test_an_offset_that_is_gone_is_the_applications_affair_without_a_policy() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(auto_offset_reset="none") as consumer:
            consumer.seek(part(), 1000)
            for _ in range(3):
                with pytest.raises(OffsetOutOfRangeError, match="offset 1000") as raised:
                    await consumer.getmany(timeout_ms=10_000)
                assert (raised.value.topic, raised.value.partition, raised.value.offset) == (Topic, 0, 1000)
            consumer.seek(part(), 99)
            assert offsets((await take(consumer, 1))[part()]) == [99]

    live(story)


def test_what_was_fetched_before_a_place_that_is_gone_is_handed_out_first() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(auto_offset_reset="none") as consumer:
            consumer.seek(part(), 50)
            await asyncio.sleep(2)  # all is fetched, nothing taken
            log = world.broker.topics.partition(*part()).log
            log.truncate(10)
            await asyncio.sleep(2)
            assert offsets((await take(consumer, 50))[part()]) == list(range(50, 100))
            with pytest.raises(OffsetOutOfRangeError, match="offset 100"):
                await consumer.getmany(timeout_ms=10_000)

    live(story)


def test_seeking_drops_what_was_fetched_and_goes_on_elsewhere() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.reader(2) as consumer:
            await consumer.getone()
            consumer.seek(part(0), 90)
            consumer.seek(part(1), OffsetAndMetadata(95, "", 0))
            found = await take(consumer, 15)
            assert {key: offsets(records)[0] for key, records in found.items()} == {part(0): 90, part(1): 95}
            await consumer.seek_to_beginning(part(0))
            assert await consumer.position(part(0)) == 0
            await consumer.seek_to_end()
            assert [await consumer.position(each) for each in parts(2)] == [100, 100]
            await consumer.seek_to_timestamp(T0 + 70, part(1))
            assert (await consumer.getone()).offset == 70
            await consumer.seek_to_timestamp(T0 + 700, part(1))
            assert await consumer.position(part(1)) == 100

    live(story)


def test_seeking_in_a_partition_that_is_not_assigned_says_so() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            with pytest.raises(IllegalStateError, match="partition 7 of topic orders is not assigned"):
                consumer.seek(part(7), 0)
            with pytest.raises(IllegalStateError, match="partition 7 of topic orders is not assigned"):
                consumer.pause(part(7))

    live(story)


def test_questions_about_offsets_and_topics_are_answered() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        world.broker.topics.partition(*part(0)).log.delete_before(30)
        async with world.reader(2) as consumer:
            assert await consumer.beginning_offsets(parts(2)) == {part(0): 30, part(1): 0}
            assert await consumer.end_offsets(parts(2)) == dict.fromkeys(parts(2), 100)
            found = await consumer.offsets_for_times({part(0): T0 + 40, part(1): T0 + 1000})
            assert found == {part(0): OffsetAndTimestamp(40, T0 + 40, 0), part(1): None}
            assert await consumer.topics() == {Topic}
            assert consumer.partitions_for_topic(Topic) == frozenset({0, 1})
            await take(consumer, 20, max_records=20)
            assert consumer.highwater(part(1)) == consumer.last_stable_offset(part(1)) == 100
            lags = [consumer.lag(each) for each in parts(2)]
            assert sum(lag for lag in lags if lag is not None) == 150
            assert consumer.last_poll_timestamp(part(1)) == pytest.approx(
                world.sim.clock.wall() * 1000, abs=1000
            )
            assert consumer.metrics().lag == 150

    live(story)


def test_a_position_that_cannot_be_found_is_waited_for_no_longer_than_allowed() -> None:
    async def story(world: World) -> None:
        async with world.reader() as consumer:
            with pytest.raises(KafkaTimeoutError, match="finding positions did not end within 3 s"):
                await consumer.position(part(), timeout_ms=3000)

    live(story)


# Truncation (KIP-320)


def truncate(world: World, at: int, records: int = 20) -> None:
    """A leader is elected that lacks records from an offset on, and writes others."""
    state = world.broker.topics.partition(*part())
    state.log.truncate(at)
    world.broker.move_leader(*part(), state.leader % 3 + 1)
    world.fill(part(), records=records)


def test_when_a_new_leader_lost_records_reading_goes_on_where_the_logs_part() -> None:
    async def story(world: World) -> None:
        world.fill_all(1, batches=10, records=10)
        async with world.reader() as consumer:
            await take(consumer, 100)
            truncate(world, 70, records=60)
            assert offsets((await take(consumer, 60))[part()]) == list(range(70, 130))

    live(story, nodes=3)


def test_what_is_worked_on_is_not_committed_because_records_behind_it_were_lost() -> None:
    async def story(world: World) -> None:
        world.fill_all(1, batches=10, records=10)
        options = {"group_id": GROUP, "auto_commit_interval_ms": 1_000}
        async with world.consumer(**options) as consumer:
            consumer.assign([part()])
            await take(consumer, 60, max_records=60)
            before = consumer._engine.subscription.cursor(part())
            truncate(world, 80)
            await until(lambda: before.dropped, 60)
            subscription = consumer._engine.subscription
            assert subscription.cursor(part()).in_hand
            await asyncio.sleep(10)
            assert await committed(world, 0) in (None, 0)
            assert await consumer.getmany(part(1), timeout_ms=0) == {}
            assert not subscription.cursor(part()).in_hand
            await asyncio.sleep(10)
            assert await committed(world, 0) == 60
            assert offsets((await take(consumer, 40))[part()]) == list(range(60, 100))

    live(story, nodes=3)


def test_lost_records_are_an_error_where_the_application_wants_to_decide() -> None:
    async def story(world: World) -> None:
        world.fill_all(1, batches=10, records=10)
        async with world.reader(auto_offset_reset="none") as consumer:
            consumer.seek(part(), 0)
            await take(consumer, 100)
            truncate(world, 70, records=60)
            for _ in range(2):
                with pytest.raises(LogTruncationError, match="offset 100") as raised:
                    await consumer.getmany(timeout_ms=60_000)
                assert raised.value.divergent_offset == 70
            consumer.seek(part(), 70)
            await take(consumer, 60)

    live(story, nodes=3)


def test_a_new_leader_that_has_everything_is_read_on() -> None:
    async def story(world: World) -> None:
        world.fill_all(1)
        async with world.reader() as consumer:
            await take(consumer, 100)
            state = world.broker.topics.partition(*part())
            world.broker.move_leader(*part(), state.leader % 3 + 1)
            world.fill(part())
            assert offsets((await take(consumer, 100))[part()]) == list(range(100, 200))
            assert "OFFSET_FOR_LEADER_EPOCH" in world.requests

    live(story, nodes=3)


def test_a_validation_that_hangs_keeps_nobody_from_what_is_there() -> None:
    async def story(world: World) -> None:
        world.fill_all(3, batches=5)
        world.broker.faults.drop(ApiKey.OFFSET_FOR_LEADER_EPOCH, times=None)
        async with world.reader(3) as consumer:
            await asyncio.sleep(2)
            state = world.broker.topics.partition(*part())
            world.broker.move_leader(*part(), state.leader % 3 + 1)
            world.fill(part())
            await asyncio.sleep(2)
            found = await take(consumer, 1500)  # what was buffered, of the moved partition too
            assert set(found) == set(parts(3))
            world.fill(part(1))
            assert set(await take(consumer, 100)) == {part(1)}

    live(story, nodes=3)


# What is committed


def test_what_is_handed_out_is_consumed_and_what_came_before_is_processed() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            positions = consumer._engine.subscription

            def places() -> tuple[int, int]:
                return positions.consumed()[part()].offset, positions.processed()[part()].offset

            await consumer.getmany(timeout_ms=1000, max_records=10)
            assert places() == (10, 0)
            await consumer.getmany(timeout_ms=1000, max_records=10)
            assert places() == (20, 10)
            await consumer.getone()
            assert places() == (21, 20)
            await consumer.getone()
            assert places() == (22, 21)
            consumer.pause(part())
            assert places() == (22, 21)
            consumer.resume(part())
            async for record in consumer:
                assert places() == (record.offset + 1, record.offset)
                if record.offset == 99:
                    break
            await consumer.getmany()
            assert places() == (100, 100)

    live(story)


def test_committed_offsets_are_where_a_group_goes_on() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        group: dict[str, Any] = {"group_id": "billing", "enable_auto_commit": False}
        async with world.reader(2, **group) as consumer:
            await consumer.commit({part(0): 40, part(1): OffsetAndMetadata(60, "half")})
            assert await consumer.committed(part(1)) == OffsetAndMetadata(60, "half")
        async with world.reader(2, **group) as consumer:
            found = await take(consumer, 100)
            assert {key: offsets(records)[0] for key, records in found.items()} == {part(0): 40, part(1): 60}
            assert await consumer.seek_to_committed() == {part(0): 40, part(1): 60}
            assert (await consumer.getone(part(1))).offset == 60
            told: list[Any] = []
            consumer.commit_nowait({part(0): OffsetAndMetadata(7)}, lambda *said: told.append(said))
            assert await consumer.committed(part(0)) is not None
            await asyncio.sleep(1)
            assert told == [({part(0): OffsetAndMetadata(7)}, None)]

    live(story)


def test_a_committed_offset_is_compared_with_what_a_new_leader_has() -> None:
    async def story(world: World) -> None:
        world.fill_all(1, batches=10, records=10)
        async with world.reader(group_id="billing") as consumer:
            await take(consumer, 100)
        truncate(world, 70, records=60)
        async with world.consumer(group_id="billing") as consumer:
            await consumer.end_offsets([part()])  # so that the leader is known before the position
            consumer.assign([part()])
            assert offsets((await take(consumer, 60))[part()]) == list(range(70, 130))

    live(story, nodes=3)


def test_an_application_that_takes_records_one_by_one_is_alive_however_long_each_takes() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        options = {"group_id": "billing", "max_poll_interval_ms": 10_000}
        async with world.consumer(Topic, **options) as consumer:
            async for record in consumer:
                await asyncio.sleep(6)
                assert consumer.assignment() == {part()}
                if record.offset == 20:
                    break
            assert record.offset == 20
            await asyncio.sleep(25)
            assert not consumer.assignment()

    live(story)


def test_committing_without_a_group_says_what_is_missing() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            with pytest.raises(IllegalStateError, match="give the consumer a group_id"):
                await consumer.commit()

    live(story)


@pytest.mark.parametrize("fails", [False, True])
def test_closing_commits_what_was_handed_out_unless_the_application_failed(fails: bool) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        with pytest.raises(ZeroDivisionError) if fails else nullcontext():
            async with world.reader(group_id="billing") as consumer:
                await consumer.getmany(timeout_ms=1000, max_records=10)
                await consumer.getmany(timeout_ms=1000, max_records=10)
                assert not fails or 1 // 0
        async with world.reader(group_id="billing") as consumer:
            assert await consumer.position(part()) == (10 if fails else 20)

    live(story)
