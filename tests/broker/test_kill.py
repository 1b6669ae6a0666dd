"""What a broker acknowledged is there after `kill -9`, whenever that comes, and its files are sound.

A killed process takes nothing with it that it handed to the operating system, and the broker writes before it
acknowledges. So under every fsync policy every acknowledged record must be there; what the policies differ in
is what a power cut takes, and which files are synced when, which unit tests hold.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.net.dial import dial
from kclient.records import Stamp
from kclient.wire.messages.transactions import InitProducerIdRequest
from tests.broker import segments
from tests.broker.conversation import build
from tests.broker.killable import Brokers
from tests.broker.librdkafka import consumer, take, until
from tests.broker.records_script import produce, records
from tests.support.connecting import settings
from tools.kafka import commands
from tools.kafka.jars import JarSet
from tools.kafka.jvm import CommandRunner, installed_java
from tools.kafka.workspace import Workspace

PARTITIONS = 3
# Segments and index intervals so small that kills come while segments are begun and indexed.
SMALL = ("log.segment.bytes=12000", "log.index.interval.bytes=400", "offsets.topic.num.partitions=2")
OPTIONS = [word for setting in SMALL for word in ("--config", setting)]
# With sparse connections librdkafka looks for a lost broker once a second only.
IMPATIENT: dict[str, str | int | float | bool] = {
    "enable.sparse.connections": False,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
    "log_level": 0,
}
_JARS = JarSet.broker("4.3.1")
_JAVA = installed_java()


@dataclass
class Story:
    """What was asked of the brokers and what they acknowledged."""

    servers: str
    random: Random
    sent: int = 0
    # Where the broker said that it put a record.
    acknowledged: dict[int, tuple[int, int]] = field(default_factory=dict)
    creations: dict[str, Future[None]] = field(default_factory=dict)
    committed: int = -1

    def __post_init__(self) -> None:
        common: dict[str, str | int | float | bool] = {"bootstrap.servers": self.servers, **IMPATIENT}
        self.producer = Producer(
            {**common, "enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 7}
        )
        self.admin = AdminClient(common)

    def send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            value = b"%d " % number + bytes(self.random.randrange(400))
            report = self._report(number)
            self.producer.produce("orders", value, partition=number % PARTITIONS, on_delivery=report)
        self.sent += count

    def _report(self, number: int) -> Callable[[Any, Any], None]:
        def report(error: Any, message: Any) -> None:
            assert error is None, f"record {number}: {error}"
            assert number not in self.acknowledged
            self.acknowledged[number] = (message.partition(), message.offset())

        return report

    def wait_for(self, count: int) -> None:
        """Return when so many of all records are acknowledged."""

        def arrived() -> bool:
            self.producer.poll(0.002)
            return len(self.acknowledged) >= count

        until(arrived, lambda: f"{len(self.acknowledged)} of {count} acknowledged")

    def create(self, name: str) -> None:
        """Ask for a topic; whether the answer comes before the kill is left to chance."""
        self.creations.update(self.admin.create_topics([NewTopic(name, 2, 1)]))

    def commit(self) -> None:
        with consumer(self.servers, **IMPATIENT) as client:
            offset = TopicPartition("orders", 0, self.sent)
            client.commit(offsets=[offset], asynchronous=False)
        self.committed = self.sent


def run_and_kill(brokers: Brokers, kills: int, seed: int) -> Story:
    """Write all the time; kill and restart so often, at points that the seed decides."""
    random = Random(seed)
    brokers.start()
    story = Story(brokers.servers, random)
    make_topic(story.admin, "orders", PARTITIONS)
    for number in range(kills):
        story.send(random.randrange(10, 60))
        if number % 5 == 0:
            story.create(f"made-{number}")
        if number % 10 == 3:
            story.commit()
        done = len(story.acknowledged)
        story.wait_for(random.randint(done, story.sent))
        brokers.kill()
        brokers.start()
        if number % 10 == 0:
            assert not all_faults(brokers.data)
    assert story.producer.flush(15) == 0
    return story


def make_topic(admin: AdminClient, name: str, partitions: int) -> None:
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(15)


def all_faults(data: Path) -> list[str]:
    return [fault for path in data.glob("*-[0-9]*") for fault in segments.faults(path)]


@pytest.mark.parametrize(("policy", "kills"), [("never", 34), ("interval", 33), ("always", 33)])
def test_what_was_acknowledged_survives_a_hundred_kills_in_order_and_once(
    tmp_path: Path, policy: str, kills: int
) -> None:
    with Brokers(tmp_path / "data", "--fsync", policy, *OPTIONS) as brokers:
        story = run_and_kill(brokers, kills, seed=kills)
        assert brokers.starts == kills + 1
        assert len(story.acknowledged) == story.sent
        check_records(story)
        check_the_rest(story)
        brokers.kill()
        brokers.start()
        brokers.terminate()
    assert not all_faults(brokers.data)
    check_epochs(brokers.data, brokers.starts - 1)
    check_with_kafkas_own_tool(brokers.data)


def check_records(story: Story) -> None:
    """Every record is where the broker said, in the order of sending, once."""
    with consumer(story.servers, **{"check.crcs": True, "enable.auto.commit": False}) as client:
        client.assign([TopicPartition("orders", number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        found = take(client, story.sent)
    by_partition: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    for message in found:
        number = int(message.value().split(b" ")[0])
        assert story.acknowledged[number] == (message.partition(), message.offset())
        by_partition[message.partition()].append(number)
    assert by_partition == {one: list(range(one, story.sent, PARTITIONS)) for one in range(PARTITIONS)}


def check_the_rest(story: Story) -> None:
    """Topics that were made and offsets that were committed."""
    made = {name for name, creation in story.creations.items() if creation.exception(15) is None}
    assert made
    described = story.admin.list_topics(timeout=15).topics
    assert {name: len(described[name].partitions) for name in made} == dict.fromkeys(made, 2)
    with consumer(story.servers) as client:
        (offset,) = client.committed([TopicPartition("orders", 0)], timeout=15)
    assert offset.offset == story.committed > 0


def check_epochs(data: Path, epoch: int) -> None:
    """Every start began an epoch, and batches and checkpoint agree about it."""
    for number in range(PARTITIONS):
        stamped: dict[int, int] = {}
        for batch in segments.partition_batches(data / f"orders-{number}"):
            stamped.setdefault(batch.leader_epoch, batch.base_offset)
        assert list(stamped) == sorted(stamped)
        assert len(stamped) > epoch // 3
        known = segments.epoch_starts(data / f"orders-{number}")
        assert known.pop(epoch) == batch.last_offset + 1
        assert known == stamped


def check_with_kafkas_own_tool(data: Path) -> None:
    if _JAVA is None or not _JARS.is_cached():
        pytest.skip("all the rest held, but Kafka's own tool could not look: no Java, or no jars")
    logs = [path for number in range(PARTITIONS) for path in (data / f"orders-{number}").glob("*.log")]
    indexes = [path.with_suffix(kind) for kind in (".index", ".timeindex") for path in logs]
    with Workspace() as workspace:
        runner = CommandRunner(_JAVA, _JARS.class_path, workspace)
        main = commands.resolve("dump-log", _JARS.directory)
        output = runner.run(main, ["--files", ",".join(map(str, indexes)), "--index-sanity-check"])
        said = output.stdout + output.stderr
        assert said.count("passed sanity check") + said.count("is empty") == len(indexes), said
        output = runner.run(main, ["--files", ",".join(map(str, indexes)), "--verify-index-only"])
    said = output.stdout + output.stderr
    assert not any(word in said for word in ("ismatch", "Exception", "Found")), said


def test_a_producers_repeated_batches_are_known_after_a_kill(tmp_path: Path) -> None:
    with Brokers(tmp_path / "data", *OPTIONS) as brokers:
        brokers.start()
        make_topic(AdminClient({"bootstrap.servers": brokers.servers}), "repeated", 1)
        producer_id, first = asyncio.run(write(brokers.port, None))
        brokers.kill()
        brokers.start()
        assert asyncio.run(write(brokers.port, producer_id)) == (producer_id, first)
        assert first == [0, 1, 2, 3, 4]
        brokers.kill()
        brokers.start()
        another, _ = asyncio.run(write(brokers.port, None))
        assert another > producer_id


async def write(port: int, producer_id: int | None) -> tuple[int, list[int]]:
    """Send five batches of a producer, a new one if none is given: its id, and where they were put."""
    loop = asyncio.get_running_loop()
    connection = await dial(Endpoint("127.0.0.1", port), settings(), Deadline.after(loop, 15))
    try:
        deadline = Deadline.after(loop, 15)
        if producer_id is None:
            asked = build(InitProducerIdRequest, transactional_id=None, transaction_timeout_ms=1000)
            producer_id = (await connection.call(asked, deadline, version=4)).producer_id
        offsets = []
        for sequence in range(5):
            stamp = Stamp(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            batch = records(b"x" * 5000, time=int(time.time() * 1000), stamp=stamp)
            answer = await connection.call(produce("repeated", batch), deadline, version=11)
            (said,) = answer.responses[0].partition_responses
            assert said.error_code == 0
            offsets.append(said.base_offset)
        return producer_id, offsets
    finally:
        connection.close()
        await connection.wait_closed()
