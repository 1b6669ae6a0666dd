"""Many workers behind one consumer, with commits that leave no gap.

Workers end in any order, and a commit of an offset covers everything before it. So of each partition
the offset is committed up to which all is done: a crash repeats some records and loses none. Order is
given up: where it matters, give each key a worker of its own.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from examples.cluster import cluster_with, fill
from kclient import AsyncConsumer, OffsetAndMetadata, Record, TopicPartition
from kclient.consumer import ConsumerRebalanceListener

TOPIC = "orders"
RECORDS = 200
WORKERS = 8
STUCK = b"order 42"


class Progress:
    """What is at work and what is done of one partition."""

    def __init__(self) -> None:
        self._at_work: set[int] = set()
        self._next = 0  # behind the last record that was begun

    def begin(self, offset: int) -> None:
        self._at_work.add(offset)
        self._next = offset + 1

    def end(self, offset: int) -> None:
        self._at_work.remove(offset)

    @property
    def safe(self) -> int:
        """Everything before this offset is done."""
        return min(self._at_work, default=self._next)


class Pool(ConsumerRebalanceListener):
    """Workers, the queue before them, and the progress behind them."""

    def __init__(self, consumer: AsyncConsumer[bytes | None, bytes | None]) -> None:
        self._consumer = consumer
        # Bounded: reading waits while all are busy.
        self._queue: asyncio.Queue[tuple[Progress, Record[bytes | None, bytes | None]]] = asyncio.Queue(
            WORKERS
        )
        self._progress: defaultdict[TopicPartition, Progress] = defaultdict(Progress)
        self.unstuck, self.all_but_one = asyncio.Event(), asyncio.Event()
        self.done = 0

    async def put(self, record: Record[bytes | None, bytes | None]) -> None:
        progress = self._progress[TopicPartition(record.topic, record.partition)]
        progress.begin(record.offset)
        await self._queue.put((progress, record))

    async def work(self) -> None:
        while True:
            progress, record = await self._queue.get()
            await self._handle(record)
            progress.end(record.offset)
            self.done += 1
            if self.done == RECORDS - 1:
                self.all_but_one.set()
            self._queue.task_done()

    async def _handle(self, record: Record[bytes | None, bytes | None]) -> None:
        if record.value == STUCK:
            await self.unstuck.wait()

    async def commit(self) -> None:
        safe = {key: OffsetAndMetadata(progress.safe) for key, progress in self._progress.items()}
        await self._consumer.commit(safe)

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        """Others go on with these: what is at work is ended before, so that they repeat nothing."""
        await self._queue.join()
        await self.commit()
        for partition in revoked:
            self._progress.pop(partition, None)

    async def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        """Others have them already and repeat what was not committed."""
        await self._queue.join()
        for partition in lost:
            self._progress.pop(partition, None)


async def main(bootstrap: str) -> None:
    consumer = AsyncConsumer(
        bootstrap_servers=bootstrap,
        group_id="workers",
        enable_auto_commit=False,  # it would commit what was handed out, done or not
        auto_offset_reset="earliest",
    )
    pool = Pool(consumer)
    consumer.subscribe([TOPIC], listener=pool)
    partition = TopicPartition(TOPIC, 0)
    async with asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(pool.work()) for _ in range(WORKERS)]
        async with consumer:
            for _ in range(RECORDS):
                await pool.put(await consumer.getone())
            await pool.all_but_one.wait()
            await pool.commit()
            print(f"{pool.done} records done, committed: {await offset(consumer, partition)}")
            pool.unstuck.set()
        # Leaving that block gave up the partitions: the listener waited for the last record and committed.
        for worker in workers:
            worker.cancel()
    async with AsyncConsumer(bootstrap_servers=bootstrap, group_id="workers") as another:
        print(f"{pool.done} records done, committed: {await offset(another, partition)}")


async def offset(
    consumer: AsyncConsumer[bytes | None, bytes | None], partition: TopicPartition
) -> int | None:
    committed = await consumer.committed(partition)
    return committed and committed.offset


if __name__ == "__main__":
    with cluster_with(TOPIC, partitions=1) as (bootstrap, _):
        fill(bootstrap, TOPIC, RECORDS)
        asyncio.run(main(bootstrap))
