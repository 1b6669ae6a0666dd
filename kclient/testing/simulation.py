"""`simulate`: a coroutine on virtual time and a network of its own, and a look at what it left behind.

One seed gives one history. All that is random comes from the seed: the network's own draws,
`Simulation.random` and, for the time of the run, the module `random`. The module `time` has virtual time.
Python's garbage collector runs at fixed points, because finalizers are events too. All three belong to the
process, so one simulation runs at a time. What stays outside is what asks the operating system
(`datetime.now()`, `os.urandom`, `uuid.uuid4`) and the order of sets, which differs from process to process
for strings and from run to run for objects without a hash of their own.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random as global_random
import shlex
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, Final, TypeVar

from kclient.testing.clock import DEFAULT_START, VirtualClock
from kclient.testing.errors import LeftoverError, SimulationError, UnsupportedError
from kclient.testing.loop import VirtualLoop
from kclient.testing.module_time import virtual_time
from kclient.testing.network import Network
from kclient.testing.pipe import Pipe
from kclient.testing.trace import Trace
from kclient.testing.waiting import describe_task

T = TypeVar("T")

SEED_VARIABLE = "KCLIENT_SIMULATION_SEED"
_WIND_DOWN = 10.0  # seconds in which packets that are under way at the end may arrive
_ROUNDS = 10  # and those of the loop in which what arrived last may have its consequences
_SHOWN = 10
# A simulation takes what belongs to the process. Reentrant: one within another is refused, not waited for.
_ONE_AT_A_TIME = threading.RLock()


class Simulation:
    """What a simulated coroutine gets: its loop, network and clock, and a `random` for everything else."""

    def __init__(self, seed: int, start: float, max_iterations: int | None) -> None:
        self.seed = seed
        self.loop: Final = VirtualLoop(seed, max_iterations=max_iterations, collects_garbage=True)
        self.clock: Final = VirtualClock(self.loop, start)
        self.random: Final = Random(f"application {seed}")  # noqa: S311 - not the network's: neither disturbs the other
        self.unhandled: list[str] = []
        self.loop.set_exception_handler(lambda _, context: self.unhandled.append(_explain(context)))

    def __repr__(self) -> str:
        return f"<Simulation seed {self.seed}, {self.loop.time():.6f} s>"

    @property
    def network(self) -> Network:
        return self.loop.network

    @property
    def trace(self) -> Trace:
        return self.loop.network.trace


def simulate(
    main: Callable[[Simulation], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    start: float = DEFAULT_START,
    max_iterations: int | None = 1_000_000,
    allow_leftovers: bool = False,
) -> T:
    """Run `main(simulation)` on virtual time and return its result.

    Raises what `main` raises, with a note on how to see it again; `DeadlockError` where nothing can run any
    more, `EndlessLoopError` after `max_iterations` of the loop, and `LeftoverError` if tasks, timers,
    connections or servers outlive `main` (unless `allow_leftovers`) or an exception reached nobody.
    `start` is the time of day at its beginning. The environment variable KCLIENT_SIMULATION_SEED overrides
    `seed`. Threads that simulate at the same time wait for each other.

    >>> import asyncio
    >>> from kclient.testing import Simulation, simulate
    >>> async def main(sim: Simulation) -> float:
    ...     await asyncio.sleep(3600)
    ...     return sim.loop.time()
    >>> simulate(main)
    3600.0
    """
    if asyncio._get_running_loop() is not None:
        raise UnsupportedError(
            "simulate() runs an event loop of its own, and one runs in this thread already: call it from an "
            "ordinary function, in pytest from a test that is no coroutine"
        )
    with _ONE_AT_A_TIME:
        simulation = Simulation(int(os.environ.get(SEED_VARIABLE, seed)), start, max_iterations)
        return _simulate(main, simulation, allow_leftovers)


def _simulate(
    main: Callable[[Simulation], Coroutine[Any, Any, T]], simulation: Simulation, allow_leftovers: bool
) -> T:
    try:
        with _same_every_time(simulation.seed), virtual_time(simulation.loop, simulation.clock):
            try:
                result = simulation.loop.run_until_complete(main(simulation))
                simulation.loop.run_until_complete(_wind_down(simulation.network))
                gc.collect()  # an exception that nobody looked at is reported when its task is collected
                _check(simulation, allow_leftovers)
            finally:
                _clean_up(simulation.loop)
    except Exception as error:
        error.add_note(_report(simulation))
        raise
    return result


def _check(simulation: Simulation, allow_leftovers: bool) -> None:
    found = [] if allow_leftovers else left_behind(simulation.loop)
    found += simulation.unhandled
    if found:
        raise LeftoverError("\n  ".join(["left behind:", *found]))


async def until(condition: Callable[[], bool], within: float = 600.0) -> None:
    """Let time pass until something is the case; for tests on virtual time."""
    for _ in range(int(within / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"did not come about within {within:g} s")


def left_behind(loop: VirtualLoop) -> list[str]:
    """Each task, timer, connection and server that is still there, in words."""
    tasks = [f"task {describe_task(task)}" for task in sorted(asyncio.all_tasks(loop), key=hash)]
    timers = [f"timer {handle!r}" for handle in loop.pending_timers() if not _of_a_pipe(handle)]
    network = loop.network
    return [*tasks, *timers, *map(repr, network.transports), *map(repr, network.servers)]


def _of_a_pipe(handle: asyncio.TimerHandle) -> bool:
    return isinstance(getattr(handle._callback, "__self__", None), Pipe)  # type: ignore[attr-defined]


async def _wind_down(network: Network) -> None:
    """Let arrive what is under way, and those act that it arrives at; nobody else is waited for."""
    end = network.time() + _WIND_DOWN
    while network.moving and network.time() < end:  # noqa: ASYNC110 - an end that nobody announces
        await asyncio.sleep(0.001)
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)


@contextmanager
def _same_every_time(seed: int) -> Iterator[None]:
    """Take what is random, and the moments of garbage collection, under control; give them back after."""
    state, collecting = global_random.getstate(), gc.isenabled()
    frozen = gc.get_freeze_count() > 0
    try:  # from the first change on: Ctrl-C may come between any two
        global_random.seed(seed)
        gc.disable()
        if not frozen:
            gc.freeze()  # what was there before need not be searched again and again
        yield
    finally:
        if not frozen:
            gc.unfreeze()
        if collecting:
            gc.enable()
        global_random.setstate(state)


def _clean_up(loop: VirtualLoop) -> None:
    """End what is left, however `main` ended, so that nothing complains at the end of the process."""
    loop.max_iterations = loop.iterations + 100_000  # also for those that refuse to be cancelled
    loop.set_exception_handler(lambda *_: None)
    tasks = asyncio.all_tasks(loop)
    for task in sorted(tasks, key=hash):
        task.cancel()
    with suppress(SimulationError):  # what happened before is what matters
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=60))
        loop.run_until_complete(loop.shutdown_asyncgens())
        for transport in loop.network.transports:
            transport.abort()
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def _explain(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return f"{context['message']}: {error!r}" if error else str(context["message"])


def _report(simulation: Simulation) -> str:
    loop, trace = simulation.loop, simulation.trace
    last = [f"  {line}" for line in list(trace.last)[-_SHOWN:]]
    lines = [
        f"simulated with seed {simulation.seed}: {loop.time():.6f} s in {loop.iterations} iterations",
        *(["the last events on the network:", *last] if last else []),
        f"trace {trace.digest()}",
        f"again: {SEED_VARIABLE}={simulation.seed} {_command()}",
    ]
    return "\n".join(lines)


def _command() -> str:
    """The command that runs the current test, or the program, once more."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test:
        return f"python -m pytest {shlex.quote(test)}"
    return shlex.join(["python", *sys.orig_argv[1:]])
