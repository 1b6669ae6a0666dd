"""Records are made without the garbage collector, and nobody can tell: not threads, forks or user code."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient.consumer.decode import Decoder
from kclient.records import encode_batch, read_batches
from kclient.records.batch import RecordBatch
from kclient.types import Record, TopicPartition
from kclient.uncollected import collected_seldom, list_uncollected
from tests.unit.consumer.reading import Topic, World, live, part

COUNT = 5_000


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.enable()
    gc.set_threshold(*thresholds)


def a_batch(count: int = COUNT, headers: int = 0) -> RecordBatch:
    own = tuple((f"name-{number}", b"text") for number in range(headers))
    data = encode_batch([(b"key", b"%06d" % number, 1_700_000_000_000, own) for number in range(count)])
    (batch,) = read_batches(memoryview(bytes(data)))
    return batch


def collections_during(work: Callable[[], object]) -> int:
    begun: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            begun.append(info["generation"])

    gc.collect()
    gc.callbacks.append(count)
    try:
        work()
    finally:
        gc.callbacks.remove(count)
    return len(begun)


def collector() -> tuple[bool, tuple[int, int, int]]:
    return gc.isenabled(), gc.get_threshold()


def decode(batch: RecordBatch, deserializer: Callable[[bytes], Any] | None = None) -> list[Record[Any, Any]]:
    decoder = Decoder(None, deserializer, "raise")
    found: list[Record[Any, Any]] = decoder.records(batch, TopicPartition(Topic, 0), 0)
    return found if decoder.plain else decoder.deserialized(found, -1).records


@pytest.mark.parametrize("headers", [0, 2])
def test_a_large_batch_becomes_records_with_next_to_no_collections(headers: int) -> None:
    batch = a_batch(headers=headers)
    decode(batch)  # imports what it needs
    gc.set_threshold(100, 1_000, 1_000)
    # One may be due before the first of the lists, and one after each of three.
    assert collections_during(lambda: decode(batch)) <= 4 + 3 * bool(headers)


def test_the_list_has_all_items_in_order() -> None:
    assert list_uncollected(iter(range(10))) == list(range(10))
    assert list_uncollected(iter("ab"), iter(()), iter("c")) == list("abc")


def test_what_fails_in_the_middle_leaves_the_collector_as_it_was() -> None:
    gc.set_threshold(123, 4, 5)

    def fails(number: int) -> int:
        if number == 7:
            raise KeyboardInterrupt
        return number

    with pytest.raises(KeyboardInterrupt):
        list_uncollected(map(fails, range(10)))
    assert collector() == (True, (123, 4, 5))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_choice_of_the_application_stays(enabled: bool) -> None:
    gc.set_threshold(321, 4, 5)
    (gc.enable if enabled else gc.disable)()
    found = decode(a_batch())
    assert len(found) == COUNT
    assert collector() == (enabled, (321, 4, 5))


def test_threads_that_make_records_at_once_never_see_a_change() -> None:
    batch, own, seen = a_batch(), collector(), set()
    ended = threading.Event()

    def make() -> None:
        for _ in range(20):
            decode(batch)
            seen.add(collector())

    makers = [threading.Thread(target=make) for _ in range(2)]

    def watch() -> None:
        while not ended.is_set():
            seen.add(collector())

    watcher = threading.Thread(target=watch)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in (watcher, *makers):
            thread.start()
        for thread in makers:
            thread.join(60)
    finally:
        ended.set()
        watcher.join(60)
        sys.setswitchinterval(interval)
    assert seen == {own}
    assert collector() == own


def poll_with(deserializer: Callable[[bytes], Any]) -> None:
    """Have user code called while a poll makes records."""

    async def story(world: World) -> None:
        world.fill(part(), batches=2, records=500)
        async with world.reader(value_deserializer=deserializer) as consumer:
            taken = 0
            while taken < 1_000:
                taken += sum(map(len, (await consumer.getmany(timeout_ms=1_000)).values()))

    live(story)


@pytest.fixture
def _uncontrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation takes the collector over; here it is the application's."""
    monkeypatch.setattr("kclient.testing.simulation._same_every_time", lambda _: threading.RLock())


@pytest.mark.usefixtures("_uncontrolled")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # others may have left threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_that_is_forked_in_the_middle_of_a_poll_has_its_collector() -> None:
    gc.set_threshold(789, 4, 5)
    codes: list[int] = []

    def fork(data: bytes) -> bytes:
        if len(codes) < 3:
            child = os.fork()
            if not child:
                os._exit(0 if collector() == (True, (789, 4, 5)) else 1)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return data

    poll_with(fork)
    assert codes == [0, 0, 0]


@pytest.mark.usefixtures("_uncontrolled")
def test_what_the_application_sets_in_the_middle_of_a_poll_stays() -> None:
    def change(data: bytes) -> bytes:
        gc.disable()
        gc.set_threshold(456, 4, 5)
        return data

    poll_with(change)
    assert collector() == (False, (456, 4, 5))


@pytest.mark.usefixtures("_uncontrolled")
def test_while_code_of_the_application_runs_the_collector_is_on() -> None:
    seen: set[bool] = set()

    def look(data: bytes) -> bytes:
        seen.add(gc.isenabled())
        return data

    poll_with(look)
    assert seen == {True}


@pytest.mark.usefixtures("_uncontrolled")
def test_an_interrupted_poll_leaves_the_collector_as_it_was() -> None:
    own = collector()

    def interrupt(_: bytes) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        poll_with(interrupt)
    assert collector() == own


# Calls that make many lists


@pytest.mark.usefixtures("_uncontrolled")
def test_a_poll_of_many_batches_is_hardly_collected() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=100, records=100)
        async with world.reader() as consumer:
            taken = len((await consumer.getmany(timeout_ms=1_000, max_records=1))[part()])
            await asyncio.sleep(60)  # the others are fetched
            gc.set_threshold(100, 1_000, 1_000)

            before = sum(each["collections"] for each in gc.get_stats())
            taken += len((await consumer.getmany(max_records=10_000))[part()])
            assert taken == 10_000
            # With a hundred lists of their own they were hundreds.
            assert sum(each["collections"] for each in gc.get_stats()) - before < 20

    live(story)


def test_calls_that_overlap_leave_the_collector_as_the_first_found_it() -> None:
    gc.set_threshold(123, 4, 5)
    in_both, one_ended = threading.Barrier(2, timeout=30), threading.Event()
    seen: list[int] = []

    @collected_seldom
    def work(first: bool) -> None:
        in_both.wait()
        if not first:
            one_ended.wait(30)
        seen.append(gc.get_threshold()[0])

    def run(first: bool) -> None:
        work(first)
        if first:
            one_ended.set()

    threads = [threading.Thread(target=run, args=[first]) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert seen[0] > 10_000
    assert collector() == (True, (123, 4, 5))


@pytest.mark.parametrize("threshold", [0, 1_000_000])
def test_a_threshold_that_is_high_or_off_is_left_alone(threshold: int) -> None:
    gc.set_threshold(threshold, 4, 5)
    seen: list[int] = []
    collected_seldom(lambda: seen.append(gc.get_threshold()[0]))()
    assert seen == [threshold]
    assert gc.get_threshold() == (threshold, 4, 5)


def test_what_was_saved_in_the_middle_and_put_back_too_late_is_put_right_by_the_next_call() -> None:
    gc.set_threshold(123, 4, 5)
    saved: list[tuple[int, int, int]] = []
    collected_seldom(lambda: saved.append(gc.get_threshold()))()
    gc.set_threshold(*saved[0])
    collected_seldom(lambda: None)()
    assert gc.get_threshold() == (123, 4, 5)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_that_is_forked_in_the_middle_of_a_call_finds_what_was_there_before() -> None:
    gc.set_threshold(123, 4, 5)

    @collected_seldom
    def fork() -> int:
        child = os.fork()
        if not child:
            os._exit(0 if collector() == (True, (123, 4, 5)) else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert fork() == 0
