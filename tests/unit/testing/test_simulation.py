"""`simulate`: results, failures with a report, leftovers, guards, and a process left as it was."""

from __future__ import annotations

import asyncio
import gc
import random
import time

import pytest

from kclient.testing import (
    DeadlockError,
    EndlessLoopError,
    LeftoverError,
    Simulation,
    UnsupportedError,
    simulate,
    until,
)
from kclient.testing.simulation import SEED_VARIABLE
from tests.unit.testing.ends import Recorder, pair


@pytest.mark.alone
def test_the_result_comes_back_and_an_hour_takes_no_time() -> None:
    async def main(sim: Simulation) -> tuple[float, float]:
        began = sim.clock.wall()
        await asyncio.sleep(3600)
        return sim.loop.time(), sim.clock.wall() - began

    began = time.perf_counter()
    assert simulate(main) == (3600.0, 3600.0)
    assert time.perf_counter() - began < 1


def test_the_time_of_day_can_be_chosen() -> None:
    async def main(sim: Simulation) -> float:
        return sim.clock.wall()

    assert simulate(main, start=5.0) == 5.0


def test_a_failure_says_with_which_seed_and_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(sim: Simulation) -> None:
        await asyncio.sleep(1.5)
        sim.network.refuse("kafka-1")
        raise ValueError("found something")

    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_mine.py::test_it[a b] (call)")
    with pytest.raises(ValueError, match="found something") as caught:
        simulate(main, seed=17)
    (note,) = caught.value.__notes__
    assert "simulated with seed 17: 1.500000 s" in note
    assert "1.500000 refuse kafka-1" in note
    assert f"again: {SEED_VARIABLE}=17 python -m pytest 'tests/test_mine.py::test_it[a b]'" in note
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(ValueError, match="found something") as caught:
        simulate(main, seed=17)
    assert f"again: {SEED_VARIABLE}=17 python " in caught.value.__notes__[0]


def test_where_a_loop_runs_already_a_simulation_is_refused_and_leaves_nothing() -> None:
    async def inner(sim: Simulation) -> None: ...

    async def main(*_: Simulation) -> None:
        with pytest.raises(UnsupportedError, match=r"from an ordinary function"):
            simulate(inner)

    asyncio.run(main())
    simulate(main)


def test_the_environment_overrides_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(sim: Simulation) -> int:
        return sim.seed

    assert simulate(main, seed=3) == 3
    monkeypatch.setenv(SEED_VARIABLE, "42")
    assert simulate(main, seed=3) == 42


def test_a_task_that_outlives_main_is_found_and_ended() -> None:
    ended: list[str] = []

    async def forgotten() -> None:
        try:
            await asyncio.sleep(0.5)
        finally:
            ended.append("cancelled")

    async def main(sim: Simulation) -> None:
        sim.loop.create_task(forgotten(), name="forgotten")
        await asyncio.sleep(0.1)

    with pytest.raises(LeftoverError, match=r"task forgotten: forgotten \(test_simulation"):
        simulate(main)
    assert ended == ["cancelled"]
    simulate(main, allow_leftovers=True)


def test_a_timer_that_outlives_main_is_found() -> None:
    async def main(sim: Simulation) -> None:
        sim.loop.call_later(300, print, "idle")

    with pytest.raises(LeftoverError, match=r"timer .*print\("):
        simulate(main)


def test_connections_and_servers_that_outlive_main_are_found() -> None:
    ends: list[asyncio.BaseProtocol] = []

    async def main(sim: Simulation) -> None:
        await sim.loop.create_server(Recorder, "127.0.0.1", 9092)
        ends.append((await sim.loop.create_connection(Recorder, "127.0.0.1", 9092))[1])

    with pytest.raises(LeftoverError) as caught:
        simulate(main)
    assert "<MemoryTransport 127.0.0.1:9092 to 127.0.0.1:" in str(caught.value)
    assert "to 127.0.0.1:9092 open>" in str(caught.value)
    assert "<MemoryServer 127.0.0.1:9092 open>" in str(caught.value)


def test_what_is_under_way_at_the_end_may_still_arrive() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def main(sim: Simulation) -> None:
        sim.network.latency = (0.5, 0.5)
        server = await asyncio.start_server(serve, "127.0.0.1", 9092)
        _, writer = await asyncio.open_connection("127.0.0.1", 9092)
        writer.write(b"bye")
        writer.close()
        server.close()

    simulate(main)


def test_an_exception_that_reached_nobody_is_found() -> None:
    async def fails() -> None:
        raise ValueError("unseen")

    async def main(sim: Simulation) -> None:
        cycle: list[object] = [sim.loop.create_task(fails())]
        cycle.append(cycle)
        await asyncio.sleep(1)

    with pytest.raises(LeftoverError, match=r"never retrieved: ValueError\('unseen'\)"):
        simulate(main)


def test_a_deadlock_and_an_endless_loop_end_the_simulation_with_a_report() -> None:
    async def waits(_: Simulation) -> None:
        await asyncio.Event().wait()

    async def retries(_: Simulation) -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(1)

    with pytest.raises(DeadlockError, match="waits") as deadlock:
        simulate(waits, seed=5)
    with pytest.raises(EndlessLoopError, match="retries") as endless:
        simulate(retries, seed=6, max_iterations=10_000)
    assert "seed 5" in deadlock.value.__notes__[0]
    assert "seed 6" in endless.value.__notes__[0]


def test_a_task_that_refuses_to_end_does_not_hide_what_went_wrong() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            while True:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def main(sim: Simulation) -> None:
        stubborn_task = sim.loop.create_task(stubborn())
        await asyncio.sleep(1)
        raise ValueError(f"the reason, not {stubborn_task.get_name()}")

    with pytest.raises(ValueError, match="the reason"):
        simulate(main)


def test_random_numbers_and_garbage_collection_are_given_back_as_they_were() -> None:
    async def main(sim: Simulation) -> tuple[float, float, bool]:
        return random.random(), sim.random.random(), gc.isenabled()

    random.seed(1)
    expected = random.random(), random.random()
    random.seed(1)
    first = random.random()
    inside = simulate(main, seed=9)
    assert (first, random.random()) == expected
    assert gc.isenabled()
    assert inside[2] is False
    assert simulate(main, seed=9) == inside
    assert simulate(main, seed=10) != inside


def test_until_waits_for_a_condition_and_gives_up_in_time() -> None:
    async def main(sim: Simulation) -> float:
        await until(lambda: sim.loop.time() > 20)
        with pytest.raises(AssertionError, match="within 5 s"):
            await until(lambda: False, within=5)
        return sim.loop.time()

    assert simulate(main) == pytest.approx(25.1, abs=0.2)


def test_the_trace_knows_every_byte_and_every_moment() -> None:
    def traced(data: bytes, wait: float) -> str:
        async def main(sim: Simulation) -> str:
            client, _ = await pair(sim.network)
            client.transport.write(data)
            client.transport.close()
            await asyncio.sleep(wait)
            return sim.trace.digest()

        return simulate(main)

    assert traced(b"one", 1) == traced(b"one", 1)
    assert len({traced(b"one", 1), traced(b"two", 1), traced(b"one", 2)}) == 3
