"""Short ways to a producer on virtual time, with the embedded broker, and to what has reached its logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kclient.broker import Broker
from kclient.broker.api import RequestContext
from kclient.producer import AsyncProducer
from kclient.records.reader import read_batches
from kclient.testing import Simulation, simulate
from kclient.types import Record
from kclient.wire.message import Request
from kclient.wire.messages.produce import ProduceRequest

Check = Callable[[Broker, AsyncProducer], Awaitable[None]]


def producing(
    check: Check,
    *,
    nodes: int = 1,
    partitions: int = 1,
    settings: dict[str, str] | None = None,
    topic: dict[str, str] | None = None,
    **options: Any,
) -> None:
    """Run a check with a broker, its topic `t` and a producer with these options."""

    async def main(sim: Simulation) -> None:
        async with Broker(nodes=nodes, clock=sim.clock, seed=sim.seed, config=settings) as broker:
            broker.create_topic("t", partitions, nodes, topic)
            async with AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, clock=sim.clock, **options
            ) as producer:
                await check(broker, producer)

    simulate(main)


def written(broker: Broker, topic: str = "t", partition: int = 0) -> list[Record[bytes | None, bytes | None]]:
    """All records of a partition, as its log has them."""
    log = broker.topics.partition(topic, partition).log
    data, offset = b"", log.start_offset
    while offset < log.end_offset:
        chunk = bytes(log.read(offset, 1 << 30))
        data += chunk
        offset = max(batch.last_offset for batch in read_batches(chunk)) + 1
    return [record for batch in read_batches(data) for record in batch.records(topic, partition)]


def values(broker: Broker, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in written(broker, topic, partition)]


def requests_to(broker: Broker) -> list[ProduceRequest]:
    """The produce requests that reach a broker from now on."""
    seen: list[ProduceRequest] = []

    def hook(_: RequestContext, request: Request[Any]) -> None:
        if isinstance(request, ProduceRequest):
            seen.append(request)

    broker.faults.hook = hook
    return seen
