"""Clients that miss one of their background tasks: nothing is waited for in vain, and all is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kclient.admin import AsyncAdmin
from kclient.broker import Broker
from kclient.consumer import AsyncConsumer
from kclient.consumer.commits import Commits
from kclient.errors import ClientClosedError, KafkaError, KafkaTimeoutError
from kclient.producer import AsyncProducer
from kclient.testing.simulation import until
from kclient.wire.api import ApiKey
from tests.support.producing import producing
from tests.unit.consumer.reading import Topic, World, live, part, parts, take

PROTOCOLS: dict[str, dict[str, Any]] = {"classic": {}, "consumer": {"group_protocol": "consumer"}}
IN_GROUPS = pytest.mark.parametrize("protocol", PROTOCOLS)
MISSED = "does not work any more: its background task"


def cancel(*names: str) -> int:
    """As an application does that cancels all tasks it finds; how many had such a name."""
    found = [task for task in asyncio.all_tasks() if any(name in task.get_name() for name in names)]
    for task in found:
        task.cancel()
    return len(found)


async def in_group(world: World, protocol: str, **options: Any) -> AsyncConsumer[Any, Any]:
    if Topic not in world.broker.topics.by_name:
        world.fill_all(2, records=10)
    consumer = world.consumer(Topic, group_id="g", **PROTOCOLS[protocol] | options)
    await consumer.start()
    await take(consumer, 20)
    return consumer


async def tells(consumer: AsyncConsumer[Any, Any], why: str) -> None:
    """Every call raises the failure, also one that is waiting already."""
    with pytest.raises(KafkaError, match=MISSED) as caught:
        await consumer.getmany(timeout_ms=3_600_000)
    assert why in str(caught.value)
    for call in (consumer.getone(), consumer.commit(), consumer.position(part()), consumer.topics()):
        with pytest.raises(KafkaError, match=MISSED):
            await call
    with pytest.raises(KafkaError, match=MISSED):
        async for _ in consumer:
            pass
    failure = consumer.health().cluster.failure
    assert failure is not None
    assert why in failure


NAMES = [
    "kclient metadata",
    "fetching from broker",
    "finding positions",
    "looking up committed",
    "Member._live",
    "Member._beat",
    "Commits.run",
]


@IN_GROUPS
@pytest.mark.parametrize("name", NAMES)
def test_a_consumer_whose_task_somebody_cancels_says_so_and_others_take_over(
    name: str, protocol: str
) -> None:
    async def story(world: World) -> None:
        consumer = await in_group(world, protocol)
        waiting = asyncio.create_task(consumer.getmany(timeout_ms=3_600_000))
        await asyncio.sleep(1)
        assert cancel(name)
        with pytest.raises(KafkaError, match=MISSED):
            await waiting
        await tells(consumer, "was cancelled by code that is not kclient's")
        async with world.consumer(Topic, group_id="g", **PROTOCOLS[protocol]) as other:
            # Without heartbeats the session of the first one ends.
            await until(lambda: other.assignment() == set(parts(2)))
        await consumer.close()

    live(story)


@IN_GROUPS
def test_a_consumer_all_of_whose_tasks_are_cancelled_can_still_be_closed(protocol: str) -> None:
    async def story(world: World) -> None:
        consumer = await in_group(world, protocol)
        cancel(*NAMES)
        await tells(consumer, "was cancelled by code that is not kclient's")
        await consumer.close()
        with pytest.raises(ClientClosedError):
            await consumer.getmany()

    live(story)


@IN_GROUPS
def test_a_defect_of_ours_in_a_membership_is_told(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        consumer = await in_group(world, protocol)

        def defect(*_: object) -> None:
            raise ZeroDivisionError("a defect of ours")

        monkeypatch.setattr(Commits, "_settle", defect)
        consumer.commit_nowait()
        await asyncio.sleep(1)
        await tells(consumer, "ZeroDivisionError('a defect of ours')")
        monkeypatch.undo()
        await consumer.close()

    live(story)


@pytest.mark.parametrize("name", ["kclient metadata", "connect to 1", "kclient producer id"])
def test_a_producer_whose_task_somebody_cancels_says_so(name: str) -> None:
    async def check(broker: Broker, _: AsyncProducer) -> None:
        broker.faults.delay(ApiKey.INIT_PRODUCER_ID, 60, times=None)
        connecting = name == "connect to 1"
        producer = AsyncProducer(
            bootstrap_servers=broker.bootstrap_servers, clock=broker.clock, enable_idempotence=not connecting
        )
        await producer.start()
        first = await producer.send("t", b"v")
        if connecting:
            broker.nodes[1].stop()
        await until(lambda: cancel(name) > 0)
        await asyncio.sleep(0.01)
        for call in (
            lambda: producer.send("t", b"v"),
            lambda: producer.send_and_wait("t", b"v", headers={"a": b"1"}),
            lambda: producer.send_many("t", [b"v"]),
            producer.flush,
            lambda: producer.partitions_for("t"),
        ):
            with pytest.raises(KafkaError, match=MISSED):
                await call()
        with pytest.raises(KafkaError, match=MISSED):
            producer.send_nowait("t", b"v")
        failure = producer.health().failure
        assert failure is not None
        assert name in failure
        with suppress(KafkaTimeoutError):  # of what it had, nothing may ever be delivered
            await producer.close(timeout_ms=5_000)
        assert first.done()

    producing(check)


def test_an_admin_client_whose_task_somebody_cancels_says_so() -> None:
    async def story(world: World) -> None:
        async with AsyncAdmin(bootstrap_servers=world.broker.bootstrap_servers) as admin:
            await admin.list_topics()
            assert cancel("kclient metadata")
            await asyncio.sleep(0.01)
            with pytest.raises(KafkaError, match=MISSED):
                await admin.list_topics()
            assert admin.health().failure is not None

    live(story)


def test_a_start_whose_tasks_are_cancelled_fails_at_once() -> None:
    async def story(world: World) -> None:
        world.broker.faults.delay(ApiKey.METADATA, 3_600, times=None)
        clients: list[Callable[[], Any]] = [
            lambda: AsyncAdmin(bootstrap_servers=world.broker.bootstrap_servers),
            lambda: AsyncProducer(bootstrap_servers=world.broker.bootstrap_servers),
            lambda: world.consumer(Topic),
        ]
        for make in clients:
            client = make()
            starting = asyncio.create_task(client.start())
            await asyncio.sleep(1)
            assert cancel("kclient metadata")
            began = world.sim.loop.time()
            with pytest.raises(KafkaError, match=MISSED):
                await starting
            assert world.sim.loop.time() - began < 1
            await client.close()

    live(story)
