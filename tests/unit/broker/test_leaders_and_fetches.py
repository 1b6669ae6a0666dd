"""Produce and fetch on several nodes in a simulation: who answers, who is named, how much comes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kclient.broker.broker import Broker
from kclient.errors import (
    FencedLeaderEpochError,
    FetchSessionTopicIdError,
    InvalidTopicError,
    NotLeaderOrFollowerError,
)
from kclient.net.connection import Connection
from kclient.testing import Simulation, simulate
from kclient.wire.messages.fetch import FetchResponse
from kclient.wire.messages.produce import ProduceResponse
from tests.broker.records_script import fetch, produce, records
from tests.support.embedded import address, connected, simulated, within

NOT_LEADER = NotLeaderOrFollowerError.code
BATCH = records(b"x" * 100)


async def write(connection: Connection, topic: Any, partition: int = 0, version: int = 12) -> ProduceResponse:
    answer = await connection.call(produce(topic, BATCH, partition), within(5), version=version)
    assert isinstance(answer, ProduceResponse)
    return answer


async def read(connection: Connection, request: Any, version: int = 12) -> FetchResponse:
    answer = await connection.call(request, within(1000), version=version)
    assert isinstance(answer, FetchResponse)
    return answer


def sizes(answer: FetchResponse) -> dict[int, int]:
    return {
        part.partition_index: len(part.records or b"")
        for topic in answer.responses
        for part in topic.partitions
    }


def wanted(name: Any, *partitions: int, key: str = "topic", offset: int = 0, **more: Any) -> list[Any]:
    parts = [
        {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}
        for index in partitions
    ]
    return [{key: name, "partitions": parts}]


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_a_node_that_does_not_lead_says_who_does(version: int) -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        topic = broker.create_topic("t", 1, 3)
        broker.move_leader("t", 0, 2)
        answer = await write(connection, topic.topic_id if version >= 13 else "t", version=version)
        part = answer.responses[0].partition_responses[0]
        assert part.error_code == NOT_LEADER
        if version < 10:
            assert (part.current_leader.leader_id, answer.node_endpoints) == (-1, [])
        else:
            assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (2, 1)
            assert [(one.node_id, (one.host, one.port)) for one in answer.node_endpoints] == [
                (2, address(broker, 2))
            ]

    simulated(check, nodes=3)


@pytest.mark.parametrize("version", [15, 16])
@pytest.mark.parametrize("error", [NotLeaderOrFollowerError, FencedLeaderEpochError])
def test_a_fetch_from_the_wrong_place_is_told_the_leader_from_version_16_on(
    version: int, error: type[Exception]
) -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        elsewhere = error is NotLeaderOrFollowerError
        topic = broker.create_topic("t", 1, 1 if elsewhere else 3)
        broker.move_leader("t", 0, 2)
        request = fetch(topic.topic_id, partition={"current_leader_epoch": -1 if elsewhere else 0})
        answer = await read(connection, request, version)
        part = answer.responses[0].partitions[0]
        assert part.error_code == (NOT_LEADER if elsewhere else FencedLeaderEpochError.code)
        assert part.current_leader.leader_id == (2 if version >= 16 else -1)
        assert [one.node_id for one in answer.node_endpoints] == ([2] if version >= 16 else [])

    simulated(check, nodes=3)


def test_followers_serve_only_clients_that_may_know_of_them() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t", 1, 3)
        await write(connection, "t")
        broker.move_leader("t", 0, 2)
        codes = [
            (await read(connection, fetch("t"), version)).responses[0].partitions[0].error_code
            for version in (10, 11)
        ]
        assert codes == [NOT_LEADER, 0]

    simulated(check, nodes=3)


def test_a_fetch_of_nothing_and_one_that_is_sent_elsewhere_are_answered_at_once() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t", 1, 2)
        loop = asyncio.get_running_loop()
        await read(connection, fetch("", topics=[], max_wait_ms=500_000))
        near = await read(connection, fetch("t", rack_id="b", max_wait_ms=500_000))
        assert near.responses[0].partitions[0].preferred_read_replica == 2
        assert loop.time() < 10

    config = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    simulated(check, nodes=2, racks=("a", "b"), config=config)


def test_a_fetch_waits_for_its_bytes_over_all_its_partitions() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t", 3)
        request = fetch("", topics=wanted("t", 0, 1, 2), min_bytes=3 * len(BATCH), max_wait_ms=500_000)
        waiting = asyncio.create_task(read(connection, request))
        async with connected(broker) as writer:
            for partition in range(3):
                await asyncio.sleep(10)
                assert not waiting.done()
                await write(writer, "t", partition)
            await asyncio.sleep(1)
        assert waiting.done()
        assert sizes(await waiting) == dict.fromkeys(range(3), len(BATCH))

    simulated(check)


def test_a_fetch_that_waits_for_more_than_comes_gives_what_there_is_when_its_time_is_up() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t", 2)
        await write(connection, "t", 1)
        request = fetch("", topics=wanted("t", 0, 1), min_bytes=10_000, max_wait_ms=60_000)
        assert sizes(await read(connection, request)) == {0: 0, 1: len(BATCH)}
        assert 60 <= asyncio.get_running_loop().time() < 61

    simulated(check)


def test_a_fetch_that_waits_hears_of_its_topic_being_deleted_and_of_another_leader() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        for end in ("moved", "deleted"):
            topic = broker.create_topic(end)
            request = fetch(end, max_wait_ms=500_000, partition={"current_leader_epoch": 0})
            waiting = asyncio.create_task(read(connection, request))
            await asyncio.sleep(10)
            if end == "moved":
                broker.move_leader(end, 0, 2)
            else:
                broker.topics.delete(topic)
            await asyncio.sleep(1)
            assert waiting.done()
            assert (await waiting).responses[0].partitions[0].error_code in (3, NOT_LEADER)

    simulated(check, nodes=2)


def test_no_answer_is_larger_than_the_broker_allows_but_for_its_first_batch() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t", 3)
        for partition in (0, 1, 1, 1, 2):
            await write(connection, "t", partition)
        request = fetch("", topics=wanted("t", 0, 1, 2), max_bytes=1 << 30)
        assert sizes(await read(connection, request)) == {0: len(BATCH), 1: 2 * len(BATCH), 2: 0}
        assert sizes(await read(connection, fetch("t", max_bytes=1))) == {0: len(BATCH)}

    simulated(check, config={"fetch.max.bytes": str(int(3.5 * len(BATCH)))})


def test_partitions_of_a_session_take_turns() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t", 3)
        for partition in range(3):
            await write(connection, "t", partition)
        seen = []
        first = await read(
            connection, fetch("", topics=wanted("t", 0, 1, 2), session_epoch=0, max_bytes=len(BATCH))
        )
        for epoch in range(1, 6):
            request = fetch(
                "", topics=[], session_id=first.session_id, session_epoch=epoch, max_bytes=len(BATCH)
            )
            seen += [index for index, size in sizes(await read(connection, request)).items() if size]
        assert seen == [1, 2, 0, 1, 2]

    simulated(check)


def test_a_session_goes_on_after_an_epoch_that_was_wrong_but_not_in_other_words() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        topic = broker.create_topic("t")
        opened = await read(connection, fetch("t", session_epoch=0, max_wait_ms=0))

        def go_on(epoch: int) -> Any:
            return fetch("", topics=[], session_id=opened.session_id, session_epoch=epoch, max_wait_ms=0)

        codes = [(await read(connection, go_on(epoch))).error_code for epoch in (5, 1, 1, 2)]
        assert codes == [71, 0, 71, 0]
        assert (await read(connection, go_on(3), 13)).error_code == FetchSessionTopicIdError.code
        assert (await read(connection, go_on(3))).error_code == 0
        await write(connection, topic.topic_id, version=13)
        assert sizes(await read(connection, go_on(4))) == {0: len(BATCH)}

    simulated(check)


def test_clients_do_not_write_to_internal_topics() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        partition = broker.offsets_partition("g")
        answer = await write(connection, "__consumer_offsets", partition.index)
        assert answer.responses[0].partition_responses[0].error_code == InvalidTopicError.code
        assert partition.log.end_offset == 0

    simulated(check)


def test_the_epoch_of_a_leader_is_not_lower_after_a_restart(tmp_path: Path) -> None:
    async def main(sim: Simulation) -> list[int]:
        async with Broker(nodes=2, data=tmp_path, clock=sim.clock, seed=sim.seed) as broker:
            if "t" not in broker.topics.by_name:
                broker.create_topic("t", 2, 2)
                for node in (2, 1, 2):
                    broker.move_leader("t", 0, node)
            return [partition.leader_epoch for partition in broker.topics.by_name["t"].partitions]

    assert simulate(main) == [3, 0]
    assert simulate(main) == [4, 1]  # a start begins an epoch, as an election does
