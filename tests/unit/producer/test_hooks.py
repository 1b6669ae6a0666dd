"""What hooks are given, and who is named when what they give back cannot be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.errors import ConfigurationError
from kclient.producer import AsyncProducer, Producer, ProducerRecord
from kclient.testing import RunningBroker
from kclient.types import Header
from tests.support.producing import producing, values, written

PAIRS = (("tenant", b"north"), ("a", None))


class Looking:
    """Keeps the headers of every record that it sees, before and after."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.seen.append(record.headers)
        return record._replace(headers=(*record.headers, ("trace", b"17")))

    def on_delivery(self, record: ProducerRecord, _: object, error: BaseException | None) -> None:
        self.seen.append(type(error) if error else record.headers)


class Returning:
    """Gives back what it is told to."""

    def __init__(self, change: Callable[[ProducerRecord], Any]) -> None:
        self.on_send = change

    def on_delivery(self, *_: object) -> None:
        """What becomes of records is nothing to it."""


def forms() -> list[Any]:
    """The same headers in every form that `send` takes."""
    return [dict(PAIRS), list(PAIRS), PAIRS, iter(PAIRS), (pair for pair in PAIRS), [list(p) for p in PAIRS]]


def test_hooks_see_headers_as_pairs_however_they_were_given() -> None:
    hook = Looking()

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        for headers in forms():
            await producer.send_and_wait("t", b"v", headers=headers)
            assert hook.seen == [PAIRS, (*PAIRS, ("trace", b"17"))]
            hook.seen.clear()
        await producer.send_nowait("t", b"v", headers=dict(PAIRS))
        await producer.send_and_wait("t", b"v")
        assert hook.seen == [PAIRS, (*PAIRS, ("trace", b"17")), (), (("trace", b"17"),)]
        assert [record.headers for record in written(broker)[:7]] == [(*PAIRS, ("trace", b"17"))] * 7

    producing(check, hooks=[hook])


def test_hooks_of_a_blocking_producer_see_them_so_too(kafka_broker: RunningBroker) -> None:
    hook = Looking()
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, hooks=[hook]) as producer:
        for headers in forms():
            producer.send("t", b"v", headers=headers)
        producer.send_nowait("t", b"v", headers=dict(PAIRS))
    assert hook.seen.count(PAIRS) == hook.seen.count((*PAIRS, ("trace", b"17"))) == 7


def test_hooks_are_told_of_a_record_whose_headers_are_refused() -> None:
    hook = Looking()

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        for headers in (17, [1], {"name": "text"}, {1: b"value"}):
            with pytest.raises(TypeError):
                await producer.send("t", b"v", headers=headers)  # type: ignore[arg-type]
        assert hook.seen == [TypeError] * 4
        assert values(broker) == []

    producing(check, hooks=[hook])


def test_the_next_hook_sees_pairs_whatever_form_a_hook_gives_back() -> None:
    hook = Looking()

    def adding(record: ProducerRecord) -> ProducerRecord:
        more: Any = {**dict(record.headers), "more": b"1"}
        return record._replace(headers=more)

    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.send("t", b"v", headers=dict(PAIRS))
        assert hook.seen == [(*PAIRS, ("more", b"1"))]

    producing(check, hooks=[Returning(adding), hook])


NONSENSE: list[dict[str, Any]] = [
    {"headers": [1]},
    {"headers": {"name": "text"}},
    {"headers": 17},
    {"value": "text"},
    {"key": 17},
    {"partition": -1},
    {"partition": "one"},
    {"timestamp_ms": "now"},
    {"topic": None},
    {"topic": "no topic"},
]


@pytest.mark.parametrize("fields", NONSENSE, ids=str)
def test_a_hook_that_gives_back_what_cannot_be_sent_is_named_and_the_record_goes_as_it_was(
    fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    def spoiling(record: ProducerRecord) -> ProducerRecord:
        return record._replace(**fields)

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"v", b"k")
        assert [record[5:8] for record in written(broker)] == [(b"k", b"v", ())]

    producing(check, hooks=[Returning(spoiling)])
    (record,) = caplog.records
    assert "<locals>.spoiling failed" in record.getMessage()
    assert "for a record to t, the hook" in record.getMessage()


def test_what_a_serializer_cannot_make_bytes_of_names_the_hooks_that_it_comes_from() -> None:
    def spoiling(record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=17)

    def looking(record: ProducerRecord) -> ProducerRecord:
        return record

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        with pytest.raises(TypeError) as caught:
            await producer.send("t", "text")
        (note,) = caught.value.__notes__
        assert "the hook" in note
        assert "<locals>.spoiling" in note
        assert "<locals>.looking" not in note
        assert values(broker) == []

    options: dict[str, Any] = {"hooks": [Returning(spoiling), Returning(looking)]}
    producing(check, value_serializer=str.encode, **options)


async def _a_coroutine(*_: object) -> None:
    """Nobody would await it."""


@pytest.mark.parametrize("method", ["on_send", "on_delivery"])
def test_a_hook_that_would_have_to_be_awaited_is_refused(method: str) -> None:
    hook: Any = Returning(lambda record: record)
    setattr(hook, method, _a_coroutine)
    with pytest.raises(ConfigurationError, match=r"_a_coroutine of the hook .* write it with def"):
        AsyncProducer(hooks=[hook])


def typed(headers: Iterable[Header]) -> ProducerRecord:
    """What a type checker must take: headers added to those that are there."""
    record = ProducerRecord("t")
    return record._replace(headers=(*record.headers, *headers))


def test_headers_can_be_added_by_hand() -> None:
    assert typed(PAIRS).headers == PAIRS
