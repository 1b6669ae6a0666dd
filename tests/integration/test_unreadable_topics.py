"""A consumer that cannot read its topic, on real brokers: no right, no such topic, no way to the leader.

Each with asyncio and with threads, alone and in groups of both protocols.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.consumer import AsyncConsumer, Consumer
from kclient.errors import InvalidTopicError, KafkaError, KafkaTimeoutError, TopicAuthorizationFailedError
from kclient.producer import Producer
from kclient.types import TopicPartition
from kclient.wire.messages.acls import CreateAclsRequest
from tests.support.secured import Visitor
from tools.kafka import KafkaCluster
from tools.kafka.config import Listener
from tools.kafka.fixtures import BrokerPool
from tools.kafka.provider import PlainKafka
from tools.kafka.versions import DEFAULT_VERSION

T = TypeVar("T")

pytestmark = pytest.mark.kafka

PATIENCE = 60
KINDS = ["assign", "alone", "classic", "consumer"]
of_every_kind = pytest.mark.parametrize("kind", KINDS)
of_both = pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "threads"])

_TOPIC, _GROUP, _LITERAL, _ALLOW, _READ = 2, 3, 3, 3, 3


class Reading:
    """One consumer, with asyncio or with threads, seen from ordinary code."""

    def __init__(self, blocking: bool, kind: str, topic: str, **options: Any) -> None:
        self.topic = topic
        if kind in ("classic", "consumer"):
            options |= {"group_id": f"group-{topic}", "group_protocol": kind}
        options = {"auto_offset_reset": "earliest", **options}
        self.consumer: Any = (Consumer if blocking else AsyncConsumer)(**options)
        self._runner = None if blocking else asyncio.Runner()
        if kind == "assign":
            self.consumer.assign([self.place])
        else:
            self.consumer.subscribe([topic])

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def __call__(self, call: str, *args: Any, **options: Any) -> Any:
        if self._runner is None:
            return getattr(self.consumer, call)(*args, **options)
        return self._runner.run(self._await(call, args, options))

    async def _await(self, call: str, args: Any, options: Any) -> Any:
        return await getattr(self.consumer, call)(*args, **options)

    def get(self, timeout_ms: float) -> list[bytes]:
        found = self("getmany" if self._runner else "poll", timeout_ms=timeout_ms)
        return [record.value for records in found.values() for record in records]

    def get_all(self, count: int) -> list[bytes]:
        """So many values; errors about rights that were given a moment ago are passed over."""
        ends, values = time.monotonic() + PATIENCE, list[bytes]()
        while len(values) < count:
            assert time.monotonic() < ends, self.complaints()
            try:
                values += self.get(1_000)
            except TopicAuthorizationFailedError:
                continue
        return values

    def complaints(self) -> tuple[str, ...]:
        found: tuple[str, ...] = self.consumer.health().complaints
        return found

    def close(self) -> None:
        self("close")
        if self._runner is not None:
            self._runner.close()


@contextmanager
def reading(blocking: bool, kind: str, topic: str, **options: Any) -> Iterator[Reading]:
    found = Reading(blocking, kind, topic, **options)
    try:
        found("start")
        yield found
    finally:
        found.close()


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def lost_kafka(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    """A broker that tells clients of an address that no resolver knows."""
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster(listeners=[Listener("LOST", advertised_host="broker.invalid")]) as cluster:
        yield cluster


def allow(kafka: KafkaCluster, user: str, resource: int, name: str) -> None:
    """Let a user read a topic, or as a group."""
    request = CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=resource,
                resource_name=name,
                resource_pattern_type=_LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=_READ,
                permission_type=_ALLOW,
            )
        ]
    )

    async def ask(cluster: Cluster) -> None:
        answer = await cluster.call(None, lambda _: request, CreateAclsRequest, cluster.deadline())
        assert [result.error_code for result in answer.results] == [0]

    asyncio.run(with_cluster(kafka.bootstrap(), ask))


async def with_cluster(servers: str, work: Callable[[Cluster], Awaitable[T]]) -> T:
    cluster = Cluster(ClientConfig(bootstrap_servers=servers))
    try:
        await cluster.start(cluster.deadline())
        return await work(cluster)
    finally:
        await cluster.close()


def produce(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"first").result(PATIENCE)


def warnings(caplog: pytest.LogCaptureFixture, about: str) -> list[str]:
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [message for message in said if about in message]


def error_of(call: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value


@of_both
@of_every_kind
def test_a_missing_right_is_raised_at_once_and_reading_begins_when_it_is_given(
    visitor: Visitor, kind: str, blocking: bool, topic: str
) -> None:
    kafka = visitor.kafka
    kafka.create_topic(topic)
    produce(kafka.bootstrap(), topic)
    allow(kafka, "bob", _GROUP, f"group-{topic}")
    options = visitor.password("SASL_PLAINTEXT", "PLAIN", "bob")
    with reading(blocking, kind, topic, **options) as consumer:
        error = error_of(lambda: consumer.get(PATIENCE * 1_000))
        assert isinstance(error, TopicAuthorizationFailedError)
        assert f"topic {topic}" in str(error)
        assert any(topic in complaint for complaint in consumer.complaints())
        questions: list[tuple[str, Any]] = [
            ("beginning_offsets", [consumer.place]),
            ("end_offsets", [consumer.place]),
            ("offsets_for_times", {consumer.place: 0}),
        ]
        for question, about in [*questions, ("position", consumer.place)][: 4 if kind == "assign" else 3]:
            error = error_of(partial(consumer, question, about))
            assert isinstance(error, TopicAuthorizationFailedError)
        allow(kafka, "bob", _TOPIC, topic)
        assert consumer.get_all(1) == [b"first"]
        assert consumer.complaints() == ()


@of_both
@of_every_kind
def test_a_topic_that_does_not_exist_is_a_warning_and_is_read_when_it_is_made(
    kafka: PlainKafka, kind: str, blocking: bool, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with reading(blocking, kind, topic, bootstrap_servers=kafka.bootstrap()) as consumer:
        ends = time.monotonic() + PATIENCE
        while not warnings(caplog, topic):
            assert time.monotonic() < ends
            assert consumer.get(500) == []
        (warning,) = warnings(caplog, topic)
        assert "does not exist" in warning
        assert consumer.complaints() == (warning,)
        if kind == "assign":
            late = error_of(lambda: consumer("position", consumer.place, timeout_ms=500))
            assert isinstance(late, KafkaTimeoutError)
            assert "does not exist" in str(late)
        kafka.create_topic(topic)
        produce(kafka.bootstrap(), topic)
        assert consumer.get_all(1) == [b"first"]
        assert consumer.complaints() == ()


@of_both
def test_brokers_refuse_the_names_that_consumers_refuse(kafka: PlainKafka, blocking: bool) -> None:
    illegal, legal = [".", "..", "my orders", "a/b", "ö", "x" * 250], ["...", "A.b_c-9", "x" * 249]
    for name in illegal:
        with pytest.raises(InvalidTopicError, match="allowed are 1 to 249"):
            Reading(blocking, "alone", name)
    for name in legal:
        Reading(blocking, "alone", name)

    async def ask(cluster: Cluster) -> dict[str, int]:
        cluster.metadata.follow([*illegal, *legal])
        return dict((await cluster.metadata.refreshed(cluster.deadline())).errors)

    errors = asyncio.run(with_cluster(kafka.bootstrap(), ask))
    assert errors == dict.fromkeys(illegal, 17) | dict.fromkeys(legal, 3)


@of_both
@of_every_kind
def test_an_advertised_listener_that_does_not_resolve_is_a_warning(
    lost_kafka: KafkaCluster, kind: str, blocking: bool, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    lost_kafka.create_topic(topic)
    with reading(blocking, kind, topic, bootstrap_servers=lost_kafka.bootstrap("LOST")) as consumer:
        ends = time.monotonic() + PATIENCE
        while not warnings(caplog, "broker.invalid"):
            assert time.monotonic() < ends
            assert consumer.get(500) == []
        (warning,) = warnings(caplog, "broker.invalid")
        assert "broker 1 cannot be reached" in warning
        assert "advertised.listeners" in warning
        assert consumer.complaints() == (warning,)
        late = error_of(lambda: consumer("end_offsets", [consumer.place], timeout_ms=500))
        assert "broker.invalid" in str(late)
