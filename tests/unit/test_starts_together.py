"""Several who start a client at once, each with a time of its own: one that fails ends nobody else's.

On virtual time: tasks, timers and sockets that outlive a story fail it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kclient.admin import AsyncAdmin
from kclient.broker import Broker
from kclient.consumer import AsyncConsumer
from kclient.errors import KafkaTimeoutError
from kclient.producer import AsyncProducer
from kclient.testing import Simulation, simulate
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey

KINDS: dict[str, type[Any]] = {"admin": AsyncAdmin, "producer": AsyncProducer, "consumer": AsyncConsumer}
of_every_kind = pytest.mark.parametrize("kind", KINDS)

Use = Callable[[Any], Coroutine[Any, Any, object]]
USES: dict[str, tuple[str, Use]] = {
    "start": ("admin", lambda client: client.start()),
    "start a producer": ("producer", lambda client: client.start()),
    "list_topics": ("admin", lambda client: client.list_topics()),
    "send": ("producer", lambda client: client.send_and_wait("t", b"v")),
    "start a consumer": ("consumer", lambda client: client.start()),
    "getmany": ("consumer", lambda client: client.getmany(timeout_ms=10)),
    "topics": ("consumer", lambda client: client.topics()),
    "partitions_for": ("producer", lambda client: client.partitions_for("t")),
}


def slow_at_first(story: Callable[[Broker, Any], Coroutine[Any, Any, None]], kind: str) -> None:
    """A cluster that takes three seconds to say what it is, and a client of it."""

    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock, seed=sim.seed) as broker:
            broker.create_topic("t")
            broker.faults.delay(ApiKey.METADATA, 3)
            options: dict[str, Any] = {"clock": sim.clock} if kind == "producer" else {}
            client = KINDS[kind](bootstrap_servers=broker.bootstrap_servers, **options)
            try:
                await story(broker, client)
            finally:
                await client.close()

    simulate(main)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("use", USES)
def test_a_start_that_runs_out_of_time_takes_nothing_from_those_who_have_more(use: str, first: bool) -> None:
    kind, work = USES[use]

    async def story(_: Broker, client: Any) -> None:
        calls = [client.start(timeout_ms=1_000), work(client)]
        outcomes = await asyncio.gather(*(calls if first else calls[::-1]), return_exceptions=True)
        failed, succeeded = outcomes if first else outcomes[::-1]
        assert isinstance(failed, KafkaTimeoutError)
        assert not isinstance(succeeded, BaseException)
        await work(client)

    slow_at_first(story, kind)


@of_every_kind
def test_starts_that_all_fail_leave_nothing_and_may_be_tried_again(kind: str) -> None:
    async def story(_: Broker, client: Any) -> None:
        calls = [client.start(timeout_ms=1_000), client.start(timeout_ms=2_000)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [KafkaTimeoutError] * 2
        assert " new" in repr(client)
        assert "kclient metadata" not in {task.get_name() for task in asyncio.all_tasks()}
        await client.start()

    slow_at_first(story, kind)


@pytest.mark.parametrize("kind", ["admin", "producer"])  # a consumer's second start asks nothing
def test_a_client_that_is_in_use_outlives_a_start_that_fails(kind: str) -> None:
    async def story(broker: Broker, client: Any) -> None:
        await client.start()
        broker.faults.delay(ApiKey.METADATA, 3)
        with pytest.raises(KafkaTimeoutError):
            await client.start(timeout_ms=1_000)
        assert repr(client).endswith("open>")

    slow_at_first(story, kind)


@pytest.mark.parametrize(
    "use",
    [
        lambda consumer: consumer.getmany(timeout_ms=60_000),
        lambda consumer: consumer.getarrow(timeout_ms=60_000),
        anext,
        lambda consumer: consumer.position(TopicPartition("t", 0)),
        lambda consumer: consumer.seek_to_end(),
        lambda consumer: consumer.commit({TopicPartition("t", 0): 0}),
        lambda consumer: consumer.committed(TopicPartition("t", 0)),
    ],
    ids=["getmany", "getarrow", "next", "position", "seek_to_end", "commit", "committed"],
)
def test_a_first_call_that_is_cancelled_lets_the_cluster_be_found_for_the_next(use: Use) -> None:
    """Else calls with a short time limit, one after the other, would never get anywhere."""

    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock, seed=sim.seed) as broker:
            broker.create_topic("t")
            async with AsyncProducer(bootstrap_servers=broker.bootstrap_servers, clock=sim.clock) as producer:
                await producer.send_and_wait("t", b"v")
            broker.faults.delay(ApiKey.METADATA, 3)
            consumer: AsyncConsumer[Any, Any] = AsyncConsumer(
                bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
            )
            consumer.assign([TopicPartition("t", 0)])
            for _ in range(4):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await use(consumer)
            async with asyncio.timeout(2):
                await use(consumer)
            await consumer.close()

    simulate(main)


@pytest.mark.parametrize("kind", [AsyncAdmin, AsyncProducer, AsyncConsumer])
def test_a_close_on_another_loop_is_refused_and_the_client_can_still_be_closed(kind: type[Any]) -> None:
    client = kind(bootstrap_servers="127.0.0.1:1")

    async def refused() -> None:
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            await client.close()
        assert not client.closed

    async def main() -> None:
        with pytest.raises(KafkaTimeoutError):
            async with asyncio.timeout(60):
                await asyncio.gather(client.start(timeout_ms=50), elsewhere())
        await client.close()

    async def elsewhere() -> None:
        await asyncio.sleep(0)
        await asyncio.to_thread(asyncio.run, refused())

    asyncio.run(main())
    asyncio.run(client.close())  # nothing is left to close
