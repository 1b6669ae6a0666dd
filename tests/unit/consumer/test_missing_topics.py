"""What a consumer says of topics and brokers that are not there, on the embedded broker in virtual time.

They may come: so the log warns of them, once and again after pauses that grow, they are in `health()` while
that lasts, and reading begins by itself afterwards.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from kclient.errors import (
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from tests.unit.consumer.reading import Topic, World, live, offsets, part, take
from tests.unit.consumer.unreadable import (
    Rights,
    asked,
    of_every_kind,
    questions,
    reading,
    warnings,
)

# Topics and partitions that do not exist


@of_every_kind
def test_a_topic_that_does_not_exist_is_a_warning_again_after_growing_pauses(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        async with reading(world, kind, "oders") as consumer:
            assert await consumer.getmany(timeout_ms=500) == {}
            assert not warnings(caplog, "oders")  # it may have been created a moment ago
            assert any("'oders' does not exist" in each for each in consumer.health().complaints)
            assert await consumer.getmany(timeout_ms=4_500) == {}
            (warning,) = warnings(caplog, "oders")
            assert "does not exist" in warning
            assert await consumer.getmany(timeout_ms=3_595_000) == {}
            # After 1, 61, 181, 421 and 901 seconds, and then every ten minutes.
            assert warnings(caplog, "oders") == [warning] * 9

    live(story)


@of_every_kind
def test_a_topic_that_is_created_later_is_read(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        async with reading(world, kind) as consumer:
            assert await consumer.getmany(timeout_ms=30_000) == {}
            world.fill(part())
            began = world.sim.loop.time()
            assert offsets((await take(consumer, 100))[part()]) == list(range(100))
            assert world.sim.loop.time() - began < 10
            assert consumer.health().complaints == ()
        assert len(warnings(caplog, "does not exist")) == 1

    live(story)


def test_a_topic_that_is_created_at_once_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        async with world.reader() as consumer:
            assert await consumer.getmany(timeout_ms=300) == {}
            world.fill(part())
            await take(consumer, 100)
            await consumer.getmany(timeout_ms=60_000)
        assert not warnings(caplog, "")

    live(story)


def test_a_list_of_all_topics_does_not_make_a_missing_one_news(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        async with world.reader() as consumer:
            for _ in range(10):
                await consumer.topics()
                await consumer.getmany(timeout_ms=4_000)
        assert len(warnings(caplog, "does not exist")) == 1

    live(story)


def test_a_partition_that_a_topic_does_not_have_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.fill_all(3)
        consumer = world.consumer()
        consumer.assign([part(1), part(7), part(9)])
        async with consumer:
            assert list(await take(consumer, 100)) == [part(1)]
            assert await consumer.getmany(timeout_ms=5_000) == {}
            (warning,) = warnings(caplog, Topic)
            assert "partitions 7, 9" in warning
            assert "partitions 0 to 2" in warning
            assert consumer.health().complaints == (warning,)
            late = await asked(lambda: consumer.position(part(7), timeout_ms=1_000))
            assert isinstance(late, KafkaTimeoutError)
            assert "partitions 7, 9" in str(late)

    live(story)


def test_a_partition_without_a_leader_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.fill_all(3)
        state = world.broker.topics.partition(*part(1))
        state.lead_by(-1)
        async with world.reader(3) as consumer:
            await take(consumer, 200)
            assert await consumer.getmany(timeout_ms=5_000) == {}
            (warning,) = warnings(caplog, Topic)
            assert "partition 1 of topic 'orders'" in warning
            assert "leader" in warning
            state.lead_by(1)
            await take(consumer, 100)
            assert consumer.health().complaints == ()

    live(story)


def test_every_question_about_a_topic_that_does_not_exist_says_so_by_its_deadline() -> None:
    async def story(world: World) -> None:
        async with world.reader() as consumer:
            for question in questions(consumer, Topic):
                began = world.sim.loop.time()
                error = await asked(question)
                assert isinstance(error, (UnknownTopicOrPartitionError, KafkaTimeoutError))
                assert Topic in str(error)
                assert world.sim.loop.time() - began < 3.2

    live(story)


@pytest.mark.parametrize("group", [{}, {"group_id": "billing"}])
def test_a_pattern_that_matches_nothing_is_a_warning(
    group: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        rights = Rights(world, Topic)
        consumer = world.consumer(metadata_max_age_ms=5_000, **group)
        consumer.subscribe(pattern="ord.*")
        async with consumer:
            assert await consumer.getmany(timeout_ms=5_000) == {}
            (warning,) = warnings(caplog, "ord.*")
            assert consumer.health().complaints == (warning,)
            rights.withheld.clear()
            await take(consumer, 100)
            assert consumer.health().complaints == ()

    live(story)


# Brokers that cannot be reached


@of_every_kind
def test_an_advertised_listener_that_does_not_resolve_is_a_warning(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        world.fill_all(1)
        world.broker.move_leader(Topic, 0, 2)
        world.broker.move_coordinator("billing", 1)
        consumer = reading(world, kind)
        (listener,) = world.broker.nodes[2].listeners.values()
        genuine, listener.spec = listener.spec, replace(listener.spec, host="broker-2.internal")
        world.sim.network.names["broker-2.internal"] = []
        address = f"broker-2.internal:{listener.port}"
        async with consumer:
            assert await consumer.getmany(timeout_ms=5_000) == {}
            (warning,) = warnings(caplog, address)
            assert "broker 2 " in warning
            assert "advertised.listeners" in warning
            assert consumer.health().complaints == consumer.health().cluster.complaints == (warning,)
            if kind == "assign":
                late = await asked(lambda: consumer.position(part(), timeout_ms=1_000))
                assert address in str(late)
            assert await consumer.getmany(timeout_ms=595_000) == {}
            assert len(warnings(caplog, address)) == 4  # after 1, 61, 181 and 421 seconds
            listener.spec = genuine
            world.fill(part())  # what was there before is over its retention
            await take(consumer, 100)
            assert consumer.health().complaints == ()

    live(story, nodes=2)


def test_a_broker_that_is_restarted_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.fill_all(1)
        async with world.reader() as consumer:
            await take(consumer, 100)
            leader = world.broker.topics.partition(*part()).leader
            await world.broker.stop_node(leader)
            assert await consumer.getmany(timeout_ms=500) == {}
            await world.broker.start_node(leader)
            await consumer.getmany(timeout_ms=60_000)
        assert not warnings(caplog, "cannot be reached")

    live(story, nodes=3)


# Nothing to do


@pytest.mark.parametrize("kind", ["classic", "KIP-848"])
def test_a_member_for_which_no_partition_is_left_says_so_once(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def story(world: World) -> None:
        world.fill_all(1)
        async with reading(world, kind) as one, reading(world, kind) as other:
            for _ in range(300):
                for consumer in (one, other):
                    await consumer.getmany(timeout_ms=1_000)
            said = [
                each.getMessage()
                for each in caplog.records
                if "no partition is assigned" in each.getMessage()
            ]
            (line,) = said
            assert "more members than" in line
            assert one.health().complaints == other.health().complaints == ()

    live(story)
