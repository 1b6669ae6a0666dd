"""What users give a producer, and everything it may do: raise, answer nonsense, call the producer.

For each place: somebody is told, with the name of the function and the cause, and other records arrive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.errors import ConfigurationError, KafkaError
from kclient.producer import AsyncProducer, PartitionView, Producer, ProducerRecord
from kclient.testing import RunningBroker
from tests.support.misbehaviour import EXITS, RAISED
from tests.support.producing import producing, values
from tests.support.threads import wait_for_no_threads

BAD = b"bad"


async def goes_on(broker: Broker, producer: AsyncProducer) -> None:
    """Records are delivered, each once, and nothing is left over."""
    before = len(values(broker))
    for number in range(3):
        assert (await producer.send_and_wait("t", b"%d" % number, key=b"k")).offset == before + number
    await (await producer.send_many("t", [b"many"] * 5, keys=[b"k"] * 5))
    await producer.flush()
    assert len(values(broker)) == before + 8
    assert producer.metrics().buffer_used == producer.metrics().in_flight == 0
    assert producer.health().failure is None


def left(exits: list[BaseException], raised: type[BaseException]) -> bool:
    return [type(error) for error in exits] == [raised] * issubclass(raised, EXITS)


Use = Callable[[AsyncProducer], object]


@pytest.mark.parametrize(
    "use",
    [
        lambda _: "nonsense",
        lambda producer: producer.send_nowait("t", b"from a callback"),
        lambda producer: producer.metrics(),
    ],
    ids=["nonsense", "sends", "asks"],
)
def test_a_callback_may_use_the_producer(use: Use) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        called: list[object] = []
        delivery = await producer.send("t", b"v")
        delivery.add_done_callback(lambda _: called.append(use(producer)))
        many = await producer.send_many("t", [b"v"] * 3)
        many.add_done_callback(lambda: called.append(use(producer)))
        await producer.flush()
        await producer.flush()
        assert len(called) == 2
        await goes_on(broker, producer)

    producing(check)


def test_a_callback_may_have_the_producer_closed() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        closing: list[asyncio.Task[None]] = []
        delivery = await producer.send("t", b"v")
        delivery.add_done_callback(lambda _: closing.append(asyncio.create_task(producer.close())))
        late = await producer.send("t", b"w")
        await delivery
        await closing[0]
        assert producer.closed
        assert late.result().offset == 1

    producing(check)


@pytest.mark.parametrize("raised", RAISED)
def test_callbacks_that_raise_are_logged_and_records_go_on(
    raised: type[BaseException], exits: list[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def callback(*_: object) -> None:
        raise raised

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        (await producer.send("t", b"v")).add_done_callback(callback)
        (await producer.send_many("t", [b"v"] * 3)).add_done_callback(callback)
        await producer.flush()
        await goes_on(broker, producer)

    producing(check)
    assert len(caplog.records) == 2
    assert all("<locals>.callback failed" in record.getMessage() for record in caplog.records)
    assert not exits or {type(error) for error in exits} == {raised}
    assert bool(exits) == issubclass(raised, EXITS)


class Hook:
    """A hook that does something for records of one value."""

    def __init__(self, method: str, does: Callable[[], object]) -> None:
        self.method = method
        self.does = does
        self.fates: list[object] = []

    def on_send(self, record: ProducerRecord) -> Any:
        return self.does() if self.method == "on_send" and record.value == BAD else None

    def on_delivery(self, record: ProducerRecord, metadata: object, error: BaseException | None) -> None:
        self.fates.append(error or metadata)
        if self.method == "on_delivery" and record.value == BAD:
            self.does()


@pytest.mark.parametrize("method", ["on_send", "on_delivery"])
@pytest.mark.parametrize("raised", RAISED)
def test_a_hook_that_raises_changes_nothing_for_records_and_for_other_hooks(
    raised: type[BaseException], method: str, exits: list[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def does() -> None:
        raise raised

    faulty, other = Hook(method, does), Hook("", does)

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        delivery = await producer.send("t", BAD)
        await producer.flush()
        assert delivery.result().offset == 0
        assert len(other.fates) == 1
        await goes_on(broker, producer)

    producing(check, hooks=[faulty, other])
    (record,) = caplog.records
    assert f"{__name__}.Hook.{method} failed" in record.getMessage()
    assert left(exits, raised)


@pytest.mark.parametrize("said", [17, "text", ("t", b"v"), b""])
def test_a_hook_that_answers_no_record_is_told_of_and_the_record_is_sent_as_it_is(
    said: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", BAD)
        assert values(broker) == [BAD]
        await goes_on(broker, producer)

    producing(check, hooks=[Hook("on_send", lambda: said)])
    (record,) = caplog.records
    assert "Hook.on_send failed" in record.getMessage()
    assert "return a ProducerRecord" in record.getMessage()


@pytest.mark.parametrize("many", [False, True], ids=["send", "send_many"])
@pytest.mark.parametrize("which", ["key_serializer", "value_serializer"])
@pytest.mark.parametrize("raised", RAISED)
def test_what_a_serializer_raises_comes_out_of_send_and_is_no_cancellation(
    raised: type[BaseException], which: str, many: bool
) -> None:
    def serialize(data: bytes | None) -> bytes | None:
        if data == BAD:
            raise raised
        return data

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        with pytest.raises(KafkaError if raised is asyncio.CancelledError else raised) as caught:
            await (producer.send_many("t", [BAD], [BAD]) if many else producer.send("t", BAD, BAD))
        if raised is asyncio.CancelledError:
            assert "serialize failed" in str(caught.value)
            assert isinstance(caught.value.__cause__, raised)
        await goes_on(broker, producer)

    options: dict[str, Any] = {which: serialize}
    producing(check, **options)


class Partitioning:
    """A partitioner that does something for one key."""

    def __init__(self, does: Callable[[], Any]) -> None:
        self.does = does

    def partition(self, _topic: str, key: bytes | None, _value: bytes | None, _view: PartitionView) -> Any:
        return self.does() if key == BAD else 0


class PartitioningMany(Partitioning):
    """The same for a partitioner that is asked about many keys at once."""

    def partition_many(self, keys: Any, _count: int) -> Any:
        return [self.does() if key == BAD else 0 for key in keys]


def partitioners(does: Callable[[], Any]) -> list[object]:
    def function(key: bytes | None, _all: list[int], _available: list[int]) -> Any:
        return does() if key == BAD else 0

    return [function, Partitioning(does), PartitioningMany(does)]


KINDS = pytest.mark.parametrize("kind", [0, 1, 2], ids=["function", "object", "keyed"])
COUNTS = pytest.mark.parametrize("count", [1, 20, 200])


@KINDS
@COUNTS
@pytest.mark.parametrize("raised", RAISED)
def test_what_a_partitioner_raises_is_the_error_of_its_record_and_of_no_other(
    raised: type[BaseException], kind: int, count: int, exits: list[BaseException]
) -> None:
    def does() -> int:
        raise raised

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        good = [await producer.send("t", b"v", b"k") for _ in range(count - 1)]
        bad = await producer.send("t", b"v", BAD)
        await producer.flush()
        error = bad.exception()
        assert isinstance(error, ConfigurationError)
        assert isinstance(error.__cause__, raised)
        assert "function" in str(error) or "Partitioning" in str(error)
        assert [each.result().offset for each in good] == list(range(count - 1))
        await goes_on(broker, producer)

    producing(check, partitioner=partitioners(does)[kind])
    assert bool(exits) == issubclass(raised, EXITS)


@KINDS
@COUNTS
@pytest.mark.parametrize("said", [-1, 17, "0", 0.5, True, object()])
def test_a_partitioner_that_answers_nonsense_fails_its_record_and_no_other(
    said: object, kind: int, count: int
) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        good = [await producer.send("t", b"v", b"k") for _ in range(count - 1)]
        bad = await producer.send("t", b"v", BAD)
        await producer.flush()
        assert isinstance(bad.exception(), ConfigurationError)
        assert [each.result().offset for each in good] == list(range(count - 1))
        await goes_on(broker, producer)

    producing(check, partitioner=partitioners(lambda: said)[kind])


@pytest.mark.parametrize("raised", RAISED)
def test_the_thread_of_a_blocking_producer_outlives_what_callbacks_raise(
    raised: type[BaseException], kafka_broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> int:
        raise raised

    def partition(key: bytes | None, *_: object) -> int:
        return fails() if key == BAD else 0

    topic = f"outlives-{raised.__name__}"
    kafka_broker.broker.create_topic(topic, 1)
    servers = kafka_broker.broker.bootstrap_servers
    # They linger until the flush: a callback for a record that is delivered already runs here.
    with Producer(bootstrap_servers=servers, partitioner=partition, linger_ms=60_000) as producer:
        producer.send(topic, b"one").add_done_callback(fails)
        producer.send_many(topic, [b"two"]).add_done_callback(fails)
        bad = producer.send(topic, b"three", BAD)
        producer.flush()
        assert isinstance(bad.exception(), ConfigurationError)
        four = producer.send(topic, b"four")
        producer.flush()
        assert four.result().offset == 2
        assert producer.health().connected
    wait_for_no_threads()
    assert sum("fails failed" in record.getMessage() for record in caplog.records) == 2
    assert any("does not end" in record.getMessage() for record in caplog.records) == issubclass(
        raised, EXITS
    )
