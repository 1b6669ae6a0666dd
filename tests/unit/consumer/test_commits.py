"""Committed offsets: order, retries, errors by partition, auto commit; for members and for others."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from kclient.broker.api import RequestContext
from kclient.errors import (
    CommitFailedError,
    CoordinatorLoadInProgressError,
    EncodeError,
    IllegalGenerationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from kclient.testing.simulation import until
from kclient.types import OffsetAndMetadata, TopicPartition
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from kclient.wire.messages.group_offsets import OffsetCommitRequest, OffsetCommitResponse
from tests.unit.consumer.members import GROUP, Crowd, Member, in_a_crowd

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


async def commit(member: Member, offsets: dict[TopicPartition, OffsetAndMetadata] | None = None) -> None:
    await member.membership.commits.commit(member.cluster.deadline(), offsets)


async def committed(member: Member, *partitions: TopicPartition) -> dict[TopicPartition, Any]:
    return await member.membership.commits.committed(partitions, member.cluster.deadline())


async def alone(crowd: Crowd, **options: Any) -> Member:
    member = await crowd.member("orders", **options)
    await crowd.settled(member)
    return member


def test_offsets_come_back_with_metadata_and_epoch() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        await commit(member, {P0: OffsetAndMetadata(5, "half way", 0), P1: at(7)})
        unknown = TopicPartition("orders", 5)
        assert await committed(member, P0, P1, unknown) == {
            P0: OffsetAndMetadata(5, "half way", 0),
            P1: at(7),
            unknown: None,
        }

    in_a_crowd(story)


def test_without_offsets_it_is_what_was_consumed() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        await commit(member)  # nothing yet
        member.positions.offsets = {P0: at(3)}
        await commit(member)
        assert await committed(member, P0, P1) == {P0: at(3), P1: None}

    in_a_crowd(story)


def test_a_consumer_without_a_subscription_commits_without_a_place_in_the_group() -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member()
        await commit(member, {P0: at(4)})
        assert await committed(member, P0) == {P0: at(4)}

    in_a_crowd(story)


def test_a_commit_for_a_group_with_members_is_refused_to_strangers() -> None:
    async def story(crowd: Crowd) -> None:
        await alone(crowd)
        stranger = await crowd.member()
        with pytest.raises(CommitFailedError) as caught:
            await commit(stranger, {P0: at(4)})
        assert isinstance(caught.value.errors[P0], UnknownMemberIdError)

    in_a_crowd(story)


@pytest.mark.parametrize(
    "error",
    [
        NotCoordinatorError,
        CoordinatorLoadInProgressError,
        RebalanceInProgressError,
        UnknownTopicOrPartitionError,
    ],
)
def test_passing_errors_are_tried_again(error: Any) -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        crowd.broker.faults.answer_with(ApiKey.OFFSET_COMMIT, error, times=3)
        await commit(member, {P0: at(4)})
        assert await committed(member, P0) == {P0: at(4)}

    in_a_crowd(story)


def test_a_deleted_topic_does_not_make_a_commit_go_on_for_ever() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        fault = crowd.broker.faults.answer_with(
            ApiKey.OFFSET_COMMIT, UnknownTopicOrPartitionError, times=None
        )
        with pytest.raises(CommitFailedError) as caught:
            await commit(member, {P0: at(4)})
        assert isinstance(caught.value.errors[P0], UnknownTopicOrPartitionError)
        assert fault.met == 4

    in_a_crowd(story)


@pytest.mark.parametrize(
    "error", [TopicAuthorizationFailedError, OffsetMetadataTooLargeError, IllegalGenerationError]
)
def test_final_errors_are_raised_at_once(error: type[KafkaError]) -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        fault = crowd.broker.faults.answer_with(ApiKey.OFFSET_COMMIT, error, times=None)  # type: ignore[arg-type]
        with pytest.raises(CommitFailedError) as caught:
            await commit(member, {P0: at(4)})
        assert isinstance(caught.value.errors[P0], error)
        assert isinstance(caught.value.__cause__, error)
        assert fault.met == 1

    in_a_crowd(story)


def test_each_partition_has_its_own_outcome() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)

        def half(_: RequestContext, request: Request[Any]) -> OffsetCommitResponse | None:
            if not isinstance(request, OffsetCommitRequest):
                return None
            topic = OffsetCommitResponse.OffsetCommitResponseTopic
            return OffsetCommitResponse(
                topics=[
                    topic(
                        name=each.name,
                        topic_id=each.topic_id,
                        partitions=[
                            topic.OffsetCommitResponsePartition(
                                partition_index=p.partition_index,
                                error_code=TopicAuthorizationFailedError.code if p.partition_index else 0,
                            )
                            for p in each.partitions
                        ],
                    )
                    for each in request.topics
                ]
            )

        crowd.broker.faults.hook = half
        with pytest.raises(CommitFailedError) as caught:
            await commit(member, {P0: at(1), P1: at(1)})
        assert set(caught.value.errors) == {P1}

    in_a_crowd(story)


def test_a_commit_that_cannot_succeed_ends_at_its_deadline() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        fault = crowd.broker.faults.answer_with(ApiKey.OFFSET_COMMIT, NotCoordinatorError, times=None)
        before = crowd.sim.loop.time()
        with pytest.raises(KafkaTimeoutError, match="NOT_COORDINATOR"):
            await member.membership.commits.commit(member.cluster.deadline(5_000), {P0: at(4)})
        assert crowd.sim.loop.time() - before <= 5.1
        fault.remove()
        await asyncio.sleep(60)
        assert await committed(member, P0) == {P0: None}  # given up is given up

    in_a_crowd(story)


def test_a_negative_offset_is_refused_before_anything_is_sent() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        with pytest.raises(EncodeError, match="offset -1"):
            await commit(member, {P0: at(-1)})

    in_a_crowd(story)


def test_callbacks_get_the_offsets_and_the_error() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        calls: list[tuple[Any, KafkaError | None]] = []
        commits = member.membership.commits
        commits.commit_nowait({P0: at(1)}, lambda offsets, error: calls.append((offsets, error)))
        await until(lambda: len(calls) == 1)
        crowd.broker.faults.answer_with(ApiKey.OFFSET_COMMIT, TopicAuthorizationFailedError)
        commits.commit_nowait({P0: at(2)}, lambda offsets, error: calls.append((offsets, error)))
        await until(lambda: len(calls) == 2)
        commits.commit_nowait({}, lambda offsets, error: calls.append((offsets, error)))
        await until(lambda: len(calls) == 3)
        assert calls[0] == ({P0: at(1)}, None)
        assert isinstance(calls[1][1], CommitFailedError)
        assert calls[2] == ({}, None)

    in_a_crowd(story)


@pytest.mark.parametrize("seed", range(20))
def test_an_older_commit_never_overtakes_a_newer_one(seed: int) -> None:
    """Whatever fails: what the broker has at any time is never older than what it had before."""
    seen: list[int] = []

    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        random = Random(seed)
        faults = crowd.broker.faults
        called: list[int] = []
        for offset in range(200):
            member.membership.commits.commit_nowait(
                {P0: at(offset)}, lambda o, _: called.append(o[P0].offset)
            )
            match random.randrange(12):
                case 0:
                    faults.answer_with(ApiKey.OFFSET_COMMIT, NotCoordinatorError)
                case 1:
                    faults.close(ApiKey.OFFSET_COMMIT, handled=random.random() < 0.5)
                case 2:
                    faults.drop(ApiKey.OFFSET_COMMIT, handled=random.random() < 0.5)
            await asyncio.sleep(random.choice([0, 0, 0.001, 0.1, 3]))
            found = (await committed(member, P0))[P0]
            seen.append(-1 if found is None else found.offset)
        await until(lambda: len(called) == 200)
        assert called == sorted(called)
        assert await committed(member, P0) == {P0: at(199)}

    in_a_crowd(story, seed=seed)
    assert seen == sorted(seen)


def test_commits_that_pile_up_are_one_request() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        requests = 0

        def count(_: RequestContext, request: Request[Any]) -> None:
            nonlocal requests
            requests += isinstance(request, OffsetCommitRequest)

        crowd.broker.faults.hook = count
        for offset in range(1000):
            member.membership.commits.commit_nowait({P0: at(offset)})
        await commit(member, {P1: at(1)})
        assert requests == 1
        assert await committed(member, P0, P1) == {P0: at(999), P1: at(1)}

    in_a_crowd(story)


def test_a_retried_commit_leaves_out_what_has_another_owner_by_now() -> None:
    async def story(crowd: Crowd) -> None:
        options: dict[str, Any] = {"partition_assignment_strategy": ["cooperative-sticky"]}
        first = await alone(crowd, **options)
        fault = crowd.broker.faults.answer_with(
            ApiKey.OFFSET_COMMIT, CoordinatorLoadInProgressError, times=None
        )
        offsets = {TopicPartition("orders", number): at(9) for number in range(6)}
        waiting = asyncio.create_task(commit(first, offsets))
        second = await crowd.member("orders", **options)
        await crowd.settled(first, second)
        fault.remove()
        with pytest.raises(CommitFailedError) as caught:
            await waiting
        assert set(caught.value.errors) == second.owned
        assert {type(error) for error in caught.value.errors.values()} == {IllegalGenerationError}
        found = await committed(first, *offsets)
        assert {partition for partition, value in found.items() if value} == first.owned

    in_a_crowd(story)


def test_a_member_that_lost_its_place_cannot_commit() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        crowd.broker.faults.answer_with(ApiKey.JOIN_GROUP, CoordinatorLoadInProgressError, times=None)
        crowd.broker.faults.answer_with(ApiKey.HEARTBEAT, UnknownMemberIdError)
        await until(lambda: member.membership.metadata().generation_id == -1)
        with pytest.raises(CommitFailedError) as caught:
            await commit(member, {P0: at(1)})
        assert isinstance(caught.value.errors[P0], IllegalGenerationError)

    in_a_crowd(story)


def test_auto_commit_commits_what_was_processed_every_interval() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd, enable_auto_commit=True, auto_commit_interval_ms=5_000)
        member.positions.offsets = {P0: at(10), P1: at(20)}
        member.positions.unfinished = {P1}
        await asyncio.sleep(6)
        assert await committed(member, P0, P1) == {P0: at(10), P1: None}
        member.positions.unfinished = set()
        await asyncio.sleep(5)
        assert await committed(member, P1) == {P1: at(20)}

    in_a_crowd(story)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_auto_commit_comes_before_partitions_go(strategy: str) -> None:
    async def story(crowd: Crowd) -> None:
        options: dict[str, Any] = {
            "partition_assignment_strategy": [strategy],
            "enable_auto_commit": True,
            "auto_commit_interval_ms": 3_600_000,
        }
        first = await alone(crowd, **options)
        first.positions.offsets = {TopicPartition("orders", number): at(7) for number in range(6)}
        second = await crowd.member("orders", **options)
        await crowd.settled(first, second)
        found = await committed(second, *second.owned)
        assert set(found.values()) == {at(7)}
        second.positions.offsets = dict.fromkeys(second.owned, at(8))
        moved = second.owned
        await second.close()
        assert set((await committed(first, *moved)).values()) == {at(8)}

    in_a_crowd(story)


def test_auto_commit_on_close_without_a_subscription() -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member(enable_auto_commit=True, auto_commit_interval_ms=3_600_000)
        member.positions.assign([P0])
        member.positions.offsets = {P0: at(7)}
        await member.close()
        other = await crowd.member()
        assert await committed(other, P0) == {P0: at(7)}

    in_a_crowd(story)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_offsets_of_revoked_partitions_can_be_committed_inside_the_listener(strategy: str) -> None:
    async def story(crowd: Crowd) -> None:
        options: dict[str, Any] = {"partition_assignment_strategy": [strategy]}
        first = await alone(crowd, **options)

        class Committing:
            async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
                await commit(first, dict.fromkeys(partitions, at(11)))

        first.membership.listen(Committing())
        second = await crowd.member("orders", **options)
        await crowd.settled(first, second)
        assert first.membership.take_error() is None
        assert set((await committed(second, *second.owned)).values()) == {at(11)}

    in_a_crowd(story)


def test_what_waits_when_the_consumer_closes_fails() -> None:
    async def story(crowd: Crowd) -> None:
        member = await alone(crowd)
        crowd.broker.faults.answer_with(ApiKey.OFFSET_COMMIT, NotCoordinatorError, times=None)
        errors: list[KafkaError | None] = []
        member.membership.commits.commit_nowait({P0: at(1)}, lambda _, error: errors.append(error))
        await asyncio.sleep(1)
        await member.close(2)
        assert isinstance(errors[0], CommitFailedError)

    in_a_crowd(story)


def test_committed_raises_what_went_wrong() -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member()
        crowd.broker.faults.close(ApiKey.OFFSET_FETCH, times=None)
        with pytest.raises(KafkaTimeoutError) as caught:
            await member.membership.commits.committed([P0], member.cluster.deadline(5_000))
        assert isinstance(caught.value.__cause__, KafkaConnectionError)
        assert GROUP not in crowd.broker.groups.groups

    in_a_crowd(story)
