"""Every error code in every answer: passing ones are tried again with a back-off, all others are raised once.

The passing codes are listed as Kafka's own clients have them, not read from ours.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kclient.cluster.operations import run_one
from kclient.cluster.routes import Coordinator, CoordinatorKind, Leader
from kclient.errors import BROKER_ERRORS, AuthenticationError, BrokerError, UnknownCodeError
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from kclient.wire.messages import request_class
from tests.support import faults
from tests.support.clusters import Describe, Described, answer_everything, connected, new_cluster, probe
from tests.support.fake_broker import FakeCluster, FakeSasl
from tests.support.virtual_loop import VirtualLoop

Brokers = Callable[..., FakeCluster]

REFRESHING = (3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103)
PLAIN = (2, 7, 14, 15, 16, 19, 20, 41, 51, 70, 71, 75, 78, 88, 89, 106, 122, 123, 133)
PASSING = REFRESHING + PLAIN
FINAL = tuple(code for code in BROKER_ERRORS if code not in PASSING)
UNKNOWN_CODE = 9999
UNSUPPORTED_VERSION, UNSUPPORTED_MECHANISM, REBOOTSTRAP_REQUIRED = 35, 33, 129

# Part of every connection or of the metadata, so not asked through operations; they have tests of their own.
BENEATH = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA)


def has_codes(key: ApiKey) -> bool:
    response = request_class(key).response
    version = response.versions.last
    return faults.set_codes(faults.filled(response, version), 1, version) > 0


APIS = [key for key in ApiKey if key not in BENEATH and has_codes(key)]


def kind_of(code: int) -> type[BrokerError]:
    return BROKER_ERRORS.get(code, UnknownCodeError)


def test_the_passing_codes_are_those_of_kafkas_own_clients() -> None:
    assert len(PASSING) == len(set(PASSING)) == 32
    assert {code for code, kind in BROKER_ERRORS.items() if kind.retriable} == set(PASSING)
    assert {code for code, kind in BROKER_ERRORS.items() if kind.refresh_metadata} == set(REFRESHING)


def test_almost_every_api_has_a_place_for_a_code() -> None:
    assert set(ApiKey) - set(APIS) - set(BENEATH) == set()


@pytest.mark.parametrize("key", APIS, ids=lambda key: key.name)
async def test_every_passing_code_is_tried_again_until_it_has_passed(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey
) -> None:
    fakes = brokers()
    answer_everything(fakes, key)
    async with connected(fakes) as cluster:
        for code in PASSING:
            before, began = fakes.count(key), loop.time()
            fakes.plan(key, faults.fails(code), faults.fails(code))
            assert await run_one(cluster, probe(key), "key", cluster.deadline()) == "fine", code
            assert fakes.count(key) - before == 3, code
            assert 0.08 + 0.16 < loop.time() - began < 0.12 + 0.24 + 0.05, code


@pytest.mark.parametrize("key", APIS, ids=lambda key: key.name)
async def test_every_other_code_is_raised_once_as_what_it_is(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey
) -> None:
    fakes = brokers()
    answer_everything(fakes, key)
    async with connected(fakes) as cluster:
        for code in (*FINAL, UNKNOWN_CODE):
            before, began = fakes.count(key), loop.time()
            fakes.plan(key, faults.fails(code))
            with pytest.raises(kind_of(code)) as caught:
                await run_one(cluster, probe(key), "key", cluster.deadline())
            assert type(caught.value) is kind_of(code)
            assert caught.value.code == code
            assert fakes.count(key) - before == 1
            assert loop.time() - began < 0.05


async def test_a_passing_code_that_stays_is_not_asked_about_in_a_hurry(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    described = Described(fakes)
    async with connected(fakes) as cluster:
        for code in PASSING:
            if code == 3:  # given up early: see the tests of operations
                continue
            described.codes["a"].clear()
            described.codes["a"].extend([code] * 1000)
            before, began = len(described.asked), loop.time()
            with pytest.raises(TimeoutError, match=str(code)):
                await run_one(cluster, Describe(), "a", cluster.deadline(10_000))
            assert 8 < loop.time() - began <= 10
            assert len(described.asked) - before <= 17, code


# The answers that the cluster itself reads


async def test_every_passing_code_about_the_cluster_is_tried_again(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    async with connected(fakes) as cluster:
        for code in (*PASSING, REBOOTSTRAP_REQUIRED):
            before, began = fakes.count(ApiKey.METADATA), loop.time()
            fakes.plan(ApiKey.METADATA, faults.fails(code), faults.fails(code))
            await cluster.metadata.refreshed(cluster.deadline())
            assert fakes.count(ApiKey.METADATA) - before == 3, code
            assert 0.16 < loop.time() - began < 1, code


async def test_every_other_code_about_the_cluster_is_raised_once(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    async with connected(fakes) as cluster:
        for code in (*FINAL, UNKNOWN_CODE):
            if code == REBOOTSTRAP_REQUIRED:
                continue
            before, began = fakes.count(ApiKey.METADATA), loop.time()
            fakes.plan(ApiKey.METADATA, faults.fails(code))
            with pytest.raises(kind_of(code)):
                await cluster.metadata.refreshed(cluster.deadline())
            assert fakes.count(ApiKey.METADATA) - before == 1, code
            assert loop.time() - began < 2, code


async def test_every_passing_code_about_a_topic_is_waited_for_and_others_are_raised(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    Described(fakes)
    async with connected(fakes) as cluster:
        for code in (*PASSING, *FINAL, UNKNOWN_CODE):
            name = f"topic-{code}"
            topic = fakes.add_topic(name, number=code + 10)
            topic.error_code = code
            loop.call_later(0.4, setattr, topic, "error_code", 0)
            operation = Describe(lambda _, name=name: Leader(TopicPartition(name, 0)))  # type: ignore[misc]
            if code in PASSING:
                assert await run_one(cluster, operation, "a", cluster.deadline()) == 1, code
            else:
                with pytest.raises(kind_of(code)):
                    await run_one(cluster, operation, "a", cluster.deadline())
            cluster.metadata.forget([name])


async def test_every_code_about_a_coordinator(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    Described(fakes)
    async with connected(fakes) as cluster:
        for code in (*PASSING, *FINAL, UNKNOWN_CODE):
            key = f"group-{code}"
            operation = Describe(lambda key: Coordinator(CoordinatorKind.GROUP, key))
            before, began = fakes.count(ApiKey.FIND_COORDINATOR), loop.time()
            if code in PASSING:
                fakes.plan(ApiKey.FIND_COORDINATOR, faults.fails(code), faults.fails(code))
                assert await run_one(cluster, operation, key, cluster.deadline()) == 1, code
                assert fakes.count(ApiKey.FIND_COORDINATOR) - before == 3, code
                assert loop.time() - began > 0.08 + 0.16
            else:
                fakes.plan(ApiKey.FIND_COORDINATOR, faults.fails(code))
                with pytest.raises(kind_of(code)):
                    await run_one(cluster, operation, key, cluster.deadline())
                assert fakes.count(ApiKey.FIND_COORDINATOR) - before == 1, code


# The answers that a connection begins with

OPENING = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "wonderland",
}


@pytest.mark.parametrize("key", OPENING, ids=lambda key: key.name)
async def test_every_passing_code_while_connecting_is_tried_again(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey
) -> None:
    fakes = brokers(sasl=FakeSasl(users={"alice": "wonderland"}))
    for code in PASSING:
        before, began = fakes.count(key), loop.time()
        fakes.plan(key, faults.fails(code), faults.fails(code))
        async with connected(fakes, **LOGIN):
            assert fakes.count(key) - before == 3, code
            assert loop.time() - began > 0.1, code


@pytest.mark.parametrize("key", OPENING, ids=lambda key: key.name)
async def test_every_other_code_while_connecting_is_raised_once(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey
) -> None:
    fakes = brokers(sasl=FakeSasl(users={"alice": "wonderland"}))
    for code in (*FINAL, UNKNOWN_CODE):
        if (key, code) == (ApiKey.API_VERSIONS, UNSUPPORTED_VERSION):
            continue
        before, began = fakes.count(key), loop.time()
        fakes.plan(key, faults.fails(code))
        cluster = new_cluster(fakes, **LOGIN)
        expected: type[Exception] = kind_of(code)
        if (key, code) == (ApiKey.SASL_HANDSHAKE, UNSUPPORTED_MECHANISM):
            expected = AuthenticationError
        with pytest.raises(expected):
            await cluster.start(cluster.deadline())
        assert fakes.count(key) - before == 1, code
        assert loop.time() - began < 0.1, code
        await cluster.close()
