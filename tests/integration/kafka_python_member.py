"""A member of a group, of kafka-python's, in a process of its own; see `tests.broker.kafka_python` for why.

The program gets a JSON object as its argument: the servers, the topic, the strategy and the group. It prints
a line of JSON whenever it has other partitions or has read something, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from kclient.types import TopicPartition

ROOT = Path(__file__).parents[2]
STRATEGIES = {"range": "RangePartitionAssignor", "roundrobin": "RoundRobinPartitionAssignor"}


class KafkaPythons:
    """The process, as the tests see it."""

    def __init__(self, process: asyncio.subprocess.Process, topic: str) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self.read: set[tuple[int, int]] = set()
        self._process = process
        self._topic = topic
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, **given: str) -> KafkaPythons:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "ignore", "-m", __name__, json.dumps(given)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=ROOT,
        )
        return cls(process, given["topic"])

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            self.owned = frozenset(TopicPartition(self._topic, number) for number in told["owned"])
            self.read.update((partition, offset) for partition, offset in told["read"])

    async def close(self) -> None:
        """Leave in order, or be killed."""
        if self._process.returncode is None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(20):
                    await self._process.wait()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._task


def be_a_member(servers: str, topic: str, group: str, strategy: str) -> None:
    """Read until the standard input ends."""
    kafka: Any = import_module("kafka")
    assignors: Any = import_module("kafka.coordinator.assignors." + strategy)
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=500,
        partition_assignment_strategy=[getattr(assignors, STRATEGIES[strategy])],
    )
    with closing(consumer):
        consumer.partitions_for_topic(topic)
        consumer.subscribe([topic])
        before: list[int] = []
        while not over.is_set():
            got = consumer.poll(timeout_ms=50)
            owned = sorted(each.partition for each in consumer.assignment())
            read = [[record.partition, record.offset] for records in got.values() for record in records]
            if read or owned != before:
                print(json.dumps({"owned": owned, "read": read}), flush=True)
                before = owned


if __name__ == "__main__":
    be_a_member(**json.loads(sys.argv[1]))
