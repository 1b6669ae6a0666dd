"""What is asked of brokers, and what comes of it when they fail, move and restart."""

from __future__ import annotations

import asyncio

import pytest

from kclient.errors import (
    BrokerError,
    FencedLeaderEpochError,
    FetchSessionIdNotFoundError,
    InvalidFetchSessionEpochError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownServerError,
    UnknownTopicIdError,
)
from kclient.wire.api import ApiKey
from tests.support.embedded import address
from tests.unit.consumer.reading import Topic, World, live, offsets, part, parts, take

EVERYTHING = list(range(300))


def test_every_record_of_every_partition_comes_once_and_in_order() -> None:
    async def story(world: World) -> None:
        world.fill_all(6, batches=3)
        async with world.reader(6) as consumer:
            found = await take(consumer, 1800)
            assert {partition: offsets(records) for partition, records in found.items()} == dict.fromkeys(
                parts(6), EVERYTHING
            )
            assert [record.value for record in found[part(3)]] == [b"%010d" % each for each in EVERYTHING]

    live(story, nodes=3)


def test_one_fetch_is_always_ahead_and_carries_only_what_changed() -> None:
    async def story(world: World) -> None:
        world.fill_all(3)
        async with world.reader(3) as consumer:
            await take(consumer, 300)
            full, *later = world.fetches
            assert (full.session_epoch, full.session_id) == (0, 0)
            assert sum(len(topic.partitions) for topic in full.topics) == 3
            assert [request.session_epoch for request in later] == list(range(1, len(later) + 1))
            world.fill(part(1))
            await take(consumer, 100)
            await asyncio.sleep(0.1)
            [topic] = world.fetches[-1].topics
            assert [(each.partition, each.fetch_offset) for each in topic.partitions] == [(1, 200)]

    live(story)


def test_a_partition_that_is_no_longer_read_is_always_forgotten() -> None:
    async def story(world: World) -> None:
        world.fill_all(3)
        async with world.reader(3) as consumer:
            await take(consumer, 300)
            consumer.assign(parts(2))
            await asyncio.sleep(2)
            forgotten = [request.forgotten_topics_data for request in world.fetches]
            assert [each.partitions for topics in forgotten for each in topics] == [[2]]
            world.fill(part(2))
            await asyncio.sleep(2)
            assert not await consumer.getmany()

    live(story)


def test_topics_are_named_by_their_ids_where_the_broker_knows_them() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            await take(consumer, 100)
            [topic] = world.fetches[0].topics
            assert topic.topic_id == world.broker.topics.topic(Topic).topic_id

    live(story)


@pytest.mark.parametrize("error", [FetchSessionIdNotFoundError, InvalidFetchSessionEpochError])
def test_a_lost_session_begins_anew_without_the_application_noticing(error: type[BrokerError]) -> None:
    async def story(world: World) -> None:
        world.fill_all(3)
        async with world.reader(3) as consumer:
            await take(consumer, 300)
            world.broker.faults.answer_with(ApiKey.FETCH, error)
            for each in parts(3):
                world.fill(each)
            found = await take(consumer, 300)
            assert {key: offsets(records) for key, records in found.items()} == dict.fromkeys(
                parts(3), EVERYTHING[100:200]
            )
            assert [request.session_epoch for request in world.fetches].count(0) == 2

    live(story)


@pytest.mark.parametrize(
    "error",
    [
        NotLeaderOrFollowerError,
        FencedLeaderEpochError,
        KafkaStorageError,
        OffsetNotAvailableError,
        UnknownTopicIdError,
        UnknownServerError,
    ],
)
@pytest.mark.parametrize("of", ["the fetch", "the partition"])
def test_what_a_broker_answers_instead_of_records_delays_and_loses_nothing(
    error: type[BrokerError], of: str
) -> None:
    async def story(world: World) -> None:
        world.fill_all(2, batches=3)
        if of == "the fetch":
            world.broker.faults.answer_with(ApiKey.FETCH, error, times=3)
        else:
            world.failures = [error] * 3
        async with world.reader(2) as consumer:
            found: list[int] = []
            while len(found) < 600:
                try:
                    got = await consumer.getmany(timeout_ms=60_000, max_records=70)
                except UnknownServerError:
                    continue
                found += [record.offset for records in got.values() for record in records]
            assert sorted(found) == sorted(EVERYTHING * 2)
            assert len(world.fetches) > 3

    live(story)


def test_what_the_application_may_not_read_it_is_told_and_reading_goes_on_when_it_may() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        world.failures = [TopicAuthorizationFailedError]
        async with world.reader() as consumer:
            with pytest.raises(TopicAuthorizationFailedError, match="topic orders, partition 0"):
                await consumer.getmany(timeout_ms=60_000)
            assert offsets((await take(consumer, 100))[part()]) == EVERYTHING[:100]

    live(story)


@pytest.mark.parametrize("handled", [True, False])
def test_a_broken_connection_loses_and_repeats_nothing(handled: bool) -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=3)
        world.broker.faults.close(ApiKey.FETCH, handled=handled, times=2)
        async with world.reader(max_partition_fetch_bytes=3000) as consumer:
            assert offsets((await take(consumer, 300))[part()]) == EVERYTHING

    live(story)


def test_a_new_leader_is_believed_when_the_old_one_names_it() -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1, 1)
        world.fill(part())
        async with world.reader() as consumer:
            await take(consumer, 100)
            before = world.requests.count("METADATA")
            leader = world.broker.topics.partition(*part()).leader
            world.broker.move_leader(*part(), leader % 3 + 1)
            world.fill(part())
            await take(consumer, 100)
            assert world.requests.count("METADATA") == before

    live(story, nodes=3)


def test_reading_goes_on_when_a_node_stops_and_when_the_whole_cluster_was_away() -> None:
    async def story(world: World) -> None:
        world.fill_all(3)
        async with world.reader(3) as consumer:
            await take(consumer, 300)
            await world.broker.stop_node(1)
            for each in parts(3):
                world.fill(each)
            await take(consumer, 300)
            await world.broker.stop_node(2)
            await world.broker.stop_node(3)
            assert not await consumer.getmany(timeout_ms=30_000)
            assert consumer.health().last_error is not None
            for node in (1, 2, 3):
                await world.broker.start_node(node)
            for each in parts(3):
                world.fill(each)
            found = await take(consumer, 300)
            assert {key: offsets(records) for key, records in found.items()} == dict.fromkeys(
                parts(3), EVERYTHING[200:]
            )

    live(story, nodes=3)


def test_the_replica_in_the_same_rack_is_read_and_the_leader_again_when_it_is_gone() -> None:
    async def story(world: World) -> None:
        world.fill_all(1)
        leader = world.broker.topics.partition(*part()).leader
        near = leader % 3 + 1
        async with world.reader(client_rack=f"rack-{near}") as consumer:
            await take(consumer, 100)
            assert consumer._engine.subscription.cursor(part()).replica == near
            await world.broker.stop_node(near)
            world.fill(part())
            assert offsets((await take(consumer, 100))[part()]) == EVERYTHING[100:200]

    live(
        story,
        nodes=3,
        racks=["rack-1", "rack-2", "rack-3"],
        config={"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
    )


def test_a_leader_that_froze_holds_nothing_up_once_another_leads() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        for each in parts(2):
            world.broker.move_leader(*each, 3)
        # Questions about metadata go to the connection that is open: here, to the broker that freezes.
        host, port = address(world.broker, 3)
        async with world.reader(2, bootstrap_servers=f"{host}:{port}") as consumer:
            await take(consumer, 200)
            await asyncio.sleep(5)  # no question of the beginning is open
            world.sim.network.silence(address(world.broker, 3))
            world.broker.move_leader(*part(1), 2)
            world.fill(part(1))
            # Long before the request would have timed out.
            found = await consumer.getmany(timeout_ms=5_000)
            assert offsets(found[part(1)]) == EVERYTHING[100:200]
            world.broker.move_leader(*part(0), 1)
            world.fill(part(0))
            found = await consumer.getmany(timeout_ms=5_000)
            assert offsets(found[part(0)]) == EVERYTHING[100:200]

    live(story, nodes=3)


def test_the_leader_is_asked_again_for_a_near_replica_when_that_advice_is_old() -> None:
    async def story(world: World) -> None:
        world.fill_all(1)
        leader = world.broker.topics.partition(*part()).leader
        async with world.reader(client_rack=f"rack-{leader % 3 + 1}", metadata_max_age_ms=10_000) as consumer:
            await take(consumer, 100)
            advised = consumer._engine.subscription.cursor(part()).replica_until
            await asyncio.sleep(15)
            assert consumer._engine.subscription.cursor(part()).replica_until > advised

    live(
        story,
        nodes=3,
        racks=["rack-1", "rack-2", "rack-3"],
        config={"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
    )


def test_a_batch_larger_than_every_limit_still_comes() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=2, records=10, size=50_000)
        async with world.reader(max_partition_fetch_bytes=1000, fetch_max_bytes=1000) as consumer:
            assert offsets((await take(consumer, 20))[part()]) == list(range(20))

    live(story)


def test_what_is_fetched_ahead_stays_within_its_bound_however_large_the_backlog() -> None:
    async def story(world: World) -> None:
        world.fill_all(4, batches=60, records=10, size=2_000)
        bound = 400_000
        options = {"prefetch_max_bytes": bound, "max_partition_fetch_bytes": 50_000}
        async with world.reader(4, **options) as consumer:
            most = 0
            left = 2400
            while left:
                await asyncio.sleep(1)  # plenty of time to fetch everything
                buffer = consumer._engine.buffer
                most = max(most, buffer.held + buffer.reserved)
                left -= sum(map(len, (await consumer.getmany(max_records=200)).values()))
            assert bound / 2 < most <= bound
            assert min(request.max_bytes for request in world.fetches) >= bound / 4

    live(story)


def test_partitions_that_nobody_takes_from_do_not_keep_others_from_being_fetched() -> None:
    async def story(world: World) -> None:
        world.fill_all(2, batches=60, records=10, size=2_000)
        options = {"prefetch_max_bytes": 100_000, "max_partition_fetch_bytes": 50_000}
        async with world.reader(2, **options) as consumer:
            left = 600
            while left:
                got = await consumer.getmany(part(0), timeout_ms=60_000)
                assert set(got) == {part(0)}
                left -= len(got[part(0)])

    live(story)


def test_paused_partitions_keep_what_was_fetched_and_are_not_fetched_again() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.reader(2) as consumer:
            await consumer.getmany(timeout_ms=10_000, max_records=10)
            consumer.pause(part(0))
            assert consumer.paused() == {part(0)}
            found = await take(
                consumer, 100 if consumer._engine.subscription.consumed()[part(0)].offset else 90
            )
            assert part(0) not in found
            await asyncio.sleep(3)
            asked = len(world.fetches)
            consumer.resume(part(0))
            rest = (await consumer.getmany())[part(0)]
            assert offsets(rest)[-1] == 99
            assert len(world.fetches) == asked

    live(story)


def test_a_topic_that_is_made_later_is_read_from_then_on() -> None:
    async def story(world: World) -> None:
        async with world.reader() as consumer:
            assert not await consumer.getmany(timeout_ms=5_000)
            world.fill(part())
            await take(consumer, 100)

    live(story)


def test_a_topic_that_is_made_anew_under_its_name_is_read_by_its_new_id() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            await take(consumer, 100)
            world.broker.topics.delete(world.broker.topics.topic(Topic))
            world.fill(part(), batches=2)
            await asyncio.sleep(10)
            assert [record.offset for record in (await take(consumer, 100))[part()]][-1] == 199

    live(story)


def test_without_a_group_a_subscription_is_to_all_partitions_also_of_topics_to_come() -> None:
    async def story(world: World) -> None:
        world.fill(part(1, "log-a"))
        consumer = world.consumer(metadata_max_age_ms=5_000)
        consumer.subscribe(pattern="log-.*")
        async with consumer:
            await take(consumer, 100)
            assert consumer.assignment() == set(parts(2, "log-a"))
            world.fill(part(0, "log-b"))
            world.fill(part(0, "other"))
            await take(consumer, 100)
            assert consumer.subscription() == {"log-a", "log-b"}

    live(story)


def test_a_group_is_not_joined_for_a_pattern_before_its_topics_are_known() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.consumer(group_id="billing") as consumer:
            consumer.subscribe(pattern="ord.*")
            await take(consumer, 100)
            assert world.requests.count("SYNC_GROUP") == 1

    live(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer", None])
def test_a_subscription_becomes_a_pattern_without_an_interruption(protocol: str | None) -> None:
    """With the same topics, nothing is to be given up while they are looked for."""

    async def story(world: World) -> None:
        world.fill(part())
        world.broker.create_topic("other", 1)
        group = {} if protocol is None else {"group_id": "billing", "group_protocol": protocol}
        async with world.consumer("orders", **group, auto_commit_interval_ms=3_600_000) as consumer:
            await take(consumer, 100)
            assert await consumer.getmany() == {}
            before = None if protocol is None else consumer.group_metadata()
            world.requests.clear()
            consumer.subscribe(pattern="ord.*")
            assert consumer.assignment() == {part()}
            await asyncio.sleep(30)
            world.fill(part())
            assert offsets((await take(consumer, 100))[part()]) == list(range(100, 200))
            assert consumer.subscription() == {"orders"}
            assert "LEAVE_GROUP" not in world.requests
            assert before is None or consumer.group_metadata() == before
            consumer.unsubscribe()
            consumer.subscribe(pattern="oth.*")
            assert not consumer.subscription()

    live(story)


def test_a_throttled_fetch_waits_as_long_as_the_broker_asks() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        world.broker.faults.throttle(ApiKey.FETCH, 5_000)
        async with world.reader() as consumer:
            await take(consumer, 100)
            world.fill(part())
            await take(consumer, 100)
            assert world.sim.loop.time() > 5

    live(story)


def test_the_end_of_a_partition_is_known_though_a_seek_crossed_the_answer_that_told_it() -> None:
    """In a session the broker tells an end once: whoever then waits for a lag of 0 would wait for ever."""

    async def story(world: World) -> None:
        world.fill_all(2)
        world.sim.network.latency = (0.005, 0.005)
        async with world.reader(2) as consumer:
            while not world.fetches:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            for partition in parts(2):
                consumer.seek(partition, 100)
            assert await consumer.getmany(timeout_ms=5_000) == {}
            assert world.fetches[-1].session_epoch > 0
            assert [consumer.lag(partition) for partition in parts(2)] == [0, 0]

    live(story)


def test_the_end_of_a_partition_is_known_to_those_who_take_it_up_again() -> None:
    """The session goes on meanwhile: nothing else is fetched from that broker."""

    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.reader(2) as consumer:
            for _ in range(2):
                await take(consumer, 200)
                await consumer.getmany(timeout_ms=2_000)
                consumer.assign([])
                await asyncio.sleep(2)
                consumer.assign(parts(2))
                for partition in parts(2):
                    consumer.seek(partition, 100)
                assert await consumer.getmany(timeout_ms=5_000) == {}
                assert [consumer.lag(partition) for partition in parts(2)] == [0, 0]
                for partition in parts(2):
                    consumer.seek(partition, 0)

    live(story)
