"""A world for tests of reading: the embedded broker in virtual time, with topics that are filled directly."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from kclient.broker import Broker
from kclient.broker.api import RequestContext
from kclient.consumer import AsyncConsumer
from kclient.errors import BrokerError
from kclient.records import encode_batch
from kclient.testing import Simulation, simulate
from kclient.types import Record, TopicPartition
from kclient.wire.message import Request
from kclient.wire.messages.fetch import FetchRequest, FetchResponse

T0 = 1_700_000_000_000
Topic = "orders"
Answer = FetchResponse.FetchableTopicResponse


def part(number: int = 0, topic: str = Topic) -> TopicPartition:
    return TopicPartition(topic, number)


def parts(count: int, topic: str = Topic) -> list[TopicPartition]:
    return [part(number, topic) for number in range(count)]


class World:
    """A broker and what it was asked."""

    def __init__(self, sim: Simulation, broker: Broker) -> None:
        self.sim = sim
        self.broker = broker
        self.fetches: list[FetchRequest] = []
        self.requests: list[str] = []
        # What the next fetches are answered with, for each partition of the topic.
        self.failures: list[type[BrokerError]] = []
        broker.faults.hook = self._see

    def _see(self, _: RequestContext, request: Request[Any]) -> FetchResponse | None:
        self.requests.append(request.api_key.name)
        if not isinstance(request, FetchRequest):
            return None
        self.fetches.append(request)
        if not self.failures:
            return None
        code = self.failures.pop().code
        topic = self.broker.topics.topic(Topic)
        answers = [
            Answer.PartitionData(
                partition_index=each.index,
                error_code=code,
                high_watermark=-1,
                aborted_transactions=None,
                records=None,
            )
            for each in topic.partitions
        ]
        return FetchResponse(responses=[Answer(topic_id=topic.topic_id, partitions=answers)])

    def fill(
        self, partition: TopicPartition, batches: int = 1, records: int = 100, size: int = 10
    ) -> TopicPartition:
        """Append batches; a value tells its offset, a timestamp too."""
        if partition.topic not in self.broker.topics.by_name:
            self.broker.create_topic(partition.topic, partition.partition + 1)
        state = self.broker.topics.partition(*partition)
        for _ in range(batches):
            first = state.log.end_offset
            data = encode_batch(
                [
                    (b"key", str(offset).encode().rjust(size, b"0"), T0 + offset, ())
                    for offset in range(first, first + records)
                ]
            )
            state.log.append(data, leader_epoch=state.leader_epoch)
            state.wake()
        return partition

    def fill_all(self, partitions: int, batches: int = 1, records: int = 100, size: int = 10) -> None:
        self.broker.create_topic(Topic, partitions, len(self.broker.nodes))
        for each in parts(partitions):
            self.fill(each, batches, records, size)

    def consumer(self, *topics: str, **options: Any) -> AsyncConsumer[Any, Any]:
        servers = self.broker.bootstrap_servers
        options = {"auto_offset_reset": "earliest", "bootstrap_servers": servers, **options}
        consumer = AsyncConsumer(*topics, **options)
        consumer._engine.clock = self.sim.clock
        return consumer

    def reader(self, partitions: int = 1, **options: Any) -> AsyncConsumer[Any, Any]:
        """A consumer of partitions of the topic."""
        consumer = self.consumer(**options)
        consumer.assign(parts(partitions))
        return consumer


def live(
    story: Callable[[World], Coroutine[Any, Any, None]],
    *,
    nodes: int = 1,
    racks: Iterable[str] = (),
    config: dict[str, str] | None = None,
    seed: int = 0,
) -> None:
    """Run a story in virtual time; whatever it leaves behind fails it."""

    async def main(sim: Simulation) -> None:
        broker = Broker(nodes=nodes, racks=list(racks), config=config, clock=sim.clock, seed=seed)
        async with broker:
            await story(World(sim, broker))

    simulate(main, seed=seed)


async def take(
    consumer: AsyncConsumer[Any, Any], count: int, **options: Any
) -> dict[TopicPartition, list[Record[Any, Any]]]:
    """So many records, with `getmany`; fails if they do not come within a virtual minute."""
    found: dict[TopicPartition, list[Record[Any, Any]]] = {}
    while count > 0:
        got = await consumer.getmany(timeout_ms=60_000, **options)
        assert got, f"{count} records did not come: {consumer.health()}"
        for partition, records in got.items():
            found.setdefault(partition, []).extend(records)
            count -= len(records)
    return found


def offsets(records: Iterable[Record[Any, Any]]) -> list[int]:
    return [record.offset for record in records]
