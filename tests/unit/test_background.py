"""The background tasks of a client: what ends unexpectedly is the client's failure, and nothing else is."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kclient.background import BackgroundTasks
from kclient.errors import KafkaError
from kclient.testing import Simulation, simulate


async def forever() -> None:
    await asyncio.Event().wait()


async def fails() -> None:
    raise ZeroDivisionError("one of ours")


async def returns() -> None:
    await asyncio.sleep(0)


@pytest.fixture
def tasks() -> BackgroundTasks:
    return BackgroundTasks("the client 'test'")


def test_a_task_that_fails_is_the_failure_of_its_client(
    tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[KafkaError] = []

    async def main(_: Simulation) -> None:
        tasks.when_failed(told.append)
        tasks.check()
        tasks.start(fails(), "fetching from broker 1")
        await asyncio.sleep(0.1)
        with pytest.raises(
            KafkaError, match=r"'test' does not work any more: .*'fetching from broker 1'"
        ) as caught:
            tasks.check()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert "one of ours" in str(caught.value)

    simulate(main)
    assert len(told) == 1
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_so_is_one_that_somebody_else_cancels_and_of_all_tasks_the_first_is_told_of(
    tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(_: Simulation) -> None:
        everything = [tasks.start(forever(), f"task {number}") for number in range(5)]
        for task in everything:
            task.cancel()
        await asyncio.sleep(0.1)
        with pytest.raises(KafkaError, match=r"'task 0' was cancelled by code that is not kclient's"):
            tasks.check()

    simulate(main)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_nothing_is_said_where_all_tasks_of_the_loop_are_cancelled_because_it_ends(
    tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture
) -> None:
    async def application() -> None:
        await forever()

    async def main() -> asyncio.Task[None]:
        tasks.start(forever(), "heartbeats")
        mine = asyncio.create_task(application())
        await asyncio.sleep(0)
        return mine

    assert asyncio.run(main()).cancelled()
    assert tasks.failure is not None  # what would go on after all is told
    assert caplog.records == []


def test_what_ends_while_its_client_closes_is_not_missed(
    tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(_: Simulation) -> None:
        cancelled = tasks.start(forever(), "heartbeats")
        tasks.start(returns(), "metadata")
        tasks.expect_end()
        cancelled.cancel()
        await asyncio.sleep(0.1)
        tasks.check()

    simulate(main)
    assert caplog.records == []


def test_one_that_returns_is_missed_unless_it_may(tasks: BackgroundTasks) -> None:
    async def main(_: Simulation) -> None:
        tasks.start(returns(), "connect to 1", returns=True)
        await asyncio.sleep(0.1)
        tasks.check()
        tasks.start(returns(), "heartbeats")
        await asyncio.sleep(0.1)
        with pytest.raises(KafkaError, match="'heartbeats' came to an end"):
            tasks.check()

    simulate(main)


def test_one_that_is_told_to_end_is_not_missed_but_what_it_raises_then_is_logged(
    tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails_at_the_end() -> None:
        try:
            await forever()
        finally:
            raise ZeroDivisionError

    async def main(_: Simulation) -> None:
        ending = [tasks.start(forever(), "one"), tasks.start(fails_at_the_end(), "two")]
        await asyncio.sleep(0.1)
        for task in ending:
            tasks.end(task)
            tasks.end(task)
        await asyncio.sleep(0.1)
        tasks.check()
        tasks.end(ending[0])

    simulate(main)
    assert [record.getMessage() for record in caplog.records] == ["the client 'test': two failed as it ended"]
