"""Operations over keys: who is asked what, what is tried again, when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kclient.cluster.operations import run, run_one
from kclient.cluster.routes import AnyBroker, Controller, Coordinator, CoordinatorKind, Leader, Node, Route
from kclient.errors import (
    BrokerNotAvailableError,
    ClientClosedError,
    ConcurrentTransactionsError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    UnknownTopicOrPartitionError,
)
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from kclient.wire.messages.group_admin import DescribeGroupsResponse
from kclient.wire.messages.metadata import FindCoordinatorResponse
from tests.support import faults
from tests.support.clusters import Describe, Described, connected
from tests.support.fake_broker import FakeCluster, Fault
from tests.support.virtual_loop import VirtualLoop

Brokers = Callable[..., FakeCluster]
DESCRIBE, FIND, METADATA = ApiKey.DESCRIBE_GROUPS, ApiKey.FIND_COORDINATOR, ApiKey.METADATA
NOT_LEADER, LOADING, NOT_COORDINATOR, NOT_CONTROLLER = 6, 14, 16, 41
GROUP_AUTHORIZATION_FAILED, CONCURRENT_TRANSACTIONS = 30, 51


def group(key: str) -> Route:
    return Coordinator(CoordinatorKind.GROUP, key)


def node(number: int) -> Callable[[str], Route]:
    return lambda _: Node(number)


def controller(_: str) -> Route:
    return Controller()


def leader_of(topic: str, partition: int = 0) -> Callable[[str], Route]:
    return lambda _: Leader(TopicPartition(topic, partition))


# Keys and their brokers


async def test_keys_of_one_broker_share_a_request_and_brokers_are_asked_together(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(3)
    described = Described(fakes)
    fakes.coordinators = {"a": 1, "b": 2, "c": 1, "d": 3}
    loop.network.latency = (0.1, 0.1)
    async with connected(fakes) as cluster:
        await asyncio.gather(*(cluster.connection(number, cluster.deadline()) for number in (1, 2, 3)))
        began = loop.time()
        keys = ["a", "b", "c", "d", "a"]
        assert await run(cluster, Describe(group), keys, cluster.deadline()) == {
            "a": 1,
            "b": 2,
            "c": 1,
            "d": 3,
        }
        assert sorted(described.asked) == [(1, ["a", "c"]), (2, ["b"]), (3, ["d"])]
        assert loop.time() - began < 0.45, "one round trip for the coordinators, one for the question"


async def test_outcomes_come_in_the_order_of_the_keys(brokers: Brokers) -> None:
    fakes = brokers(2)
    described = Described(fakes)
    described.codes["a"].append(LOADING)
    fakes.coordinators = {"a": 2, "b": 1, "c": 2}
    async with connected(fakes) as cluster:
        assert list(await run(cluster, Describe(group), ["a", "b", "c"], cluster.deadline())) == [
            "a",
            "b",
            "c",
        ]


async def test_no_keys_are_no_request(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    async with connected(fakes) as cluster:
        count = len(fakes.requests)
        assert await run(cluster, Describe(), [], cluster.deadline()) == {}
        assert len(fakes.requests) == count
        assert loop.time() < 1


# What is tried again


async def test_only_the_keys_that_failed_in_passing_are_asked_for_again(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    described = Described(fakes)
    described.codes["b"].extend([LOADING, LOADING])
    described.codes["c"].append(GROUP_AUTHORIZATION_FAILED)
    described.codes["d"].append(LOADING)
    async with connected(fakes) as cluster:
        began = loop.time()
        outcomes = await run(cluster, Describe(), list("abcd"), cluster.deadline())
    assert {key: outcome for key, outcome in outcomes.items() if key != "c"} == {"a": 1, "b": 1, "d": 1}
    assert isinstance(outcomes["c"], GroupAuthorizationFailedError)
    assert [keys for _, keys in described.asked] == [list("abcd"), list("bd"), ["b"]]
    assert 0.08 + 0.16 < loop.time() - began < 0.12 + 0.24 + 0.1


async def test_a_final_error_is_raised_for_a_single_key(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    described = Described(fakes)
    described.codes["a"].append(GROUP_AUTHORIZATION_FAILED)
    async with connected(fakes) as cluster:
        with pytest.raises(GroupAuthorizationFailedError):
            await run_one(cluster, Describe(), "a", cluster.deadline())
        assert await run_one(cluster, Describe(), "a", cluster.deadline()) == 1
    assert len(described.asked) == 2
    assert loop.time() < 1


async def test_a_key_that_the_answer_leaves_out_is_an_error_of_its_own(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    fakes[1].always(DESCRIBE, faults.answers(DescribeGroupsResponse(groups=[])))
    async with connected(fakes) as cluster:
        with pytest.raises(ProtocolError, match="the answer to DescribeGroupsRequest does not mention it"):
            await run_one(cluster, Describe(), "a", cluster.deadline())
    assert loop.time() < 1


@pytest.mark.parametrize("fault", [faults.closes, faults.resets, faults.answers_another_request])
async def test_a_broken_connection_is_tried_again(loop: VirtualLoop, brokers: Brokers, fault: Fault) -> None:
    fakes = brokers(2)
    Described(fakes)
    fakes[2].plan(DESCRIBE, fault)
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(node(2)), "a", cluster.deadline()) == 2
        assert fakes.count(DESCRIBE) == 2
    assert loop.time() < 2


async def test_a_request_that_is_never_answered_is_given_to_another_broker(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(2)
    Described(fakes)
    async with connected(fakes, request_timeout_ms=2000) as cluster:
        for broker in fakes.brokers.values():
            broker.plan(DESCRIBE, faults.silent)
        # Both brokers are silent once; the third attempt succeeds.
        assert await run_one(cluster, Describe(), "a", cluster.deadline()) in (1, 2)
        assert fakes.count(DESCRIBE) == 3
        assert 4 < loop.time() < 6


# Who is where now


async def test_a_leader_that_has_moved_is_found_after_a_refresh(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    described = Described(fakes)
    fakes.add_topic("t", leaders=[1])
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(leader_of("t")), "a", cluster.deadline()) == 1
        fakes.move_leader("t", 0, 2)
        described.owners["a"], described.elsewhere = 2, NOT_LEADER
        asked = fakes.count(METADATA)
        began = loop.time()
        assert await run_one(cluster, Describe(leader_of("t")), "a", cluster.deadline()) == 2
        assert fakes.count(METADATA) > asked
        assert loop.time() - began < 1


async def test_a_leader_that_is_down_is_replaced_by_the_next_one(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    Described(fakes)
    fakes.add_topic("t", leaders=[1])
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(leader_of("t")), "a", cluster.deadline()) == 1
        fakes[1].stop()
        loop.call_later(3, fakes.move_leader, "t", 0, 2)
        assert await run_one(cluster, Describe(leader_of("t")), "a", cluster.deadline()) == 2
        assert 3 < loop.time() < 6


async def test_a_partition_without_a_leader_is_waited_for(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    Described(fakes)
    fakes.add_topic("t", leaders=[-1])
    loop.call_later(5, fakes.move_leader, "t", 0, 2)
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(leader_of("t")), "a", cluster.deadline()) == 2
        assert 5 < loop.time() < 8


async def test_a_new_topic_is_waited_for_a_moment_and_an_unknown_one_not_for_long(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    Described(fakes)
    loop.call_later(0.3, fakes.add_topic, "new")
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(leader_of("new")), "a", cluster.deadline()) == 1
        began = loop.time()
        with pytest.raises(UnknownTopicOrPartitionError, match="topic never, partition 0"):
            await run_one(cluster, Describe(leader_of("never")), "a", cluster.deadline())
        with pytest.raises(UnknownTopicOrPartitionError, match="topic new, partition 5"):
            await run_one(cluster, Describe(leader_of("new", 5)), "a", cluster.deadline())
        assert loop.time() - began < 5


async def test_a_controller_that_has_moved_is_found(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    described = Described(fakes)
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(controller), "a", cluster.deadline()) == 1
        fakes.controller = 2
        described.owners["a"], described.elsewhere = 2, NOT_CONTROLLER
        assert await run_one(cluster, Describe(controller), "a", cluster.deadline()) == 2
        assert loop.time() < 2


async def test_a_cluster_without_a_controller_is_waited_for(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    Described(fakes)
    fakes.controller = -1
    loop.call_later(5, setattr, fakes, "controller", 2)
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(controller), "a", cluster.deadline()) == 2
        assert 5 < loop.time() < 8


async def test_a_cluster_that_gets_no_controller_is_named_as_the_reason(brokers: Brokers) -> None:
    fakes = brokers(2)
    fakes.controller = -1
    async with connected(fakes) as cluster:
        with pytest.raises(KafkaTimeoutError, match="the cluster names no controller at the moment"):
            await run_one(cluster, Describe(controller), "a", cluster.deadline(5000))


async def test_a_coordinator_is_asked_for_once_and_remembered(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    Described(fakes)
    fakes.coordinators["a"] = 2
    async with connected(fakes) as cluster:
        for _ in range(3):
            assert await run_one(cluster, Describe(group), "a", cluster.deadline()) == 2
        assert fakes.count(FIND) == 1
        assert loop.time() < 1


@pytest.mark.parametrize("version", [0, 1, 3, 4])
async def test_coordinators_are_found_through_old_and_new_brokers(
    loop: VirtualLoop, brokers: Brokers, version: int
) -> None:
    fakes = brokers(2)
    Described(fakes)
    fakes.coordinators["a"] = 2
    for broker in fakes.brokers.values():
        broker.versions[FIND] = broker.versions[FIND]._replace(last=version)
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(group), "a", cluster.deadline()) == 2
        [asked] = [seen for seen in fakes.requests if seen.key == FIND]
        assert asked.version == version
        assert loop.time() < 1


async def test_a_coordinator_that_has_moved_is_asked_for_again(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    described = Described(fakes)
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(group), "a", cluster.deadline()) == 1
        fakes.coordinators["a"] = 2
        described.owners["a"], described.elsewhere = 2, NOT_COORDINATOR
        assert await run_one(cluster, Describe(group), "a", cluster.deadline()) == 2
        assert fakes.count(FIND) == 2
        assert loop.time() < 1


async def test_a_coordinator_that_is_down_is_replaced_by_the_next_one(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(2)
    Described(fakes)
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(group), "a", cluster.deadline()) == 1
        fakes[1].stop()
        loop.call_later(3, fakes.coordinators.__setitem__, "a", 2)
        assert await run_one(cluster, Describe(group), "a", cluster.deadline()) == 2
        assert 3 < loop.time() < 6


async def test_an_error_about_the_group_itself_does_not_forget_its_coordinator(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    described = Described(fakes)
    described.codes["a"].append(LOADING)
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(group), "a", cluster.deadline()) == 1
        assert fakes.count(FIND) == 1
        assert loop.time() < 1


async def test_a_coordinator_that_metadata_does_not_show_yet_is_reached(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(2)
    Described(fakes)
    hidden = fakes.brokers.pop(2)
    named = FindCoordinatorResponse.Coordinator(
        key="a", node_id=2, host=hidden.address[0], port=hidden.address[1], error_message=None
    )
    fakes.answer(FIND, lambda _: FindCoordinatorResponse(coordinators=[named]))
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(group), "a", cluster.deadline()) == 2
        assert loop.time() < 1


async def test_an_answer_that_names_no_coordinator_is_asked_for_again(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    Described(fakes)
    nobody = FindCoordinatorResponse.Coordinator(key="a", node_id=-1, host="", port=-1, error_message=None)
    fakes[1].plan(FIND, faults.answers(FindCoordinatorResponse(coordinators=[nobody])))
    async with connected(fakes) as cluster:
        assert await run_one(cluster, Describe(group), "a", cluster.deadline()) == 1
        assert fakes.count(FIND) == 2
        assert set(cluster.metadata.snapshot.brokers) == {1}
        assert len(loop.network.dialled) == 1


async def test_a_broker_that_has_left_is_not_waited_for(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    async with connected(fakes) as cluster:
        with pytest.raises(BrokerNotAvailableError, match="broker 7; the cluster has 1, 2"):
            await run_one(cluster, Describe(node(7)), "a", cluster.deadline())
        assert loop.time() < 1


# When it ends


async def test_an_operation_that_keeps_failing_ends_by_its_deadline_and_names_the_last_failure(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    described = Described(fakes)
    described.codes["a"].extend([CONCURRENT_TRANSACTIONS] * 1000)
    async with connected(fakes) as cluster:
        began = loop.time()
        with pytest.raises(KafkaTimeoutError, match="DescribeGroups did not succeed within 9 s") as caught:
            await run_one(cluster, Describe(), "a", cluster.deadline(9000))
        assert 7 < loop.time() - began <= 9
        assert "CONCURRENT_TRANSACTIONS" in str(caught.value)
        assert isinstance(caught.value.__cause__, ConcurrentTransactionsError)
        assert not caught.value.retriable
    assert len(described.asked) < 20


@pytest.mark.parametrize("timeout_ms", [0, 1, 50, 1000, 20_000])
@pytest.mark.parametrize("route", [node(1), group, controller, leader_of("t"), lambda _: AnyBroker()])
@pytest.mark.parametrize("trouble", ["dead", "frozen", "mute"])
async def test_no_operation_outlives_its_deadline(
    loop: VirtualLoop, brokers: Brokers, route: Callable[[str], Route], timeout_ms: int, trouble: str
) -> None:
    fakes = brokers(2)
    Described(fakes)
    fakes.add_topic("t", leaders=[1])
    async with connected(fakes) as cluster:
        for broker in fakes.brokers.values():
            if trouble == "dead":
                broker.stop()
            elif trouble == "frozen":
                broker.freeze()
            else:
                for key in ApiKey:
                    broker.always(key, faults.silent)
        began = loop.time()
        with pytest.raises((KafkaTimeoutError, KafkaConnectionError)):
            await run_one(cluster, Describe(route), "a", cluster.deadline(timeout_ms))
        assert loop.time() - began <= timeout_ms / 1000 + 1e-6


async def test_a_cancelled_operation_leaves_nothing(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    Described(fakes)
    async with connected(fakes) as cluster:
        for route in (node(2), group):
            for key in (DESCRIBE, FIND, ApiKey.API_VERSIONS):
                for broker in fakes.brokers.values():
                    broker.plan(key, faults.delayed(2))
            task = asyncio.create_task(run_one(cluster, Describe(route), "a", cluster.deadline()))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(asyncio.all_tasks()) <= 3, "this test, the metadata, and a dial for whoever comes next"
        await asyncio.sleep(10)
        assert await run_one(cluster, Describe(node(1)), "b", cluster.deadline()) == 1
        assert loop.time() > 10


async def test_operations_of_a_client_that_is_closed_meanwhile_say_so(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(2)
    described = Described(fakes)
    fakes.add_topic("t")
    described.codes["retried"].extend([LOADING] * 1000)
    fakes[1].plan(DESCRIBE, faults.silent)
    async with connected(fakes) as cluster:
        operations: list[asyncio.Task[dict[str, int | KafkaError]]] = [
            asyncio.create_task(run(cluster, Describe(route), [key], cluster.deadline()))
            for key, route in (("in flight", node(1)), ("retried", node(2)), ("leader", leader_of("never")))
        ]
        await asyncio.sleep(0.15)
        began = loop.time()
    outcomes = {key: outcome for done in await asyncio.gather(*operations) for key, outcome in done.items()}
    assert {key: type(outcome) for key, outcome in outcomes.items()} == dict.fromkeys(
        ("in flight", "retried", "leader"), ClientClosedError
    )
    assert loop.time() - began < 1.5
