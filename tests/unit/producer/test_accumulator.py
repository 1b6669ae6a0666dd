"""The accumulator by itself: memory, limits, wake-ups, refusal, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kclient.errors import ClientClosedError, RecordTooLargeError
from kclient.producer.accumulator import CHUNK_BYTES, Accumulator, Urgency, Wait
from kclient.producer.config import ProducerConfig
from kclient.producer.delivery import Chunk, Delivery
from kclient.producer.part import WIDTH, Columns
from kclient.producer.spread import columns_of
from kclient.producer.stamps import GivenStamps, SystemStamps
from kclient.runtime import brief_lock


class _Clock:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms

    def wall(self) -> float:
        return self._now_ms() / 1000


class Rig:
    """An accumulator for the topics t and u, and what it asks of its loop."""

    def __init__(self, now_ms: Callable[[], int] | None = None, lock: Any = None, **options: Any) -> None:
        self.woken: list[Urgency] = []
        self.time = 1.0
        config = ProducerConfig(**options)
        stamps = SystemStamps() if now_ms is None else GivenStamps(_Clock(now_ms), lambda: self.time)
        self.it = Accumulator(config, lock or threading.Lock(), self.woken.append, lambda: self.time, stamps)
        self.it.topics = {"t": 1, "u": 1}

    def send(self, value: bytes = b"", topic: str = "t") -> Delivery | Wait:
        record: Any = (topic, value, None, None, None, ())
        return self.it.append(*record) or self.it.append_slowly(*record)

    def settle(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self.it.release(chunk.size)


def test_records_of_a_topic_share_a_chunk_and_the_loop_is_woken_once() -> None:
    rig = Rig(now_ms=lambda: 1234)
    for number in range(3):
        assert isinstance(rig.send(b"%d" % number), Delivery)
    rig.send(b"other", "u")
    assert rig.woken == [Urgency.LINGER]
    chunks = rig.it.drain()
    assert [(chunk.topic, chunk.flat[1::WIDTH], columns_of(chunk).times) for chunk in chunks] == [
        ("t", [b"0", b"1", b"2"], 1234),
        ("u", [b"other"], 1234),
    ]
    assert rig.it.drain() == []
    rig.send()
    assert rig.woken == [Urgency.LINGER, Urgency.LINGER]


@pytest.mark.parametrize("batch_size", [1, 37, 74, 100, 16_384, 32_768, 40_000, 131_072])
def test_the_record_that_fills_a_batch_wakes_the_loop_at_once(batch_size: int) -> None:
    rig = Rig(batch_size=batch_size, linger_ms=1000)
    size = 0
    while size < batch_size:
        assert Urgency.NOW not in rig.woken
        rig.send(b"v")
        size += 37
    assert rig.woken[-1] is Urgency.NOW


def test_records_have_the_time_at_which_they_came_or_the_one_they_bring() -> None:
    now = [0]
    rig = Rig(now_ms=lambda: now[0], linger_ms=1000)
    for now[0], own in ((10, None), (10, None), (12, 99), (12, None), (15, None)):
        record: Any = ("t", b"v", None, None, own, ())
        assert isinstance(rig.it.append(*record) or rig.it.append_slowly(*record), Delivery)
    (chunk,) = rig.it.drain()
    assert columns_of(chunk).times == [10, 10, 99, 12, 15]


def test_chunks_are_closed_at_their_size_and_keep_the_order() -> None:
    rig = Rig()
    count = 2 * CHUNK_BYTES // 1036 + 10
    for number in range(count):
        rig.send(b"%04d" % number + bytes(996))
    assert rig.it.crowded
    chunks = rig.it.drain()
    assert len(chunks) == 3
    assert all(chunk.size <= CHUNK_BYTES for chunk in chunks)
    assert [value[:4] for chunk in chunks for value in chunk.flat[1::WIDTH]] == [
        b"%04d" % n for n in range(count)
    ]


def test_claims_are_never_above_the_limit_and_return_to_0() -> None:
    rig = Rig(buffer_memory=100_000)
    taken = 0
    while isinstance(rig.send(bytes(964)), Delivery):
        taken += 1
        assert rig.it.memory_used <= 100_000
    assert taken == 100
    chunks = rig.it.drain()
    assert sum(chunk.size for chunk in chunks) == rig.it.memory_used == 100_000
    rig.settle(chunks)
    assert rig.it.memory_used == 0


def test_what_waits_for_room_is_told_when_there_is_some_and_nothing_lingers_meanwhile() -> None:
    rig = Rig(buffer_memory=1000, linger_ms=1000)
    rig.send(bytes(900))
    assert rig.send(bytes(900)) is Wait.ROOM
    told: list[int] = []
    rig.it.when_room(lambda: told.append(1), rig.it.given_back)
    assert rig.woken[-1] is Urgency.NOW
    assert "1 waiting" in repr(rig.it)
    rig.settle(rig.it.drain())
    assert told == [1]
    assert "0 waiting" in repr(rig.it)
    assert isinstance(rig.send(bytes(900)), Delivery)


def test_room_that_came_between_the_question_and_the_waiting_is_not_missed() -> None:
    rig = Rig(buffer_memory=1000)
    rig.send(bytes(900))
    given_back = rig.it.given_back
    assert rig.send(bytes(900)) is Wait.ROOM
    rig.settle(rig.it.drain())  # on another thread, just now; nothing is left that could be given back
    told: list[int] = []
    rig.it.when_room(lambda: told.append(1), given_back)
    assert told == [1]
    assert not rig.it.pressed


def test_a_refusal_that_came_between_the_question_and_the_waiting_is_not_missed() -> None:
    rig = Rig(buffer_memory=1000)
    rig.send(bytes(900))
    given_back = rig.it.given_back
    assert rig.send(bytes(900)) is Wait.ROOM
    rig.it.refuse(ClientClosedError("closed"))
    told: list[int] = []
    rig.it.when_room(lambda: told.append(1), given_back)
    assert told == [1]


def test_memory_that_open_chunks_claimed_in_advance_is_given_to_those_who_wait_at_the_drain() -> None:
    rig = Rig(buffer_memory=40_000)
    rig.send(b"little")
    assert rig.send(bytes(30_000), "u") is Wait.ROOM
    told: list[int] = []
    rig.it.when_room(lambda: told.append(1), rig.it.given_back)
    rig.it.drain()
    assert told == [1]
    assert isinstance(rig.send(bytes(30_000), "u"), Delivery)


def test_who_gave_up_is_not_told() -> None:
    rig = Rig(buffer_memory=1000)
    rig.send(bytes(900))

    def never() -> None:
        raise AssertionError

    rig.it.when_room(never, rig.it.given_back)
    rig.it.no_longer_waiting(never)
    rig.it.no_longer_waiting(never)
    assert not rig.it.pressed
    rig.settle(rig.it.drain())


def test_a_refusal_holds_for_every_way_in_until_it_is_lifted() -> None:
    rig = Rig()
    rig.send(b"before")
    rig.it.refuse(ClientClosedError("closed"))
    with pytest.raises(ClientClosedError):
        rig.send(b"after")
    with pytest.raises(ClientClosedError):
        rig.it.put(rig.it.new_chunk("t"))
    assert [chunk.flat[1] for chunk in rig.it.drain()] == [b"before"]
    rig.it.refuse(None)
    assert isinstance(rig.send(b"again"), Delivery)


def test_unknown_topics_are_waited_for_unless_the_caller_cannot() -> None:
    rig = Rig()
    assert rig.it.append_slowly("new", b"", None, None, None, ()) is Wait.TOPIC
    taken = rig.it.append_slowly("new", b"", None, None, None, (), known=False)
    assert isinstance(taken, Delivery)
    assert rig.it.lacks("t", 1)
    assert not rig.it.lacks("t", 0)
    assert not rig.it.lacks("t", None)
    assert not rig.it.lacks("new", 5)


def columns_of_one(value: bytes) -> Columns:
    return Columns([None], [value], 0, None, [None])


def test_a_chunk_that_is_put_comes_behind_what_was_appended_before_and_its_time_begins_then() -> None:
    rig = Rig(delivery_timeout_ms=10_000)
    rig.send(b"before")
    chunk = rig.it.new_chunk("t")
    chunk.columns, chunk.size = columns_of_one(b"put"), 39
    rig.time = 100.0
    assert rig.it.put(chunk)
    rig.send(b"after")
    first, second, third = rig.it.drain()
    assert (first.flat[1], second, third.flat[1]) == (b"before", chunk, b"after")
    assert (chunk.opened, chunk.deadline) == (100.0, 110.0)
    rig.settle([first, second, third])
    assert rig.it.memory_used == 0


def test_a_chunk_for_which_there_is_no_room_claims_nothing() -> None:
    rig = Rig(buffer_memory=1000)
    rig.send(bytes(900))
    chunk = rig.it.new_chunk("t")
    chunk.columns, chunk.size = columns_of_one(bytes(900)), 936
    used = rig.it.memory_used
    assert not rig.it.put(chunk)
    assert rig.it.memory_used == used


def test_a_record_that_never_fits_is_refused() -> None:
    rig = Rig(max_request_size=500, buffer_memory=300)
    with pytest.raises(RecordTooLargeError, match="max_request_size=500"):
        rig.send(bytes(500))
    with pytest.raises(RecordTooLargeError, match="buffer_memory=300"):
        rig.send(bytes(280))
    assert rig.it.memory_used == 0


@pytest.mark.parametrize("version", [(3, 13), (3, 14)])
def test_threads_and_drains_lose_nothing_and_all_memory_returns(version: tuple[int, int]) -> None:
    rig = Rig(lock=brief_lock(version), buffer_memory=200_000)
    count, threads = 3_000, 4
    chunks: list[Chunk] = []
    done = threading.Event()

    def drain() -> None:
        while not done.is_set():
            found = rig.it.drain()
            chunks.extend(found)
            rig.settle(found)

    def send(who: int) -> None:
        for number in range(count):
            record: Any = ("t", b"%d %d" % (who, number), None, None, None, (("h", b"x"),))
            while not isinstance(rig.it.append(*record) or rig.it.append_slowly(*record), Delivery):
                event = threading.Event()
                rig.it.when_room(event.set, rig.it.given_back)
                event.wait(10)

    draining = threading.Thread(target=drain)
    draining.start()
    with ThreadPoolExecutor(threads) as pool:
        for sending in [pool.submit(send, who) for who in range(threads)]:
            sending.result(timeout=60)
    done.set()
    draining.join()
    last = rig.it.drain()
    rig.settle(last)
    values = [(value or b"").split() for chunk in chunks + last for value in columns_of(chunk).values]
    for who in range(threads):
        assert [int(number) for other, number in values if int(other) == who] == list(range(count))
    assert rig.it.memory_used == 0
