"""Answers that get lost after the broker has written the records: nothing is written twice with idempotence.

Killed brokers do not show this, for they hardly ever die between the two. So a proxy loses the answers, and a
producer without idempotence proves that it does: its log has records twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from kclient.producer import AsyncProducer
from tests.support.numbered import LogVerdict, Numbered, verdict_of_java
from tests.support.proxy import Proxy
from tools.kafka import KafkaCluster, Listener
from tools.kafka.fixtures import BrokerPool
from tools.kafka.ports import free_ports
from tools.kafka.versions import DEFAULT_VERSION

pytestmark = pytest.mark.kafka

KEYS = 20
PARTITIONS = 3
CUT_EVERY = 3


@pytest.fixture(scope="module")
def proxy_port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def proxied(broker_pool: BrokerPool, proxy_port: int) -> Iterator[KafkaCluster]:
    """A broker that sends the clients of one listener to the proxy."""
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster(listeners=[Listener("PROXIED", advertised_ports=[proxy_port])]) as cluster:
        yield cluster


async def send_through_cuts(
    proxied: KafkaCluster, proxy_port: int, topic: str, each: int, **options: Any
) -> int:
    """Send numbered records while answers get lost; how many were."""
    count = KEYS * each
    target = "127.0.0.1", proxied.node(1).port("PROXIED")
    # Small batches: many requests, so that there are many answers to lose.
    options = {"batch_size": 500, "retry_backoff_ms": 5, "reconnect_backoff_ms": 5} | options
    async with (
        Proxy(proxy_port, target) as proxy,
        AsyncProducer(bootstrap_servers=f"127.0.0.1:{proxy_port}", **options) as producer,
    ):
        await producer.partitions_for(topic)
        proxy.cut_every = CUT_EVERY
        numbered = Numbered(producer, topic, KEYS, each)
        assert await numbered.send(count) == count
        await producer.flush()
        assert numbered.errors == []
        assert numbered.acknowledged == count
        return proxy.cuts


def test_no_record_is_written_twice_when_answers_get_lost(proxied: KafkaCluster, proxy_port: int) -> None:
    topic = f"cut-{uuid4().hex[:8]}"
    proxied.create_topic(topic, PARTITIONS)
    cuts = asyncio.run(send_through_cuts(proxied, proxy_port, topic, each=700))
    assert cuts >= 200
    assert verdict_of_java(proxied, topic, KEYS, 700) == LogVerdict(KEYS * 700, 0, 0, 0)


def test_without_idempotence_the_same_cuts_write_records_twice(
    proxied: KafkaCluster, proxy_port: int
) -> None:
    topic = f"control-{uuid4().hex[:8]}"
    proxied.create_topic(topic, PARTITIONS)
    options: dict[str, Any] = {"enable_idempotence": False, "acks": "all"}
    cuts = asyncio.run(send_through_cuts(proxied, proxy_port, topic, each=200, **options))
    assert cuts > 0
    found = verdict_of_java(proxied, topic, KEYS, 200)
    assert found.missing == 0
    assert found.duplicates > 0
    assert found.records == KEYS * 200 + found.duplicates
