"""A signal handler that sends while `send` is under way finds a record there or not, never a half."""

from __future__ import annotations

from kclient.broker import Broker
from kclient.producer import AsyncProducer
from tests.support.producing import producing, values


def test_a_handler_that_sends_within_send_leaves_the_books_right() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        core, moment, calls = producer._core, producer._moment, 0

        def interrupted() -> float:
            nonlocal calls
            calls += 1
            if calls % 3 == 0:  # handlers run behind a call, as this one is
                producer.send_nowait("t", b"handler", b"%d" % calls)
            return moment()

        producer._moment = interrupted
        for number in range(900):
            await producer.send("t", b"a record", b"%d" % number)
        await producer.flush()
        assert sum(len(values(broker, partition=number)) for number in range(3)) == 900 + calls // 3
        assert calls // 3 > 100
        assert core is not None
        assert core.accumulator.memory_used == 0

    producing(check, partitions=3)
