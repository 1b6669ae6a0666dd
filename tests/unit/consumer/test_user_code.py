"""What users give a consumer, and everything it may do: raise, block, call the consumer, answer nonsense.

For each place: the application is told, with the name of its function and the cause, and the client goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.consumer.group.assignors.base import Assignment, Layout, Member
from kclient.consumer.group.assignors.range import RangeAssignor
from kclient.errors import (
    ClientClosedError,
    FencedMemberEpochError,
    IllegalStateError,
    KafkaError,
    PoisonRecordError,
    UnknownMemberIdError,
)
from kclient.testing.simulation import until
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from tests.support.misbehaviour import EXITS, RAISED, gathers_cancelled_workers, raises, raises_awaited
from tests.unit.consumer.reading import Topic, World, live, part, parts, take

Options = dict[str, Any]
Partitions = frozenset[TopicPartition]
SESSION = 6
PROTOCOLS: dict[str, Options] = {
    "eager": {"partition_assignment_strategy": ["range"]},
    "cooperative": {"partition_assignment_strategy": ["cooperative-sticky"]},
    "kip-848": {"group_protocol": "consumer"},
}
IN_GROUPS = pytest.mark.parametrize("protocol", PROTOCOLS)
ASSIGNED, REVOKED, LOST = "on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": str(SESSION * 1000),
    "group.consumer.heartbeat.interval.ms": "2000",
}


def member(world: World, protocol: str = "eager", **options: Any) -> AsyncConsumer[Any, Any]:
    timing = {"session_timeout_ms": SESSION * 1000, "heartbeat_interval_ms": 2_000, "group_id": "g"}
    return world.consumer(**timing | PROTOCOLS[protocol] | options)


async def heard(consumer: AsyncConsumer[Any, Any], told: list[KafkaError], timeout_ms: float = 100) -> int:
    """Ask for records once; how many came. What the call raises is told."""
    try:
        got = await consumer.getmany(timeout_ms=timeout_ms)
    except KafkaError as error:
        told.append(error)
        await asyncio.sleep(0.01)  # of virtual time: where nothing goes any more, each call raises at once
        return 0
    return sum(map(len, got.values()))


async def goes_on(world: World, consumer: AsyncConsumer[Any, Any], told: list[KafkaError]) -> None:
    """Records of both partitions come, commits work, and three sessions later it is the same member."""
    for each in parts(2):
        world.fill(each, records=10)
    loop = asyncio.get_running_loop()
    end = loop.time() + 120
    while not await has_read_all(world, consumer):
        await heard(consumer, told)
        assert loop.time() < end, f"{consumer.health()}"
    await consumer.commit()
    for each in parts(2):
        committed = await consumer.committed(each)
        assert committed is not None
        assert committed.offset == await consumer.position(each)
    before = consumer.group_metadata()
    for _ in range(3 * SESSION):
        await heard(consumer, told, 1_000)
    assert consumer.group_metadata() == before
    assert consumer.health().cluster.failure is None


async def has_read_all(world: World, consumer: AsyncConsumer[Any, Any]) -> bool:
    if consumer.health().group.state != "stable":  # type: ignore[union-attr]
        return False
    try:
        return all(
            [
                await consumer.position(each) == world.broker.topics.partition(*each).log.end_offset
                for each in parts(2)
            ]
        )
    except IllegalStateError:  # it is not assigned, or no more
        return False


# Rebalance listeners


class Listener:
    """Does something in one of its methods, the first time that it has partitions."""

    def __init__(self, method: str, does: Callable[[], object]) -> None:
        self.method = method
        self.does = does
        self.done = 0

    def on_partitions_assigned(self, partitions: Partitions) -> object:
        return self._told(ASSIGNED, partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> object:
        return self._told(REVOKED, partitions)

    def on_partitions_lost(self, partitions: Partitions) -> object:
        return self._told(LOST, partitions)

    def _told(self, method: str, partitions: Partitions) -> object:
        if method != self.method or not partitions or self.done:
            return None
        self.done += 1
        return self.does()


async def provoke(world: World, listener: Listener, protocol: str) -> None:
    """Have the listener called in the way it is to be tried."""
    told: list[KafkaError] = []
    if listener.method == REVOKED:
        async with member(world, protocol) as other:
            other.subscribe([Topic])
            for _ in range(600):
                if listener.done and other.assignment():
                    break
                await heard(other, told)
                await asyncio.sleep(0.1)
    elif listener.method == LOST:
        if protocol == "kip-848":
            world.broker.faults.answer_with(ApiKey.CONSUMER_GROUP_HEARTBEAT, FencedMemberEpochError)
        else:
            world.broker.faults.answer_with(ApiKey.HEARTBEAT, UnknownMemberIdError)
    await until(lambda: listener.done > 0)


async def in_a_group(world: World, protocol: str, listener: Listener) -> list[KafkaError]:
    """A consumer whose listener does what it does; what the application was told."""
    world.fill_all(2, records=10)
    told: list[KafkaError] = []
    async with member(world, protocol) as consumer:
        consumer.subscribe([Topic], listener=listener)
        if listener.method != ASSIGNED:
            await goes_on(world, consumer, told)
        asking = asyncio.create_task(_ask(consumer, told))
        await provoke(world, listener, protocol)
        asking.cancel()
        await asyncio.wait([asking])
        await goes_on(world, consumer, told)
    return told


async def _ask(consumer: AsyncConsumer[Any, Any], told: list[KafkaError]) -> None:
    while True:
        await heard(consumer, told, 1_000)


@IN_GROUPS
@pytest.mark.parametrize("method", [ASSIGNED, REVOKED, LOST])
@pytest.mark.parametrize("kind", [raises, raises_awaited], ids=["function", "coroutine"])
@pytest.mark.parametrize("raised", RAISED)
def test_a_listener_that_raises_is_told_of_and_the_member_goes_on(
    raised: type[BaseException],
    kind: Callable[[type[BaseException]], Callable[[], object]],
    method: str,
    protocol: str,
    exits: list[BaseException],
) -> None:
    told: list[KafkaError] = []

    async def story(world: World) -> None:
        told.extend(await in_a_group(world, protocol, Listener(method, kind(raised))))

    live(story, config=SETTINGS)
    assert [type(error.__cause__) for error in told] == [raised]
    assert f"{__name__}.Listener.{method} failed" in str(told[0])
    assert [type(left) for left in exits] == [raised] * issubclass(raised, EXITS)


@IN_GROUPS
@pytest.mark.parametrize("method", [ASSIGNED, REVOKED, LOST])
def test_a_listener_that_cancels_its_workers_and_awaits_them_does_not_end_the_membership(
    protocol: str, method: str
) -> None:
    told: list[KafkaError] = []

    async def story(world: World) -> None:
        told.extend(await in_a_group(world, protocol, Listener(method, gathers_cancelled_workers)))

    live(story, config=SETTINGS)
    assert [type(error.__cause__) for error in told] == [asyncio.CancelledError]


@IN_GROUPS
@pytest.mark.parametrize("method", [ASSIGNED, REVOKED, LOST])
@pytest.mark.parametrize("said", [17, "nonsense", False, [None]])
def test_what_a_listener_returns_does_not_matter(said: object, method: str, protocol: str) -> None:
    async def story(world: World) -> None:
        assert await in_a_group(world, protocol, Listener(method, lambda: said)) == []

    live(story, config=SETTINGS)


@IN_GROUPS
@pytest.mark.parametrize("method", [ASSIGNED, REVOKED])
def test_heartbeats_go_on_while_a_listener_takes_longer_than_a_session(method: str, protocol: str) -> None:
    async def story(world: World) -> None:
        assert await in_a_group(world, protocol, Listener(method, lambda: asyncio.sleep(4 * SESSION))) == []

    live(story, config=SETTINGS)


@IN_GROUPS
@pytest.mark.parametrize("method", [ASSIGNED, REVOKED])
def test_a_member_comes_back_after_a_listener_that_blocked_the_loop(method: str, protocol: str) -> None:
    """For longer than a session: its place is gone, and what it says so with is its own affair."""

    async def story(world: World) -> None:
        def blocks() -> None:
            world.sim.loop._now += 2.5 * SESSION

        await in_a_group(world, protocol, Listener(method, blocks))

    live(story, config=SETTINGS)


@IN_GROUPS
@pytest.mark.parametrize("method", [ASSIGNED, REVOKED])
def test_a_listener_may_use_the_consumer(method: str, protocol: str) -> None:
    async def story(world: World) -> None:
        async def uses() -> None:
            consumer = consumers[0]
            consumer.seek(part(0), await consumer.position(part(0)))
            await consumer.commit({part(0): 1})
            await consumer.committed(part(0))
            consumer.pause(part(0))
            consumer.resume(part(0))
            assert not await consumer.getmany(timeout_ms=100)

        listener = Listener(method, uses)
        consumers = [member(world, protocol)]
        world.fill_all(2, records=10)
        told: list[KafkaError] = []
        async with consumers[0] as consumer:
            consumer.subscribe([Topic], listener=listener)
            if method == REVOKED:
                await goes_on(world, consumer, told)
            asking = asyncio.create_task(_ask(consumer, told))
            await provoke(world, listener, protocol)
            asking.cancel()
            await asyncio.wait([asking])
            await goes_on(world, consumer, told)
        assert not told

    live(story, config=SETTINGS)


@IN_GROUPS
def test_a_listener_that_closes_the_consumer_ends_it(protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2, records=10)
        consumer = member(world, protocol)
        listener = Listener(ASSIGNED, lambda: consumer.close())  # noqa: PLW0108 - there is none yet
        consumer.subscribe([Topic], listener=listener)
        await consumer.start()
        await until(lambda: listener.done > 0)
        with pytest.raises(ClientClosedError):
            await consumer.getmany(timeout_ms=60_000)
        await consumer.close()
        assert listener.done

    live(story, config=SETTINGS)


# Callbacks of commits


def commits(world: World, does: Callable[[AsyncConsumer[Any, Any]], object]) -> Callable[[], Any]:
    async def run() -> None:
        world.fill_all(2, records=10)
        told: list[KafkaError] = []
        async with member(world) as consumer:
            consumer.subscribe([Topic])
            await goes_on(world, consumer, told)
            called = asyncio.Event()

            def callback(*_: object) -> Any:
                called.set()
                return does(consumer)

            consumer.commit_nowait({part(0): 1}, callback)
            async with asyncio.timeout(60):
                await called.wait()
            await goes_on(world, consumer, told)
            assert not told

    return run


@pytest.mark.parametrize("raised", RAISED)
def test_a_commit_callback_that_raises_is_logged_and_commits_go_on(
    raised: type[BaseException], exits: list[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def does(_: object) -> object:
        raise raised

    live(lambda world: commits(world, does)(), config=SETTINGS)
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "commits.<locals>.run.<locals>.callback failed" in record.getMessage()
    assert [type(left) for left in exits] == [raised] * issubclass(raised, EXITS)


@pytest.mark.parametrize(
    "does",
    [
        lambda _: "nonsense",
        lambda consumer: consumer.commit_nowait({part(1): 1}),
        lambda consumer: consumer.seek(part(0), 1),
        lambda consumer: consumer.pause(part(0)) or consumer.resume(part(0)),
    ],
    ids=["nonsense", "commits", "seeks", "pauses"],
)
def test_a_commit_callback_may_use_the_consumer(does: Callable[[AsyncConsumer[Any, Any]], object]) -> None:
    live(lambda world: commits(world, does)(), config=SETTINGS)


# Deserializers and what is told of poison: on the caller's own stack


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("field", ["key_deserializer", "value_deserializer"])
def test_a_deserializer_that_raises_is_told_of_and_may_be_passed(
    field: str, raised: type[BaseException]
) -> None:
    failing = True

    def deserialize(data: bytes) -> bytes:
        if failing:
            raise raised
        return data

    async def story(world: World) -> None:
        nonlocal failing
        world.fill(part(), records=10)
        options: Options = {field: deserialize}
        async with world.reader(**options) as consumer:
            expected = raised if issubclass(raised, EXITS) else PoisonRecordError
            with pytest.raises(expected) as caught:
                await take(consumer, 10)
            if expected is PoisonRecordError:
                assert isinstance(caught.value.__cause__, raised)
                consumer.seek(part(), 0)
            failing = False
            assert len((await take(consumer, 10))[part()]) == 10

    live(story)


@pytest.mark.parametrize("raised", RAISED)
def test_what_is_told_of_poison_may_raise(raised: type[BaseException]) -> None:
    failing = True

    def deserialize(data: bytes) -> bytes:
        if failing:
            raise ValueError
        return data

    def on_poison(_: PoisonRecordError) -> None:
        raise raised

    async def story(world: World) -> None:
        nonlocal failing
        world.fill(part(), records=10)
        async with world.reader(value_deserializer=deserialize, on_poison=on_poison) as consumer:
            with pytest.raises(KafkaError if raised is asyncio.CancelledError else raised) as caught:
                await take(consumer, 10)
            if raised is asyncio.CancelledError:
                assert "on_poison" in str(caught.value)
                assert isinstance(caught.value.__cause__, raised)
            failing = False
            assert len((await take(consumer, 10))[part()]) == 10

    live(story)


# Assignors of one's own


class Faulty(RangeAssignor):
    """Does something else in one of its methods, the first time."""

    def __init__(self, method: str, does: Callable[[], object]) -> None:
        self.faults = {method: does}

    def assign(self, layout: Layout, members: Mapping[str, Member]) -> Assignment:
        does = self.faults.pop("assign", None)
        return super().assign(layout, members) if does is None else does()  # type: ignore[return-value]

    def user_data(self) -> bytes | None:
        does = self.faults.pop("user_data", None)
        return super().user_data() if does is None else does()  # type: ignore[return-value]

    def assigned(self, *_: object) -> None:
        does = self.faults.pop("assigned", None)
        if does is not None:
            does()


def with_assignor(assignor: Faulty) -> list[KafkaError]:
    told: list[KafkaError] = []

    async def story(world: World) -> None:
        world.fill_all(2, records=10)
        async with member(world, partition_assignment_strategy=[assignor]) as consumer:
            consumer.subscribe([Topic])
            await goes_on(world, consumer, told)
        assert not assignor.faults

    live(story, config=SETTINGS)
    return told


@pytest.mark.parametrize("method", ["assign", "user_data", "assigned"])
@pytest.mark.parametrize("raised", RAISED)
def test_an_assignor_that_raises_is_told_of_and_asked_again(
    raised: type[BaseException], method: str, exits: list[BaseException]
) -> None:
    told = with_assignor(Faulty(method, raises(raised)))
    assert [type(error.__cause__) for error in told] == [raised]
    assert f"{__name__}.Faulty.{method} failed" in str(told[0])
    assert [type(left) for left in exits] == [raised] * issubclass(raised, EXITS)


@pytest.mark.parametrize("number", range(6))
def test_an_assignor_that_answers_nonsense_is_told_of_and_asked_again(number: int) -> None:
    class Everybody(dict[str, object]):
        """Something else for every member."""

        def get(self, *_: object) -> object:
            return ([("orders", 99)], [("orders", "0")], ["orders"], [None], 17, [("other", 0)])[number]

    told = with_assignor(Faulty("assign", Everybody))
    assert [type(error) for error in told] == [KafkaError]
    assert "Faulty.assign failed" in str(told[0])


@pytest.mark.parametrize("said", [None, 17, "x"])
def test_an_assignor_that_answers_no_mapping_is_told_of(said: object) -> None:
    (error,) = with_assignor(Faulty("assign", lambda: said))
    assert "Faulty.assign failed" in str(error)


@pytest.mark.parametrize("said", [17, "text", ()])
def test_user_data_that_cannot_be_sent_is_told_of(said: object) -> None:
    (error,) = with_assignor(Faulty("user_data", lambda: said))
    assert "Faulty.user_data failed" in str(error)
    assert "return bytes or None" in str(error)
