"""Groups of confluent-kafka under both protocols: members leaving, static, and with patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.broker.conftest import Stage
from tests.broker.librdkafka import consumer, produce, take, until

_CLASSIC = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200}
_PROTOCOLS: dict[str, dict[str, Any]] = {"range": _CLASSIC, "consumer": {"group.protocol": "consumer"}}


def held(members: list[Any]) -> list[int]:
    """How many partitions each member has, after a chance to hear of changes."""
    for member in members:
        message = member.poll(0.02)
        assert message is None or message.error() is None, message.error()
    return sorted(len(member.assignment()) for member in members)


def until_held(members: list[Any], wanted: Callable[[list[int]], bool]) -> None:
    until(lambda: wanted(held(members)), lambda: f"the members hold {held(members)}")


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_member_that_leaves_hands_over_what_it_committed(
    broker: Stage, servers: str, protocol: str
) -> None:
    broker.create_topic("shared", partitions=2)
    produce(servers, "shared", [b"%d" % number for number in range(100)])
    with consumer(servers, **_PROTOCOLS[protocol]) as first:
        first.subscribe(["shared"])
        seen = [message.value() for message in take(first, 60)]
        first.commit(asynchronous=False)
    with consumer(servers, **_PROTOCOLS[protocol]) as second:
        second.subscribe(["shared"])
        seen += [message.value() for message in take(second, 40)]
        assert sorted(seen, key=int) == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_static_member_that_comes_back_has_its_partitions_again(
    broker: Stage, servers: str, protocol: str
) -> None:
    broker.create_topic("shared", partitions=4)
    static = {**_PROTOCOLS[protocol], "group.instance.id": "one"}
    with consumer(servers, **_PROTOCOLS[protocol], **{"group.instance.id": "two"}) as other:
        other.subscribe(["shared"])
        with consumer(servers, **static) as before:
            before.subscribe(["shared"])
            until_held([other, before], lambda counts: counts == [2, 2])
            had = {part.partition for part in before.assignment()}
        with consumer(servers, **static) as again:
            again.subscribe(["shared"])
            until_held([other, again], lambda counts: counts == [2, 2])
            assert {part.partition for part in again.assignment()} == had


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_pattern_takes_in_topics_that_come_later(broker: Stage, servers: str, protocol: str) -> None:
    broker.create_topic("orders-1")
    refresh = {"topic.metadata.refresh.interval.ms": 200, "metadata.max.age.ms": 500}
    with consumer(servers, **_PROTOCOLS[protocol], **refresh) as reader:
        reader.subscribe(["^orders-.*"])
        until_held([reader], lambda counts: counts == [1])
        broker.create_topic("orders-2", partitions=2)
        until_held([reader], lambda counts: counts == [3])
