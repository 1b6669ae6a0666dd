"""What passes by itself as a rule, and does not: on the embedded broker in virtual time.

Nothing of it is raised, as it may pass. What lasts is a warning, and in `health()` for as long as it lasts.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
)
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import World, live, part, take
from tests.unit.consumer.unreadable import KINDS, Rights, raised_within, reading, warnings

IN_GROUPS = [kind for kind, options in KINDS.items() if "group_id" in options]
MEMBERS = [kind for kind in IN_GROUPS if not kind.startswith("assign")]


@pytest.mark.parametrize("kind", IN_GROUPS)
def test_a_coordinator_that_is_not_found_is_a_warning_that_says_what_brokers_need(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        fault = world.broker.faults.answer_with(
            ApiKey.FIND_COORDINATOR, CoordinatorNotAvailableError, times=None
        )
        async with reading(world, kind) as consumer:
            assert await consumer.getmany(timeout_ms=100) == {}
            assert not warnings(caplog, "")  # it may be there in a moment
            assert await consumer.getmany(timeout_ms=30_000) == {}
            (warning,) = warnings(caplog, "")
            assert "the coordinator of group 'billing' cannot be found" in warning
            assert "offsets.topic.replication.factor" in warning
            assert consumer.health().complaints == (warning,)
            assert await consumer.getmany(timeout_ms=60_000) == {}
            assert warnings(caplog, "cannot be found") == [warning] * 2
            fault.remove()
            await take(consumer, 100)
            assert consumer.health().complaints == ()

    live(story)


def test_an_answer_to_a_fetch_that_lasts_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        world.failures = [KafkaStorageError] * 10_000
        async with world.reader() as consumer:
            assert await consumer.getmany(timeout_ms=30_000) == {}
            (warning,) = warnings(caplog, "")
            assert warning.startswith(
                "topic 'orders' cannot be read now, it is tried again: KAFKA_STORAGE_ERROR"
            )
            assert consumer.health().complaints == (warning,)
            world.failures.clear()
            await take(consumer, 100)
            assert consumer.health().complaints == ()

    live(story)


def test_an_answer_about_the_beginning_of_a_partition_that_lasts_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        fault = world.broker.faults.answer_with(ApiKey.LIST_OFFSETS, NotLeaderOrFollowerError, times=None)
        async with world.reader() as consumer:
            assert await consumer.getmany(timeout_ms=30_000) == {}
            (warning,) = warnings(caplog, "")
            assert NotLeaderOrFollowerError.name in warning
            fault.remove()
            await take(consumer, 100)
            assert consumer.health().complaints == ()

    live(story)


def test_an_answer_about_a_partition_that_passes_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        world.failures = [KafkaStorageError] * 3
        async with world.reader() as consumer:
            await take(consumer, 100)
            assert consumer.health().complaints == ()
            await consumer.getmany(timeout_ms=10_000)
        assert not warnings(caplog, "")

    live(story)


@pytest.mark.parametrize("kind", MEMBERS)
def test_a_group_that_does_not_answer_for_long_is_a_warning_and_shown(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        key = ApiKey.CONSUMER_GROUP_HEARTBEAT if kind == "KIP-848" else ApiKey.JOIN_GROUP
        fault = world.broker.faults.answer_with(key, CoordinatorLoadInProgressError, times=None)
        async with reading(world, kind) as consumer:
            assert await consumer.getmany(timeout_ms=9_000) == {}
            assert not warnings(caplog, "")  # a coordinator that has moved reads the offsets of its groups
            assert await consumer.getmany(timeout_ms=20_000) == {}
            (warning,) = warnings(caplog, "")
            assert CoordinatorLoadInProgressError.name in warning
            assert CoordinatorLoadInProgressError.name in shown(consumer)
            fault.remove()
            await take(consumer, 100)
            assert shown(consumer) == ""

    live(story)


def shown(consumer: Any) -> str:
    return consumer.health().group.refused or ""


# What is over


def test_a_partition_that_is_paused_complains_of_nothing() -> None:
    """Nobody asks about it, so that nobody would hear that it has passed."""

    async def story(world: World) -> None:
        world.fill(part())
        world.failures = [TopicAuthorizationFailedError] * 10_000
        async with world.reader() as consumer:
            with pytest.raises(TopicAuthorizationFailedError):
                await consumer.getmany(timeout_ms=60_000)
            assert consumer.health().complaints
            consumer.pause(part())
            world.failures.clear()
            assert await raised_within(world, consumer, 120) == []
            assert consumer.health().complaints == ()
            consumer.resume(part())
            await take(consumer, 100)

    live(story)


def test_nothing_is_raised_about_a_topic_that_is_no_longer_subscribed() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        world.fill(part(0, "secret"))
        Rights(world, "secret")
        async with world.consumer("secret") as consumer:
            with pytest.raises(TopicAuthorizationFailedError):
                await consumer.getmany(timeout_ms=60_000)
            await asyncio.sleep(5)
            assert consumer._engine.reader is not None
            assert consumer._engine.reader.complaints._to_raise  # again
            consumer.subscribe(["orders"])  # the loop has no turn between this and the next call
            consumer._engine.raise_complaint()

    live(story)


# How much is said


def test_of_many_topics_that_are_missing_five_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        names = [f"missing-{number}" for number in range(300)]
        async with world.consumer(*names) as consumer:
            assert await consumer.getmany(timeout_ms=30_000) == {}
            assert len(warnings(caplog, "does not exist")) == 5
            (rest,) = warnings(caplog, "more like this")
            assert "295" in rest
            assert len(consumer.health().complaints) == 300

    live(story)


@pytest.mark.parametrize("topic", [None, 5, b"orders", "or ders", "x" * 40_000, "\ud800"])
def test_a_question_about_what_is_no_topic_does_the_client_no_harm(topic: Any) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            with pytest.raises((TypeError, BrokerError)):
                consumer.partitions_for_topic(topic)
            await take(consumer, 100)
            assert consumer.partitions_for_topic("orders") == frozenset({0})

    live(story)
