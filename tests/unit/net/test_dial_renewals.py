"""Re-authentication (KIP-368) in sessions of less than a second, and with tokens that cannot be had."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kclient.clock import Deadline
from kclient.errors import AuthenticationError, KafkaConnectionError, KafkaError
from kclient.net.connection import Connection
from kclient.net.sasl import OAuthBearer, Plain, Token
from kclient.types import Secret
from kclient.wire.api import ApiKey
from kclient.wire.messages.connection import SaslHandshakeResponse
from tests.support import faults
from tests.support.connecting import answered, ask, connect
from tests.support.fake_broker import ILLEGAL_SASL_STATE, FakeCluster, FakeSasl
from tests.support.virtual_loop import VirtualLoop, until

Brokers = Callable[..., FakeCluster]


def plain() -> dict[str, Any]:
    return {"protocol": "SASL_PLAINTEXT", "sasl": Plain("alice", Secret("wonderland"))}


def login(lifetime: float) -> FakeSasl:
    return FakeSasl(users={"alice": "wonderland"}, lifetime=lifetime)


async def outcome(connection: Connection, key: str, deadline: Deadline) -> str | KafkaError:
    try:
        return answered(await connection.call(ask(key), deadline))
    except KafkaError as error:
        return error


# Kafka lets a connection authenticate again once a second


@pytest.mark.parametrize("lifetime", [0.2, 0.6, 1.0, 1.1, 1.5])
async def test_short_sessions_are_renewed_once_a_second_and_lose_no_request(
    loop: VirtualLoop, brokers: Brokers, lifetime: float
) -> None:
    cluster = brokers(sasl=login(lifetime))
    loop.network.latency = (0.001, 0.004)
    connection = await connect(loop, cluster[1], **plain())
    while loop.time() < 20:
        assert await outcome(connection, "a", Deadline.after(loop, 5)) == "a"
        await asyncio.sleep(0.02)
    logins = [seen.at for seen in cluster[1].requests if seen.key == ApiKey.SASL_HANDSHAKE]
    assert min(after - before for before, after in itertools.pairwise(logins[1:])) >= 1
    assert len(logins) > 10
    assert cluster[1].violations == []
    assert len(cluster[1].peers) == 1
    connection.close()
    await connection.wait_closed()


async def test_a_broker_that_does_not_let_a_client_log_in_again_has_not_refused_its_requests(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers(sasl=login(10))
    connection = await connect(loop, cluster[1], **plain())
    refusal = SaslHandshakeResponse(error_code=ILLEGAL_SASL_STATE, mechanisms=[])
    cluster[1].plan(
        ApiKey.SASL_HANDSHAKE, lambda exchange: exchange.later(0.5, lambda: exchange.reply(refusal))
    )
    await until(lambda: connection._gates > 0)
    held = await outcome(connection, "held", Deadline.after(loop, 5))
    assert isinstance(held, KafkaConnectionError)
    assert held.retriable
    assert str(held) == "broker-1:9092 did not let this client log in again"
    await connection.wait_closed()


async def test_what_is_held_back_is_not_sent_behind_a_login_that_failed(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers(sasl=login(10))
    connection = await connect(loop, cluster[1], **plain())
    assert cluster.sasl is not None
    cluster.sasl.users["alice"] = "changed"
    cluster[1].plan(ApiKey.SASL_AUTHENTICATE, faults.delayed(0.5))
    await until(lambda: connection._gates > 0)
    await outcome(connection, "held", Deadline.after(loop, 5))
    await connection.wait_closed()
    await asyncio.sleep(1)
    assert cluster[1].count(ApiKey.FIND_COORDINATOR) == 0
    assert cluster[1].violations == []


async def test_closing_while_a_short_session_waits_for_its_turn_leaves_nothing(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers(sasl=login(0.2))
    connection = await connect(loop, cluster[1], **plain())
    await until(lambda: cluster[1].count(ApiKey.SASL_AUTHENTICATE) == 2)
    await until(lambda: connection._gates > 0)
    held = asyncio.create_task(outcome(connection, "held", Deadline.after(loop, 5)))
    await asyncio.sleep(0)
    connection.close()
    await connection.wait_closed()
    assert isinstance(await held, KafkaConnectionError)
    assert asyncio.all_tasks() == {asyncio.current_task()}


# A source of tokens that is down, or slow


class Source:
    """Gives numbered tokens; fails, or hangs, as long as it is told to."""

    def __init__(self, lifetime: float) -> None:
        self.lifetime = lifetime
        self.asked = 0
        self.down = False
        self.takes = 0.0

    async def __call__(self) -> Token:
        self.asked += 1
        await asyncio.sleep(self.takes)
        if self.down:
            raise AuthenticationError("the token service is down")
        return Token(Secret(f"token-{self.asked}"), self.lifetime)


@pytest.fixture
def source() -> Source:
    return Source(lifetime=100)


@pytest.fixture
def oauth(loop: VirtualLoop, source: Source) -> OAuthBearer:
    return OAuthBearer(source, clock=loop.time)


async def shown(oauth: OAuthBearer) -> str:
    """The token that a login shows."""
    first = next(await oauth.exchange("broker"))
    return first.decode().split("Bearer ")[1].strip("\x01")


async def test_a_token_goes_on_until_it_expires_while_its_source_is_down(
    oauth: OAuthBearer, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    assert await shown(oauth) == "token-1"
    source.down = True
    with caplog.at_level(logging.WARNING):
        for _ in range(94):
            await asyncio.sleep(1)
            assert await shown(oauth) == "token-1"
    assert source.asked == 3, "at 80 s, and 10 s later"
    assert "no new OAuth token, the one in hand goes on: the token service is down" in caplog.text
    await asyncio.sleep(2)
    with pytest.raises(AuthenticationError, match="the token service is down"):
        await shown(oauth)
    source.down = False
    assert (await shown(oauth)).startswith("token-")


async def test_a_source_that_hangs_makes_one_login_wait_for_a_second(
    loop: VirtualLoop, oauth: OAuthBearer, source: Source
) -> None:
    await shown(oauth)
    await asyncio.sleep(81)
    source.takes = 1000
    began = loop.time()
    first = asyncio.create_task(shown(oauth))
    await asyncio.sleep(0.1)
    assert await shown(oauth) == "token-1"
    assert loop.time() - began == pytest.approx(0.1), "one waits, the others do not"
    assert await first == "token-1"
    assert loop.time() - began == pytest.approx(1)
    assert await shown(oauth) == "token-1"
    assert loop.time() - began == pytest.approx(1)


async def test_a_new_token_is_used_as_soon_as_its_source_is_there_again(
    oauth: OAuthBearer, source: Source
) -> None:
    await shown(oauth)
    await asyncio.sleep(81)
    source.down = True
    assert await shown(oauth) == "token-1"
    source.down = False
    await asyncio.sleep(10)
    assert await shown(oauth) == "token-3"


async def test_a_short_token_has_no_spare_time(oauth: OAuthBearer, source: Source) -> None:
    source.lifetime = 6
    await shown(oauth)
    source.down = True
    await asyncio.sleep(4.9)
    with pytest.raises(AuthenticationError, match="the token service is down"):
        await shown(oauth)


async def test_a_login_that_is_cancelled_while_it_waits_for_a_token_stays_cancelled(
    oauth: OAuthBearer, source: Source
) -> None:
    await shown(oauth)
    await asyncio.sleep(81)
    source.takes = 1000
    waiting = asyncio.create_task(shown(oauth))
    await asyncio.sleep(0.5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
