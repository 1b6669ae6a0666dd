"""`AsyncAdmin` against scripted brokers on virtual time: its life, deadlines, ways with old brokers."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from kclient import AsyncAdmin, TopicPartition
from kclient.admin import ConfigResource, GroupState, NewTopic, OffsetSpec
from kclient.cluster.operations import run
from kclient.errors import (
    BROKER_ERRORS,
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    IncompatibleBrokerError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from kclient.wire.api import ApiKey
from kclient.wire.messages.group_admin import ListGroupsResponse
from kclient.wire.messages.topics import DeleteTopicsResponse
from tests.support.fake_broker import Exchange, FakeCluster, FakeSasl
from tests.support.faults import fails, silent
from tests.support.virtual_loop import VirtualLoop, until
from tests.unit.admin.cases import CASES, FIRST, Case
from tests.unit.admin.test_operations import told_apart

Brokers = Callable[..., FakeCluster]
RETRIABLE = sorted(code for code, kind in BROKER_ERRORS.items() if kind.retriable)
FINAL = sorted(code for code, kind in BROKER_ERRORS.items() if not kind.retriable)


def admin_of(fakes: FakeCluster, **options: Any) -> AsyncAdmin:
    return AsyncAdmin(bootstrap_servers=fakes.bootstrap, **options)


def answering(fakes: FakeCluster, case: Case) -> FakeCluster:
    fakes.answer(case.operation.request.api_key, lambda exchange: case.answer(exchange.version))
    return fakes


# Life


def test_a_client_can_be_made_without_a_loop_and_shows_its_state() -> None:
    assert repr(AsyncAdmin(client_id="me")) == "<AsyncAdmin me new>"


def test_an_unknown_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'bootstrap_servers'"):
        AsyncAdmin(bootstrap_server="localhost")  # type: ignore[call-arg]


async def test_the_first_verb_connects_if_nobody_has(brokers: Brokers) -> None:
    fakes = brokers()
    fakes.add_topic("orders")
    admin = admin_of(fakes)
    assert not admin.health().connected
    assert list(await admin.list_topics()) == ["orders"]
    assert admin.health().connected
    await admin.close()
    assert repr(admin) == "<AsyncAdmin kclient closed>"


async def test_a_start_that_fails_says_why_in_time_and_may_be_tried_again(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    fakes[1].stop()
    admin = admin_of(fakes)
    with pytest.raises(KafkaTimeoutError, match="Connection refused"):
        await admin.start(timeout_ms=3_000)
    assert 2.9 < loop.time() < 4
    fakes[1].start()
    await admin.start()
    await admin.close()


async def test_a_start_that_fails_on_a_client_in_use_leaves_its_calls_alone(brokers: Brokers) -> None:
    fakes = brokers()
    fakes.add_topic("orders")
    admin = admin_of(fakes)
    call = asyncio.ensure_future(admin.list_topics())
    await asyncio.sleep(0)
    with pytest.raises(KafkaTimeoutError):
        await admin.start(timeout_ms=0)
    assert list(await call) == ["orders"]
    await admin.close()


async def test_entering_a_client_that_cannot_connect_leaves_nothing_behind(brokers: Brokers) -> None:
    fakes = brokers()
    fakes[1].stop()
    with pytest.raises(KafkaTimeoutError):
        async with admin_of(fakes, default_api_timeout_ms=1_000):
            pass


async def test_a_wrong_password_is_reported_at_once(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(sasl=FakeSasl({"alice": "right"}))
    secured = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "wrong",
    }
    with pytest.raises(AuthenticationError):
        async with admin_of(fakes, **secured):
            pass
    admin = admin_of(fakes, **secured)
    with pytest.raises(AuthenticationError):
        await admin.list_topics()
    await admin.close()
    assert loop.time() < 1


async def test_a_closed_client_says_so_and_may_be_closed_again(brokers: Brokers) -> None:
    admin = admin_of(brokers())
    await admin.start()
    await admin.close()
    await admin.close()
    for call in (admin.list_topics(), admin.start(), admin.list_groups()):
        with pytest.raises(ClientClosedError, match="was used after it had been closed"):
            await call
    assert not admin.health().connected


async def test_every_caller_of_close_waits_for_the_end_and_one_that_is_cancelled_does_not_stop_it(
    brokers: Brokers,
) -> None:
    fakes = brokers()
    admin = admin_of(fakes)
    fakes[1].always(ApiKey.LIST_GROUPS, silent)
    await admin.start()
    call = asyncio.ensure_future(admin.list_groups())
    await until(lambda: fakes.count(ApiKey.LIST_GROUPS) > 0)
    closing = [asyncio.ensure_future(admin.close()) for _ in range(3)]
    await asyncio.sleep(0)
    closing[0].cancel()
    await asyncio.wait(closing)
    assert [each.cancelled() for each in closing] == [True, False, False]
    assert admin.ending.done
    with pytest.raises(ClientClosedError):
        await call


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.LIST_GROUPS, ApiKey.API_VERSIONS])
async def test_calls_in_flight_when_the_client_is_closed_are_told(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey
) -> None:
    fakes = brokers()
    admin = admin_of(fakes)
    fakes[1].always(key, silent)
    calls = [asyncio.ensure_future(admin.list_groups()), asyncio.ensure_future(admin.list_topics())]
    await until(lambda: fakes.count(key) > 0)
    closing_began = loop.time()
    await admin.close()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(outcome, ClientClosedError) for outcome in outcomes)
    assert all(isinstance(outcome, ClientClosedError | dict) for outcome in outcomes), outcomes
    assert loop.time() - closing_began < 2


async def test_closing_with_all_brokers_dead_takes_no_time(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(nodes=3)
    admin = admin_of(fakes)
    await admin.start()
    for broker in fakes.brokers.values():
        broker.freeze()
    began = loop.time()
    await admin.close()
    assert loop.time() - began < 1


async def test_a_client_that_is_forgotten_warns_and_lets_go_of_its_connections(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    admin = admin_of(brokers())
    await admin.start()
    with pytest.warns(ResourceWarning, match="AsyncAdmin kclient open> was never closed"):  # noqa: PT031
        del admin
        gc.collect()
    await until(lambda: not loop.network.open)


async def test_a_client_belongs_to_one_loop(brokers: Brokers) -> None:
    admin = admin_of(brokers())
    await admin.start()
    other = VirtualLoop()

    def use_elsewhere() -> None:
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            other.run_until_complete(admin.list_topics())

    running = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    try:
        use_elsewhere()
    finally:
        asyncio._set_running_loop(running)
        other.close()
    await admin.close()


# Deadlines and retries


@pytest.mark.parametrize("fault", ["frozen", "dead", "silent"])
async def test_a_verb_ends_within_its_timeout_whatever_the_brokers_do(
    loop: VirtualLoop, brokers: Brokers, fault: str
) -> None:
    fakes = brokers(nodes=2)
    fakes.add_topic("orders")
    async with admin_of(fakes) as admin:
        calls: list[Callable[[], Any]] = [
            lambda: admin.create_topics("a", timeout_ms=2_000),
            lambda: admin.list_topics(timeout_ms=2_000),
            lambda: admin.describe_configs(ConfigResource.broker(1), timeout_ms=2_000),
            lambda: admin.list_groups(timeout_ms=2_000),
            lambda: admin.describe_consumer_groups("g", timeout_ms=2_000),
            lambda: admin.list_consumer_group_offsets("g", timeout_ms=2_000),
            lambda: admin.alter_consumer_group_offsets("g", {FIRST: 1}, timeout_ms=2_000),
            lambda: admin.list_offsets(FIRST, timeout_ms=2_000),
            lambda: admin.describe_cluster(timeout_ms=2_000),
        ]
        for broker in fakes.brokers.values():
            if fault == "frozen":
                broker.freeze()
            elif fault == "dead":
                broker.stop()
            else:
                for key in ApiKey:
                    broker.always(key, silent)
        for call in calls:
            began = loop.time()
            with pytest.raises(KafkaTimeoutError):
                await call()
            assert loop.time() - began < 2.5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_every_passing_error_is_tried_again_until_it_has_passed(brokers: Brokers, case: Case) -> None:
    fakes = answering(brokers(), case)
    key = case.operation.request.api_key
    fakes.add_topic("orders")
    fakes.add_topic("users", [1, 1])
    keys = list(case.outcomes(case.versions[-1]))
    async with admin_of(fakes, retry_backoff_ms=1) as admin:
        for code in RETRIABLE:
            fakes[1].plan(key, fails(code))
            before = fakes.count(key)
            outcomes = await run(admin._open(), case.operation, keys, admin._open().deadline(10_000))
            assert fakes.count(key) >= before + 2, f"{code} was not tried again"
            assert told_apart(outcomes) == told_apart(case.outcomes(case.versions[-1])), code


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_every_other_error_is_final_and_keeps_its_type(brokers: Brokers, case: Case) -> None:
    fakes = answering(brokers(), case)
    key = case.operation.request.api_key
    fakes.add_topic("orders")
    fakes.add_topic("users", [1, 1])
    keys = case.keys[:1]
    async with admin_of(fakes, retry_backoff_ms=1) as admin:
        cluster = admin._open()
        cluster.metadata.follow(["orders", "users"])
        await cluster.metadata.refreshed(cluster.deadline())
        await asyncio.sleep(1)
        for code in FINAL:
            fakes[1].plan(key, fails(code))
            before = fakes.count(key)
            outcomes = await run(cluster, case.operation, keys, cluster.deadline(10_000))
            assert fakes.count(key) == before + 1, f"{code} was tried again"
            codes = {getattr(error, "code", None) for error in flat(outcomes)}
            assert codes == {68 if code == 25 and case.name == "AlterGroupOffsets" else code}


def flat(outcomes: dict[Any, Any]) -> list[Any]:
    """The outcomes of the innermost items."""
    inner = [value for value in outcomes.values() if isinstance(value, dict)]
    return [error for each in inner for error in each.values()] or list(outcomes.values())


async def test_a_missing_topic_is_reported_by_name_and_soon(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    fakes.add_topic("orders")
    async with admin_of(fakes) as admin:
        outcomes = await admin.describe_topics(["orders", "nothing"], raise_errors=False)
        assert list(outcomes.succeeded) == ["orders"]
        with pytest.raises(UnknownTopicOrPartitionError, match="topic nothing"):
            await admin.describe_topics("nothing")
    assert loop.time() < 5


# Verbs that do more than run one operation


def grouped(*ids: str) -> Callable[[Exchange], ListGroupsResponse]:
    group = ListGroupsResponse.ListedGroup
    listed = [group(group_id=each, protocol_type="consumer", group_state="Stable") for each in ids]
    return lambda _: ListGroupsResponse(groups=listed)


async def test_groups_of_all_brokers_are_listed(brokers: Brokers) -> None:
    fakes = brokers(nodes=3)
    for number, broker in fakes.brokers.items():
        broker.answer(ApiKey.LIST_GROUPS, grouped(f"group {number}"))
    async with admin_of(fakes) as admin:
        assert list(await admin.list_groups()) == ["group 1", "group 2", "group 3"]


async def test_groups_of_a_broker_that_leaves_are_found_at_the_others(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(nodes=2)
    fakes[1].answer(ApiKey.LIST_GROUPS, grouped("a"))
    async with admin_of(fakes) as admin:
        fakes[2].stop()

        def leave() -> None:
            del fakes.brokers[2]
            fakes[1].answer(ApiKey.LIST_GROUPS, grouped("a", "b"))

        loop.call_later(2, leave)
        assert list(await admin.list_groups()) == ["a", "b"]
        assert loop.time() < 5


async def test_states_are_passed_on_to_the_broker(brokers: Brokers) -> None:
    fakes = brokers()
    fakes.answer(ApiKey.LIST_GROUPS, grouped())
    async with admin_of(fakes) as admin:
        await admin.list_groups(states=[GroupState.EMPTY])
    assert fakes.requests[-1].request.states_filter == ["Empty"]


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize("offered", [True, False])
async def test_a_group_that_the_new_protocol_does_not_know_is_described_by_the_old(
    brokers: Brokers, offered: bool
) -> None:
    fakes = answering(
        answering(brokers(), case_of("DescribeConsumerGroups")), case_of("DescribeClassicGroups")
    )
    fakes[1].plan(ApiKey.CONSUMER_GROUP_DESCRIBE, fails(69))
    if not offered:
        del fakes[1].versions[ApiKey.CONSUMER_GROUP_DESCRIBE]
    async with admin_of(fakes) as admin:
        group = (await admin.describe_consumer_groups("billing"))["billing"]
    assert group.type == "classic"
    assert group.coordinator is not None
    assert group.coordinator.node_id == 1


async def test_a_group_of_the_new_protocol_is_not_asked_for_in_the_old(brokers: Brokers) -> None:
    fakes = answering(brokers(), case_of("DescribeConsumerGroups"))
    async with admin_of(fakes) as admin:
        group = (await admin.describe_consumer_groups("billing"))["billing"]
    assert group.type == "consumer"
    assert fakes.count(ApiKey.DESCRIBE_GROUPS) == 0


async def test_an_old_cluster_is_described_by_its_metadata(brokers: Brokers) -> None:
    fakes = brokers(nodes=2)
    for broker in fakes.brokers.values():
        del broker.versions[ApiKey.DESCRIBE_CLUSTER]
    async with admin_of(fakes) as admin:
        cluster = await admin.describe_cluster()
    assert [broker.node_id for broker in cluster.brokers] == [1, 2]
    assert cluster.controller == cluster.brokers[0]
    assert cluster.cluster_id == "fake"


async def test_a_broker_too_old_for_a_verb_is_named_as_such(brokers: Brokers) -> None:
    fakes = brokers()
    del fakes[1].versions[ApiKey.INCREMENTAL_ALTER_CONFIGS]
    async with admin_of(fakes) as admin:
        with pytest.raises(
            IncompatibleBrokerError, match=r"IncrementalAlterConfigs needs Kafka 2\.3 or newer"
        ):
            await admin.incremental_alter_configs({ConfigResource.topic("orders"): {"retention.ms": "1"}})


async def test_specs_that_a_broker_does_not_know_leave_the_others_alone(brokers: Brokers) -> None:
    fakes = answering(brokers(), case_of("ListOffsets"))
    fakes.add_topic("orders", [1, 1])
    fakes[1].versions[ApiKey.LIST_OFFSETS] = fakes[1].versions[ApiKey.LIST_OFFSETS]._replace(last=6)
    other = TopicPartition("orders", 1)
    async with admin_of(fakes) as admin:
        outcomes = await admin.list_offsets(
            {FIRST: OffsetSpec.EARLIEST, other: OffsetSpec.MAX_TIMESTAMP}, raise_errors=False
        )
    assert outcomes[FIRST].offset == 5
    assert isinstance(outcomes.errors[other], IncompatibleBrokerError)


async def test_a_deleted_topic_is_no_longer_followed(brokers: Brokers) -> None:
    fakes = answering(brokers(), case_of("ListOffsets"))
    result = DeleteTopicsResponse.DeletableTopicResult
    fakes.answer(ApiKey.DELETE_TOPICS, lambda _: DeleteTopicsResponse(responses=[result(name="orders")]))
    fakes.add_topic("orders")
    async with admin_of(fakes) as admin:
        await admin.list_offsets(FIRST)
        assert "orders" in admin._open().metadata.snapshot.topics
        await admin.delete_topics("orders")
        assert "orders" not in admin._open().metadata.snapshot.topics


async def test_nothing_to_do_asks_nobody(brokers: Brokers) -> None:
    fakes = brokers()
    async with admin_of(fakes) as admin:
        before = len(fakes.requests)
        assert await admin.create_topics([]) == {}
        assert await admin.delete_topics([]) == {}
        assert await admin.list_offsets([]) == {}
        assert await admin.list_consumer_group_offsets("g", []) == {}
        assert await admin.describe_consumer_groups([]) == {}
        assert len(fakes.requests) == before


async def test_an_offset_that_cannot_be_is_refused(brokers: Brokers) -> None:
    async with admin_of(brokers()) as admin:
        with pytest.raises(ValueError, match=r"-5 for .* is no offset"):
            await admin.alter_consumer_group_offsets("billing", {TopicPartition("orders", 0): -5})


async def test_a_state_or_type_that_does_not_exist_is_refused(brokers: Brokers) -> None:
    wrong: Any
    fakes = brokers()
    fakes.answer(ApiKey.LIST_GROUPS, grouped())
    async with admin_of(fakes) as admin:
        for wrong in ("nonsense", ["Stable", "nonsense"], GroupState.UNKNOWN):
            with pytest.raises(ValueError, match="listed by a GroupState: PreparingRebalance, "):
                await admin.list_groups(states=wrong)
        with pytest.raises(ValueError, match="listed by a GroupType: consumer, classic"):
            await admin.list_groups(types=[GroupState.STABLE])  # type: ignore[list-item]
        await admin.list_groups(states=GroupState.STABLE)
    assert fakes.requests[-1].request.states_filter == ["Stable"]


async def test_arguments_that_contradict_themselves_are_refused(brokers: Brokers) -> None:
    async with admin_of(brokers()) as admin:
        with pytest.raises(ValueError, match="in two ways"):
            await admin.create_topics(["orders", NewTopic("orders", 6)])
        wrong: Any
        for wrong in ({"orders": 6}, ("orders", 6)):
            with pytest.raises(TypeError, match=r"takes names and NewTopic\(name, partitions\), not .*6"):
                await admin.create_topics(wrong)
        with pytest.raises(ValueError, match="neither a timestamp nor an OffsetSpec"):
            await admin.list_offsets(FIRST, -77)
        with pytest.raises(ValueError, match="isolation_level='serializable'"):
            await admin.list_offsets(FIRST, isolation_level="serializable")  # type: ignore[arg-type]
