"""What the log and `health()` say of brokers that cannot be reached, in virtual time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kclient.cluster.metadata import Broker, Metadata
from kclient.cluster.unreachable import Unreachable
from kclient.config import Endpoint
from kclient.errors import AuthenticationError, KafkaConnectionError, KafkaError
from tests.support.virtual_loop import VirtualLoop

LOST = Endpoint("broker-2.internal", 9092)
STANDING = 14.0
REFUSED = KafkaConnectionError("cannot resolve 'broker-2.internal'")


class Attempts:
    """Attempts to connect, one a second."""

    def __init__(self, loop: VirtualLoop, *bootstrap: Endpoint) -> None:
        self.metadata = Metadata(brokers={2: Broker(2, LOST)})
        self.outage: KafkaError | None = None
        self.unreachable = Unreachable(lambda: self.metadata, lambda: self.outage, bootstrap, STANDING)
        self._loop = loop

    async def fail(self, seconds: int, error: KafkaError = REFUSED) -> None:
        for _ in range(seconds):
            self.unreachable.tried(LOST, error, self._loop.time())
            await asyncio.sleep(1)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_a_broker_that_cannot_be_reached_is_a_warning_with_its_address_and_what_to_do(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(loop)
    await attempts.fail(1)
    assert not said(caplog)  # it may be restarting
    await attempts.fail(200)
    first, second, third = said(caplog)
    assert first == second == third
    assert first.startswith("broker 2 cannot be reached at broker-2.internal:9092: cannot resolve")
    assert "advertised.listeners" in first
    assert attempts.unreachable.complaints() == (first,)
    attempts.unreachable.tried(LOST, None, loop.time())
    assert attempts.unreachable.complaints() == ()
    await attempts.fail(3)
    assert len(said(caplog)) == 4  # a new cause


async def test_a_broker_that_nobody_tries_to_reach_any_more_is_no_complaint(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be there again: nobody dials a broker that nobody needs."""
    attempts = Attempts(loop)
    await attempts.fail(3)
    await asyncio.sleep(STANDING - 2)
    assert attempts.unreachable.complaints()
    await asyncio.sleep(2)
    assert attempts.unreachable.complaints() == ()
    await attempts.fail(3)
    assert len(said(caplog)) == 2  # as far as anybody knows, a new cause


async def test_an_address_that_the_application_gave_needs_no_hint_about_the_brokers(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(loop, LOST)
    await attempts.fail(3)
    (warning,) = said(caplog)
    assert "advertised.listeners" not in warning


async def test_while_no_broker_answers_that_alone_is_said(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(loop)
    attempts.outage = KafkaConnectionError("no broker can be reached")
    await attempts.fail(100)
    assert not said(caplog)
    assert attempts.unreachable.complaints() == ("cannot fetch metadata: no broker can be reached",)


async def test_what_the_cluster_no_longer_has_is_no_complaint(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(loop)
    attempts.metadata = Metadata()
    await attempts.fail(100)
    assert not said(caplog)
    assert attempts.unreachable.complaints() == ()


async def test_a_refusal_is_raised_and_no_question_of_the_address(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(loop)
    await attempts.fail(100, AuthenticationError("no"))
    assert not said(caplog)
    assert attempts.unreachable.complaints() == ()
