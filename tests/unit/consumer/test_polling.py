"""How the application gets records: the calls, their limits, and how they end."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import (
    ClientClosedError,
    ConfigurationError,
    IllegalStateError,
    KafkaTimeoutError,
    WakeupError,
)
from kclient.records.batch import ModernBatch
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import Topic, World, live, offsets, part, parts, take


def test_a_call_gives_no_more_than_it_was_asked_for_and_a_batch_is_decoded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[int] = []
    decode = ModernBatch._records

    def counting(batch: ModernBatch, origin: Any) -> Any:
        decoded.append(batch.base_offset)
        return decode(batch, origin)

    monkeypatch.setattr(ModernBatch, "_records", counting)

    async def story(world: World) -> None:
        world.fill(part(), batches=3)
        async with world.reader(max_poll_records=7) as consumer:
            found: list[int] = []
            while len(found) < 280:
                got = await consumer.getmany(timeout_ms=1000)
                assert len(got[part()]) <= 7
                found += offsets(got[part()])
            found += offsets((await consumer.getmany(max_records=1000))[part()])
            assert found == list(range(300))
            assert decoded == [0, 100, 200]

    live(story)


def test_records_arrow_and_single_records_can_be_taken_in_turn() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=3)
        async with world.reader() as consumer:
            found: list[Any] = offsets((await consumer.getmany(timeout_ms=1000, max_records=30))[part()])
            found += (await consumer.getarrow(max_records=30)).column("offset").to_pylist()
            found += [(await consumer.getone()).offset for _ in range(30)]
            found += (await consumer.getarrow(max_records=150)).column("offset").to_pylist()
            found += offsets((await consumer.getmany(max_records=5))[part()])
            found.append((await consumer.getone()).offset)
            found += offsets((await consumer.getmany())[part()])
            assert found == list(range(300))
            assert consumer.metrics().records_consumed == 300

    live(story)


def test_arrow_batches_carry_what_records_do() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.reader(2) as consumer:
            table = await consumer.getarrow(timeout_ms=1000)
            while table.num_rows < 200:
                more = await consumer.getarrow(timeout_ms=1000)
                assert more.num_rows
                table = type(table).from_pylist(table.to_pylist() + more.to_pylist(), table.schema)
            await consumer.seek_to_beginning()
            records = [record for found in (await take(consumer, 200)).values() for record in found]
            ours = {(r.topic, r.partition, r.offset, r.key, r.value) for r in records}
            rows = table.to_pylist()
            assert ours == {(r["topic"], r["partition"], r["offset"], r["key"], r["value"]) for r in rows}
            assert (await consumer.getarrow(timeout_ms=10)).num_rows == 0

    live(story)


def test_arrow_has_only_the_columns_that_are_asked_for_and_they_may_change_within_a_batch() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=3)
        async with world.reader() as consumer:
            whole = await consumer.getarrow(timeout_ms=1000)
            assert whole.num_rows == 300
            await consumer.seek_to_beginning()
            at = 0
            for columns, most in ((["value"], 130), (["timestamp", "key"], 30), (None, 75), (["value"], 999)):
                table = await consumer.getarrow(timeout_ms=1000, max_records=most, columns=columns)
                part_of_all = whole.slice(at, most)
                assert table == (part_of_all if columns is None else part_of_all.select(columns))
                assert await consumer.position(part()) == at + table.num_rows
                at += table.num_rows
            assert at == 300
            nothing = await consumer.getarrow(columns=["value", "key"])
            assert (nothing.num_rows, nothing.schema.names) == (0, ["value", "key"])
            with pytest.raises(ConfigurationError, match="no column 'valeu'"):
                await consumer.getarrow(columns=["valeu"])

    live(story)


def test_one_call_can_be_limited_to_some_partitions() -> None:
    async def story(world: World) -> None:
        world.fill_all(3)
        async with world.reader(3) as consumer:
            assert set(await consumer.getmany(part(1), timeout_ms=1000)) == {part(1)}
            assert (await consumer.getone(part(2))).partition == 2
            assert (await consumer.getone(part(0))).partition == 0
            assert (await consumer.getone(part(2))).offset == 1
            rest = await take(consumer, 197)
            assert {key: len(records) for key, records in rest.items()} == {part(0): 99, part(2): 98}

    live(story)


def test_a_call_waits_as_long_as_it_is_told_and_gives_what_comes_meanwhile() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(auto_offset_reset="latest") as consumer:
            await consumer.position(part())
            began = world.sim.loop.time()
            assert await consumer.getmany(timeout_ms=2000) == {}
            assert world.sim.loop.time() - began == pytest.approx(2, abs=0.01)
            world.sim.loop.call_later(5, world.fill, part())
            assert len((await consumer.getmany(timeout_ms=60_000))[part()]) == 100
            assert world.sim.loop.time() - began < 8

    live(story)


def test_a_call_without_a_wait_lets_the_client_work() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            for _ in range(200):
                if await consumer.getmany():
                    break
                await asyncio.sleep(0.01)
            else:
                pytest.fail("nothing came")

    live(story)


def test_cancelled_calls_lose_nothing() -> None:
    async def story(world: World) -> None:
        world.broker.create_topic("orders", 1)
        async with world.reader() as consumer:
            found: list[int] = []
            for _ in range(50):
                world.sim.loop.call_later(world.sim.random.uniform(0, 0.02), world.fill, part(), 1, 10)
                kind = (
                    consumer.getone() if world.sim.random.random() < 0.5 else consumer.getmany(timeout_ms=100)
                )
                waiting = asyncio.ensure_future(kind)
                await asyncio.sleep(world.sim.random.uniform(0, 0.04))
                waiting.cancel()
                await asyncio.wait([waiting])
                if not waiting.cancelled():
                    got: Any = waiting.result()
                    found += offsets(got[part()]) if isinstance(got, dict) and got else []
                    found += [] if isinstance(got, dict) else [got.offset]
            await asyncio.sleep(1)
            while len(found) < 500:
                found += offsets((await consumer.getmany(timeout_ms=1000))[part()])
            assert found == list(range(500))

    for seed in range(5):
        live(story, seed=seed)


def test_several_callers_share_what_comes() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            single = [asyncio.ensure_future(consumer.getone()) for _ in range(80)]
            await asyncio.sleep(0)
            many = asyncio.ensure_future(consumer.getmany(timeout_ms=60_000, max_records=10))
            last = await asyncio.gather(*(consumer.getone() for _ in range(10)))
            found = [*(await asyncio.gather(*single)), *last, *(await many)[part()]]
            assert sorted(offsets(found)) == list(range(100))

    live(story)


def test_a_wakeup_ends_the_waiting_call_or_the_next_one_and_loses_nothing() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            await take(consumer, 100)
            waiting = asyncio.ensure_future(consumer.getone())
            await asyncio.sleep(1)
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await waiting
            consumer.wakeup()
            world.fill(part())
            with pytest.raises(WakeupError):
                await consumer.getmany(timeout_ms=1000)
            assert offsets((await take(consumer, 100))[part()]) == list(range(100, 200))

    live(story)


def test_a_wakeup_ends_a_loop_before_the_next_record_though_there_are_some_in_hand() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            for expected in range(10):
                assert (await anext(consumer)).offset == expected
            for call in (consumer.__anext__, consumer.getone):
                consumer.wakeup()
                with pytest.raises(WakeupError):
                    await call()
                assert await consumer.position(part()) == 10
            assert (await consumer.getone()).offset == 10

    live(story)


def test_a_wakeup_is_for_calls_that_wait_for_records_and_no_other_call_takes_it() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            await take(consumer, 100)
            consumer.wakeup()
            await consumer.seek_to_beginning()
            assert await consumer.position(part()) == 0
            await consumer.seek_to_timestamp(0, part())
            await consumer.seek_to_end(part())
            assert (await consumer.end_offsets([part()]))[part()] == 100
            with pytest.raises(WakeupError):
                await consumer.getmany(timeout_ms=1000)

    live(story)


def test_a_wakeup_during_a_seek_ends_the_next_call_for_records() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            await take(consumer, 100)
            seeking = asyncio.ensure_future(consumer.seek_to_beginning())
            await asyncio.sleep(0)
            consumer.wakeup()
            assert not seeking.done()
            await seeking
            with pytest.raises(WakeupError):
                await consumer.getone()
            assert (await consumer.getone()).offset == 0

    live(story)


@pytest.mark.parametrize("one_by_one", [True, False])
def test_records_taken_away_between_finding_and_giving_them_end_no_loop(one_by_one: bool) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.consumer(Topic) as consumer:
            poller, subscription = consumer._engine.poller, consumer._engine.subscription
            deal = poller.deal
            dealt: list[bool] = []

            def interrupted(wanted: frozenset[TopicPartition] | None) -> bool:
                found = deal(wanted)
                if found and not dealt:
                    dealt.append(found)
                    subscription.fence([part()])  # as the client's thread may do just now
                    subscription.release([part()])
                return found

            poller.deal = interrupted  # type: ignore[method-assign]
            record = await (consumer.getone() if one_by_one else anext(consumer))
            assert record.offset == 0
            assert dealt

    live(story)


def test_a_loop_ends_when_the_consumer_is_closed_and_other_calls_say_so() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        consumer = world.reader()
        await consumer.start()
        found: list[int] = []

        async def read() -> None:
            found.extend([record.offset async for record in consumer])

        reading = asyncio.ensure_future(read())
        waiting = asyncio.ensure_future(consumer.getmany(part(), timeout_ms=60_000))
        await asyncio.sleep(5)
        await consumer.stop()
        await reading
        with pytest.raises(ClientClosedError):
            await waiting
        with pytest.raises(ClientClosedError):
            await consumer.getone()
        with pytest.raises(ClientClosedError):
            await consumer.start()
        await consumer.close()
        assert "closed" in repr(consumer)

    live(story)


def test_a_loop_ends_when_nothing_came_for_as_long_as_it_was_told() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(consumer_timeout_ms=3000) as consumer:
            assert [record.offset async for record in consumer] == list(range(100))
            assert 3 < world.sim.loop.time() < 5

    live(story)


def test_pausing_in_the_middle_of_a_loop_keeps_the_rest_for_later() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(consumer_timeout_ms=1000) as consumer:
            seen: list[int] = []
            async for record in consumer:
                seen.append(record.offset)
                if record.offset == 41:
                    consumer.pause(part())
            assert seen == list(range(42))
            consumer.resume(part())
            assert [record.offset async for record in consumer] == list(range(42, 100))

    live(story)


def test_a_partition_that_is_taken_away_in_the_middle_of_a_loop_gives_nothing_more() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.consumer(Topic, consumer_timeout_ms=1000) as consumer:
            seen = []
            async for record in consumer:
                seen.append((record.partition, record.offset))
                if len(seen) == 10:
                    gone = record.partition
                    consumer._engine.subscription.revoke([part(gone)])
            assert [each for each in seen if each[0] == gone] == [(gone, offset) for offset in range(10)]
            assert len(seen) == 110

    live(story)


def test_fenced_partitions_give_nothing_until_they_are_released() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.consumer(Topic) as consumer:
            first = await consumer.getone()
            positions = consumer._engine.subscription
            positions.fence(parts(2))
            assert not await consumer.getmany(timeout_ms=1000)
            assert positions.consumed()[part(first.partition)].offset == 1
            waiting = asyncio.ensure_future(take(consumer, 199))
            await asyncio.sleep(1)
            positions.release(parts(2))
            found = await waiting
            assert sorted(offsets(found[part(first.partition)])) == list(range(1, 100))

    live(story)


def test_a_consumer_that_cannot_find_the_cluster_says_so_in_time_and_may_try_again() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        consumer = world.reader()
        await world.broker.stop_node(1)
        with pytest.raises(KafkaTimeoutError):
            await consumer.start(timeout_ms=3000)
        await world.broker.start_node(1)
        async with consumer:
            await take(consumer, 100)
            await consumer.start()  # does nothing

    live(story)


def test_closing_ends_in_time_when_the_cluster_is_gone() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        consumer = world.consumer("orders", group_id="billing")
        await consumer.start()
        await take(consumer, 100)
        world.broker.faults.drop(None, times=None)
        began = world.sim.loop.time()
        await consumer.close(timeout_ms=2000)
        assert world.sim.loop.time() - began <= 2.2

    live(story)


def test_a_consumer_that_was_not_started_is_new_and_starts_with_the_first_call() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        consumer = world.reader()
        assert consumer.health().cluster.connected is False
        assert (
            repr(consumer)
            == "<AsyncConsumer kclient new, subscribed to partitions assigned by hand, 1 partitions>"
        )
        assert (await consumer.getone()).offset == 0
        await consumer.close()

    live(story)


def test_contradictory_subscriptions_are_refused() -> None:
    consumer = AsyncConsumer()
    with pytest.raises(ConfigurationError, match="exactly one"):
        consumer.subscribe()
    with pytest.raises(ConfigurationError, match="exactly one"):
        consumer.subscribe(["a"], pattern="b")
    with pytest.raises(ConfigurationError, match="a list of names"):
        consumer.subscribe("orders")
    with pytest.raises(ConfigurationError, match="no regular expression"):
        consumer.subscribe(pattern="(")
    with pytest.raises(ConfigurationError, match="group_protocol"):
        consumer.subscribe(server_pattern="a.*")
    consumer.subscribe(["a"])
    with pytest.raises(IllegalStateError, match="unsubscribe before assigning"):
        consumer.assign([part()])
    consumer.unsubscribe()
    consumer.assign([part()])
    with pytest.raises(IllegalStateError, match="unsubscribe before subscribing"):
        consumer.subscribe(["a"])


def test_a_consumer_that_is_never_closed_warns_and_is_closed() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        consumer: AsyncConsumer[Any, Any] | None = world.reader()
        assert consumer is not None
        await consumer.start()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            consumer = None
            gc.collect()
        assert [str(each.message) for each in caught if each.category is ResourceWarning]
        await asyncio.sleep(1)

    live(story)


def test_health_and_metrics_tell_how_it_goes() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.reader(2) as consumer:
            await take(consumer, 200)
            consumer.pause(part(1))
            await asyncio.sleep(2)
            health, metrics = consumer.health(), consumer.metrics()
            assert health.cluster.connected
            assert health.group is None
            assert health.last_poll_age == pytest.approx(2, abs=0.2)
            assert {
                key: (each.state, each.position, each.lag, each.paused)
                for key, each in health.partitions.items()
            } == {
                part(0): ("fetching", 100, 0, False),
                part(1): ("fetching", 100, 0, True),
            }
            assert (metrics.records_consumed, metrics.lag, metrics.bytes_buffered) == (200, 0, 0)
            assert metrics.fetches > 1
            assert 0 < metrics.fetch_latency < 1
            assert metrics.bytes_fetched > 200 * 15

    live(story)


def test_an_answer_that_never_comes_is_asked_for_again() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        world.broker.faults.drop(ApiKey.FETCH, times=1)
        async with world.reader(request_timeout_ms=2000) as consumer:
            assert offsets((await take(consumer, 100))[part()]) == list(range(100))

    live(story)
