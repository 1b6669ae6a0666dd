"""Records that are handed out one by one, while another thread takes them away."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from kclient.consumer.cursor import Cursor
from kclient.consumer.hand import Hand
from kclient.types import Record
from tests.unit.consumer.reading import World, live, part

COUNT = 200_000


class Fetched:
    """Of a chunk, what a hand needs."""

    epoch = 0

    def __init__(self) -> None:
        self.cursor = Cursor(part())
        self.cursor.find(0)
        self.kept: list[Record[Any, Any]] = []

    def keep(self, records: list[Record[Any, Any]]) -> None:
        self.kept = records


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_what_is_taken_in_the_moment_it_is_put_back_is_not_given_again() -> None:
    records: list[Any] = [SimpleNamespace(offset=offset) for offset in range(COUNT)]
    for _ in range(30):
        chunk: Any = Fetched()
        hand = Hand(chunk, list(records), COUNT)
        begun = Event()
        taken: list[Any] = []

        def take(hand: Hand = hand, begun: Event = begun, taken: list[Any] = taken) -> None:
            for record in hand.iterator:
                taken.append(record)
                if len(taken) == 10:
                    begun.set()

        application = Thread(target=take)
        application.start()
        begun.wait()
        hand.put_back()
        application.join()
        assert taken + chunk.kept == records
        assert chunk.cursor.position == len(taken)


@pytest.mark.parametrize("way", ["pause", "seek"])
def test_what_is_put_back_is_not_counted_as_handed_out(way: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            taken = 0
            async for record in consumer:
                taken += 1
                if taken == 100:
                    break
                if taken % 10 == 0 and way == "pause":
                    consumer.pause(part())
                    consumer.resume(part())
                elif taken % 10 == 0:
                    consumer.seek(part(), record.offset + 1)
            assert consumer.metrics().records_consumed == 100

    live(story)
