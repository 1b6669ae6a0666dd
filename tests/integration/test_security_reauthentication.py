"""Re-authentication (KIP-368) against a real broker whose sessions last four seconds.

A broker closes a connection on which a request comes after the end of its session. Here requests never
pause, so a renewal that came too late, or that let a request in between its own messages, would be seen.
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

import pytest

from kclient import AsyncProducer, TopicPartition
from kclient.admin import AsyncAdmin, OffsetSpec
from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.errors import KafkaConnectionError
from kclient.net.connection import Connection
from kclient.wire.messages.metadata import MetadataRequest
from tests.support.secured import Visitor
from tools.kafka.oidc import unsecured_token
from tools.kafka.security import REAUTHENTICATION_MS

pytestmark = pytest.mark.kafka

SECONDS = 3 * REAUTHENTICATION_MS / 1000
IN_FLIGHT = 10


class _Late(Random):
    """Chance that has every renewal come far too late."""

    def uniform(self, _least: float, most: float) -> float:
        return 100 * most


class _Busy:
    """A client that always has requests in flight; `logins` are counted by asking its authenticator."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = cluster
        self.answers = 0
        self.logins = 0
        authenticator = cluster._settings.sasl
        assert authenticator is not None
        exchange = authenticator.exchange

        async def counted(host: str) -> Any:
            self.logins += 1
            return await exchange(host)

        monkeypatch.setattr(authenticator, "exchange", counted)

    async def run(self) -> Connection:
        """Work for some sessions. The connection, which has to be the same all the time."""
        loop = asyncio.get_running_loop()
        deadline = self.cluster.deadline()
        await self.cluster.start(deadline)
        connection = await self.cluster.any_connection(deadline)
        until = loop.time() + SECONDS

        async def ask() -> None:
            while loop.time() < until:
                answer = await self.cluster.call(
                    None, lambda _: MetadataRequest(topics=[]), MetadataRequest, deadline
                )
                assert answer.brokers
                assert await self.cluster.any_connection(deadline) is connection
                self.answers += 1

        await asyncio.gather(*(ask() for _ in range(IN_FLIGHT)))
        return connection


def _mechanisms(visitor: Visitor) -> list[dict[str, Any]]:
    def token() -> str:
        return visitor.plant(unsecured_token("alice"))

    return [
        visitor.password("REAUTH", "PLAIN"),
        visitor.password("REAUTH", "SCRAM-SHA-256"),
        visitor.options("REAUTH", sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=token),
    ]


@pytest.mark.alone
def test_sessions_are_renewed_under_load_without_a_failure_or_a_new_connection(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        clusters = [visitor.cluster(options) for options in _mechanisms(visitor)]
        late = Cluster(ClientConfig(**visitor.password("REAUTH", "PLAIN")), random=_Late())
        clients = [_Busy(cluster, monkeypatch) for cluster in clusters]
        control = _Busy(late, monkeypatch)
        try:
            *connections, lost = await asyncio.gather(
                *(client.run() for client in clients), control.run(), return_exceptions=True
            )
            for client, connection in zip(clients, connections, strict=True):
                assert isinstance(connection, Connection), connection
                assert not connection.closed
                assert client.logins >= 3, "the first one, and two renewals"
                assert client.answers > 100 * IN_FLIGHT
                visitor.heed(client.cluster)
            # Without renewals the broker hangs up: the others were really under its watch.
            assert isinstance(lost, KafkaConnectionError)
            assert control.logins == 1
        finally:
            for cluster in (*clusters, late):
                await cluster.close()

    asyncio.run(work())
    assert len(visitor.connections) == 4


class _CachingAgent:
    """Gives the same token until it is about to expire, as agents on the machines of clouds do."""

    LIFE = 6.0
    NEXT_BEFORE_END = 0.3

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self._token = ""
        self._expires = 0.0
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        now = time.time()
        if now > self._expires - self.NEXT_BEFORE_END:
            self._expires = now + self.LIFE
            self._token = self._visitor.plant(unsecured_token("admin", lifetime=self.LIFE))
        return self._token


@pytest.mark.alone
def test_tokens_that_are_about_to_expire_fail_no_record_and_double_none(visitor: Visitor) -> None:
    """Sessions end with their tokens: some last less than the second in which Kafka takes one login."""
    agent = _CachingAgent(visitor)
    options = visitor.options("REAUTH", sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=agent)

    async def work() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        until = loop.time() + SECONDS
        sent = 0
        async with AsyncProducer(**options) as producer:
            while loop.time() < until:
                await producer.send_and_wait("short-sessions", b"value", partition=0)
                sent += 1
        async with AsyncAdmin(**options) as admin:
            partition = TopicPartition("short-sessions", 0)
            offsets = await admin.list_offsets({partition: OffsetSpec.LATEST})
            return sent, offsets[partition].offset

    sent, written = asyncio.run(work())
    assert written == sent
    assert agent.asked > 2 * SECONDS / agent.LIFE
