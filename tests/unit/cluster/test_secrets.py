"""No secret leaves by another door while a client connects, fails, retries and logs in again.

Searched are the exceptions (with their chains, and the variables of our frames, as crash reporters show
them), everything logged at DEBUG level, and the repr of every object on the way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kclient.cluster.client import Cluster
from kclient.cluster.operations import run_one
from kclient.errors import KafkaError
from kclient.wire.api import ApiKey
from kclient.wire.messages.connection import SaslAuthenticateResponse
from tests.support import faults
from tests.support.clusters import answer_everything, new_cluster, probe
from tests.support.fake_broker import Exchange, FakeCluster, FakeSasl, Fault
from tests.support.planted import forms, told
from tests.support.virtual_loop import VirtualLoop

Brokers = Callable[..., FakeCluster]

PASSWORD = "Pl4nted/S3cret"
TOKEN = "pl4nted.token"
LIFETIME = 10.0
MECHANISMS: dict[str, dict[str, Any]] = {
    "PLAIN": {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD},
    "SCRAM-SHA-256": {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD},
    "OAUTHBEARER": {"sasl_oauth_token_provider": lambda: TOKEN},
}
FAULTS: dict[str, Fault] = {
    "silent": faults.silent,
    "closes": faults.closes,
    "resets": faults.resets,
    "garbles": faults.garbles,
    "announces too much": faults.announces(2**31 - 1),
    "passing code": faults.fails(7),
    "final code": faults.fails(58),
}


def accept(exchange: Exchange) -> SaslAuthenticateResponse:
    """Believe everybody. A client with SCRAM will not believe this in turn."""
    exchange.peer.handshaken = False
    exchange.peer.logged_in_until = exchange.cluster.loop.time() + LIFETIME
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=b"", session_lifetime_ms=int(LIFETIME * 1000)
    )


def secured(brokers: Brokers, mechanism: str) -> FakeCluster:
    fakes = brokers(2, sasl=FakeSasl(users={}, mechanism=mechanism))
    fakes.answer(ApiKey.SASL_AUTHENTICATE, accept)
    answer_everything(fakes, ApiKey.LIST_GROUPS)
    return fakes


async def everything_said(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> str:
    """Start, work through a renewal, close; what was said on the way, and by whom."""
    said: list[str] = []
    try:
        await cluster.start(cluster.deadline(30_000))
        await run_one(cluster, probe(ApiKey.LIST_GROUPS), "key", cluster.deadline(5_000))
        await asyncio.sleep(2 * LIFETIME)
        await run_one(cluster, probe(ApiKey.LIST_GROUPS), "key", cluster.deadline(5_000))
    except KafkaError as error:
        said.append(told(error))
    links = list(cluster._links.values())
    objects = [
        cluster,
        cluster.config,
        cluster._settings,
        cluster.health(),
        cluster.metadata.snapshot,
        *links,
    ]
    said += [f"{item!r} {item}" for item in objects]
    said += [f"{link.connection!r} {link.last_error!r}" for link in links]
    said += [repr(vars(link.connection)) for link in links if link.connection]
    said += [f"{task!r} {task.get_stack()}" for task in asyncio.all_tasks()]
    await cluster.close()
    said += [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    return "\n".join(said)


def assert_hidden(text: str) -> None:
    assert len(text) > 500, "there was nothing to search"
    for form in (*forms(PASSWORD), *forms(TOKEN)):
        assert form not in text


@pytest.mark.parametrize(
    "key", [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA]
)
@pytest.mark.parametrize("trouble", FAULTS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_no_failure_while_connecting_shows_a_secret(
    brokers: Brokers,
    caplog: pytest.LogCaptureFixture,
    mechanism: str,
    trouble: str,
    key: ApiKey,
) -> None:
    caplog.set_level(logging.DEBUG)
    fakes = secured(brokers, mechanism)
    for broker in fakes.brokers.values():
        broker.always(key, FAULTS[trouble])
    cluster = new_cluster(
        fakes, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, **MECHANISMS[mechanism]
    )
    assert_hidden(await everything_said(cluster, caplog))


@pytest.mark.parametrize("trouble", ["none", "refused", *FAULTS])
@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
async def test_no_session_and_no_renewal_shows_a_secret(
    loop: VirtualLoop, brokers: Brokers, caplog: pytest.LogCaptureFixture, mechanism: str, trouble: str
) -> None:
    caplog.set_level(logging.DEBUG)
    loop.set_debug(True)
    fakes = secured(brokers, mechanism)

    def spoil() -> None:
        for broker in fakes.brokers.values():
            if trouble == "refused":
                broker.stop()
            elif trouble != "none":
                broker.always(ApiKey.SASL_AUTHENTICATE, FAULTS[trouble])

    loop.call_later(1, spoil)
    cluster = new_cluster(
        fakes, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, **MECHANISMS[mechanism]
    )
    assert_hidden(await everything_said(cluster, caplog))


def test_the_search_finds_what_it_looks_for() -> None:
    for form in (PASSWORD, TOKEN, f"{PASSWORD}".encode()):
        with pytest.raises(AssertionError):
            assert_hidden(f"{form!r}{' ' * 500}")
