"""The hook of the embedded broker, and everything it may do: the client and the log hear of it at once."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kclient import AsyncAdmin
from kclient.broker import Broker
from kclient.broker.api import RequestContext
from kclient.errors import KafkaStorageError
from kclient.testing import Simulation, simulate
from kclient.wire.message import Request
from kclient.wire.messages.group_admin import ListGroupsRequest
from tests.support.misbehaviour import RAISED


class Hook:
    """Does something to the first request for the list of groups."""

    def __init__(self, does: Any) -> None:
        self.does = does

    def __call__(self, _: RequestContext, request: Request[Any]) -> Any:
        if not isinstance(request, ListGroupsRequest) or self.does is None:
            return None
        does, self.does = self.does, None
        return does()


def listed(hook: Hook) -> float:
    """How long a question took whose first attempt the hook spoilt."""

    async def main(sim: Simulation) -> float:
        async with Broker(clock=sim.clock, seed=sim.seed) as broker:
            broker.faults.hook = hook
            async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
                began = sim.loop.time()
                await admin.list_groups()
                return sim.loop.time() - began

    return simulate(main)


@pytest.mark.parametrize("awaited", [False, True], ids=["function", "coroutine"])
@pytest.mark.parametrize("raised", RAISED)
def test_a_hook_that_raises_ends_the_connection_and_is_named_in_the_log(
    raised: type[BaseException],
    awaited: bool,
    exits: list[BaseException],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def does() -> object:
        raise raised

    async def does_later() -> object:
        raise raised

    assert listed(Hook(does_later if awaited else does)) < 5  # far less than a request may take
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert "test_hooks.Hook" in str(record.exc_info[1])
    assert bool(exits) == issubclass(raised, SystemExit | KeyboardInterrupt)


def test_a_broker_error_of_a_hook_is_the_answer() -> None:
    def does() -> object:
        raise KafkaStorageError

    assert listed(Hook(does)) < 5


@pytest.mark.parametrize("said", [17, "text", object()])
def test_a_hook_that_answers_nonsense_is_named_in_the_log(
    said: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert listed(Hook(lambda: said)) < 5
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert "return a Response" in str(record.exc_info[1])


def test_work_for_a_connection_that_somebody_cancels_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def does() -> object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return None

    assert listed(Hook(does)) < 5
    assert any("could not be handled" in record.getMessage() for record in caplog.records)
