"""One task fetches metadata for everyone: when, how often, and what those who wait are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from uuid import UUID

import pytest

from kclient.background import BackgroundTasks
from kclient.clock import Deadline
from kclient.cluster.metadata import Broker, Metadata, Partition, Topic
from kclient.cluster.refresher import Refresher
from kclient.cluster.retry import Backoff
from kclient.config import Endpoint
from kclient.errors import (
    AuthenticationError,
    ClientClosedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
)
from kclient.types import TopicPartition
from kclient.wire.messages.metadata import MetadataResponse
from tests.support.virtual_loop import VirtualLoop

Described = MetadataResponse.MetadataResponseTopic
MAX_AGE = 300.0


class Source:
    """Stands for the brokers: answers about every topic asked for, or fails as it is told."""

    def __init__(self, loop: VirtualLoop, takes: float = 0.01) -> None:
        self.asked: list[tuple[float, list[str] | None]] = []
        self.failures: list[Exception] = []
        self.takes = takes
        self._loop = loop

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.asked]

    async def __call__(self, topics: list[str] | None) -> MetadataResponse:
        self.asked.append((self._loop.time(), topics))
        await asyncio.sleep(self.takes)
        if self.failures:
            raise self.failures.pop(0)
        return MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host="broker-1", port=9092)],
            topics=[Described(name=name, partitions=[]) for name in topics or ["every"]],
            cluster_id=f"answer {len(self.asked)}",
        )


def started(source: Callable[[list[str] | None], Awaitable[MetadataResponse]]) -> Refresher:
    refresher = refreshing(source, MAX_AGE)
    refresher.start()
    return refresher


def refreshing(
    source: Callable[[list[str] | None], Awaitable[MetadataResponse]], max_age: float
) -> Refresher:
    tasks = BackgroundTasks("the client")
    return Refresher(source, Backoff(100, 1000, Random(0)), Backoff(10, 100, Random(0)), max_age, tasks)


def within(loop: VirtualLoop, seconds: float = 60) -> Deadline:
    return Deadline.after(loop, seconds)


# How often


async def test_a_thousand_who_ask_make_few_requests(loop: VirtualLoop) -> None:
    source = Source(loop)
    refresher = started(source)
    for _ in range(1000):
        refresher.ask()
    await asyncio.gather(*(refresher.refreshed(within(loop)) for _ in range(1000)))
    assert len(source.asked) <= 2
    for _ in range(1000):
        refresher.ask()
        await asyncio.sleep(0.001)
    assert len(source.asked) <= 2 + 1 / 0.08 + 1
    await refresher.stop()


async def test_nothing_is_fetched_without_a_reason_until_the_snapshot_is_old(loop: VirtualLoop) -> None:
    source = Source(loop)
    refresher = started(source)
    await refresher.refreshed(within(loop))
    await asyncio.sleep(MAX_AGE - 1)
    assert len(source.asked) == 1
    await asyncio.sleep(2)
    assert len(source.asked) == 2
    await asyncio.sleep(10 * MAX_AGE)
    assert len(source.asked) in (11, 12)
    await refresher.stop()


async def test_failures_are_repeated_with_growing_waits(loop: VirtualLoop) -> None:
    source = Source(loop, takes=0)
    source.failures = [KafkaConnectionError("down") for _ in range(1000)]
    refresher = started(source)
    with pytest.raises(
        KafkaTimeoutError, match=r"fetching metadata \(last failure: down\) did not end within 20 s"
    ):
        await refresher.refreshed(within(loop, 20))
    assert loop.time() == pytest.approx(20)
    assert 18 <= len(source.asked) <= 30
    await refresher.stop()


async def test_after_a_success_the_waits_start_small_again(loop: VirtualLoop) -> None:
    source = Source(loop, takes=0)
    source.failures = [KafkaConnectionError("down") for _ in range(8)]
    refresher = started(source)
    await refresher.refreshed(within(loop))
    began = loop.time()
    await refresher.refreshed(within(loop))
    assert loop.time() - began < 0.13
    await refresher.stop()


async def test_a_topic_that_is_new_is_asked_for_at_once_and_alone(loop: VirtualLoop) -> None:
    source = Source(loop, takes=0)
    refresher = started(source)
    await refresher.refreshed(within(loop))
    for number in range(100):
        refresher.look_up(f"topic-{number}")
        found = await refresher.refreshed(within(loop), f"topic-{number}")
        assert f"topic-{number}" in found.topics
    assert loop.time() < 0.01
    assert [topics for _, topics in source.asked[1:]] == [[f"topic-{number}"] for number in range(100)]
    await refresher.refreshed(within(loop))
    assert len(source.asked[-1][1] or ()) == 100
    await refresher.stop()


async def test_the_same_question_waits_for_a_pause_that_grows_and_a_new_one_does_not(
    loop: VirtualLoop,
) -> None:
    source = Source(loop, takes=0)
    refresher = started(source)
    refresher.look_up("a")
    for _ in range(8):
        await refresher.refreshed(within(loop), "a")
    pauses = [after - before for before, after in zip(source.times, source.times[1:], strict=False)]
    assert pauses == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.1, 0.1, 0.1], rel=0.2)
    refresher.look_up("b")
    await refresher.refreshed(within(loop), "b")
    assert source.times[-1] == source.times[-2]
    await asyncio.sleep(1)
    await refresher.refreshed(within(loop), "a")
    assert source.times[-1] == loop.time(), "there was no fetch for a long time"
    await refresher.stop()


async def test_a_topic_that_is_new_waits_while_the_cluster_does_not_answer(loop: VirtualLoop) -> None:
    source = Source(loop, takes=0)
    source.failures = [KafkaConnectionError("down") for _ in range(5)]
    refresher = started(source)
    for number in range(100):
        refresher.look_up(f"topic-{number}")
        await asyncio.sleep(0.001)
    await refresher.refreshed(within(loop), "topic-99")
    assert len(source.asked) <= 7
    assert len(refresher.snapshot.topics) == 100
    await refresher.stop()


async def test_everything_is_fetched_when_it_is_old_however_many_new_topics_come(loop: VirtualLoop) -> None:
    source = Source(loop)
    refresher = started(source)
    for number in range(400):
        refresher.look_up(f"topic-{number}")
        await refresher.refreshed(within(loop), f"topic-{number}")
        await asyncio.sleep(1)
    whole = [at for at, topics in source.asked if len(topics or ()) > 1]
    assert whole == pytest.approx([MAX_AGE], abs=2)
    await refresher.stop()


# Those who wait


async def test_whoever_waits_gets_an_answer_to_a_question_asked_after_they_came(loop: VirtualLoop) -> None:
    source = Source(loop, takes=1)
    refresher = started(source)
    first = asyncio.create_task(refresher.refreshed(within(loop)))
    await asyncio.sleep(0.5)
    second = asyncio.create_task(refresher.refreshed(within(loop)))
    assert (await first).cluster_id == "answer 1"
    assert not second.done()
    assert (await second).cluster_id == "answer 2"
    await refresher.stop()


async def test_whoever_waits_sits_out_passing_failures(loop: VirtualLoop) -> None:
    source = Source(loop)
    source.failures = [KafkaConnectionError("down"), KafkaConnectionError("down")]
    refresher = started(source)
    assert (await refresher.refreshed(within(loop))).cluster_id == "answer 3"
    assert refresher.last_error is None
    assert refresher.last_success == loop.time()
    await refresher.stop()


async def test_what_somebody_needs_is_asked_for_again_after_a_refusal_but_slowly(loop: VirtualLoop) -> None:
    """It may pass. Nobody waits for it, so nobody else would ask again."""
    source = Source(loop)
    refresher = started(source)
    source.failures = [AuthenticationError("wrong password") for _ in range(6)]
    refresher.ask("orders")
    await asyncio.sleep(60)
    pauses = [later - earlier for earlier, later in zip(source.times, source.times[1:], strict=False)]
    assert pauses == pytest.approx([1, 2, 4, 5, 5, 5], abs=0.5)
    assert refresher.last_error is None
    assert loop.time() < 70
    await refresher.stop()


async def test_a_password_that_nobody_needs_any_more_is_not_shown_again(loop: VirtualLoop) -> None:
    source = Source(loop)
    refresher = started(source)
    source.failures = [AuthenticationError("wrong password") for _ in range(1_000)]
    refresher.look_up("orders")
    await asyncio.sleep(3_600)
    assert len(source.asked) <= 15 + 3_600 / refresher._max_age
    await refresher.stop()


async def test_a_need_that_arises_while_metadata_is_fetched_outlasts_a_refusal(loop: VirtualLoop) -> None:
    source = Source(loop, takes=1.0)
    refresher = started(source)
    refresher.ask()
    await asyncio.sleep(0.5)
    refresher.ask()
    await asyncio.sleep(1.0)  # the first answer has come, the second question is on its way
    source.failures = [AuthenticationError("wrong password")]
    await asyncio.sleep(10)
    assert len(source.asked) == 3
    await refresher.stop()


async def test_a_final_failure_is_told_at_once_to_all_and_not_repeated_by_itself(loop: VirtualLoop) -> None:
    source = Source(loop)
    source.failures = [AuthenticationError("wrong password")]
    refresher = started(source)
    outcomes = await asyncio.gather(
        *(refresher.refreshed(within(loop)) for _ in range(3)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [AuthenticationError] * 3
    assert len(set(map(id, outcomes))) == 3
    assert loop.time() < 0.1
    await asyncio.sleep(60)
    assert len(source.asked) == 1, "an account may be locked after a few attempts"
    assert (await refresher.refreshed(within(loop))).cluster_id == "answer 2"
    await refresher.stop()


async def test_a_failure_that_nobody_foresaw_is_told_at_once_and_does_not_end_the_refreshing(
    loop: VirtualLoop,
) -> None:
    source = Source(loop)
    source.failures = [OverflowError("too large")]
    refresher = started(source)
    with pytest.raises(KafkaError, match="too large") as caught:
        await refresher.refreshed(within(loop))
    assert isinstance(caught.value.__cause__, OverflowError)
    assert loop.time() < 0.1
    assert (await refresher.refreshed(within(loop))).cluster_id == "answer 2"
    await refresher.stop()


async def test_a_deadline_that_passes_ends_only_its_own_wait(loop: VirtualLoop) -> None:
    source = Source(loop, takes=5)
    refresher = started(source)
    patient = asyncio.create_task(refresher.refreshed(within(loop)))
    with pytest.raises(KafkaTimeoutError, match="fetching metadata did not end within 2 s"):
        await refresher.refreshed(within(loop, 2))
    assert loop.time() == pytest.approx(2)
    await patient
    assert len(source.asked) <= 2
    await refresher.stop()


async def test_a_cancelled_waiter_does_not_disturb_the_others(loop: VirtualLoop) -> None:
    refresher = started(Source(loop, takes=1))
    waiters = [asyncio.create_task(refresher.refreshed(within(loop))) for _ in range(2)]
    await asyncio.sleep(0.5)
    waiters[0].cancel()
    assert (await waiters[1]).cluster_id == "answer 1"
    assert waiters[0].cancelled()
    await refresher.stop()


# Topics


async def test_only_followed_topics_are_asked_for(loop: VirtualLoop) -> None:
    source = Source(loop)
    refresher = started(source)
    await refresher.refreshed(within(loop))
    refresher.follow(["b", "a"])
    await refresher.refreshed(within(loop))
    refresher.follow(["a"])
    await asyncio.sleep(10)
    refresher.follow_all()
    await refresher.refreshed(within(loop))
    assert [topics for _, topics in source.asked] == [[], ["a", "b"], None]
    assert set(refresher.snapshot.topics) == {"every"}
    await refresher.stop()


async def test_a_forgotten_topic_is_not_asked_for_again(loop: VirtualLoop) -> None:
    source = Source(loop)
    refresher = started(source)
    refresher.follow(["a", "b"])
    await refresher.refreshed(within(loop))
    refresher.forget(["a"])
    assert set(refresher.snapshot.topics) == {"b"}
    await refresher.refreshed(within(loop))
    assert source.asked[-1][1] == ["b"]
    await refresher.stop()


async def test_a_topic_forgotten_during_a_fetch_does_not_come_back_with_its_answer(loop: VirtualLoop) -> None:
    source = Source(loop, takes=1)
    refresher = started(source)
    refresher.follow(["a", "b"])
    waiter = asyncio.create_task(refresher.refreshed(within(loop)))
    await asyncio.sleep(0.5)
    refresher.forget(["a"])
    await waiter
    assert set(refresher.snapshot.topics) == {"b"}
    await refresher.stop()


# Snapshots


async def test_listeners_hear_of_every_new_snapshot(loop: VirtualLoop) -> None:
    heard: list[Metadata] = []
    refresher = started(Source(loop))
    refresher.listen(heard.append)
    await refresher.refreshed(within(loop))
    refresher.introduce(Broker(7, Endpoint("broker-7", 9092)))
    refresher.introduce(Broker(7, Endpoint("broker-7", 9092)))
    refresher.introduce(Broker(1, Endpoint("elsewhere", 9092)))
    assert [set(snapshot.brokers) for snapshot in heard] == [{1}, {1, 7}]
    assert refresher.snapshot.brokers[1].endpoint == Endpoint("broker-1", 9092)
    refresher.update(Metadata(cluster_id="hinted"))
    assert heard[-1].cluster_id == "hinted"
    await refresher.stop()


# Logs


async def test_an_outage_is_a_warning_again_after_growing_pauses_and_not_a_storm(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    source = Source(loop)
    source.failures = [KafkaConnectionError("down") for _ in range(500)]
    refresher = started(source)
    with pytest.raises(KafkaTimeoutError):
        await refresher.refreshed(within(loop, 170))
    assert [record.getMessage() for record in caplog.records] == ["cannot fetch metadata: down"] * 2
    source.failures.clear()
    await refresher.refreshed(within(loop))
    source.failures = [KafkaConnectionError("one broker was stopped")]
    await refresher.refreshed(within(loop))
    assert len(caplog.records) == 2
    source.failures = [KafkaConnectionError("down again") for _ in range(5)]
    await refresher.refreshed(within(loop))
    assert [record.getMessage() for record in caplog.records[2:]] == ["cannot fetch metadata: down again"]
    await refresher.stop()


# The end


async def test_stop_tells_whoever_waits_and_whoever_comes_later(loop: VirtualLoop) -> None:
    refresher = started(Source(loop, takes=100))
    waiter = asyncio.create_task(refresher.refreshed(within(loop, 500)))
    await asyncio.sleep(1)
    await refresher.stop()
    await refresher.stop()
    with pytest.raises(ClientClosedError):
        await waiter
    with pytest.raises(ClientClosedError):
        await refresher.refreshed(within(loop, 500))
    assert loop.time() < 2


async def test_one_that_was_never_started_can_be_stopped(loop: VirtualLoop) -> None:
    await refreshing(Source(loop), MAX_AGE).stop()


async def test_a_topic_that_is_looked_up_is_kept_while_somebody_does(loop: VirtualLoop) -> None:
    source = Source(loop)
    refresher = started(source)
    refresher.look_up("orders")
    await refresher.refreshed(within(loop))
    await asyncio.sleep(MAX_AGE - 10)
    refresher.look_up("orders")
    await asyncio.sleep(MAX_AGE - 20)
    await refresher.refreshed(within(loop))
    assert source.asked[-1][1] == ["orders"]
    await asyncio.sleep(30)
    await refresher.refreshed(within(loop))
    assert source.asked[-1][1] == []
    assert "orders" not in refresher.snapshot.topics
    await refresher.stop()


async def test_a_hint_names_the_new_leader_unless_it_is_old_news(loop: VirtualLoop) -> None:
    refresher = started(Source(loop))
    orders = TopicPartition("orders", 0)
    partition = Partition(0, leader=1, leader_epoch=5, replicas=(1, 2), isr=(1, 2))
    topic = Topic("orders", UUID(int=1), internal=False, partitions={0: partition})
    refresher.update(Metadata(topics={"orders": topic}))
    newcomer = Broker(2, Endpoint("broker-2", 9092))
    refresher.take_hint(orders, 2, 6, [newcomer])
    assert refresher.snapshot.leader(orders) == 2
    assert refresher.snapshot.brokers[2] == newcomer
    refresher.take_hint(orders, 1, 5)
    assert refresher.snapshot.leader(orders) == 2
    await refresher.stop()


async def test_a_topic_is_asked_for_however_short_the_age_is(loop: VirtualLoop) -> None:
    source = Source(loop)
    refresher = refreshing(source, 0.001)
    refresher.start()
    await refresher.refreshed(Deadline.after(loop, 10))
    refresher.look_up("orders")
    found = await refresher.refreshed(Deadline.after(loop, 10))
    assert "orders" in found.topics
    await refresher.stop()
