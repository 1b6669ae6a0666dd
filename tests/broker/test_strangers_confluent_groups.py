"""Groups of confluent-kafka under both protocols: members killed, leaving, static, and with patterns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.broker.conftest import Stage
from tests.broker.librdkafka import consumer, produce, take, until

_CLASSIC = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200}
_PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": _CLASSIC,
    "cooperative-sticky": {**_CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
    "consumer-range": {"group.protocol": "consumer", "group.remote.assignor": "range"},
}
_MEMBER = """
import sys
from confluent_kafka import Consumer
config = eval(sys.argv[1])
consumer = Consumer(config)
consumer.subscribe(["shared"], on_assign=lambda _, partitions: print(len(partitions), flush=True))
while True:
    consumer.poll(0.1)
"""


@contextmanager
def member_elsewhere(config: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """A member in a process of its own, which can be killed."""
    with subprocess.Popen([sys.executable, "-c", _MEMBER, repr(config)], stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def held(members: list[Any]) -> list[int]:
    """How many partitions each member has, after a chance to hear of changes."""
    for member in members:
        message = member.poll(0.02)
        assert message is None or message.error() is None, message.error()
    return sorted(len(member.assignment()) for member in members)


def until_held(members: list[Any], wanted: Callable[[list[int]], bool]) -> None:
    until(lambda: wanted(held(members)), lambda: f"the members hold {held(members)}")


@pytest.mark.parametrize("broker", ["memory"], indirect=True)
@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_partitions_of_a_killed_member_go_to_the_two_that_are_left(
    broker: Stage, servers: str, protocol: str
) -> None:
    broker.create_topic("shared", partitions=6)
    config = {
        "bootstrap.servers": servers,
        "group.id": "strangers",
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
        **_PROTOCOLS[protocol],
    }
    with ExitStack() as stack:
        members = [stack.enter_context(consumer(servers, **config)) for _ in range(2)]
        for member in members:
            member.subscribe(["shared"])
        until_held(members, lambda counts: counts == [3, 3])
        third = stack.enter_context(member_elsewhere(config))
        until_held(members, lambda counts: counts == [2, 2])

        third.kill()

        until_held(members, lambda counts: counts == [3, 3])
        assigned = {part.partition for member in members for part in member.assignment()}
        assert assigned == set(range(6))


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
