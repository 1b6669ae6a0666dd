"""Deliveries, parts and the ledger: who is told what, on which loop and thread, and only once."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, Self

import pytest

from kclient.clock import Deadline
from kclient.errors import InvalidRecordError, KafkaError, KafkaTimeoutError
from kclient.producer.delivery import Chunk, Delivery
from kclient.producer.ledger import Ledger
from kclient.producer.many import Deliveries
from kclient.producer.part import WIDTH, Part
from kclient.producer.watchers import Several
from kclient.runtime import brief_lock
from kclient.types import TimestampType


class Rig:
    """A chunk of records, cut into parts, and the ledger it is entered in."""

    def __init__(self, *counts: int, lock: Any = None) -> None:
        self.released = 0
        self.ledger = Ledger(self._release)
        self.chunk = Chunk("t", lock or threading.Lock(), 0.0, 10.0)
        self.total = sum(counts)
        self.chunk.left = self.total
        self.ledger.enter(self.chunk)
        self.parts: list[Part] = []
        place = 0
        for number, count in enumerate(counts):
            places = [(place + rank) * WIDTH for rank in range(count)]
            place += count
            self.parts.append(
                Part(self.chunk, number, places, [None] * count, [b"v"] * count, 77, None, 37 * count)
            )

    def _release(self, size: int) -> None:
        self.released += size

    def cut(self) -> None:
        watchers = self.chunk.take_watchers(self.total)
        place = 0
        for part in self.parts:
            part.watchers = watchers and watchers[place : place + len(part)]
            place += len(part)
        self.chunk.cut(list(self.parts), self.total)

    def delivery(self, number: int) -> Delivery:
        delivery = Delivery()
        delivery._chunk, delivery._place = self.chunk, number * WIDTH
        return delivery


def test_a_record_is_found_in_its_part_before_and_after_splits() -> None:
    rig = Rig(3, 4)
    deliveries = [rig.delivery(number) for number in range(7)]
    assert not any(each.done() for each in deliveries)
    assert repr(deliveries[0]) == "<Delivery to t, pending>"
    rig.cut()
    one, other = rig.parts[1].split(1)
    assert not any(each.done() for each in deliveries)
    rig.ledger.deliver([rig.parts[0]], 100, log_start_offset=5)
    rig.ledger.deliver([one, other], 200, append_time=999)
    assert [each.result().offset for each in deliveries] == [100, 101, 102, 200, 201, 202, 203]
    first, last = deliveries[0].result(), deliveries[6].result()
    assert (first.timestamp, first.timestamp_type, first.log_start_offset) == (
        77,
        TimestampType.CREATE_TIME,
        5,
    )
    assert (last.timestamp, last.timestamp_type) == (999, TimestampType.LOG_APPEND_TIME)
    assert rig.released == 37 * 7
    assert rig.ledger.records == 0
    assert repr(deliveries[0]) == "<Delivery to t, delivered>"


def test_where_nobody_knows_the_offset_there_is_none() -> None:
    rig = Rig(2)
    rig.cut()
    rig.ledger.deliver(rig.parts, -1)
    assert [rig.delivery(number).result().offset for number in range(2)] == [-1, -1]


def test_errors_of_single_records_are_found_by_their_rank_across_parts() -> None:
    rig = Rig(2, 2)
    rig.cut()
    own = InvalidRecordError("it has no key")
    rig.ledger.fail(rig.parts, KafkaError("the batch failed"), {3: own, 9: own})
    messages = [str(rig.delivery(number).exception()) for number in range(4)]
    assert messages[:3] == ["the batch failed"] * 3
    assert messages[3] == str(own)
    assert repr(rig.delivery(0)) == "<Delivery to t, failed>"
    with pytest.raises(KafkaError) as one:
        rig.delivery(0).result()
    with pytest.raises(KafkaError) as two:
        rig.delivery(0).result()
    assert one.value is not two.value  # a traceback belongs to one caller


def test_the_delivery_a_callback_gets_equals_the_one_that_was_kept() -> None:
    rig = Rig(2, 1)
    pending = {rig.delivery(number) for number in range(3)}
    for delivery in set(pending):
        delivery.add_done_callback(pending.discard)
    rig.cut()
    rig.ledger.deliver(rig.parts[:1], 0)
    assert pending == {rig.delivery(2)}
    rig.ledger.fail(rig.parts[1:], KafkaError("no"))
    assert pending == set()
    assert rig.delivery(0) != rig.delivery(1)
    assert rig.delivery(0) != "something else"


def test_every_callback_is_called_once_in_order_and_late_ones_at_once() -> None:
    rig = Rig(1)
    delivery, seen = rig.delivery(0), []

    def note(_: Delivery) -> None:
        seen.append("same")

    delivery.add_done_callback(note)
    delivery.add_done_callback(note)
    for number in range(3):
        delivery.add_done_callback(lambda _, number=number: seen.append(number))  # type: ignore[misc]
    assert seen == []
    rig.cut()
    rig.ledger.deliver(rig.parts, 0)
    assert seen == ["same", "same", 0, 1, 2]
    delivery.add_done_callback(note)
    assert seen[5:] == ["same"]
    assert rig.chunk.watched == {}


@pytest.mark.parametrize(
    "raised", [ZeroDivisionError, asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit]
)
def test_what_callbacks_raise_is_logged_and_keeps_no_other_from_being_called(
    raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    rig = Rig(3)
    seen: list[str] = []

    def fails(*_: object) -> None:
        raise raised

    rig.delivery(2).add_done_callback(fails)
    for number in range(2):
        rig.delivery(number).add_done_callback(fails)
        rig.delivery(number).add_done_callback(lambda _: seen.append("called"))
    many = Deliveries([rig.chunk], [3])
    many.add_done_callback(fails)
    many.add_done_callback(lambda: seen.append("finished"))
    rig.cut()

    async def settle() -> None:
        rig.ledger.deliver(rig.parts, 0)
        rig.delivery(0).add_done_callback(fails)
        many.add_done_callback(fails)
        await asyncio.sleep(0)

    # As from a callback of asyncio's own, but when the records are settled.
    leaves = raised if issubclass(raised, SystemExit | KeyboardInterrupt) else None
    with pytest.raises(leaves) if leaves else nullcontext():
        asyncio.run(settle())
    assert seen == ["called", "called", "finished"]
    assert len(caplog.records) == 6
    assert all("fails failed" in record.getMessage() for record in caplog.records)
    assert rig.ledger.records == 0


def test_a_delivery_that_is_polled_for_long_is_delivered_all_the_same() -> None:
    rig = Rig(1)
    delivery = rig.delivery(0)
    for _ in range(3_000):
        with pytest.raises(KafkaTimeoutError):
            delivery.result(timeout=0)
    rig.cut()
    rig.ledger.deliver(rig.parts, 7)
    assert delivery.result(timeout=0).offset == 7


def test_result_on_a_loop_would_block_it() -> None:
    rig = Rig(1)

    async def ask() -> None:
        with pytest.raises(RuntimeError, match="await the delivery"):
            rig.delivery(0).result()
        with pytest.raises(RuntimeError, match="await the deliveries"):
            Deliveries([rig.chunk], [1]).result()

    asyncio.run(ask())


def test_deliveries_can_be_awaited_on_any_loop_and_by_several_tasks() -> None:
    rig = Rig(2)
    many = Deliveries([rig.chunk], [2])
    waiting = threading.Barrier(3)

    async def wait() -> tuple[int, int]:
        tasks = [asyncio.ensure_future(_await(rig.delivery(1))) for _ in range(3)]
        tasks.append(asyncio.ensure_future(_await_all(many)))
        given_up = asyncio.ensure_future(_await(rig.delivery(1)))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.to_thread(waiting.wait)
        return tuple(set(await asyncio.gather(*tasks)))  # type: ignore[return-value]

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(asyncio.run, wait()) for _ in range(2)]
        waiting.wait(10)
        rig.cut()
        rig.ledger.deliver(rig.parts, 10)
        assert [set(other.result(timeout=10)) for other in others] == [{11}] * 2


async def _await(delivery: Delivery) -> int:
    return (await delivery).offset


async def _await_all(many: Deliveries) -> int:
    offset: int = (await many)[-1].offset
    return offset


def test_a_loop_that_is_closed_is_not_told_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(1)

    async def leave() -> None:
        waits = [
            asyncio.ensure_future(_await(rig.delivery(0))),
            asyncio.ensure_future(_await_all(Deliveries([rig.chunk], [1]))),
        ]
        await asyncio.sleep(0)
        assert not any(each.done() for each in waits)

    asyncio.run(leave())
    rig.cut()
    rig.ledger.deliver(rig.parts, 0)
    assert caplog.records == []
    assert rig.delivery(0).result().offset == 0


@pytest.mark.parametrize("version", [(3, 13), (3, 14)])
def test_watchers_that_come_while_records_are_settled_are_all_called(version: tuple[int, int]) -> None:
    for _ in range(50):
        rig = Rig(20, 20, lock=brief_lock(version))
        called: list[Delivery] = []
        start = threading.Barrier(4)

        def watch(rig: Rig = rig, called: list[Delivery] = called, start: threading.Barrier = start) -> None:
            start.wait(10)
            for number in range(40):
                rig.delivery(number).add_done_callback(called.append)

        with ThreadPoolExecutor(3) as pool:
            watching = [pool.submit(watch) for _ in range(3)]
            start.wait(10)
            rig.cut()
            for part in rig.parts:
                rig.ledger.deliver([part], 0)
            for each in watching:
                each.result(timeout=10)
        assert len(called) == 120
        assert all(called.count(rig.delivery(number)) == 3 for number in range(40))


class Meddling(dict[int, object]):
    """Lets a third watcher in at the worst moment: while a second one is being joined to the first."""

    def __init__(self, meddle: object) -> None:
        super().__init__()
        self.meddle = meddle

    def get(self, place: int, default: object = None) -> object:
        found = super().get(place, default)
        if found is not None and self.meddle is not None:
            meddle, self.meddle = self.meddle, None
            self[place] = Several((found, meddle))  # type: ignore[arg-type]
        return found


def test_no_watcher_is_lost_to_another_that_comes_at_the_same_time() -> None:
    rig = Rig(1)
    rig.cut()
    seen: list[str] = []
    rig.chunk.watched = Meddling(lambda _: seen.append("third"))  # type: ignore[assignment]
    rig.delivery(0).add_done_callback(lambda _: seen.append("first"))
    rig.delivery(0).add_done_callback(lambda _: seen.append("second"))
    rig.ledger.deliver(rig.parts, 0)
    assert sorted(seen) == ["first", "second", "third"]


class Overtaken(list[object]):
    """Lets the drain in while a watcher is being noted: before it is, or after."""

    def __init__(self, drain: Callable[[], None], *, before: bool) -> None:
        super().__init__()
        self.left = [drain]
        self.before = before

    def __iadd__(self, entry: object) -> Self:  # type: ignore[misc]
        drain = self.left.pop() if self.left else lambda: None
        if self.before:
            drain()
        self.extend(entry)  # type: ignore[arg-type]
        if not self.before:
            drain()
        return self


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_a_watcher_that_is_noted_during_the_drain_is_called_once(before: bool, settled: bool) -> None:
    rig = Rig(2, 1)

    def drain() -> None:
        rig.cut()
        if settled:
            rig.ledger.deliver(rig.parts, 0)

    noted = Overtaken(drain, before=before)
    rig.chunk.noted = noted
    seen: list[Delivery] = []
    list.extend(noted, (WIDTH, seen.append))  # of the second record, long before
    rig.delivery(1).add_done_callback(seen.append)
    rig.delivery(1).add_done_callback(seen.append)
    if not settled:
        assert seen == []
        rig.ledger.deliver(rig.parts, 0)
    assert seen == [rig.delivery(1)] * 3


def test_watchers_are_called_in_the_order_of_records_whenever_they_came() -> None:
    rig = Rig(3, 3)
    seen: list[int] = []

    def note(number: int) -> Callable[[Delivery], None]:
        return lambda delivery: seen.append(number if delivery == rig.delivery(number) else -1)

    for number in (4, 2, 5, 0):
        rig.delivery(number).add_done_callback(note(number))
    rig.cut()
    for number in (1, 0, 4):
        rig.delivery(number).add_done_callback(note(number))
    rig.ledger.deliver(rig.parts, 0)
    assert seen == [0, 0, 1, 2, 4, 4, 5]


class Late:
    """A lock in which the chunk is finished while a callback for its end is being noted."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.lock = threading.Lock()
        self.settling: threading.Thread | None = None

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        if self.settling is None:
            self.settling = threading.Thread(target=self.rig.ledger.deliver, args=(self.rig.parts, 0))
            self.settling.start()
            self.settling.join(0.2)  # it has marked everything as settled, and waits for this lock
        self.lock.release()


def test_who_waits_for_all_records_is_told_also_when_the_last_is_settled_just_then() -> None:
    rig = Rig(1)
    rig.cut()
    rig.chunk.lock = late = Late(rig)
    seen: list[str] = []
    Deliveries([rig.chunk], [1]).add_done_callback(lambda: seen.append("told"))
    assert late.settling is not None
    late.settling.join(10)
    assert seen == ["told"]


def test_waiting_for_everything_waits_for_what_was_there_and_not_for_what_comes_later() -> None:
    async def check() -> None:
        loop = asyncio.get_running_loop()
        rig = Rig(1)
        rig.cut()
        waits = [asyncio.ensure_future(rig.ledger.settled(Deadline.after(loop, 60))) for _ in range(5)]
        hasty = await rig.ledger.settled(Deadline.after(loop, 0))
        later = Rig(1)
        later.cut()
        rig.ledger.enter(later.chunk)
        assert rig.ledger.undelivered() == {"t": 2}
        rig.ledger.deliver(rig.parts, 0)
        assert await asyncio.gather(*waits) == [True] * 5
        assert not hasty
        assert rig.ledger.records == 1

    asyncio.run(check())
