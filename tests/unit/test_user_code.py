"""Calling user code: what it raises is told apart from what happens to the task that calls it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from kclient.errors import KafkaError
from kclient.testing import Simulation, simulate
from kclient.usercode import call, failure, name_of, report
from tests.support.misbehaviour import RAISED, gathers_cancelled_workers, raises, raises_awaited

log = logging.getLogger("tests")
EVERYTHING = [*RAISED, GeneratorExit]


async def cancels_its_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def cancels_its_task_and_takes_that_back() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    try:
        await asyncio.sleep(0)
    finally:
        task.uncancel()


async def awaits_a_cancelled_future() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@pytest.mark.parametrize("kind", [raises, raises_awaited], ids=["function", "coroutine"])
@pytest.mark.parametrize("raised", EVERYTHING)
def test_whatever_user_code_raises_is_returned(
    raised: type[BaseException], kind: Callable[..., Any], exits: list[BaseException]
) -> None:
    async def main(_: Simulation) -> None:
        said, error = await call(kind(raised))
        assert said is None
        assert isinstance(error, raised)
        await asyncio.sleep(0.1)
        # And if it is meant to end the program, it does so, when the caller is done with it.
        assert [type(left) for left in exits] == [raised] * issubclass(raised, SystemExit | KeyboardInterrupt)

    simulate(main)


@pytest.mark.parametrize(
    "function",
    [
        gathers_cancelled_workers,
        cancels_its_task,
        cancels_its_task_and_takes_that_back,
        awaits_a_cancelled_future,
    ],
)
def test_a_cancellation_of_user_code_is_no_cancellation_of_ours(
    function: Callable[[], Awaitable[None]],
) -> None:
    async def main(_: Simulation) -> None:
        _, error = await call(function)
        assert isinstance(error, asyncio.CancelledError)
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()
        await asyncio.sleep(0)

    simulate(main)


@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("takes", [0, 0.05, 60])
def test_a_cancellation_of_ours_ends_the_call_whatever_user_code_makes_of_it(
    takes: float, swallows: bool
) -> None:
    """A listener that ignores it is waited for a moment, and goes on alone."""
    ended: list[str] = []

    async def function() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            if takes:
                await asyncio.sleep(takes)
            ended.append("cleaned up")
            if not swallows:
                raise

    async def main(sim: Simulation) -> None:
        task = asyncio.create_task(call(function))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert sim.loop.time() < 1.2
        assert ended == ["cleaned up"] * (takes < 1)
        await asyncio.sleep(takes)
        assert ended == ["cleaned up"]

    simulate(main)


def test_what_user_code_answers_is_returned_awaited_or_not() -> None:
    async def main(_: Simulation) -> None:
        assert await call(lambda: 17) == (17, None)
        assert await call(lambda: asyncio.sleep(0, "x")) == ("x", None)

    simulate(main)


def test_of_the_callbacks_of_a_batch_one_ends_the_program(
    exits: list[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def main(_: Simulation) -> None:
        for _turn in range(100):
            report(log, "the callback", raises(SystemExit), SystemExit(3))
        await asyncio.sleep(0)
        assert len(exits) == 1

    simulate(main)
    assert len(caplog.records) == 100


def test_where_no_loop_runs_an_exit_is_raised() -> None:
    with pytest.raises(SystemExit):
        report(log, "the callback", raises(SystemExit), SystemExit(3))


def test_an_error_names_the_function_and_has_its_cause() -> None:
    cause = ValueError("no")
    error = failure("the hook", test_an_error_names_the_function_and_has_its_cause, cause)
    assert isinstance(error, KafkaError)
    assert error.__cause__ is cause
    assert str(error) == (
        "the hook tests.unit.test_user_code.test_an_error_names_the_function_and_has_its_cause failed: "
        "ValueError('no')"
    )
    assert name_of(partial(raises, ValueError)) == "tests.support.misbehaviour.raises"
    assert name_of("".join) == "None.str.join"


class UnspeakableError(ValueError):
    """Names and words of an application may fail, too."""

    def __repr__(self) -> str:
        raise ValueError

    __str__ = __repr__


class Nameless:
    def __getattr__(self, _: str) -> str:
        raise ValueError

    __repr__ = UnspeakableError.__repr__


def test_what_cannot_be_shown_is_reported_by_its_class(caplog: pytest.LogCaptureFixture) -> None:
    said = "the hook <Nameless whose __repr__ raises> failed: <UnspeakableError whose __repr__ raises>"
    assert name_of(Nameless()) == "<Nameless whose __repr__ raises>"
    assert str(failure("the hook", Nameless(), UnspeakableError())) == said
    report(log, "the hook", Nameless(), UnspeakableError())
    assert caplog.messages == [said]
