"""Finding brokers, keeping in touch with them, letting go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.config import Endpoint
from kclient.errors import (
    AuthenticationError,
    ClientClosedError,
    ClusterAuthorizationFailedError,
    ConfigurationError,
    IncompatibleBrokerError,
    KafkaConnectionError,
    KafkaTimeoutError,
)
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from kclient.wire.messages.metadata import FindCoordinatorRequest, MetadataResponse
from kclient.wire.versions import VersionRange
from tests.support import faults
from tests.support.clusters import connected, new_cluster
from tests.support.connecting import ask
from tests.support.fake_broker import FakeCluster, FakeSasl
from tests.support.virtual_loop import VirtualLoop, until

Brokers = Callable[..., FakeCluster]
FIND = ApiKey.FIND_COORDINATOR
REBOOTSTRAP_REQUIRED = 129


async def find(cluster: Cluster, node_id: int | None, deadline: Deadline, key: str = "k") -> str:
    response = await cluster.call(node_id, lambda _: ask(key), FindCoordinatorRequest, deadline)
    return response.coordinators[0].key


def failing_bootstrap(brokers: FakeCluster, *more: str) -> str:
    return ",".join([*more, brokers.bootstrap])


# Finding the cluster


async def test_start_knows_every_broker_after_asking_one(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(3)
    fakes[2].rack = "b"
    async with connected(fakes) as cluster:
        snapshot = cluster.metadata.snapshot
        assert {node: broker.endpoint for node, broker in snapshot.brokers.items()} == {
            node: Endpoint(f"broker-{node}", 9092) for node in (1, 2, 3)
        }
        assert snapshot.brokers[2].rack == "b"
        assert snapshot.cluster_id == "fake"
        assert len(loop.network.dialled) == 1
        assert fakes.requests[-1].request.topics == []


@pytest.mark.parametrize("seed", range(5))
async def test_start_finds_the_one_server_that_lives(loop: VirtualLoop, brokers: Brokers, seed: int) -> None:
    fakes = brokers()
    loop.network.names["nowhere"] = []
    servers = failing_bootstrap(fakes, "dead-1:9092", "nowhere:9092", "dead-2:9092")
    cluster = new_cluster(fakes, bootstrap_servers=servers)
    cluster.random.seed(seed)
    await cluster.start(cluster.deadline())
    assert set(cluster.metadata.snapshot.brokers) == {1}
    assert loop.time() < 1
    await cluster.close()


@pytest.mark.parametrize("seed", range(5))
async def test_start_gets_past_servers_that_swallow_packets(
    loop: VirtualLoop, brokers: Brokers, seed: int
) -> None:
    fakes = brokers()
    silent = [f"silent-{number}" for number in range(4)]
    for host in silent:
        loop.network.silence((host, 9092))
    servers = failing_bootstrap(fakes, *silent)
    cluster = new_cluster(fakes, bootstrap_servers=servers)
    cluster.random.seed(seed)
    await cluster.start(cluster.deadline())
    assert loop.time() <= 4 * 10 + 2
    await cluster.close()


async def test_start_with_every_server_dead_names_each_failure(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    fakes[1].stop()
    loop.network.names["nowhere"] = []
    servers = failing_bootstrap(fakes, "dead:9093", "nowhere:9092")
    cluster = new_cluster(fakes, bootstrap_servers=servers, default_api_timeout_ms=5000)
    with pytest.raises(KafkaTimeoutError) as caught:
        await cluster.start(cluster.deadline())
    assert loop.time() == pytest.approx(5)
    message = str(caught.value)
    assert "cannot connect to broker-1:9092: Connection refused" in message
    assert "cannot connect to dead:9093: Connection refused" in message
    assert "cannot resolve 'nowhere'" in message
    assert isinstance(caught.value.__cause__, KafkaConnectionError)
    await cluster.close()


async def test_start_with_every_server_silent_ends_at_its_deadline_and_says_so(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(2)
    fakes[1].freeze()
    fakes[2].freeze()
    cluster = new_cluster(fakes, default_api_timeout_ms=35_000)
    with pytest.raises(KafkaTimeoutError, match="broker-1:9092") as caught:
        await cluster.start(cluster.deadline())
    assert "broker-2:9092" in str(caught.value)
    assert loop.time() == pytest.approx(35)
    await cluster.close()


async def test_a_server_that_comes_up_late_is_found(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    fakes[1].stop()
    loop.call_later(20, fakes[1].start)
    async with connected(fakes):
        assert 20 < loop.time() < 22


async def test_a_wrong_password_ends_start_at_once(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(3, sasl=FakeSasl(users={"alice": "wonderland"}))
    cluster = new_cluster(
        fakes,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password="wrong",
    )
    with pytest.raises(AuthenticationError):
        await cluster.start(cluster.deadline())
    assert loop.time() < 0.1
    await asyncio.sleep(60)
    assert fakes.count(ApiKey.SASL_AUTHENTICATE) == 1
    await cluster.close()


async def test_a_port_that_speaks_tls_ends_start_at_once(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    fakes[1].always(ApiKey.API_VERSIONS, faults.sends(bytes.fromhex("15030300020250")))
    cluster = new_cluster(fakes)
    with pytest.raises(ConfigurationError, match="speaks TLS"):
        await cluster.start(cluster.deadline())
    assert loop.time() < 0.1
    await cluster.close()


async def test_a_broker_that_knows_no_brokers_yet_is_asked_again(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    empty = MetadataResponse(brokers=[], topics=[])
    fakes[1].plan(ApiKey.METADATA, faults.answers(empty), faults.answers(empty))
    async with connected(fakes) as cluster:
        assert set(cluster.metadata.snapshot.brokers) == {1}
        assert loop.time() > 0.2


async def test_a_final_error_about_the_cluster_itself_is_told_at_once(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    fakes[1].always(ApiKey.METADATA, faults.fails(31))
    cluster = new_cluster(fakes)
    with pytest.raises(ClusterAuthorizationFailedError):
        await cluster.start(cluster.deadline())
    assert loop.time() < 0.1
    await cluster.close()


# Keeping in touch


async def test_when_all_known_brokers_have_moved_the_bootstrap_names_lead_to_them(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(3)
    loop.network.names["kafka"] = ["broker-1", "broker-2", "broker-3"]
    async with connected(fakes, bootstrap_servers="kafka:9092") as cluster:
        for node in (1, 2, 3):
            assert await find(cluster, node, cluster.deadline()) == "k"
        for node in (1, 2, 3):
            fakes[node].move((f"moved-{node}", 9099))
        loop.network.names["kafka"] = ["moved-1", "moved-2", "moved-3"]
        loop.network.listen(("moved-2", 9092), fakes[2]._accept)
        began = loop.time()
        await cluster.metadata.refreshed(cluster.deadline())
        assert loop.time() - began < 5
        for node in (1, 2, 3):
            assert cluster.metadata.snapshot.brokers[node].endpoint == Endpoint(f"moved-{node}", 9099)
            assert await find(cluster, node, cluster.deadline()) == "k"


async def test_a_broker_at_a_new_address_is_used_there_and_the_old_way_is_dropped(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(2)
    async with connected(fakes, bootstrap_servers="broker-1:9092") as cluster:
        await find(cluster, 2, cluster.deadline())
        # Its old address still answers, as when a port is taken over by somebody else.
        fakes[2].address = ("broker-2", 9999)
        fakes[2].start()
        await cluster.metadata.refreshed(cluster.deadline())
        await asyncio.sleep(1)
        assert [broker.address for broker in cluster.health().brokers] == ["broker-1:9092"]
        await find(cluster, 2, cluster.deadline())
        assert loop.network.dialled[-1] == ("broker-2", 9999)


async def test_whoever_waits_for_a_way_that_is_dropped_gets_an_error_to_retry(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(2)
    async with connected(fakes, bootstrap_servers="broker-1:9092") as cluster:
        fakes[2].freeze()
        call = asyncio.create_task(find(cluster, 2, cluster.deadline()))
        await asyncio.sleep(1)
        fakes[2].address = ("broker-2", 9999)
        fakes[2].start()
        await cluster.metadata.refreshed(cluster.deadline())
        with pytest.raises(KafkaConnectionError, match="was given up"):
            await call
        assert loop.time() < 2


async def test_a_link_with_requests_in_flight_is_kept_until_they_are_answered(brokers: Brokers) -> None:
    fakes = brokers(2)
    async with connected(fakes, bootstrap_servers="broker-1:9092") as cluster:
        fakes[2].plan(FIND, faults.delayed(3))
        call = asyncio.create_task(find(cluster, 2, cluster.deadline()))
        await asyncio.sleep(1)
        fakes[2].address = ("broker-2", 9999)
        await cluster.metadata.refreshed(cluster.deadline())
        assert await call == "k"
        assert len(cluster.health().brokers) == 2
        await cluster.metadata.refreshed(cluster.deadline())
        assert len(cluster.health().brokers) == 1


async def test_a_broker_that_restarts_is_reached_again(brokers: Brokers) -> None:
    fakes = brokers(2)
    async with connected(fakes) as cluster:
        await find(cluster, 2, cluster.deadline())
        fakes[2].stop()
        await asyncio.sleep(1)
        with pytest.raises(KafkaConnectionError):
            await find(cluster, 2, cluster.deadline())
        fakes[2].start()
        assert await find(cluster, 2, cluster.deadline()) == "k"


async def test_a_cluster_that_asks_for_it_is_found_anew_on_fresh_connections(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(2)
    fakes.add_topic("t")
    async with connected(fakes, bootstrap_servers="broker-1:9092") as cluster:
        cluster.metadata.follow(["t"])
        await cluster.metadata.refreshed(cluster.deadline())
        await find(cluster, 2, cluster.deadline())
        # The name now leads to another cluster; the old broker says so on the connection it still has.
        fakes[1].always(ApiKey.METADATA, faults.fails(REBOOTSTRAP_REQUIRED))
        fakes[2].always(ApiKey.METADATA, faults.fails(REBOOTSTRAP_REQUIRED))
        other = FakeCluster(loop, 1)
        other.cluster_id = "another"
        other.brokers[1].address = ("other-1", 9092)
        other.brokers[1].start()
        fakes[1].start()
        loop.network.names["broker-1"] = ["other-1"]
        await cluster.metadata.refreshed(cluster.deadline())
        assert cluster.metadata.snapshot.cluster_id == "another"
        assert set(cluster.metadata.snapshot.brokers) == {1}
        assert loop.time() < 2


async def test_a_broker_the_metadata_does_not_name_is_asked_about(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    async with connected(fakes) as cluster:
        with pytest.raises(KafkaConnectionError, match="broker 9 is not in the cluster"):
            await find(cluster, 9, cluster.deadline())
        count = fakes.count(ApiKey.METADATA)
        await until(lambda: fakes.count(ApiKey.METADATA) == count + 1)
        assert loop.time() < 1


async def test_a_hint_moves_requests_at_once(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(2)
    fakes.add_topic("t", leaders=[1])
    async with connected(fakes) as cluster:
        cluster.metadata.follow(["t"])
        snapshot = await cluster.metadata.refreshed(cluster.deadline())
        cluster.metadata.update(snapshot.with_leader(TopicPartition("t", 0), 2, 7))
        assert cluster.metadata.snapshot.leader(TopicPartition("t", 0)) == 2
        # An answer that lags behind the hint does not undo it.
        await cluster.metadata.refreshed(cluster.deadline())
        assert cluster.metadata.snapshot.leader(TopicPartition("t", 0)) == 2
        assert loop.time() < 1


# Choosing a broker


async def test_any_broker_means_the_least_busy_open_connection(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(3)
    async with connected(fakes) as cluster:
        for node in (1, 2, 3):
            await find(cluster, node, cluster.deadline())
        for node in (1, 2):
            fakes[node].plan(FIND, faults.delayed(5))
        busy = [asyncio.create_task(find(cluster, node, cluster.deadline(), "busy")) for node in (1, 2)]
        await asyncio.sleep(0.1)
        for _ in range(3):
            await find(cluster, None, cluster.deadline(), "free")
        free = [
            seen.node_id
            for seen in fakes.requests
            if seen.key == FIND and seen.request.coordinator_keys == ["free"]
        ]
        assert free == [3, 3, 3]
        await asyncio.gather(*busy)
        assert len(loop.network.dialled) == 3


@pytest.mark.parametrize("seed", range(5))
async def test_brokers_that_keep_failing_are_tried_last(
    loop: VirtualLoop, brokers: Brokers, seed: int
) -> None:
    fakes = brokers(3)
    cluster = new_cluster(fakes, bootstrap_servers="broker-3:9092")
    cluster.random.seed(seed)
    await cluster.start(cluster.deadline())
    for node in (1, 2):
        fakes[node].freeze()
        for _ in range(2):
            with pytest.raises(KafkaConnectionError):
                await find(cluster, node, cluster.deadline())
    fakes[3].drop_connections()
    await asyncio.sleep(0.01)
    began = loop.time()
    await find(cluster, None, cluster.deadline())
    assert loop.time() - began < 1
    await cluster.close()


# One attempt


async def test_a_version_is_negotiated_with_the_broker_that_is_asked(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(2)
    fakes[2].versions[FIND] = VersionRange(0, 2)
    built: list[int] = []

    def build(version: int) -> FindCoordinatorRequest:
        built.append(version)
        return ask("k") if version >= 4 else FindCoordinatorRequest(key="k")

    async with connected(fakes) as cluster:
        for node in (1, 2):
            await cluster.call(node, build, FindCoordinatorRequest, cluster.deadline())
        await cluster.call(1, build, FindCoordinatorRequest, cluster.deadline(), newest=3)
        assert built == [6, 2, 3]
        assert loop.time() < 1


async def test_a_limit_that_the_broker_no_longer_speaks_is_an_incompatible_broker(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    fakes[1].versions[FIND] = VersionRange(4, 6)
    async with connected(fakes) as cluster:
        with pytest.raises(IncompatibleBrokerError, match=r"kclient speaks 0-3, the broker 4-6"):
            await cluster.call(1, lambda _: ask("k"), FindCoordinatorRequest, cluster.deadline(), newest=3)
        assert fakes.count(FIND) == 0
        assert loop.time() < 1


async def test_a_request_has_its_own_time_within_the_call_and_never_more_than_the_call(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    async with connected(fakes, request_timeout_ms=5000) as cluster:
        for timeout_ms, expected in ((60_000, 5), (2000, 2)):
            fakes[1].plan(FIND, faults.silent)
            began = loop.time()
            with pytest.raises(KafkaConnectionError, match=f"did not end within {expected} s"):
                await find(cluster, 1, cluster.deadline(timeout_ms))
            assert loop.time() - began == pytest.approx(expected, abs=0.2)


async def test_a_call_whose_time_is_over_does_not_close_the_connection_under_others(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    async with connected(fakes) as cluster:
        fakes[1].plan(FIND, faults.delayed(1))
        other = asyncio.create_task(find(cluster, 1, cluster.deadline(), "other"))
        await asyncio.sleep(0.1)
        with pytest.raises(KafkaTimeoutError):
            await find(cluster, 1, cluster.deadline(0))
        assert await other == "other"
        assert len(loop.network.dialled) == 1


# Letting go


async def test_a_closed_cluster_says_so(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    async with connected(fakes) as cluster:
        pass
    for node in (None, 1):
        with pytest.raises(ClientClosedError):
            await find(cluster, node, cluster.deadline())
    with pytest.raises(ClientClosedError):
        await cluster.connection(1, cluster.deadline())
    with pytest.raises(ClientClosedError):
        await cluster.metadata.refreshed(cluster.deadline())
    await cluster.close()
    assert loop.time() < 1


@pytest.mark.parametrize("trouble", ["none", "dead", "frozen", "mute"])
async def test_close_ends_at_once_whatever_state_the_brokers_are_in(
    loop: VirtualLoop, brokers: Brokers, trouble: str
) -> None:
    fakes = brokers(3)
    async with connected(fakes) as cluster:
        await find(cluster, 1, cluster.deadline())
        for broker in fakes.brokers.values():
            if trouble == "dead":
                broker.stop()
            elif trouble == "frozen":
                broker.freeze()
            elif trouble == "mute":
                for key in ApiKey:
                    broker.always(key, faults.silent)
        calls = [asyncio.create_task(find(cluster, node, cluster.deadline())) for node in (1, 1, 2, 3, None)]
        cluster.metadata.ask()
        await asyncio.sleep(0.5)
        began = loop.time()
        await cluster.close()
        assert loop.time() - began < 0.1
        await asyncio.gather(*calls, return_exceptions=True)


async def test_close_during_start_leaves_nothing(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    fakes[1].always(ApiKey.API_VERSIONS, faults.silent)
    cluster = new_cluster(fakes)
    start = asyncio.create_task(cluster.start(cluster.deadline()))
    await asyncio.sleep(1)
    await cluster.close()
    with pytest.raises(ClientClosedError):
        await start
    assert loop.time() < 1.1


# Health


async def test_health_shows_connections_errors_and_ages(brokers: Brokers) -> None:
    def throttle(exchange: Any) -> None:
        response = exchange.response()
        response.throttle_time_ms = 8000
        exchange.reply(response)

    fakes = brokers(2)
    cluster = new_cluster(fakes, bootstrap_servers="broker-1:9092")
    health = cluster.health()
    assert (health.connected, health.brokers, health.metadata_age) == (False, (), None)
    await cluster.start(cluster.deadline())
    fakes[1].plan(FIND, throttle)
    fakes[2].stop()
    await find(cluster, 1, cluster.deadline())
    with pytest.raises(KafkaConnectionError):
        await find(cluster, 2, cluster.deadline())
    await asyncio.sleep(3)
    held = asyncio.create_task(find(cluster, 1, cluster.deadline()))
    await asyncio.sleep(0)
    health = cluster.health()
    assert health.connected
    assert health.cluster_id == "fake"
    assert health.metadata_age == pytest.approx(3, abs=0.1)
    assert health.last_error is None
    one, two = health.brokers
    assert (one.address, one.node_id, one.connected, one.requests_pending) == ("broker-1:9092", 1, True, 1)
    assert one.throttled_for == pytest.approx(5, abs=0.1)
    assert one.last_error is None
    assert (two.address, two.node_id, two.connected, two.requests_pending) == ("broker-2:9092", 2, False, 0)
    assert two.last_error == "cannot connect to broker-2:9092: Connection refused"
    assert await held == "k"
    fakes[1].stop()
    cluster.metadata.ask()
    await asyncio.sleep(3)
    health = cluster.health()
    assert not health.connected
    assert health.last_error is not None
    assert "no broker can be reached" in health.last_error
    await cluster.close()
