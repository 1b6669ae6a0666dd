"""What clients and the embedded broker need of an event loop: tried on asyncio's own, and on uvloop."""

from __future__ import annotations

import asyncio

import pytest

from kclient import AsyncConsumer, AsyncProducer, Consumer, Producer
from kclient.admin import AsyncAdmin, NewTopic
from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.errors import KafkaError
from kclient.net.dial import dial
from kclient.runtime import LoopThread
from kclient.testing import RunningBroker
from kclient.types import TopicPartition
from kclient.wire.messages.metadata import FindCoordinatorResponse
from tests.support.connecting import ask, settings

pytestmark = pytest.mark.uvloop


async def kind() -> type:
    return type(asyncio.get_running_loop())


def test_a_client_s_own_loop_is_of_the_kind_that_the_program_chose() -> None:
    with LoopThread("a client") as thread:
        assert thread.call(kind()) is asyncio.run(kind())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_asyncio_clients_write_and_read_in_a_group(protocol: str) -> None:
    async def main(bootstrap: str) -> None:
        async with AsyncAdmin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics([NewTopic("t", 2)])
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(100):
                await producer.send("t", b"%d" % number)
        async with AsyncConsumer(
            bootstrap_servers=bootstrap, group_id="g", group_protocol=protocol, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["t"])
            values = set()
            async for record in consumer:
                values.add(record.value)
                if len(values) == 100:
                    break
            await consumer.commit()

    with RunningBroker() as running:
        asyncio.run(main(running.bootstrap_servers))


def test_blocking_clients_write_and_read() -> None:
    with RunningBroker() as running:
        with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            assert producer.send("t", b"one").result(30).offset == 0
        with Consumer(bootstrap_servers=running.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            partition = TopicPartition("t", 0)
            consumer.assign([partition])
            records = consumer.poll(timeout_ms=30_000)[partition]
            assert [record.value for record in records] == [b"one"]


def test_requests_whose_time_is_over_when_they_are_sent_disturb_nothing() -> None:
    async def main(bootstrap: str) -> None:
        loop = asyncio.get_running_loop()
        host, _, port = bootstrap.partition(":")
        connection = await dial(Endpoint(host, int(port)), settings(), Deadline.after(loop, 30))
        past = [Deadline(loop.time() - ago, 1) for ago in (1, 2)]
        # In one turn of the loop, so that the second finds the timer of the first.
        asked = [connection.call(ask("g"), deadline) for deadline in past]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        connection.close()  # where both were answered before the timer was heard of
        await connection.wait_closed()
        assert all(isinstance(outcome, FindCoordinatorResponse | KafkaError) for outcome in outcomes), (
            outcomes
        )

    with RunningBroker() as running:
        asyncio.run(main(running.bootstrap_servers))


def test_records_that_come_when_the_time_of_others_is_over_are_sent() -> None:
    async def main(bootstrap: str) -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            core = producer._core
            assert core is not None
            await producer.send_and_wait("t", b"one")
            core.dispatcher._expire_at(core.loop.time() - 1)
            assert (await producer.send_and_wait("t", b"two")).offset == 1

    with RunningBroker() as running:
        asyncio.run(main(running.bootstrap_servers))
