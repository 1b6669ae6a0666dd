"""Login when a connection is made, and again while it is in use (KIP-368)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kclient.clock import Deadline
from kclient.errors import AuthenticationError, KafkaConnectionError, KafkaError
from kclient.net.connection import Connection
from kclient.net.sasl import Plain
from kclient.types import Secret
from kclient.wire.api import ApiKey
from tests.support import faults
from tests.support.connecting import answered, ask, connect
from tests.support.fake_broker import FakeCluster, FakeSasl
from tests.support.planted import forms, told
from tests.support.virtual_loop import VirtualLoop, until

Brokers = Callable[..., FakeCluster]
WRONG = "looking-glass"
SASL_APIS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def plain(password: str = "wonderland") -> dict[str, Any]:
    return {"protocol": "SASL_PLAINTEXT", "sasl": Plain("alice", Secret(password))}


def login(lifetime: float = 0.0) -> FakeSasl:
    return FakeSasl(users={"alice": "wonderland"}, lifetime=lifetime)


async def outcome(connection: Connection, key: str, deadline: Deadline) -> str | KafkaError:
    try:
        return answered(await connection.call(ask(key), deadline))
    except KafkaError as error:
        return error


async def test_a_client_logs_in_before_its_first_request(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers(sasl=login())
    connection = await connect(loop, cluster[1], **plain())
    assert await outcome(connection, "a", Deadline.after(loop, 5)) == "a"
    keys = [seen.key for seen in cluster[1].requests]
    assert keys == [ApiKey.API_VERSIONS, *SASL_APIS, ApiKey.FIND_COORDINATOR]
    assert not cluster[1].violations
    connection.close()
    await connection.wait_closed()


async def test_a_wrong_password_is_an_authentication_error_at_once(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers(sasl=login())
    with pytest.raises(AuthenticationError, match="Invalid username or password") as caught:
        await connect(loop, cluster[1], **plain(WRONG))
    assert not caught.value.retriable
    assert not [form for form in forms(WRONG) if form in told(caught.value)]
    assert loop.time() < 1
    assert cluster[1].count(ApiKey.SASL_AUTHENTICATE) == 1


async def test_a_mechanism_that_the_broker_lacks_is_named_with_those_it_has(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers(sasl=FakeSasl(users={}, mechanism="SCRAM-SHA-512"))
    with pytest.raises(AuthenticationError, match=r"does not accept SASL mechanism PLAIN.*SCRAM-SHA-512"):
        await connect(loop, cluster[1], **plain())


@pytest.mark.parametrize("key", SASL_APIS)
@pytest.mark.parametrize("fault", [faults.closes, faults.resets, faults.garbles, faults.announces(2**30)])
async def test_a_broken_login_is_a_typed_error_at_once(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey, fault: Any
) -> None:
    cluster = brokers(sasl=login())
    cluster[1].plan(key, fault)
    with pytest.raises(KafkaError):
        await connect(loop, cluster[1], **plain())
    assert loop.time() < 1


@pytest.mark.parametrize("key", SASL_APIS)
@pytest.mark.parametrize("fault", [faults.silent, faults.drips])
async def test_a_login_that_never_ends_is_given_up_in_time(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey, fault: Any
) -> None:
    cluster = brokers(sasl=login())
    cluster[1].plan(key, fault)
    with pytest.raises(KafkaConnectionError, match="within 1 s"):
        await connect(loop, cluster[1], **plain(), setup_timeout=1.0)
    assert loop.time() == pytest.approx(1, abs=0.01)


async def test_a_token_that_never_comes_does_not_hold_the_dial(loop: VirtualLoop, brokers: Brokers) -> None:
    class Forgetful(Plain):
        async def exchange(self, _host: str, /) -> Any:
            await asyncio.Event().wait()

    cluster = brokers(sasl=login())
    with pytest.raises(KafkaConnectionError, match="within 10 s"):
        await connect(loop, cluster[1], sasl=Forgetful("alice", Secret("wonderland")))
    assert loop.time() == pytest.approx(10)


# Re-authentication


async def test_a_session_is_renewed_in_the_last_part_of_its_life(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers(sasl=login(lifetime=10))
    connection = await connect(loop, cluster[1], **plain())
    await asyncio.sleep(60)
    logins = [seen.at for seen in cluster[1].requests if seen.key == ApiKey.SASL_AUTHENTICATE]
    gaps = [after - before for before, after in itertools.pairwise(logins)]
    assert len(gaps) >= 6
    assert all(8.4 < gap < 9.6 for gap in gaps)
    assert max(gaps) - min(gaps) > 0.2, "connections must not all renew at the same time"
    assert await outcome(connection, "still here", Deadline.after(loop, 5)) == "still here"
    assert not cluster[1].violations
    connection.close()
    await connection.wait_closed()


@pytest.mark.parametrize("seed", range(6))
async def test_renewal_under_load_loses_and_reorders_nothing_and_keeps_the_connection(
    loop: VirtualLoop, brokers: Brokers, seed: int
) -> None:
    cluster = brokers(sasl=login(lifetime=4))
    loop.network.latency = (0.001, 0.05)
    connection = await connect(loop, cluster[1], **plain())
    random = Random(seed)
    completed: list[str] = []
    calls: list[asyncio.Task[None]] = []

    async def one(key: str) -> None:
        completed.append(str(await outcome(connection, key, Deadline.after(loop, 30))))

    for number in range(500):
        calls.append(asyncio.create_task(one(str(number))))
        await asyncio.sleep(random.uniform(0, 0.03))
    await asyncio.gather(*calls)
    assert completed == [str(number) for number in range(500)]
    asked = [seen for seen in cluster[1].requests if seen.key == ApiKey.FIND_COORDINATOR]
    assert [seen.request.coordinator_keys[0] for seen in asked] == completed
    assert cluster[1].count(ApiKey.SASL_AUTHENTICATE) >= 2
    assert cluster[1].violations == []
    assert len(cluster[1].peers) == 1
    connection.close()
    await connection.wait_closed()


async def test_renewal_waits_for_the_token_without_holding_requests(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    class Slow(Plain):
        logins = 0

        async def exchange(self, host: str, /) -> Any:
            self.logins += 1
            if self.logins > 1:
                await asyncio.sleep(2)
            return await super().exchange(host)

    cluster = brokers(sasl=login(lifetime=100))
    connection = await connect(loop, cluster[1], sasl=Slow("alice", Secret("wonderland")))
    waits: list[float] = []
    while cluster[1].count(ApiKey.SASL_AUTHENTICATE) < 2:
        began = loop.time()
        assert await outcome(connection, "a", Deadline.after(loop, 30)) == "a"
        waits.append(loop.time() - began)
        await asyncio.sleep(0.2)
    assert max(waits) < 0.05
    connection.close()
    await connection.wait_closed()


@pytest.mark.parametrize("seconds", [12, 300])
async def test_a_token_that_cannot_be_had_is_asked_for_until_the_session_ends(
    loop: VirtualLoop, brokers: Brokers, seconds: int
) -> None:
    """No request fails for want of a token as long as the broker does not ask for one."""

    class Failing(Plain):
        fails_until = 0.0

        async def exchange(self, host: str, /) -> Any:
            if loop.time() < self.fails_until:
                raise AuthenticationError("the token service is down")
            return await super().exchange(host)

    cluster = brokers(sasl=login(lifetime=600))
    failing = Failing("alice", Secret("wonderland"))
    connection = await connect(loop, cluster[1], sasl=failing)
    failing.fails_until = 600 * 0.95 + seconds
    await asyncio.sleep(590)
    assert await outcome(connection, "a", Deadline.after(loop, 5)) == "a"
    await asyncio.sleep(20)
    assert connection.closed == (seconds == 300)
    assert connection.error is None or isinstance(connection.error, AuthenticationError)
    connection.close()
    await connection.wait_closed()


async def test_a_renewal_that_is_refused_closes_with_an_authentication_error(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers(sasl=login(lifetime=10))
    connection = await connect(loop, cluster[1], **plain())
    assert cluster.sasl is not None
    cluster.sasl.users["alice"] = "changed"
    cluster[1].plan(ApiKey.SASL_AUTHENTICATE, faults.delayed(0.5))
    await until(lambda: connection._gates > 0)
    held = await outcome(connection, "held", Deadline.after(loop, 5))
    assert isinstance(held, AuthenticationError)
    assert "wonderland" not in str(held)
    await connection.wait_closed()
    assert isinstance(connection.error, AuthenticationError)
    assert isinstance(await outcome(connection, "late", Deadline.after(loop, 5)), AuthenticationError)


@pytest.mark.parametrize("fault", [faults.silent, faults.closes, faults.resets, faults.garbles])
@pytest.mark.parametrize("key", SASL_APIS)
async def test_a_renewal_that_breaks_closes_the_connection_in_time(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey, fault: Any
) -> None:
    cluster = brokers(sasl=login(lifetime=10))
    connection = await connect(loop, cluster[1], **plain(), request_timeout=5.0)
    cluster[1].plan(key, fault)
    await connection.wait_closed()
    assert loop.time() < 9.5 + 5 + 0.1
    assert isinstance(connection.error, KafkaError)


async def test_closing_during_a_renewal_leaves_nothing(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers(sasl=login(lifetime=10))
    connection = await connect(loop, cluster[1], **plain())
    cluster[1].plan(ApiKey.SASL_AUTHENTICATE, faults.silent)
    await until(lambda: cluster[1].count(ApiKey.SASL_AUTHENTICATE) == 2)
    connection.close()
    await connection.wait_closed()


async def test_closing_while_a_renewal_waits_for_its_token_leaves_nothing(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    class Slow(Plain):
        logins = 0

        async def exchange(self, host: str, /) -> Any:
            self.logins += 1
            if self.logins > 1:
                await asyncio.sleep(100)
            return await super().exchange(host)

    slow = Slow("alice", Secret("wonderland"))
    connection = await connect(loop, brokers(sasl=login(lifetime=10))[1], sasl=slow)
    await until(lambda: slow.logins == 2)
    connection.close()
    await connection.wait_closed()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_throttle_does_not_keep_a_session_from_being_renewed(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    def throttled(exchange: Any) -> None:
        response = exchange.response()
        response.throttle_time_ms = 30_000
        exchange.reply(response)

    cluster = brokers(sasl=login(lifetime=10))
    connection = await connect(loop, cluster[1], **plain())
    cluster[1].plan(ApiKey.FIND_COORDINATOR, throttled)
    assert await outcome(connection, "a", Deadline.after(loop, 5)) == "a"
    assert await outcome(connection, "b", Deadline.after(loop, 60)) == "b"
    assert loop.time() > 30
    assert cluster[1].count(ApiKey.SASL_AUTHENTICATE) >= 4
    assert not cluster[1].violations
    connection.close()
    await connection.wait_closed()
