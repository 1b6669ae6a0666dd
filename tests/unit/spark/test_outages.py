"""A query outlasts brokers that are away, at every stage of a micro-batch, and says what it waits for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from kclient import Admin, Producer
from kclient.admin import NewTopic
from kclient.errors import KafkaError
from kclient.spark import outages, producers, session, sink
from kclient.spark.ddl import data_type
from kclient.spark.options import Use, parse
from kclient.spark.source import KafkaDataSource
from kclient.testing import Simulation, simulate
from kclient.testing.running import RunningBroker

COUNT = 10
GROUP = {"kafka.group.id": "g", "kclient.durableInitialOffsets": "true", "kclient.commitOffsets": "true"}


class Node:
    """The only broker there is; its address stays while it is away."""

    def __init__(self, running: RunningBroker) -> None:
        self.running = running
        self.servers = running.bootstrap_servers
        self.returned = False

    def go(self) -> None:
        self.returned = False
        self.running.call(self.running.broker.stop_node(1))

    def come_back(self) -> None:
        self.running.call(self.running.broker.start_node(1))
        self.returned = True

    def stream(self, **options: str) -> Any:
        given = {"kafka.bootstrap.servers": self.servers, "subscribe": "t", "startingOffsets": "earliest"}
        source = KafkaDataSource({name.lower(): value for name, value in (given | options).items()})
        return source.streamReader(source.schema())

    def batch(self, **options: str) -> Any:
        source = KafkaDataSource({"kafka.bootstrap.servers": self.servers, "subscribe": "t", **options})
        return source.reader(source.schema())

    def writer(self, **options: str) -> sink.BatchWriter:
        schema = data_type("value string")
        assert isinstance(schema, StructType)
        given = {"kafka.bootstrap.servers": self.servers, "topic": "t", **options}
        return sink.BatchWriter(parse(given, Use.BATCH_WRITE), schema)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(outages, "_FIRST", 0.05)
    with RunningBroker(config={"offsets.topic.num.partitions": "1"}) as running:
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("t", 2))
        with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            for number in range(COUNT):
                producer.send("t", b"%d" % number, partition=number % 2)
        yield Node(running)
        session.close_all()
        producers.close_all()


class Returning(logging.Handler):
    """Has the broker come back, from a thread, when the log tells of a wait for it."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._thread = threading.Thread(target=node.come_back)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if len(self.lines) == 1:
            self._thread.start()

    def __enter__(self) -> Returning:
        outages.log.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        outages.log.removeHandler(self)
        if self._thread.ident is not None:
            self._thread.join()


def read_all(reader: Any, tasks: list[Any]) -> None:
    assert sum(table.num_rows for task in tasks for table in reader.read(task)) == COUNT


def planned(node: Node) -> tuple[Any, Any, Any]:
    stream = node.stream()
    start = stream.initialOffset()
    return stream, start, stream.latestOffset(start, ReadAllAvailable())


def beginning(node: Node) -> Callable[[], object]:
    return lambda: node.stream(**GROUP).initialOffset()


def the_end_of_a_micro_batch(node: Node) -> Callable[[], object]:
    stream, start, _ = planned(node)
    return lambda: stream.latestOffset(start, ReadAllAvailable())


def the_end_of_a_micro_batch_that_is_committed(node: Node) -> Callable[[], object]:
    stream = node.stream(**GROUP)
    start = stream.initialOffset()
    return lambda: stream.latestOffset(start, ReadAllAvailable())


def available_now(node: Node) -> Callable[[], object]:
    return lambda: node.stream().prepareForTriggerAvailableNow()


def new_partitions(node: Node) -> Callable[[], object]:
    stream, start, end = planned(node)
    del start["t"]["1"]
    return lambda: stream.partitions(start, end)


def a_task_of_a_worker_that_has_read_before(node: Node) -> Callable[[], object]:
    stream, start, end = planned(node)
    tasks = stream.partitions(start, end)
    read_all(stream, tasks)
    return lambda: read_all(stream, tasks)


def a_task_of_a_new_worker(node: Node) -> Callable[[], object]:
    stream, start, end = planned(node)
    tasks = stream.partitions(start, end)
    session.close_all()
    return lambda: read_all(stream, tasks)


def a_batch(node: Node) -> Callable[[], object]:
    return lambda: node.batch().partitions()


@pytest.mark.parametrize(
    "stage",
    [
        beginning,
        the_end_of_a_micro_batch,
        the_end_of_a_micro_batch_that_is_committed,
        available_now,
        new_partitions,
        a_task_of_a_worker_that_has_read_before,
        a_task_of_a_new_worker,
        a_batch,
    ],
)
def test_a_broker_that_goes_is_waited_for(node: Node, stage: Callable[[Node], Callable[[], object]]) -> None:
    ask = stage(node)
    node.go()
    with Returning(node) as log:
        ask()
    assert node.returned
    first, *_, last = log.lines
    assert f"waiting for brokers of {node.servers} for" in first
    assert "cannot connect to" in first or "closed the connection" in first or "no answer yet" in first
    assert "answered after" in last


@pytest.mark.parametrize("new", [True, False])
def test_rows_of_a_task_wait_for_a_broker_that_is_gone(node: Node, new: bool) -> None:
    writer = node.writer()
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b", "c"]})
    if not new:
        assert writer.write(iter([batch])).rows == 3
    node.go()
    with Returning(node) as log:
        assert writer.write(iter([batch])).rows == 3
    assert node.returned
    first, *_, last = log.lines
    assert f"writing rows: waiting for brokers of {node.servers} for" in first
    assert "writing rows: the wait is over after" in last


def test_a_task_that_waits_for_spark_does_not_wait_for_brokers(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    looks = threading.Semaphore(0)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": ["a"]})
        for cleared in (True, False):  # what was told of the first row is over by the third look
            for _ in range(3):
                assert looks.acquire(timeout=30)
            if cleared:
                caplog.clear()
        assert caplog.messages == []
        yield pa.RecordBatch.from_pydict({"value": ["b"]})

    writer = node.writer()
    with producers.borrowed(writer._kafka) as producer:
        metrics = producer.metrics

        def counted() -> Any:
            looks.release()
            return metrics()

        producer.metrics = counted  # type: ignore[method-assign]
        assert writer.write(rows()).rows == 2


class Unanswered:
    """A producer whose records no broker takes."""

    def __init__(self) -> None:
        self.records = 0
        self._looks = threading.Semaphore(0)

    def metrics(self) -> SimpleNamespace:
        self._looks.release()
        return SimpleNamespace(records=self.records)

    def health(self) -> SimpleNamespace:
        return SimpleNamespace(last_error="refused")

    def looked_at_again(self) -> None:
        """Return when the watching thread has come to its end with what it saw before."""
        while self._looks.acquire(blocking=False):
            pass
        for _ in range(3):
            assert self._looks.acquire(timeout=30)

    def watched(self) -> outages.RowsWaiting:
        return outages.RowsWaiting(cast(Producer, self), "kafka:9092")


class Told(logging.Handler):
    """Lines of the log, and an event for the first."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.first = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.first.set()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr(outages, "_FIRST", 0.05)
    found = Told()
    outages.log.addHandler(found)
    yield found
    outages.log.removeHandler(found)


@pytest.mark.parametrize("fails", ["in the wait", "after it", "when Spark has more rows"])
def test_a_wait_that_ends_in_a_failure_is_not_said_to_be_over(told: Told, fails: str) -> None:
    producer = Unanswered()

    def task() -> None:
        with producer.watched() as waiting:
            with waiting.blocked():
                assert told.first.wait(30)
                if fails == "in the wait":
                    raise KafkaError("not delivered")
            if fails == "when Spark has more rows":
                producer.looked_at_again()
            raise KafkaError("not delivered")

    with pytest.raises(KafkaError, match="not delivered"):
        task()
    assert "waiting for brokers of kafka:9092 for" in told.lines[0]
    assert not [line for line in told.lines if "over" in line]


@pytest.mark.parametrize("acknowledged", [1, 0], ids=["with an answer", "with the task"])
def test_a_wait_is_said_to_be_over_once(told: Told, acknowledged: int) -> None:
    producer = Unanswered()
    with producer.watched() as waiting:
        with waiting.blocked():
            assert told.first.wait(30)
            producer.records += acknowledged
        producer.looked_at_again()
        assert ("over" in told.lines[-1]) == bool(acknowledged)
    assert "writing rows: the wait is over after" in told.lines[-1]
    assert sum("over" in line for line in told.lines) == 1


def test_a_driver_gives_up_when_its_attempts_are_used_up(node: Node) -> None:
    options = {"fetchOffset.numRetries": "1", "kafka.default.api.timeout.ms": "300"}
    stream = node.stream(**options)
    start = stream.initialOffset()
    node.go()
    with pytest.raises(KafkaError, match=r"within 0\.3 s"):
        stream.latestOffset(start, ReadAllAvailable())
    node.come_back()
    assert stream.latestOffset(start, ReadAllAvailable())["t"] == {"0": 5, "1": 5}


def test_a_topic_that_does_not_exist_is_not_waited_for(node: Node) -> None:
    with pytest.raises(KafkaError, match="topic gone"):
        node.stream(subscribe="gone").initialOffset()


def test_a_wait_is_told_of_with_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    async def story(_: Simulation) -> None:
        outage = outages.Outage("asking for offsets", "kafka:9092")
        with outage.told(lambda: "refused"):
            await asyncio.sleep(1)  # not worth a line
        assert caplog.messages == []
        with suppress(TimeoutError), outage.told(lambda: "refused"):
            async with asyncio.timeout(100):
                await asyncio.sleep(1000)
        with outage.told(lambda: None):
            await asyncio.sleep(200)

    with caplog.at_level(logging.WARNING, logger=outages.log.name):
        simulate(story)
    *waits, last = caplog.messages
    start = "asking for offsets: waiting for brokers of kafka:9092 for"
    seconds = [int(line.removeprefix(start).split()[0]) for line in waits]
    assert seconds == [2, 6, 18, 54, 114, 174, 234, 294]
    assert waits[0] == f"{start} 2 s, asking again (refused)"
    assert waits[-1] == f"{start} 294 s, asking again (no answer yet)"
    assert last == "asking for offsets: answered after 301 s"
