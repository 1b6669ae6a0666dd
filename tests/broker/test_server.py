"""The broker as a server: faults on request, clients that send nonsense, and a restart on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kclient.broker.api import RequestContext
from kclient.broker.broker import Broker
from kclient.broker.faults import Faults
from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.errors import CoordinatorNotAvailableError, KafkaError
from kclient.net.connection import Connection
from kclient.net.dial import dial
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from kclient.wire.messages.fetch import ListOffsetsRequest
from kclient.wire.messages.group_offsets import OffsetCommitRequest, OffsetFetchRequest
from kclient.wire.messages.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.conversation import build
from tests.broker.records_script import produce, records
from tests.support.connecting import settings

pytestmark = pytest.mark.uvloop

FIND = ApiKey.FIND_COORDINATOR


async def connect(broker: Broker) -> Connection:
    host, _, port = broker.bootstrap_servers.split(",")[0].partition(":")
    return await dial(Endpoint(host, int(port)), settings(), soon(10))


def soon(seconds: float) -> Deadline:
    return Deadline.after(asyncio.get_running_loop(), seconds)


def find(key: str = "g") -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=[key])


def with_broker(check: Callable[[Broker, Connection], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with Broker(**options) as broker:
            connection = await connect(broker)
            try:
                await check(broker, connection)
            finally:
                connection.close()
                await connection.wait_closed()

    asyncio.run(run())


def test_a_fault_answers_with_its_error_as_often_as_asked() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.faults.answer_with(FIND, CoordinatorNotAvailableError, times=2)
        codes = [(await connection.call(find(), soon(5))).coordinators[0].error_code for _ in range(3)]
        assert codes == [CoordinatorNotAvailableError.code, CoordinatorNotAvailableError.code, 0]

    with_broker(check)


def test_a_throttled_answer_says_for_how_long() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.faults.throttle(FIND, 7)
        assert (await connection.call(find(), soon(5))).throttle_time_ms == 7

    with_broker(check)


def test_a_late_answer_is_late() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.faults.delay(FIND, 0.1)
        loop = asyncio.get_running_loop()
        asked = loop.time()
        await connection.call(find(), soon(5))
        assert round(loop.time() - asked, 3) >= 0.1  # uvloop's time has whole milliseconds

    with_broker(check)


@pytest.mark.parametrize(
    "plan",
    [
        lambda faults: faults.drop(FIND),
        lambda faults: faults.drop(FIND, handled=False),
        lambda faults: faults.close(FIND),
        lambda faults: faults.close(FIND, handled=True),
    ],
    ids=["dropped", "ignored", "closed before", "closed after"],
)
def test_a_request_that_is_never_answered_fails_and_the_next_connection_works(
    plan: Callable[[Faults], object],
) -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        plan(broker.faults)
        with pytest.raises(KafkaError):
            await connection.call(find(), soon(0.2))
        again = await connect(broker)
        assert (await again.call(find(), soon(5))).coordinators[0].error_code == 0
        again.close()
        await again.wait_closed()

    with_broker(check)


def test_the_hook_sees_every_request_and_may_answer() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        seen: list[ApiKey] = []

        def hook(_: RequestContext, request: Request[Any]) -> FindCoordinatorResponse | None:
            seen.append(request.api_key)
            return FindCoordinatorResponse(coordinators=[]) if request.api_key is FIND else None

        broker.faults.hook = hook
        assert (await connection.call(find(), soon(5))).coordinators == []
        assert seen == [FIND]

    with_broker(check)


def test_a_stopped_node_hands_over_and_may_come_back() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        topic = broker.create_topic("led", 3, 3)
        lost = next(partition for partition in topic.partitions if partition.leader == 2)
        await broker.stop_node(2)
        assert lost.leader in (1, 3)
        assert broker.in_sync(lost) == [node for node in lost.replicas if node != 2]
        await broker.start_node(2)
        assert 2 in broker.in_sync(lost)
        broker.move_leader("led", lost.index, 2)
        assert (lost.leader, lost.leader_epoch) == (2, 2)
        for node in (1, 2, 3):
            broker.move_coordinator("g", node)
            assert (await connection.call(find(), soon(5))).coordinators[0].node_id == node

    with_broker(check, nodes=3)


def test_a_restart_on_disk_keeps_topics_records_and_committed_offsets(tmp_path: Path) -> None:
    async def write(broker: Broker, connection: Connection) -> None:
        broker.create_topic("kept", 2)
        await connection.call(produce("kept", records(b"one", b"two")), soon(5), version=12)
        inner = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        commit = build(
            OffsetCommitRequest,
            group_id="g",
            generation_id_or_member_epoch=-1,
            group_instance_id=None,
            topics=[{"name": "kept", "partitions": [inner]}],
        )
        answer = await connection.call(commit, soon(5), version=9)
        assert answer.topics[0].partitions[0].error_code == 0

    async def read(broker: Broker, connection: Connection) -> None:
        assert len(broker.topics.by_name["kept"].partitions) == 2
        wanted = [{"name": "kept", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        end = await connection.call(
            build(ListOffsetsRequest, replica_id=-1, topics=wanted), soon(5), version=7
        )
        assert end.topics[0].partitions[0].offset == 2
        asked = build(OffsetFetchRequest, group_id="g", topics=[{"name": "kept", "partition_indexes": [0]}])
        committed = await connection.call(asked, soon(5), version=7)
        assert committed.topics[0].partitions[0].committed_offset == 1

    with_broker(write, data=tmp_path)
    with_broker(read, data=tmp_path)
