"""The blocking consumer, and the asyncio one with a thread of its own, on a running embedded broker."""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, Consumer
from kclient.consumer.bells import ThreadBell
from kclient.consumer.bridge import Errands
from kclient.errors import ClientClosedError, IllegalStateError, KafkaTimeoutError, WakeupError
from kclient.records import encode_batch
from kclient.testing import RunningBroker
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.unit.consumer.reading import part, parts

pytestmark = pytest.mark.uvloop

PATIENCE_MS = 30_000


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with RunningBroker() as broker:
        broker.broker.create_topic("orders", 3)
        for each in parts(3):
            fill(broker, each)
        yield broker


def fill(running: RunningBroker, partition: TopicPartition, count: int = 1000) -> None:
    async def append() -> None:
        state = running.broker.topics.partition(*partition)
        records = [(b"key", b"%d" % number, 1_000, ()) for number in range(count)]
        state.log.append(encode_batch(records), leader_epoch=state.leader_epoch)
        state.wake()

    running.call(append())


def consumer_of(running: RunningBroker, *topics: str, **options: Any) -> Consumer[Any, Any]:
    options = {"auto_offset_reset": "earliest", **options}
    return Consumer(*topics, bootstrap_servers=running.bootstrap_servers, **options)


def test_records_come_by_poll_as_arrow_and_one_by_one(running: RunningBroker) -> None:
    with consumer_of(running, consumer_timeout_ms=1000) as consumer:
        consumer.assign(parts(3))
        first = consumer.poll(timeout_ms=PATIENCE_MS, max_records=10)
        assert sum(map(len, first.values())) == 10
        table = consumer.poll_arrow(timeout_ms=PATIENCE_MS, max_records=10)
        rest = list(consumer)
        assert table.num_rows == 10
        seen = [(record.partition, record.offset) for records in first.values() for record in records]
        seen += [(row["partition"], row["offset"]) for row in table.to_pylist()]
        seen += [(record.partition, record.offset) for record in rest]
        assert sorted(seen) == [(number, offset) for number in range(3) for offset in range(1000)]
        assert consumer.metrics().lag == 0
        assert consumer.health().cluster.connected


def test_questions_are_answered_on_the_callers_thread(running: RunningBroker) -> None:
    # Automatic commits would come in between where this takes longer than their interval.
    with consumer_of(running, group_id="billing", enable_auto_commit=False) as consumer:
        consumer.assign(parts(3))
        assert consumer.position(part(0)) == 0
        consumer.seek_to_end(part(0))
        assert consumer.position(part(0)) == 1000
        consumer.seek_to_beginning()
        consumer.seek_to_timestamp(5_000, part(1))
        assert consumer.position(part(1)) == 1000
        assert consumer.beginning_offsets(parts(1)) == {part(0): 0}
        assert consumer.end_offsets(parts(1)) == {part(0): 1000}
        assert consumer.offsets_for_times({part(0): 5_000}) == {part(0): None}
        consumer.commit({part(0): 7})
        assert consumer.committed(part(0)) == OffsetAndMetadata(7)
        assert consumer.seek_to_committed() == {part(0): 7, part(1): None, part(2): None}
        assert "orders" in consumer.topics()


def test_a_bell_that_rings_while_it_is_cleared_rings_again_later() -> None:
    bell = ThreadBell()

    class Queue:
        """In which somebody rings just before it is looked into."""

        def __init__(self) -> None:
            self.rings: list[None] = []
            self.looked_into = False

        def put(self, ring: None) -> None:
            self.rings.append(ring)

        def get_nowait(self) -> None:
            if not self.looked_into:
                self.looked_into = True
                bell.ring()
            if not self.rings:
                raise queue.Empty
            self.rings.pop()

    bell._queue = rung = Queue()  # type: ignore[assignment]
    bell.clear()
    bell.ring()
    assert rung.rings


def test_a_wakeup_from_another_thread_ends_the_waiting(running: RunningBroker) -> None:
    with consumer_of(running, auto_offset_reset="latest") as consumer:
        consumer.assign(parts(3))
        timer = threading.Timer(0.1, consumer.wakeup)
        timer.start()
        with pytest.raises(WakeupError):
            consumer.poll(timeout_ms=PATIENCE_MS)
        timer.join()


def test_a_wakeup_from_a_signal_handler_ends_the_waiting(running: RunningBroker) -> None:
    with consumer_of(running, auto_offset_reset="latest") as consumer:
        consumer.assign(parts(3))
        before = signal.signal(signal.SIGALRM, lambda *_: consumer.wakeup())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(WakeupError):
                consumer.poll(timeout_ms=PATIENCE_MS)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_a_wakeup_is_not_taken_by_a_seek(running: RunningBroker) -> None:
    with consumer_of(running) as consumer:
        consumer.assign(parts(3))
        consumer.wakeup()
        consumer.seek_to_beginning()
        assert [consumer.position(each) for each in parts(3)] == [0, 0, 0]
        with pytest.raises(WakeupError):
            consumer.poll(timeout_ms=PATIENCE_MS)


def test_one_thread_at_a_time_may_ask_for_records(running: RunningBroker) -> None:
    with consumer_of(running, auto_offset_reset="latest") as consumer:
        consumer.assign(parts(3))
        ended = threading.Event()

        def wait() -> None:
            with pytest.raises(WakeupError):
                consumer.poll(timeout_ms=PATIENCE_MS)
            ended.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(consumer._engine.subscription.waiting)
        with pytest.raises(IllegalStateError, match="another thread"):
            consumer.poll()
        consumer.wakeup()
        waiting.join()
        assert ended.is_set()


def until(condition: Any) -> None:
    """Spin until something is the case, for as long as the test may take."""
    while not condition():
        time.sleep(0)


def test_a_listener_is_called_on_the_thread_that_polls_and_may_use_the_consumer(
    running: RunningBroker,
) -> None:
    told: list[tuple[str, int, threading.Thread]] = []

    class Listener:
        def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
            told.append(("assigned", len(assigned), threading.current_thread()))
            consumer.seek(part(0), 990)

        def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
            told.append(("revoked", len(revoked), threading.current_thread()))
            consumer.commit()

    consumer = consumer_of(running, group_id="billing", enable_auto_commit=False)
    consumer.subscribe(["orders"], listener=Listener())
    with consumer:
        found: dict[TopicPartition, int] = {}
        while sum(found.values()) < 2010:
            for key, records in consumer.poll(timeout_ms=PATIENCE_MS).items():
                found[key] = found.get(key, 0) + len(records)
        assert found == {part(0): 10, part(1): 1000, part(2): 1000}
    assert told == [(what, 3, threading.current_thread()) for what in ("assigned", "revoked")]
    with consumer_of(running, group_id="billing") as again:
        assert again.committed(part(0)) == OffsetAndMetadata(1000, "", 0)


@pytest.mark.parametrize(
    "use",
    [
        lambda consumer: consumer.poll(timeout_ms=PATIENCE_MS),
        next,
        lambda consumer: consumer.topics(),
        lambda consumer: consumer.seek_to_end(),
        lambda consumer: consumer.commit({part(): 1}),
        lambda consumer: consumer.commit_nowait({part(): 1}),
        lambda consumer: consumer.partitions_for_topic("orders") or True,
        lambda consumer: consumer.group_metadata(),
    ],
    ids=["poll", "next", "topics", "seek_to_end", "commit", "commit_nowait", "partitions", "metadata"],
)
def test_the_first_call_that_needs_the_cluster_starts_a_consumer(
    running: RunningBroker, use: Callable[[Consumer[Any, Any]], object]
) -> None:
    consumer = consumer_of(running, group_id="first use")
    consumer.assign(parts(3))
    use(consumer)
    assert consumer.health().cluster.connected
    consumer.close()


def test_threads_that_use_a_new_consumer_at_once_start_it_once(running: RunningBroker) -> None:
    consumer = consumer_of(running)
    threads = [threading.Thread(target=consumer.topics) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([each for each in threading.enumerate() if each.name == "kclient consumer kclient"]) == 1
    consumer.close()


def test_a_consumer_that_is_closed_says_so(running: RunningBroker) -> None:
    consumer = consumer_of(running)
    consumer.assign(parts(3))
    with consumer:
        assert consumer.poll(timeout_ms=PATIENCE_MS)
    for attempt in (consumer.poll, consumer.topics, consumer.start):
        with pytest.raises(ClientClosedError):
            attempt()
    consumer.close()
    assert list(consumer) == []
    assert consumer.health().partitions is not None


def test_a_start_that_fails_leaves_no_thread_behind() -> None:
    consumer = Consumer(bootstrap_servers="localhost:1", client_id="fails to start")
    with pytest.raises(KafkaTimeoutError):
        consumer.start(timeout_ms=200)
    # By name: the loop's helper that looked up the address may still be on its way out.
    assert not [thread for thread in threading.enumerate() if "fails to start" in thread.name]
    consumer.close()


def test_a_consumer_that_is_never_closed_warns(running: RunningBroker) -> None:
    consumer = consumer_of(running)
    consumer.start()
    thread = consumer._thread
    assert thread is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
    assert [each.category for each in caught] == [ResourceWarning]
    thread._thread.join()


@pytest.mark.filterwarnings("error")
def test_with_a_thread_of_its_own_a_cancelled_call_ends_there_too(
    running: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=running.bootstrap_servers, io_thread=True) as consumer:
            unknown = part(0, "nowhere")
            consumer.assign([unknown])
            asking = asyncio.ensure_future(consumer.position(unknown))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled()
            assert consumer._thread is not None
            names = consumer._thread.submit(_tasks())
            assert not [name for name in await asyncio.wrap_future(names) if "position" in name]

    asyncio.run(main())
    assert not caplog.records


async def _tasks() -> list[str]:
    for _ in range(20):
        await asyncio.sleep(0)
    return [repr(task.get_coro()) for task in asyncio.all_tasks()]


def test_with_a_thread_of_its_own_a_client_works_while_the_loop_is_blocked(running: RunningBroker) -> None:
    async def main() -> None:
        options: dict[str, Any] = {
            "group_id": "billing",
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 50,
            "io_thread": True,
        }
        told: list[threading.Thread] = []

        class Listener:
            async def on_partitions_assigned(self, _: frozenset[TopicPartition]) -> None:
                told.append(threading.current_thread())

        consumer = AsyncConsumer(bootstrap_servers=running.bootstrap_servers, **options)
        consumer.subscribe(["orders"], listener=Listener())
        async with consumer:
            count = 0
            while count < 3000:
                count += sum(map(len, (await consumer.getmany(timeout_ms=PATIENCE_MS)).values()))
            group = consumer._engine.group
            assert group is not None
            before = consumer.health().group
            assert before is not None
            deadline = time.monotonic() + 30
            beaten = False
            while not beaten and time.monotonic() < deadline:  # the loop is blocked all the while
                health = group.health()
                beaten = health.last_heartbeat_age is not None and health.last_heartbeat_age < 0.04
            assert beaten
            await consumer.commit()
            assert await consumer.committed(part(0)) == OffsetAndMetadata(1000, "", 0)
            assert told == [threading.current_thread()]
            waiting = asyncio.ensure_future(consumer.getone())
            await asyncio.sleep(0)
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await waiting
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("kclient consumer")]

    asyncio.run(main())


def test_what_the_asyncio_consumer_can_do_the_blocking_one_can_too() -> None:
    renamed = {"getmany": "poll", "getarrow": "poll_arrow", "getpandas": "poll_pandas", "getone": "__next__"}
    for name, verb in inspect.getmembers(AsyncConsumer, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            assert hasattr(Consumer, renamed.get(name, name)), f"{name} has no twin: {verb}"


def test_a_consumer_loads_neither_numpy_nor_arrow_until_it_needs_them() -> None:
    code = "import sys; from kclient import AsyncConsumer; print({'numpy', 'pyarrow'} & set(sys.modules))"
    command = [sys.executable, "-E", "-s", "-c", code]
    root = Path(__file__).parents[3]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert ran.stdout.strip() == "set()"


def in_a_child(check: Callable[[], None]) -> int:
    """The exit code of a forked child that makes a check: 0 if it passes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)  # should it hang
            check()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - of the child's
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("call", ["poll", "next", "commit_nowait", "unsubscribe", "topics", "commit", "seek"])
def test_a_forked_child_is_told_that_it_has_no_consumer(running: RunningBroker, call: str) -> None:
    with consumer_of(running, "orders", group_id="forked") as consumer:
        next(consumer)
        calls: dict[str, Callable[[], object]] = {
            "poll": lambda: consumer.poll(timeout_ms=PATIENCE_MS),
            "next": lambda: next(consumer),
            "commit_nowait": consumer.commit_nowait,
            "commit": consumer.commit,
            "unsubscribe": consumer.unsubscribe,
            "topics": consumer.topics,
            "seek": lambda: consumer.seek(part(), 0),
        }

        def check() -> None:
            with pytest.raises(ClientClosedError, match="fork"):
                calls[call]()
            consumer.close()
            assert "closed" in repr(consumer)

        assert in_a_child(check) == 0
        assert next(consumer).offset == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("io_thread", [False, True])
def test_a_forked_child_is_told_that_it_has_no_asyncio_consumer(
    running: RunningBroker, io_thread: bool
) -> None:
    async def story() -> None:
        async with AsyncConsumer(
            "orders",
            bootstrap_servers=running.bootstrap_servers,
            io_thread=io_thread,
            auto_offset_reset="earliest",
        ) as consumer:
            await consumer.getone()

            def check() -> None:
                asyncio.events._set_running_loop(None)
                asyncio.run(child())

            async def child() -> None:
                with pytest.raises(ClientClosedError, match="fork"):
                    await consumer.getone()
                with pytest.raises(ClientClosedError, match="fork"):
                    await anext(consumer)
                with pytest.raises(ClientClosedError, match="fork"):
                    await consumer.topics()
                await consumer.close()

            assert in_a_child(check) == 0
            assert (await consumer.getone()).offset == 1

    asyncio.run(story())


def test_a_second_start_does_nothing_and_harms_nobody(running: RunningBroker) -> None:
    async def story() -> None:
        servers = running.bootstrap_servers
        options: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
        async with AsyncConsumer("orders", io_thread=True, **options) as consumer:
            await consumer.start()
            assert await consumer.getmany(timeout_ms=PATIENCE_MS)

    asyncio.run(story())


def test_ctrl_c_in_a_listener_ends_the_call_and_does_not_hold_up_the_group() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    async def story() -> None:
        errands = Errands(lambda: None)
        done = errands.carry(interrupted)
        with pytest.raises(KeyboardInterrupt):
            errands.run()
        with pytest.raises(RuntimeError, match="interrupted"):
            await done

    asyncio.run(story())


def test_a_listener_whose_end_was_not_told_because_of_ctrl_c_is_not_called_twice() -> None:
    async def story() -> None:
        errands = Errands(lambda: None)
        called: list[int] = []
        done = errands.carry(lambda: called.append(1))
        errands._waiting[0].begun = True  # and then Ctrl-C came
        errands.run()
        with pytest.raises(RuntimeError, match="interrupted"):
            await done
        assert not called

    asyncio.run(story())
