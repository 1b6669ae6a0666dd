"""The way to a broker where it is rough: batches that cannot be encoded, or take long, and full sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.clock import Deadline
from kclient.errors import AuthenticationError, EncodeError, KafkaTimeoutError
from kclient.net.connection import Connection
from kclient.producer import AsyncProducer
from kclient.producer.batch import Batch
from kclient.testing import Simulation, simulate
from kclient.wire.api import ApiKey
from tests.support.producing import producing, requests_to, values


class SlowThreads:
    """Encodes where an executor would, and is done after as many seconds as are next in line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
        self.seconds = list(seconds)
        monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", self.run)

    def run(self, _: object, work: Callable[[Any], None], batches: Any) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            work(batches)
            done.set_result(None)

        loop.call_later(self.seconds.pop(0) if self.seconds else 0.0, finish)
        return done


def test_a_request_that_is_encoded_sooner_does_not_overtake(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        SlowThreads(monkeypatch, 3, 1, 2, 0)
        seen = requests_to(broker)
        for number in range(4):
            producer.send_nowait("t", b"%d" % number + bytes(10_000))
            await asyncio.sleep(0.01)
        await asyncio.sleep(2.5)
        assert not seen
        await producer.flush()
        assert [value[:1] for value in values(broker) if value] == [b"0", b"1", b"2", b"3"]

    producing(check, compression_type="gzip", batch_size=10_000)


def test_a_batch_that_is_given_up_while_it_is_encoded_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        # The second is encoded at once, and waits for the first.
        SlowThreads(monkeypatch, 5, 0)
        lost = [await producer.send("t", b"late" + bytes(10_000))]
        await asyncio.sleep(0.1)
        lost.append(await producer.send("t", b"late" + bytes(10_000)))
        for each in lost:
            with pytest.raises(KafkaTimeoutError):
                await each
        later = [producer.send_nowait("t", b"%d" % number) for number in range(1, 4)]
        await asyncio.sleep(4)
        await asyncio.gather(*later, return_exceptions=True)
        await producer.send_and_wait("t", b"4")
        found = values(broker)
        assert found[0] == b"0"
        assert found[-1] == b"4"
        assert b"late" + bytes(10_000) not in found
        assert producer.metrics().in_flight == producer.metrics().buffer_used == 0

    # Numbers would have the broker refuse it, too.
    producing(check, compression_type="gzip", delivery_timeout_ms=2_000, enable_idempotence=False)


def test_closing_while_a_batch_is_encoded_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        SlowThreads(monkeypatch, 5)
        sent = producer.send_nowait("t", bytes(10_000))
        with pytest.raises(KafkaTimeoutError):
            await producer.close(timeout_ms=1_000)
        assert sent.done()
        await asyncio.sleep(5)

    producing(check, compression_type="gzip")


def test_a_batch_that_cannot_be_encoded_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        encode = Batch.encode

        def broken(batch: Batch, *how: Any) -> None:
            if batch.sequence == 1 and batch.identity.epoch == 0:
                raise ZeroDivisionError
            encode(batch, *how)

        monkeypatch.setattr(Batch, "encode", broken)
        with pytest.raises(EncodeError, match="ZeroDivisionError"):
            await producer.send_and_wait("t", b"1")
        await producer.send_and_wait("t", b"2")
        assert values(broker) == [b"0", b"2"]

    producing(check)


def test_with_a_password_that_is_no_longer_right_records_fail_at_once_until_it_is() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        assert producer._core is not None
        cluster = producer._core.cluster
        connection = cluster.connection

        async def refused(node_id: int, deadline: Deadline) -> Connection:
            await asyncio.sleep(0.5)
            raise AuthenticationError(f"{node_id} {deadline}")

        cluster.connection = refused  # type: ignore[method-assign, assignment]
        broker.faults.close(ApiKey.PRODUCE)
        sent = [producer.send_nowait("t", b"lost") for _ in range(3)]
        await producer.flush()
        assert [type(each.exception()) for each in sent] == [AuthenticationError] * 3
        assert producer.metrics().buffer_used == 0
        cluster.connection = connection  # type: ignore[method-assign]
        await producer.send_and_wait("t", b"1")
        assert values(broker) == [b"0", b"1"]

    producing(check)


def test_with_acks_0_a_full_socket_is_waited_for() -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock) as broker:
            broker.create_topic("t")
            async with AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, clock=sim.clock, acks=0, buffer_memory=500_000
            ) as producer:
                await producer.send_and_wait("t", b"first")
                broker_host = broker.bootstrap_servers.split(":")[0]
                sim.network.pause(broker_host, broker_host)
                sending = asyncio.create_task(_send_much(producer))
                await asyncio.sleep(5)
                # What the socket does not take stays in the buffer, and holds the sender back.
                assert not sending.done()
                assert producer.metrics().buffer_used <= 500_000
                sim.network.resume(broker_host, broker_host)
                await sending
                await producer.flush()
                await asyncio.sleep(5)
                assert len(values(broker)) == 3_001

    simulate(main)


def test_with_acks_0_a_gate_holds_records_back_as_it_does_others() -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock) as broker:
            broker.create_topic("t")
            servers = broker.bootstrap_servers
            async with AsyncProducer(bootstrap_servers=servers, clock=sim.clock, acks=0) as producer:
                await producer.send_and_wait("t", b"first")
                assert producer._core is not None
                link = next(iter(producer._core.cluster._links.values()))
                assert link.connection is not None
                link.connection.hold()
                held = await producer.send("t", b"second")
                await asyncio.sleep(5)
                assert not held.done()
                link.connection.release()
                await held
                await asyncio.sleep(1)
                assert values(broker) == [b"first", b"second"]

    simulate(main)


async def _send_much(producer: AsyncProducer) -> None:
    for _ in range(3_000):
        await producer.send("t", bytes(1_000))
