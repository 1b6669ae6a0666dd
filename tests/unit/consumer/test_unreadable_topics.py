"""What a consumer says of topics that it may not read, and of names that no topic can have, in virtual time.

Both are raised: what is final each time, a missing right once, and again after pauses that grow. It is
in `health()` while it lasts, and reading begins by itself afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, Consumer
from kclient.errors import (
    GroupAuthorizationFailedError,
    InvalidTopicError,
    TopicAuthorizationFailedError,
)
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import Topic, World, live, offsets, part, take
from tests.unit.consumer.unreadable import (
    Rights,
    asked,
    of_every_kind,
    questions,
    raised_within,
    reading,
)

ILLEGAL = ["", ".", "..", "my orders", "orders!", "a/b", "ö", "x" * 250]


# No right to describe the topic


@of_every_kind
def test_a_topic_that_may_not_be_described_is_raised_soon(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        Rights(world, Topic)
        async with reading(world, kind) as consumer:
            began = world.sim.loop.time()
            with pytest.raises(TopicAuthorizationFailedError, match=Topic):
                await consumer.getmany(timeout_ms=60_000)
            assert world.sim.loop.time() - began < 0.5
            (complaint,) = consumer.health().complaints
            assert "TOPIC_AUTHORIZATION_FAILED" in complaint

    live(story)


@of_every_kind
def test_a_missing_right_is_raised_again_after_growing_pauses_and_not_in_a_storm(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        Rights(world, Topic)
        async with reading(world, kind) as consumer:
            errors = await raised_within(world, consumer, 600)
            assert {type(error) for error in errors} == {TopicAuthorizationFailedError}
            # At 0, 1, 3, 7, 15, 31, 63 seconds, and then once a minute.
            assert 14 <= len(errors) <= 17
            assert {f"for topic {Topic}:" in str(error) for error in errors} == {True}

    live(story)


@of_every_kind
def test_reading_begins_by_itself_when_the_right_is_given(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        rights = Rights(world, Topic)
        async with reading(world, kind) as consumer:
            assert await raised_within(world, consumer, 20)
            rights.withheld.clear()
            began = world.sim.loop.time()
            assert offsets((await take(consumer, 100))[part()]) == list(range(100))
            assert world.sim.loop.time() - began < 10
            assert consumer.health().complaints == ()
            # Taken away again, it is a new cause, which is raised as soon as it is known.
            rights.withheld.add(Topic)
            consumer._engine.opened().metadata.ask()
            assert await raised_within(world, consumer, 2)

    live(story)


def test_a_missing_right_is_raised_also_while_another_topic_has_records() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=20)
        world.broker.create_topic("secret")
        rights = Rights(world)
        async with world.consumer(Topic, "secret", max_poll_records=1) as consumer:
            await take(consumer, 10)
            rights.withheld.add("secret")
            cluster = consumer._engine.opened()
            await cluster.metadata.refreshed(cluster.deadline())
            with pytest.raises(TopicAuthorizationFailedError, match="secret"):
                await consumer.getmany()
            await take(consumer, 1_000)

    live(story)


def test_one_topic_that_may_not_be_described_keeps_no_other_from_being_read() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        Rights(world, "secret")
        async with world.consumer(group_id="billing") as consumer:
            consumer.assign([part(), part(0, "secret")])
            records = 0
            while records < 100:
                try:
                    records += len((await consumer.getmany(timeout_ms=60_000))[part()])
                except TopicAuthorizationFailedError as error:
                    assert "topic secret" in str(error)  # noqa: PT017 - one of two ends of the call

    live(story)


def test_every_question_about_a_topic_without_a_right_raises_that_at_once() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        Rights(world, Topic)
        async with world.reader() as consumer:
            for _ in range(2):  # also when the application has been told already
                for question in questions(consumer, Topic):
                    began = world.sim.loop.time()
                    assert isinstance(await asked(question), TopicAuthorizationFailedError)
                    assert world.sim.loop.time() - began < 0.5

    live(story)


def test_a_position_does_not_raise_what_is_wrong_with_another_topic() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        Rights(world, "secret")
        async with world.consumer() as consumer:
            consumer.assign([part(), part(0, "secret")])
            assert await consumer.position(part()) == 0
            with pytest.raises(TopicAuthorizationFailedError, match="secret"):
                await consumer.position(part(0, "secret"))

    live(story)


def test_a_position_without_a_right_to_the_group_raises_that_soon() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        world.broker.faults.answer_with(ApiKey.OFFSET_FETCH, GroupAuthorizationFailedError, times=None)
        async with world.reader(group_id="billing") as consumer:
            began = world.sim.loop.time()
            with pytest.raises(GroupAuthorizationFailedError, match="group billing"):
                await consumer.position(part())
            assert world.sim.loop.time() - began < 0.5

    live(story)


def test_a_right_that_is_missing_for_many_partitions_is_raised_once() -> None:
    async def story(world: World) -> None:
        world.fill_all(30)
        Rights(world, Topic)
        async with world.reader(30) as consumer:
            assert len(await raised_within(world, consumer, 0.9)) == 1

    live(story)


def test_fetches_that_are_refused_are_raised_once_for_all_partitions_and_are_over_when_records_come() -> None:
    """The right to describe is there, and that to read is not."""

    async def story(world: World) -> None:
        world.fill_all(30)
        world.failures = [TopicAuthorizationFailedError] * 10_000
        async with world.reader(30) as consumer:
            assert len(await raised_within(world, consumer, 0.9)) == 1
            assert 6 <= len(await raised_within(world, consumer, 200)) <= 10
            assert len(consumer.health().complaints) == 1
            assert len(world.fetches) < 300  # and not one for each partition
            world.failures.clear()
            await take(consumer, 3_000)
            assert consumer.health().complaints == ()

    live(story)


# Illegal names


@pytest.mark.parametrize("name", ILLEGAL)
@pytest.mark.parametrize("kind", [AsyncConsumer, Consumer])
def test_an_illegal_name_is_refused_before_anything_is_asked(kind: Any, name: str) -> None:
    consumer = kind()
    calls: list[Callable[[], object]] = [
        lambda: kind(name),
        lambda: consumer.subscribe([Topic, name]),
        lambda: consumer.assign([part(), TopicPartition(name, 0)]),
    ]
    for call in calls:
        with pytest.raises(InvalidTopicError, match="allowed are 1 to 249") as caught:
            call()
        assert repr(name) in str(caught.value)
    assert consumer.assignment() == consumer.subscription() == frozenset()


def test_a_name_that_only_the_broker_refuses_is_raised_from_each_call() -> None:
    async def story(world: World) -> None:
        Rights(world, Topic, error=InvalidTopicError)
        for kind in ("assign", "alone", "classic"):
            async with reading(world, kind) as consumer:
                for timeout_ms in (60_000, 0, 0):
                    with pytest.raises(InvalidTopicError, match="topic orders"):
                        await consumer.getmany(timeout_ms=timeout_ms)

    live(story)
