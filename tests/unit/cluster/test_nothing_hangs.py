"""Brokers that take a request and never answer, in every way: each call ends with its time, so does close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kclient.cluster.operations import run_one
from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.wire.api import ApiKey
from tests.support import faults
from tests.support.clusters import answer_everything, connected, new_cluster, probe
from tests.support.fake_broker import FakeCluster, FakeSasl, Fault
from tests.support.leftovers import leftovers
from tests.support.virtual_loop import VirtualLoop

Brokers = Callable[..., FakeCluster]
TIMEOUT = 2.0
CLOSE = 5.0

BENEATH = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA)
APIS = [key for key in ApiKey if key not in BENEATH]
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "wonderland",
}


@pytest.mark.parametrize("key", APIS, ids=lambda key: key.name)
async def test_every_api_ends_in_time_and_works_again_afterwards(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey
) -> None:
    fakes = brokers(2)
    answer_everything(fakes, key)

    async def unanswered() -> None:
        began = loop.time()
        with pytest.raises(KafkaTimeoutError):
            await run_one(cluster, probe(key), "key", cluster.deadline(TIMEOUT * 1000))
        assert loop.time() - began <= TIMEOUT + 1

    async with connected(fakes) as cluster:
        for fault in (faults.silent, faults.trickles):
            for broker in fakes.brokers.values():
                broker.always(key, fault)
            await unanswered()
            for broker in fakes.brokers.values():
                broker.always(key, None)
            assert await run_one(cluster, probe(key), "key", cluster.deadline()) == "fine"
        for broker in fakes.brokers.values():
            broker.freeze()
        await unanswered()
        for broker in fakes.brokers.values():
            broker.thaw()
        assert await run_one(cluster, probe(key), "key", cluster.deadline()) == "fine"
        for broker in fakes.brokers.values():
            broker.freeze()
        began = loop.time()
        await cluster.close()
        assert loop.time() - began < CLOSE
    assert leftovers(loop) == [f"task {asyncio.current_task()!r}"]


@pytest.mark.parametrize("key", BENEATH, ids=lambda key: key.name)
@pytest.mark.parametrize(
    "fault", [faults.silent, faults.trickles, faults.closes, faults.resets, faults.garbles]
)
async def test_start_ends_in_time_wherever_the_brokers_stop_answering(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey, fault: Fault
) -> None:
    fakes = brokers(3, sasl=FakeSasl(users={"alice": "wonderland"}))
    for broker in fakes.brokers.values():
        broker.always(key, fault)
    cluster = new_cluster(fakes, **LOGIN)
    with pytest.raises(KafkaError):
        await cluster.start(cluster.deadline(TIMEOUT * 1000))
    assert loop.time() <= TIMEOUT + 1
    began = loop.time()
    await cluster.close()
    assert loop.time() - began < CLOSE


async def test_a_thousand_calls_to_dead_brokers_end_together(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers(3)
    answer_everything(fakes, ApiKey.LIST_GROUPS)
    async with connected(fakes) as cluster:
        for broker in fakes.brokers.values():
            broker.freeze()
        began = loop.time()
        calls = [
            run_one(cluster, probe(ApiKey.LIST_GROUPS), "key", cluster.deadline(TIMEOUT * 1000))
            for _ in range(1000)
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {KafkaTimeoutError}
        assert loop.time() - began <= TIMEOUT + 1
        assert len(loop.network.dialled) < 30
