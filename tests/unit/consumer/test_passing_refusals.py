"""A member that is refused for a while: it says so, waits, and goes on; both protocols, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.broker.faults import Fault
from kclient.broker.security.listeners import ListenerSpec
from kclient.broker.security.tokens import UnsecuredTokens
from kclient.consumer import AsyncConsumer
from kclient.errors import (
    AuthenticationError,
    BrokerError,
    CommitFailedError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidRequestError,
    InvalidSessionTimeoutError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from kclient.testing import Simulation, simulate
from kclient.testing.simulation import until
from kclient.types import OffsetAndMetadata, TopicPartition
from kclient.wire.api import ApiKey
from tests.unit.consumer.members import GROUP, Crowd, Member, in_a_crowd
from tests.unit.consumer.reading import World
from tools.kafka.oidc import unsecured_token

EAGER: dict[str, Any] = {"partition_assignment_strategy": ["range"]}
COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": ["cooperative-sticky"]}
MODERN: dict[str, Any] = {"group_protocol": "consumer"}
EVERY = pytest.mark.parametrize("options", [EAGER, COOPERATIVE, MODERN], ids=["eager", "cooperative", "848"])
BOTH = pytest.mark.parametrize("options", [EAGER, MODERN], ids=["classic", "848"])
PASSING = pytest.mark.parametrize(
    "error",
    [
        GroupAuthorizationFailedError,
        GroupMaxSizeReachedError,
        InconsistentGroupProtocolError,
        SaslAuthenticationFailedError,
    ],
)
MEMBERSHIP = (
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
)
P0 = TopicPartition("orders", 0)


def refuse(crowd: Crowd, error: type[BrokerError], *also: ApiKey) -> list[Fault]:
    """Everything that a member says of its membership is answered so."""
    return [crowd.broker.faults.answer_with(key, error, times=None) for key in (*MEMBERSHIP, *also)]


def admit(faults: list[Fault]) -> None:
    for fault in faults:
        fault.remove()


def attempts(faults: list[Fault]) -> int:
    return sum(fault.met for fault in faults)


async def told_within(member: Member, seconds: float) -> list[KafkaError]:
    """What an application that calls for records all the time is told."""
    told: list[KafkaError] = []
    for _ in range(int(seconds * 10)):
        error = member.membership.take_error()
        if error is not None:
            told.append(error)
        await asyncio.sleep(0.1)
    return told


@EVERY
@PASSING
def test_a_member_that_is_refused_when_it_joins_joins_as_soon_as_the_cause_has_passed(
    options: dict[str, Any], error: type[BrokerError]
) -> None:
    async def story(crowd: Crowd) -> None:
        faults = refuse(crowd, error)
        member = await crowd.member("orders", **options)
        told = await told_within(member, 20)
        assert [type(each) for each in told] == [error]
        health = member.membership.health()
        assert health.refused == str(told[0])
        assert health.state == "joining"
        admit(faults)
        await crowd.settled(member, within=10)
        assert member.membership.take_error() is None
        assert member.membership.health().refused is None

    in_a_crowd(story)


@EVERY
@PASSING
def test_a_refusal_that_is_shorter_than_the_session_costs_a_member_nothing(
    options: dict[str, Any], error: type[BrokerError]
) -> None:
    """Its partitions stay, nobody rebalances, and what it commits afterwards is taken."""

    async def story(crowd: Crowd) -> None:
        members = [await crowd.member("orders", **options) for _ in range(2)]
        await crowd.settled(*members)
        before = [list(member.told) for member in members]
        epochs = [member.membership.metadata().generation_id for member in members]
        faults = refuse(crowd, error)
        told = await told_within(members[0], 12)
        assert [type(each) for each in told] == [error]
        assert members[0].membership.health().refused == str(told[0])
        admit(faults)
        await until(lambda: members[0].membership.health().refused is None, 10)
        await asyncio.sleep(60)
        assert [member.told for member in members] == before
        assert [member.membership.metadata().generation_id for member in members] == epochs
        first = min(members[0].owned)
        await members[0].membership.commits.commit(
            members[0].cluster.deadline(), {first: OffsetAndMetadata(7)}
        )

    in_a_crowd(story)


@EVERY
def test_a_member_that_is_refused_for_longer_than_its_session_holds_nothing_until_it_is_taken_again(
    options: dict[str, Any],
) -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", **options)
        await crowd.settled(member)
        faults = refuse(crowd, SaslAuthenticationFailedError)
        await asyncio.sleep(40)
        assert len(member.owned) == 6
        await asyncio.sleep(20)
        assert member.owned == frozenset()
        assert member.told[-1][0] == "lost"
        await asyncio.sleep(600)
        assert [what for what, _ in member.told].count("lost") == 1
        admit(faults)
        await crowd.settled(member, within=15)

    in_a_crowd(story)


@EVERY
def test_what_lasts_is_raised_again_with_growing_pauses_and_tried_again_every_few_seconds(
    options: dict[str, Any],
) -> None:
    async def story(crowd: Crowd) -> None:
        faults = refuse(crowd, SaslAuthenticationFailedError)
        member = await crowd.member("orders", **options)
        assert len(await told_within(member, 25)) == 1
        assert attempts(faults) <= 8
        assert 2 <= len(await told_within(member, 275)) <= 3
        before = attempts(faults)
        assert 1 <= len(await told_within(member, 600)) <= 2
        assert 80 <= attempts(faults) - before <= 160

    in_a_crowd(story)


@EVERY
def test_a_refusal_that_comes_again_is_raised_again(options: dict[str, Any]) -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", **options)
        for _ in range(3):
            await crowd.settled(member)
            faults = refuse(crowd, GroupAuthorizationFailedError)
            assert [type(error) for error in await told_within(member, 10)] == [GroupAuthorizationFailedError]
            admit(faults)
            assert await told_within(member, 20) == []

    in_a_crowd(story)


@BOTH
def test_a_refusal_is_one_warning_with_its_reason(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(crowd: Crowd) -> None:
        faults = refuse(crowd, GroupAuthorizationFailedError)
        member = await crowd.member("orders", **options)
        await asyncio.sleep(20)
        admit(faults)
        await crowd.settled(member)

    caplog.set_level(logging.INFO, "kclient")
    in_a_crowd(story)
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len([said for said in warnings if "GROUP_AUTHORIZATION_FAILED" in said]) == 1
    assert any("takes this member again" in record.message for record in caplog.records)


@EVERY
@pytest.mark.parametrize(
    "error",
    [
        FencedInstanceIdError,
        InvalidGroupIdError,
        InvalidRequestError,
        InvalidSessionTimeoutError,
        UnsupportedVersionError,
    ],
)
def test_what_only_another_configuration_changes_is_final(
    options: dict[str, Any], error: type[BrokerError]
) -> None:
    async def story(crowd: Crowd) -> None:
        faults = refuse(crowd, error)
        member = await crowd.member("orders", **options)
        await until(lambda: member.state == "failed", 30)
        await asyncio.sleep(120)
        assert attempts(faults) == 1
        for _ in range(3):
            assert isinstance(member.membership.take_error(), error)
        assert error().name in (member.membership.health().refused or "")

    in_a_crowd(story)


@pytest.mark.parametrize("error", [GroupIdNotFoundError, FencedMemberEpochError, UnknownMemberIdError])
def test_a_coordinator_that_does_not_let_a_member_begin_is_not_asked_without_a_pause(
    error: type[BrokerError],
) -> None:
    """As one does whose group is in use by members of the classic protocol, and shall not be upgraded."""

    async def story(crowd: Crowd) -> None:
        faults = refuse(crowd, error)
        member = await crowd.member("orders", **MODERN)
        assert [type(each) for each in await told_within(member, 20)] == [error]
        assert attempts(faults) <= 8
        admit(faults)
        await crowd.settled(member, within=10)

    in_a_crowd(story)


@BOTH
def test_a_member_that_is_refused_goes_out_when_nothing_is_subscribed_and_closes_at_once(
    options: dict[str, Any],
) -> None:
    async def story(crowd: Crowd) -> None:
        first, second = [await crowd.member("orders", **options) for _ in range(2)]
        await crowd.settled(first, second)
        refuse(crowd, SaslAuthenticationFailedError)
        await asyncio.sleep(15)
        second.positions.topics = None
        second.membership.subscription_changed()
        await until(lambda: second.state == "out", 2)
        before = crowd.sim.loop.time()
        await first.close(30)
        assert crowd.sim.loop.time() - before < 2

    in_a_crowd(story)


@BOTH
def test_a_member_that_joins_in_vain_goes_out_without_waiting_for_its_next_attempt(
    options: dict[str, Any],
) -> None:
    async def story(crowd: Crowd) -> None:
        faults = refuse(crowd, GroupMaxSizeReachedError)
        member = await crowd.member("orders", **options)
        await asyncio.sleep(31)
        before = attempts(faults)
        await until(lambda: attempts(faults) > before, 10)  # the next attempt is seconds away
        member.positions.topics = None
        member.membership.subscription_changed()
        await until(lambda: member.state == "out", 1)

    in_a_crowd(story)


@EVERY
def test_a_coordinator_that_refuses_everybody_is_left_when_another_one_coordinates(
    options: dict[str, Any],
) -> None:
    """As a broker does whose certificate has run out: it does not say that the group has moved."""

    async def story(crowd: Crowd) -> None:
        crowd.broker.move_coordinator(GROUP, 1)
        member = await crowd.member("orders", **options)
        await crowd.settled(member)
        for key in MEMBERSHIP:
            crowd.broker.faults.answer_with(key, SaslAuthenticationFailedError, times=None, node=1)
        await asyncio.sleep(10)
        crowd.broker.move_coordinator(GROUP, 2)
        await until(lambda: member.membership.health().refused is None, 15)
        assert member.membership.health().coordinator == 2

    in_a_crowd(story, nodes=2)


@EVERY
def test_commits_fail_with_the_reason_while_it_lasts_and_go_on_after_it(options: dict[str, Any]) -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member(
            "orders", enable_auto_commit=True, auto_commit_interval_ms=1_000, **options
        )
        await crowd.settled(member)
        commits = member.membership.commits
        faults = refuse(crowd, GroupAuthorizationFailedError, ApiKey.OFFSET_COMMIT)
        member.positions.offsets = {P0: OffsetAndMetadata(5)}
        with pytest.raises(CommitFailedError, match="GROUP_AUTHORIZATION_FAILED"):
            await commits.commit(member.cluster.deadline())
        await asyncio.sleep(12)
        admit(faults)
        await asyncio.sleep(2)  # an automatic one
        found = await commits.committed([P0], member.cluster.deadline())
        assert found[P0] == OffsetAndMetadata(5)
        await commits.commit(member.cluster.deadline(), {P0: OffsetAndMetadata(6)})

    in_a_crowd(story)


# Whole consumers, whose token service is down for a while


class TokenService:
    """Counts what it is asked; raises while it is down."""

    def __init__(self) -> None:
        self.down = False
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if self.down:
            raise OSError("the token service is down")
        return unsecured_token("alice", lifetime=1_000_000)


Story = Callable[[World, TokenService], Coroutine[Any, Any, None]]


def with_tokens(story: Story, nodes: int = 1) -> None:
    """Run a story on brokers whose sessions last ten seconds."""

    async def main(sim: Simulation) -> None:
        listener = ListenerSpec(
            "SASL",
            "SASL_PLAINTEXT",
            mechanisms=("OAUTHBEARER",),
            oauth=UnsecuredTokens(i_know_these_are_not_verified=True),
            max_reauth_ms=10_000,
        )
        config = {"group.initial.rebalance.delay.ms": "0"}
        broker = Broker(nodes=nodes, listeners=[listener], clock=sim.clock, seed=0, config=config)
        async with broker:
            await story(World(sim, broker), TokenService())

    simulate(main)


def reader(world: World, service: TokenService, **options: Any) -> AsyncConsumer[Any, Any]:
    secured = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": service,
    }
    return world.consumer("orders", **{"group_id": "billing"} | secured | options)


def refused(consumer: AsyncConsumer[Any, Any]) -> str:
    group = consumer.health().group
    assert group is not None
    return group.refused or ""


async def read(consumer: AsyncConsumer[Any, Any], count: int, within: float = 30) -> int:
    """Take so many records as an application does that goes on after errors; how many errors it met."""
    errors = 0
    async with asyncio.timeout(within):
        while count > 0:
            try:
                taken = await consumer.getmany(timeout_ms=1_000)
            except AuthenticationError:
                errors += 1
                await asyncio.sleep(0.1)
            else:
                count -= sum(map(len, taken.values()))
    return errors


@EVERY
def test_a_consumer_reads_on_after_its_token_service_was_down(options: dict[str, Any]) -> None:
    async def story(world: World, service: TokenService) -> None:
        world.fill_all(1)
        async with reader(world, service, **options) as consumer:
            assert await read(consumer, 100) == 0
            service.down = True
            errors: list[KafkaError] = []
            loop = asyncio.get_running_loop()
            end = loop.time() + 22  # more than a session of SASL, less than one of the group
            while loop.time() < end:
                try:
                    await consumer.getmany(timeout_ms=1_000)
                except AuthenticationError as error:
                    errors.append(error)
                    await asyncio.sleep(0.1)
            assert errors
            assert "failed: OSError" in refused(consumer)
            service.down = False
            world.fill(P0)
            await read(consumer, 100, within=15)
            await until(lambda: not refused(consumer), 15)
            await consumer.commit()
            committed = await consumer.committed(P0)
            assert committed is not None
            assert committed.offset == 200

    with_tokens(story)


@EVERY
def test_a_consumer_reads_on_after_its_token_service_was_down_for_longer_than_its_session(
    options: dict[str, Any],
) -> None:
    async def story(world: World, service: TokenService) -> None:
        world.fill_all(1)
        async with reader(world, service, **options) as consumer:
            await read(consumer, 100)
            await consumer.commit()
            service.down = True
            loop = asyncio.get_running_loop()
            end = loop.time() + 300
            while loop.time() < end:
                try:
                    await consumer.getmany(timeout_ms=1_000)
                except AuthenticationError:
                    await asyncio.sleep(0.1)
            assert consumer.assignment() == set()
            asked = service.asked
            await asyncio.sleep(60)
            assert service.asked - asked <= 40
            service.down = False
            world.fill(P0)
            await read(consumer, 100, within=15)

    with_tokens(story)


def test_a_reader_that_lacks_a_leader_asks_again_after_metadata_was_refused() -> None:
    """Metadata is asked for by those who need it, and nobody else would ask again soon after a no."""

    async def story(world: World, service: TokenService) -> None:
        world.broker.create_topic("orders", 1)
        leader = world.broker.topics.partition(*P0).leader
        world.fill(P0)
        async with reader(world, service, group_id=None) as consumer:
            await read(consumer, 100)
            await world.broker.stop_node(leader)
            await asyncio.sleep(5)  # the other one says that there is no leader now
            service.down = True
            await asyncio.sleep(30)
            await world.broker.start_node(leader)
            await asyncio.sleep(30)
            service.down = False
            world.fill(P0)
            await read(consumer, 100, within=10)

    with_tokens(story, nodes=2)
