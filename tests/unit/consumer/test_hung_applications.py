"""Applications that hang, or work for too long, while their listener is to be called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import pytest

from kclient.clock import Deadline
from kclient.consumer.bridge import CarriedListener, Errands, to_loop
from kclient.consumer.group.holdings import Holdings
from kclient.consumer.group.listeners import ASSIGNED, LOST, REVOKED, Announcer, Heard
from kclient.testing.simulation import until
from kclient.types import TopicPartition
from tests.support.positions import FakePositions
from tests.unit.consumer.reading import World, live, part, parts, take
from tests.unit.consumer.test_commits_of_consumers import GROUP
from tests.unit.consumer.test_giving_up import KINDS, of_every_kind

Partitions = Collection[TopicPartition]
# So long a rebalance waits that only `max_poll_interval_ms` can have ended it.
OPTIONS: dict[str, Any] = {
    "group_id": GROUP,
    "heartbeat_interval_ms": 1_000,
    "rebalance_timeout_ms": 300_000,
}
HANGING = OPTIONS | {"max_poll_interval_ms": 30_000}
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


class Told:
    """A listener that notes what it is told of any partitions."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, frozenset[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: Partitions) -> object:
        return self._note("assigned", partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> object:
        return self._note("revoked", partitions)

    def on_partitions_lost(self, partitions: Partitions) -> object:
        return self._note("lost", partitions)

    def _note(self, what: str, partitions: Partitions) -> object:
        if partitions:
            self.heard.append((what, frozenset(partitions)))
        return None


class Thread:
    """The thread of an application with a blocking consumer: it comes by when the test says so."""

    def __init__(self) -> None:
        self.told = Told()
        self.errands = Errands(lambda: None)
        self.listener = CarriedListener(self.told, self.errands.carry)

    async def runs_listeners(self) -> None:
        while True:
            self.errands.run()
            await asyncio.sleep(0.1)


@of_every_kind
def test_a_member_leaves_though_its_listener_waits_to_be_told_what_goes(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        thread = Thread()
        async with world.consumer(**HANGING, **KINDS[kind]) as first:
            first.subscribe(["orders"], listener=thread.listener)
            working = asyncio.create_task(thread.runs_listeners())
            await take(first, 200)
            assert await first.getmany() == {}
            working.cancel()
            thread.told.heard.clear()
            async with world.consumer("orders", **OPTIONS, **KINDS[kind]) as second:
                await until(lambda: second.assignment() == set(parts(2)), 60)
                assert thread.told.heard == []
                thread.errands.run()  # it wakes up, and hears of all of it once
                assert thread.told.heard == [("lost", frozenset(parts(2)))]
                working = asyncio.create_task(thread.runs_listeners())
                reading = asyncio.create_task(first.getmany(timeout_ms=60_000))
                await until(lambda: len(first.assignment()) == len(second.assignment()) == 1, 60)
                reading.cancel()
                working.cancel()

    live(story, config=SETTINGS)


@of_every_kind
def test_a_member_leaves_though_its_listener_waits_to_be_told_what_comes(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        thread = Thread()
        async with world.consumer(**HANGING, **KINDS[kind]) as first:
            first.subscribe(["orders"], listener=thread.listener)
            await until(lambda: first.assignment() == set(parts(2)), 60)
            async with world.consumer("orders", **OPTIONS, **KINDS[kind]) as second:
                await until(lambda: second.assignment() == set(parts(2)), 60)
                # What it never heard of it need not hear is gone.
                thread.errands.run()
                assert thread.told.heard == []
                await until(lambda: first.health().group.state == "out", 10)  # type: ignore[union-attr]
                working = asyncio.create_task(thread.runs_listeners())
                reading = asyncio.create_task(first.getmany(timeout_ms=60_000))
                await until(lambda: len(first.assignment()) == len(second.assignment()) == 1, 60)
                await until(lambda: bool(thread.told.heard), 1)
                assert thread.told.heard == [("assigned", first.assignment())]
                reading.cancel()
                working.cancel()

    live(story, config=SETTINGS)


@of_every_kind
@pytest.mark.parametrize("during", ["assigned", "revoked"])
def test_a_listener_that_takes_longer_than_it_may_hears_once_that_partitions_have_gone(
    kind: str, during: str
) -> None:
    class Slow(Told):
        taking = 0

        async def _wait(self) -> None:
            self.taking += 1
            await asyncio.sleep(100)
            self.taking -= 1

        def _note(self, what: str, partitions: Partitions) -> object:
            assert not self.taking  # one at a time
            super()._note(what, partitions)
            return self._wait() if partitions and what == during and len(self.heard) <= 2 else None

    async def story(world: World) -> None:
        world.fill_all(2)
        slow = Slow()
        async with world.consumer(**HANGING, **KINDS[kind]) as first:
            first.subscribe(["orders"], listener=slow)
            if during == "revoked":
                await take(first, 200)
                assert await first.getmany() == {}
            else:
                await until(lambda: slow.taking == 1, 10)
            async with world.consumer("orders", **OPTIONS, **KINDS[kind]) as second:
                await until(lambda: second.assignment() == set(parts(2)), 60)
                assert slow.taking
                await until(lambda: not slow.taking, 100)
                await until(lambda: not first.assignment(), 10)
                gone = [part for what, some in slow.heard if what != "assigned" for part in some]
                assert sorted(gone) == sorted(parts(2))
                assert slow.heard[1][0] == ("lost" if during == "assigned" else "revoked")
                reading = asyncio.create_task(first.getmany(timeout_ms=60_000))
                await until(lambda: len(first.assignment()) == len(second.assignment()) == 1, 60)
                reading.cancel()

    live(story, config=SETTINGS)


@of_every_kind
def test_a_member_that_unsubscribes_and_hangs_leaves_all_the_same(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        thread = Thread()
        async with world.consumer(**HANGING, **KINDS[kind]) as first:
            first.subscribe(["orders"], listener=thread.listener)
            working = asyncio.create_task(thread.runs_listeners())
            await take(first, 200)
            working.cancel()
            thread.told.heard.clear()
            first.unsubscribe()
            async with world.consumer("orders", **OPTIONS, **KINDS[kind]) as second:
                await until(lambda: second.assignment() == set(parts(2)), 60)
                thread.errands.run()
                assert thread.told.heard == [("lost", frozenset(parts(2)))]

    live(story, config=SETTINGS)


async def turns() -> None:
    """Let everything happen that needs no time."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_call_that_an_event_loop_has_not_begun_is_called_off(comes_back: bool) -> None:
    application = asyncio.new_event_loop()
    told = Told()
    listener = CarriedListener(told, to_loop(application))

    async def group() -> Heard:
        announcer, given_up = Announcer(lambda _: None), False
        telling = asyncio.create_task(announcer.tell(listener, REVOKED, [part()], lambda: given_up))
        await turns()
        if comes_back:
            await asyncio.to_thread(application.run_until_complete, turns())
            await turns()
        given_up = True
        announcer.look()
        return await telling

    try:
        heard = asyncio.run(group())
        application.run_until_complete(turns())
    finally:
        application.close()
    assert heard is (Heard.DONE if comes_back else Heard.NOT)
    assert told.heard == ([("revoked", frozenset([part()]))] if comes_back else [])


def test_the_next_call_waits_for_one_that_was_not_waited_for() -> None:
    async def main() -> None:
        may_end = asyncio.Event()

        class Slow(Told):
            async def on_partitions_assigned(self, partitions: Partitions) -> None:
                await may_end.wait()
                self._note("assigned", partitions)

        slow, announcer, given_up = Slow(), Announcer(lambda _: None), False
        telling = asyncio.create_task(announcer.tell(slow, ASSIGNED, [part()], lambda: given_up))
        await turns()
        given_up = True
        announcer.look()
        assert await telling is Heard.BEGUN
        assert not await announcer.done(lambda: given_up)
        assert await announcer.tell(slow, REVOKED, [part()], lambda: given_up) is Heard.NOT
        telling = asyncio.create_task(announcer.tell(slow, LOST, [part()]))
        await turns()
        assert slow.heard == []
        may_end.set()
        assert await telling is Heard.DONE
        assert [what for what, _ in slow.heard] == ["assigned", "lost"]

    asyncio.run(main())


def test_who_comes_back_in_the_last_moment_goes_on_where_the_listener_is() -> None:
    """Nobody waited for the listener for a moment: it hears of everything once."""

    async def main() -> None:
        may_end = asyncio.Event()

        class Slow(Told):
            async def _wait(self) -> None:
                await may_end.wait()

            def _note(self, what: str, partitions: Partitions) -> object:
                super()._note(what, partitions)
                return self._wait()

        async def commits(*_: object) -> None:
            pass

        inside, positions, slow = True, FakePositions(), Slow()
        holdings = Holdings(positions, commits, lambda _: None, lambda: inside)
        holdings.listener = slow
        deadline = Deadline.after(asyncio.get_running_loop(), 60)
        steps: list[Callable[[Partitions], Coroutine[Any, Any, bool]]] = [
            holdings.take_over,
            lambda gone: holdings.give_up(gone, lambda: deadline),
        ]
        for step, left in zip(steps, ([], [part()]), strict=True):
            may_end.clear()
            first = asyncio.create_task(step([part()]))
            await turns()
            inside = False
            holdings.look()
            assert not await first
            inside = True
            again = asyncio.create_task(step(left))
            await turns()
            assert not again.done()
            may_end.set()
            assert await again
            assert not positions.fenced
        assert [what for what, _ in slow.heard] == ["assigned", "revoked"]
        assert not holdings.owned
        assert not positions.assigned()

    asyncio.run(main())
