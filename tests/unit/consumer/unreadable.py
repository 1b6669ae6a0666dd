"""For tests of topics that a consumer cannot read: the ways to read one, and brokers that withhold it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.broker.api import RequestContext
from kclient.broker.handlers.groups import offset_fetch
from kclient.broker.handlers.metadata import metadata
from kclient.consumer import AsyncConsumer
from kclient.errors import (
    BrokerError,
    KafkaError,
    TopicAuthorizationFailedError,
)
from kclient.wire.message import Request
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kclient.wire.messages.group_offsets import OffsetFetchRequest, OffsetFetchResponse
from kclient.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.consumer.reading import Topic, World, part

KINDS: dict[str, dict[str, Any]] = {
    "assign": {},
    "assign in a group": {"group_id": "billing"},
    "alone": {},
    "classic": {"group_id": "billing"},
    "KIP-848": {"group_id": "billing", "group_protocol": "consumer"},
}
of_every_kind = pytest.mark.parametrize("kind", KINDS)


def reading(world: World, kind: str, topic: str = Topic, **options: Any) -> AsyncConsumer[Any, Any]:
    """A consumer that is to read the topic, in one of the ways there are."""
    if kind.startswith("assign"):
        consumer = world.consumer(**KINDS[kind], **options)
        consumer.assign([part(0, topic)])
        return consumer
    return world.consumer(topic, **KINDS[kind], **options)


class Rights:
    """Answers as a broker does to a client that may not describe some topics."""

    def __init__(self, world: World, *topics: str, error: type[BrokerError] = TopicAuthorizationFailedError):
        self.withheld = set(topics)
        self._error = error
        world.broker.faults.hook = self._see

    async def _see(self, context: RequestContext, request: Request[Any]) -> Any:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            if self.withheld & set(request.subscribed_topic_names or ()):
                return ConsumerGroupHeartbeatResponse(
                    error_code=self._error.code, member_epoch=0, heartbeat_interval_ms=5_000
                )
        elif isinstance(request, MetadataRequest):
            answer = await metadata(context, request)
            assert isinstance(answer, MetadataResponse)
            if request.topics is None:  # of all topics, others are not mentioned
                answer.topics = [topic for topic in answer.topics if topic.name not in self.withheld]
            else:
                answer.topics = [self._described(topic) for topic in answer.topics]
            return answer
        elif isinstance(request, OffsetFetchRequest):
            offsets = await offset_fetch(context, request)
            assert isinstance(offsets, OffsetFetchResponse)
            for topic in [topic for group in offsets.groups for topic in group.topics]:
                for partition in topic.partitions:
                    partition.error_code = self._error.code if topic.name in self.withheld else 0
            return offsets
        return None

    def _described(
        self, topic: MetadataResponse.MetadataResponseTopic
    ) -> MetadataResponse.MetadataResponseTopic:
        if topic.name not in self.withheld:
            return topic
        return MetadataResponse.MetadataResponseTopic(
            error_code=self._error.code, name=topic.name, partitions=[]
        )


def warnings(caplog: pytest.LogCaptureFixture, about: str) -> list[str]:
    """What the log has said of it, from warnings on."""
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return [message for message in said if about in message]


async def raised_within(world: World, consumer: AsyncConsumer[Any, Any], seconds: float) -> list[KafkaError]:
    """What an application that catches errors and calls again gets to see."""
    ends = world.sim.loop.time() + seconds
    errors: list[KafkaError] = []
    while (left := ends - world.sim.loop.time()) > 0:
        try:
            assert await consumer.getmany(timeout_ms=left * 1000) == {}
        except KafkaError as error:
            errors.append(error)
    return errors


async def asked(call: Callable[[], Awaitable[object]]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await call()
    return caught.value


def questions(consumer: AsyncConsumer[Any, Any], topic: str) -> list[Callable[[], Awaitable[object]]]:
    place = part(0, topic)
    return [
        lambda: consumer.offsets_for_times({place: 0}, timeout_ms=3_000),
        lambda: consumer.beginning_offsets([place], timeout_ms=3_000),
        lambda: consumer.end_offsets([place], timeout_ms=3_000),
        lambda: consumer.position(place, timeout_ms=3_000),
    ]
