"""Memory of a producer in front of a slow broker: ten million records, and resident memory must stay flat.

`python -m benchmarks.produce_memory` prints resident memory after each million records. The broker takes
fewer bytes per second than the producer makes, so the buffer is full all the time; it forgets what it
acknowledges. Broker and producer are processes of their own. Records are fresh objects, as a caller's are.

`buffer_memory` counts bytes of records. What Python adds to them (objects, places in lists, the callback of
each) is the price of a record in Python and is allowed for here.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple

from kclient import AsyncProducer
from kclient.broker import Broker
from kclient.producer import Delivery
from kclient.wire.api import ApiKey
from kclient.wire.messages.produce import ProduceRequest, ProduceResponse

TOPIC = "memory"
PARTITIONS = 6
RECORDS = 10_000_000
SAMPLES = 10
LOOKS = 10  # per sample: the highest of them counts
BYTES_PER_SECOND = 8_000_000
BUFFER_MEMORY = 33_554_432
MAX_REQUEST_SIZE = 1_048_576
IN_FLIGHT = 5
KEY, VALUE = 16, 100
# What is counted for a record, and what it takes: key, value, timestamp and place as objects, a place in each
# of four columns, and an entry in the dictionary of callbacks.
COUNTED = 36 + KEY + VALUE
TAKEN = 64 + 144 + 32 + 32 + 4 * 8 + 100
# For code that runs for the first time, the collector's slack, metrics.
CONSTANT = 16_000_000
# From the second sample on, when everything has run, nothing grows by more than this.
GROWTH_LIMIT = 0.05
# A buffer that was never so full says that the broker was not slow, and nothing was measured.
LEAST_FULL = 0.9


class Result(NamedTuple):
    """Resident bytes before the first record, the most within each sample, and the most of all."""

    before: int
    samples: list[int]
    most: int
    buffer_full: float

    @property
    def limit(self) -> int:
        return self.before + BUFFER_MEMORY * TAKEN // COUNTED + IN_FLIGHT * MAX_REQUEST_SIZE + CONSTANT


def resident(line: str = "VmRSS") -> int:
    """Resident bytes of this process; VmHWM is the most there ever were."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(each.split()[1]) * 1024 for each in status.splitlines() if each.startswith(line))


async def serve() -> None:
    """A broker that takes its time, and forgets: what it stored would be the memory of this machine."""

    async def acknowledge(request: ProduceRequest) -> ProduceResponse:
        topics = request.topic_data
        size = sum(len(part.records or b"") for topic in topics for part in topic.partition_data)
        await asyncio.sleep(size / BYTES_PER_SECOND)
        answer = ProduceResponse.TopicProduceResponse
        return ProduceResponse(
            responses=[
                answer(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        answer.PartitionProduceResponse(index=part.index, error_code=0, base_offset=0)
                        for part in topic.partition_data
                    ],
                )
                for topic in topics
            ]
        )

    def hook(_: object, request: Any) -> Awaitable[ProduceResponse] | None:
        return acknowledge(request) if request.api_key == ApiKey.PRODUCE else None

    async with Broker() as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        broker.faults.hook = hook
        print(broker.bootstrap_servers, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the parent is done


async def produce(bootstrap: str, records: int) -> Result:
    seen = failed = 0

    def settled(delivery: Delivery) -> None:
        nonlocal seen, failed
        seen += 1
        failed += delivery.exception() is not None

    # Slices of it are objects of their own, and cost less to make than text.
    text = random.randbytes(100_000 + VALUE)
    samples, used = [], 0
    async with AsyncProducer(
        bootstrap_servers=bootstrap, buffer_memory=BUFFER_MEMORY, max_request_size=MAX_REQUEST_SIZE
    ) as producer:
        await producer.partitions_for(TOPIC)
        before, most = resident(), 0
        look, sample = records // SAMPLES // LOOKS, records // SAMPLES
        for number in range(1, records + 1):
            at = number % 100_000
            sent = await producer.send(TOPIC, text[at : at + VALUE], text[at : at + KEY])
            sent.add_done_callback(settled)
            if not number % look:
                most = max(most, resident())
                used = max(used, producer.metrics().buffer_used)
            if not number % sample:
                samples.append(most)
                most = 0
        await producer.flush()
    assert (seen, failed) == (records, 0), f"{seen} of {records} settled, {failed} failed"
    return Result(before, samples, resident("VmHWM"), used / BUFFER_MEMORY)


def run(records: int = RECORDS) -> Result | None:
    """None where the system does not tell how much memory a process has."""
    if not Path("/proc/self/status").exists():
        return None
    command = [sys.executable, "-m", "benchmarks.produce_memory"]
    with subprocess.Popen(
        [*command, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        bootstrap = broker.stdout.readline().strip()
        done = subprocess.run(
            [*command, "produce", bootstrap, str(records)], stdout=subprocess.PIPE, text=True, check=True
        )
        broker.communicate("")  # the end of its input is the end of the broker
    return Result(*json.loads(done.stdout))


def table(result: Result | None) -> str:
    if result is None:
        return "this system does not tell"
    lines = [f"{'records':>14}{'resident MB':>14}", f"{0:>14,}{result.before / 1e6:>14.1f}"]
    lines += [
        f"{number * RECORDS // SAMPLES:>14,}{sample / 1e6:>14.1f}"
        for number, sample in enumerate(result.samples, 1)
    ]
    lines.append(f"{'most':>14}{result.most / 1e6:>14.1f}, allowed {result.limit / 1e6:.1f}")
    lines.append(f"the buffer of {BUFFER_MEMORY / 1e6:.1f} MB was up to {result.buffer_full:.0%} full")
    return "\n".join(lines)


def behind(result: Result | None) -> list[str]:
    """Where the promise is not kept, in words."""
    if result is None:
        return []
    found = []
    if result.buffer_full < LEAST_FULL:
        found.append("the broker was not slower than the producer: memory was not put to the test")
    if result.most > result.limit:
        found.append(
            f"a producer took {result.most / 1e6:.1f} MB, promised are {result.limit / 1e6:.1f}: "
            "what it began with, buffer_memory, what is in flight and a constant"
        )
    early, late = result.samples[1], max(result.samples[2:])
    if late > early * (1 + GROWTH_LIMIT):
        found.append(f"a producer grew from {early / 1e6:.1f} to {late / 1e6:.1f} MB, promised is flat")
    return found


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["serve"]:
        asyncio.run(serve())
    elif arguments[:1] == ["produce"]:
        print(json.dumps(asyncio.run(produce(arguments[1], int(arguments[2])))))
    else:
        result = run()
        print(table(result))
        print(*behind(result), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
