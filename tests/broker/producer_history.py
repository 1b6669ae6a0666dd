"""Producers under every fault of the embedded broker on virtual time: the workload, and the checker.

`story` sends a few hundred records and returns a `History`: what became of each as the producers tell, and
what is in the logs. `violations` says in words what is wrong with it; it must be nothing, whatever the seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from kclient import AsyncProducer
from kclient.broker import Broker
from kclient.broker.faults import Kind
from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.producer import Delivery
from kclient.records import read_batches
from kclient.testing import Simulation
from kclient.types import RecordMetadata
from tests.broker.producer_faults import Trouble

TOPIC = "t"
_ALL = 1 << 30
_A_MOMENT = 1e-6


@dataclass
class Sent:
    """One record: who sent it as its how-manyth, and what became of it."""

    value: bytes
    sender: tuple[int, int]
    number: int
    deadline: float
    settled_at: float | None = None
    error: KafkaError | None = None
    metadata: RecordMetadata | None = None

    def settle(self, loop: asyncio.AbstractEventLoop, delivery: Delivery) -> None:
        assert self.settled_at is None, f"{self.value!r} was settled twice"
        self.settled_at = loop.time()
        self.error = delivery.exception()
        if self.error is None:
            self.metadata = delivery.result()


@dataclass
class History:
    """All that happened.

    `log` has values by partition and offset, `complaints` what was seen on the way, `met` the faults.
    """

    digest: str = ""
    sent: list[Sent] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    log: dict[int, dict[int, bytes]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    met: set[Kind] = field(default_factory=set)

    @property
    def acknowledged(self) -> int:
        return sum(one.metadata is not None for one in self.sent)


def options(random: Random) -> dict[str, Any]:
    """The options of a producer, most of them such that something is often full, late or alone."""
    return {
        "linger_ms": random.choice([0, 0, 5, 50]),
        "batch_size": random.choice([1, 100, 300, 1000, 16_384]),
        "max_in_flight_requests_per_connection": random.randint(1, 5),
        "compression_type": random.choice([None, None, "gzip", "snappy", "lz4", "zstd"]),
        "buffer_memory": random.choice([1000, 5000, 100_000, 10_000_000]),
        "max_request_size": random.choice([600, 2000, 1_048_576]),
        "max_block_ms": random.choice([100, 5000, 60_000, 60_000]),
        "delivery_timeout_ms": random.choice([400, 2000, 5000, 30_000, 30_000, 30_000]),
        "request_timeout_ms": random.choice([200, 1000, 5000]),
        "retries": random.choice([2, 2_147_483_647, 2_147_483_647]),
        "retry_backoff_ms": random.choice([50, 100]),
        "metadata_max_age_ms": random.choice([500, 300_000]),
        "connections_max_idle_ms": random.choice([300, 540_000]),
    }


class Workload:
    """One producer and the tasks that share it."""

    def __init__(self, sim: Simulation, number: int, history: History, producer: AsyncProducer) -> None:
        self._random = Random(f"workload {sim.seed} {number}")
        self._loop = sim.loop
        self._number = number
        self._history = history
        self._producer = producer
        self._timeout = producer._config.delivery_timeout_ms / 1000

    async def run(self) -> None:
        random = self._random
        tasks = random.randint(1, 4)
        shares = [random.randint(10, 40) for _ in range(tasks)]
        await asyncio.gather(*(self._send_some(task, count) for task, count in enumerate(shares)))

    async def _send_some(self, task: int, count: int) -> None:
        random = self._random
        pause = random.choice([0.0, 0.01, 0.1])
        number = 0
        while number < count:
            if random.random() < 0.1:
                number += await self._send_many(task, number, random.randint(1, 20))
            else:
                await self._send_one(task, number)
                number += 1
            if random.random() < 0.3:
                await asyncio.sleep(random.uniform(0, pause))
            if random.random() < 0.02:
                await self._flush()

    def _record(self, task: int, number: int) -> tuple[bytes, bytes | None]:
        """Value and key; the value is like no other."""
        size = self._random.choice([0, 10, 10, 100, 300])
        value = b"%d.%d.%d" % (self._number, task, number)
        return value.ljust(size, b"."), self._random.choice([None, b"a", b"b", b"c", b"d", b"e"])

    async def _send_one(self, task: int, number: int) -> None:
        value, key = self._record(task, number)
        try:
            if self._random.random() < 0.2:
                delivery = self._producer.send_nowait(TOPIC, value, key)
            else:
                delivery = await self._producer.send(TOPIC, value, key)
        except KafkaError:
            self._history.refused.append(value)
            return
        self._watch(value, task, number, delivery)

    async def _send_many(self, task: int, number: int, count: int) -> int:
        records = [self._record(task, number + one) for one in range(count)]
        values, keys = zip(*records, strict=True)
        try:
            deliveries = await self._producer.send_many(TOPIC, values, keys)
        except KafkaError:
            self._history.refused += values
            return count
        deadline = self._loop.time() + self._timeout
        sent = [
            Sent(value, (self._number, task), number + rank, deadline) for rank, value in enumerate(values)
        ]
        self._history.sent += sent

        def settled() -> None:
            found = deliveries.errors()
            for rank, one in enumerate(sent):
                one.settled_at = self._loop.time()
                one.error = found.get(rank)
                one.metadata = None if one.error else deliveries[rank]

        deliveries.add_done_callback(settled)
        return count

    def _watch(self, value: bytes, task: int, number: int, delivery: Delivery) -> None:
        one = Sent(value, (self._number, task), number, self._loop.time() + self._timeout)
        self._history.sent.append(one)
        delivery.add_done_callback(partial(one.settle, self._loop))

    async def _flush(self) -> None:
        try:
            await self._producer.flush()
        except KafkaTimeoutError as error:
            self._history.complaints.append(f"flush: {error}")

    async def close(self, *, hasty: bool) -> None:
        """End the producer, in time for all records or not."""
        core = self._producer._core
        if not hasty:
            await self._flush()
            if core is not None and core.accumulator.memory_used:
                self._history.complaints.append(f"{core.accumulator} when all was settled")
        try:
            await self._producer.close(timeout_ms=self._random.choice([0, 50, 500]) if hasty else 10_000)
        except KafkaTimeoutError as error:
            if not hasty:
                self._history.complaints.append(f"close: {error}")
        if core is not None and core.accumulator.memory_used:
            self._history.complaints.append(f"{core.accumulator} after close")


async def story(sim: Simulation, **fixed: Any) -> History:
    """What the seed makes of it; `fixed` options are the same for every seed."""
    random, history = sim.random, History()
    configs = {"min.insync.replicas": random.choice(["1", "2"])}
    if random.random() < 0.2:
        configs["max.message.bytes"] = "350"
    partitions = random.randint(1, 5)
    async with Broker(nodes=3, clock=sim.clock, seed=sim.seed) as broker:
        broker.create_topic(TOPIC, partitions, 3, configs)
        trouble = Trouble(sim, broker, TOPIC, partitions)
        workloads = []
        for number in range(random.randint(1, 2)):
            chosen = options(random) | fixed
            servers = broker.bootstrap_servers
            producer = AsyncProducer(bootstrap_servers=servers, clock=sim.clock, **chosen)
            workloads.append(Workload(sim, number, history, producer))
        troubled = asyncio.create_task(trouble.run(random.randint(3, 25), random.choice([0.02, 0.1, 0.5])))
        await asyncio.gather(*(workload.run() for workload in workloads))
        if random.random() < 0.8:
            await troubled
            await trouble.end()
        hasty = random.random() < 0.2
        await asyncio.gather(*(workload.close(hasty=hasty) for workload in workloads))
        await troubled
        await trouble.end()
        await asyncio.sleep(10)  # what is still on its way arrives
        history.log = {number: _values(broker, number) for number in range(partitions)}
    history.met = trouble.met
    history.digest = sim.trace.digest()
    return history


def _values(broker: Broker, partition: int) -> dict[int, bytes]:
    data = broker.topics.partition(TOPIC, partition).log.read(0, _ALL)
    return {
        record.offset: record.value or b""
        for batch in read_batches(data)
        for record in batch.records(TOPIC, partition)
    }


# The checker


def violations(history: History) -> list[str]:
    """All that is wrong, in words."""
    return [
        *history.complaints,
        *(found for check in CHECKS for found in check(history)),
    ]


def lost(history: History) -> list[str]:
    """Acknowledged records that are not where they should be."""
    there = {value for values in history.log.values() for value in values.values()}
    found = []
    for one in history.sent:
        if one.metadata is None:
            continue
        if one.value not in there:
            found.append(f"lost: {_name(one)} was acknowledged and is nowhere")
        elif one.metadata.offset != -1:
            at = history.log[one.metadata.partition].get(one.metadata.offset)
            if at != one.value:
                found.append(f"lost: {_name(one)} is not at {one.metadata}, where {at!r} is")
    return found


def twice(history: History) -> list[str]:
    """Records that are in the logs more than once."""
    seen: set[bytes] = set()
    found = []
    for partition, values in history.log.items():
        for offset, value in values.items():
            if value in seen:
                found.append(f"twice: {value[:20]!r}, again at {partition}:{offset}")
            seen.add(value)
    return found


def unsent(history: History) -> list[str]:
    """Records in the logs that nobody was allowed to send."""
    sent = {one.value for one in history.sent}
    return [
        f"unsent: {value[:20]!r} at {partition}:{offset}"
        for partition, values in history.log.items()
        for offset, value in values.items()
        if value not in sent
    ]


def disordered(history: History) -> list[str]:
    """Records of one task that are in a partition behind others that it sent later."""
    by_value = {one.value: one for one in history.sent}
    found = []
    for partition, values in history.log.items():
        newest: dict[tuple[int, int], Sent] = {}
        for offset, value in sorted(values.items()):
            one = by_value.get(value)
            if one is None:
                continue
            before = newest.get(one.sender)
            if before is not None and before.number > one.number:
                found.append(
                    f"disorder: {_name(one)} at {partition}:{offset} is behind {_name(before)}, sent later"
                )
            else:
                newest[one.sender] = one
    return found


def late(history: History) -> list[str]:
    """Records that were not settled by their delivery timeout."""
    return [
        f"late: {_name(one)} was to be settled by {one.deadline:.3f} and was at {one.settled_at}"
        for one in history.sent
        if one.settled_at is None or one.settled_at > one.deadline + _A_MOMENT
    ]


CHECKS: tuple[Callable[[History], list[str]], ...] = (lost, twice, unsent, disordered, late)


def _name(one: Sent) -> str:
    return f"{one.value[:20]!r} ({one.error!r})" if one.error else f"{one.value[:20]!r}"
