"""What is used for the first time is there after the network's own time: pauses are for what failed before.

On virtual time, with a back-off of an hour: whatever waits for it is seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.admin import AsyncAdmin, NewTopic
from kclient.broker import Broker
from kclient.broker.api import RequestContext
from kclient.consumer import AsyncConsumer
from kclient.errors import LeaderNotAvailableError
from kclient.producer import AsyncProducer
from kclient.testing import Simulation, simulate
from kclient.types import TopicPartition
from kclient.wire.message import Request
from kclient.wire.messages.metadata import MetadataRequest, MetadataResponse

HOUR_MS = 3_600_000
# Seconds for some ten requests at two milliseconds each way, and the brief pauses before a second look.
SOON = 0.2
PATIENT: dict[str, Any] = {
    "retry_backoff_ms": HOUR_MS,
    "retry_backoff_max_ms": HOUR_MS,
    "reconnect_backoff_ms": HOUR_MS,
    "reconnect_backoff_max_ms": HOUR_MS,
    "default_api_timeout_ms": 10 * HOUR_MS,
}
READING: dict[str, dict[str, Any]] = {
    "alone": {},
    "classic": {"group_id": "billing"},
    "consumer": {"group_id": "billing", "group_protocol": "consumer"},
}


class World:
    def __init__(self, sim: Simulation, broker: Broker) -> None:
        self.sim = sim
        self.broker = broker
        self.options = {"bootstrap_servers": broker.bootstrap_servers, **PATIENT}

    async def soon(self, work: Awaitable[Any], seconds: float = SOON) -> Any:
        """What it gives, if that does not take as long as a back-off."""
        began = self.sim.loop.time()
        result = await work
        took = self.sim.loop.time() - began
        assert took < seconds, f"it took {took} s"
        return result

    async def fill(self, *topics: str) -> None:
        """Create topics with a record in each."""
        for topic in topics:
            self.broker.create_topic(topic)
        servers = self.broker.bootstrap_servers
        async with AsyncProducer(bootstrap_servers=servers, clock=self.sim.clock) as producer:
            for topic in topics:
                await producer.send_and_wait(topic, b"first")

    def consumer(self, *topics: str, **options: Any) -> AsyncConsumer[Any, Any]:
        return AsyncConsumer(*topics, auto_offset_reset="earliest", **self.options, **options)


def live(story: Callable[[World], Awaitable[None]]) -> None:
    async def main(sim: Simulation) -> None:
        config = {"group.initial.rebalance.delay.ms": "0"}
        async with Broker(nodes=3, clock=sim.clock, seed=sim.seed, config=config) as broker:
            await story(World(sim, broker))

    simulate(main)


def test_a_producer_sends_to_one_new_topic_after_the_other() -> None:
    async def story(world: World) -> None:
        names = [f"topic-{number}" for number in range(20)]
        for name in names:
            world.broker.create_topic(name)
        producer = AsyncProducer(clock=world.sim.clock, **world.options)
        await world.soon(producer.start())
        for name in names:
            await world.soon(producer.send_and_wait(name, b"x"))
        await world.soon(producer.close())

    live(story)


def test_a_producer_that_was_not_started_sends_at_once() -> None:
    async def story(world: World) -> None:
        for name in ("waits", "does-not"):
            world.broker.create_topic(name)
        producer = AsyncProducer(clock=world.sim.clock, **world.options)
        await world.soon(producer.send_and_wait("waits", b"x"))
        delivery = producer.send_nowait("does-not", b"x")
        await world.soon(delivery)
        await world.soon(producer.close())

    live(story)


def test_other_first_calls_of_a_producer_do_not_wait() -> None:
    async def story(world: World) -> None:
        for name in ("one", "many"):
            world.broker.create_topic(name)
        async with AsyncProducer(clock=world.sim.clock, **world.options) as producer:
            assert await world.soon(producer.partitions_for("one")) == {0}
            await world.soon(producer.send_many("many", [b"x"]))
            await world.soon(producer.flush())
            world.broker.topics.grow(world.broker.topics.topic("one"), [(1,), (2,)])
            await world.soon(producer.send_and_wait("one", b"x", partition=2))

    live(story)


@pytest.mark.parametrize("looks", [1, 5])
def test_a_topic_that_is_created_by_its_first_record_is_looked_at_again_soon(looks: int) -> None:
    """Real brokers answer LEADER_NOT_AVAILABLE for some milliseconds."""

    async def story(world: World) -> None:
        def not_yet(_: RequestContext, request: Request[Any]) -> MetadataResponse | None:
            nonlocal looks
            if not isinstance(request, MetadataRequest) or not request.topics or not looks:
                return None
            looks -= 1
            return MetadataResponse(
                brokers=[
                    MetadataResponse.MetadataResponseBroker(node_id=node.node_id, host=spec.host, port=port)
                    for node in world.broker.running()
                    for spec, port in [(listener.spec, listener.port) for listener in node.listeners.values()]
                ],
                controller_id=1,
                topics=[
                    MetadataResponse.MetadataResponseTopic(
                        error_code=LeaderNotAvailableError.code, name=topic.name, partitions=[]
                    )
                    for topic in request.topics
                ],
            )

        world.broker.faults.hook = not_yet
        async with AsyncProducer(clock=world.sim.clock, **world.options) as producer:
            await world.soon(producer.send_and_wait("created", b"x"), seconds=1)
            assert not looks

    live(story)


@pytest.mark.parametrize("kind", READING)
def test_the_first_record_of_a_subscription_comes_at_once(kind: str) -> None:
    async def story(world: World) -> None:
        await world.fill("orders")
        consumer = world.consumer("orders", **READING[kind])
        await world.soon(consumer.start())
        # A KIP-848 coordinator assigns with one of the heartbeats that follow.
        await world.soon(consumer.getone(), seconds=2 if kind == "consumer" else SOON)
        await world.soon(consumer.close())

    live(story)


@pytest.mark.parametrize("before", [False, True])
def test_the_first_record_of_an_assignment_comes_at_once(before: bool) -> None:
    async def story(world: World) -> None:
        await world.fill("orders", "payments")
        consumer = world.consumer()
        if before:
            consumer.assign([TopicPartition("orders", 0)])
        await world.soon(consumer.start())
        if not before:
            consumer.assign([TopicPartition("orders", 0)])
        assert (await world.soon(consumer.getone())).topic == "orders"
        consumer.assign([TopicPartition("payments", 0)])
        assert (await world.soon(consumer.getone())).topic == "payments"
        await world.soon(consumer.close())

    live(story)


def test_first_questions_of_a_consumer_do_not_wait() -> None:
    async def story(world: World) -> None:
        orders, payments = TopicPartition("orders", 0), TopicPartition("payments", 0)
        await world.fill(*(partition.topic for partition in (orders, payments)))
        async with world.consumer(group_id="billing") as consumer:
            assert await world.soon(consumer.topics()) == {"orders", "payments"}
            assert await world.soon(consumer.end_offsets([orders])) == {orders: 1}
            assert await world.soon(consumer.beginning_offsets([payments])) == {payments: 0}
            assert await world.soon(consumer.committed(orders)) is None
            await world.soon(consumer.commit({orders: 1}))
            consumer.assign([orders])
            assert await world.soon(consumer.position(orders)) == 1

    live(story)


def test_a_pattern_finds_its_topics_at_once() -> None:
    async def story(world: World) -> None:
        await world.fill("orders")
        async with world.consumer() as consumer:
            consumer.subscribe(pattern="ord.*")
            await world.soon(consumer.getone())

    live(story)


def test_first_questions_of_an_admin_do_not_wait() -> None:
    async def story(world: World) -> None:
        await world.fill("orders")
        admin = AsyncAdmin(**world.options)
        await world.soon(admin.start())
        assert await world.soon(admin.list_groups()) == {}
        assert (await world.soon(admin.list_offsets(TopicPartition("orders", 0))))[
            TopicPartition("orders", 0)
        ].offset == 1
        await world.soon(admin.create_topics(NewTopic("payments")))
        assert set(await world.soon(admin.list_topics())) == {"orders", "payments"}
        await world.soon(admin.describe_topics("payments"))
        await world.soon(admin.close())

    live(story)
