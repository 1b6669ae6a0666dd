"""Clients at listeners that demand certificates, passwords and tokens: with the right ones they get in."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tests.broker.aiokafka_runs import AiokafkaError, aiokafka, run
from tests.broker.kafka_python import DriverError, drive
from tests.broker.librdkafka import PATIENCE, consumer, produce, take, until
from tests.broker.secured import RIGHT, WRONG, Login, Secured, right, secured, wrong
from tests.broker.test_strangers_kcat import kcat
from tests.broker.test_strangers_kcat import pytestmark as needs_kcat

pytestmark = pytest.mark.uvloop

aiokafka_abc: Any = import_module("aiokafka.abc")
aiokafka_helpers: Any = import_module("aiokafka.helpers")

_VALUES = ["one", "two", "three"]


class RefusedError(Exception):
    """The client was not let in, or did not trust the broker."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, event_loops: None) -> Iterator[Secured]:  # noqa: ARG001
    with secured(tmp_path_factory.mktemp("certificates")) as made:
        yield made


# What clients do with it: write and read again, or say that they were refused.


def confluent(servers: str, login: Login, topic: str) -> list[str]:
    config = login.for_librdkafka()
    errors = _knock({"bootstrap.servers": servers, **config}, topic)
    if errors:
        raise RefusedError(str(errors))
    produce(servers, topic, [value.encode() for value in _VALUES[1:]], **config)
    with consumer(servers, **{"group.id": topic, **config}) as reader:
        reader.subscribe([topic])
        return [message.value().decode() for message in take(reader, len(_VALUES))]


def _knock(config: dict[str, Any], topic: str) -> list[KafkaError]:
    """Send the first value; what was said against it."""
    errors: list[KafkaError] = []
    producer = Producer({**config, "error_cb": errors.append})
    producer.produce(topic, _VALUES[0])
    until(lambda: producer.flush(0.05) == 0 or any(map(_is_refusal, errors)), lambda: str(errors))
    producer.purge()
    producer.flush(PATIENCE)
    return [error for error in errors if _is_refusal(error)]


def _is_refusal(error: KafkaError) -> bool:
    return error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) or "SSL alert" in error.str()


def aiokafka_client(servers: str, login: Login, topic: str) -> list[str]:
    options: dict[str, Any] = {"bootstrap_servers": servers, **login.for_aiokafka()}
    if login.ca is not None:
        options["ssl_context"] = aiokafka_helpers.create_ssl_context(
            cafile=login.ca, certfile=login.certificate, keyfile=login.key
        )
    if login.token is not None:

        async def token(_: object) -> str | None:
            return login.token

        provider = type("Provider", (aiokafka_abc.AbstractTokenProvider,), {"token": token})
        options["sasl_oauth_token_provider"] = provider()
    try:
        return run(_round_trip(options, topic), PATIENCE)
    except AiokafkaError as error:
        raise RefusedError(str(error)) from error


async def _round_trip(options: dict[str, Any], topic: str) -> list[str]:
    producer = aiokafka.AIOKafkaProducer(**options)
    try:
        await producer.start()
        for value in _VALUES:
            await producer.send_and_wait(topic, value.encode())
    finally:
        await producer.stop()
    reader = aiokafka.AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **options)
    await reader.start()
    try:
        return [(await reader.getone()).value.decode() for _ in _VALUES]
    finally:
        await reader.stop()


def kafka_python(servers: str, login: Login, topic: str) -> list[str]:
    options = {"servers": servers, "topic": topic, **login.for_kafka_python()}
    try:
        drive("produce", values=_VALUES, max_block_ms=5000, bootstrap_timeout_ms=1500, **options)
    except DriverError as error:
        raise RefusedError(str(error)) from error
    records = drive("consume", count=len(_VALUES), group_id=topic, **options)
    return [record["value"] for record in records]


def kcat_program(servers: str, login: Login, topic: str) -> list[str]:
    if login.token is not None:
        login = replace(login, token=None, unsecured=True)
    settings = [part for pair in login.for_librdkafka().items() for part in ("-X", "{}={}".format(*pair))]
    try:
        kcat(servers, "-P", "-t", topic, *settings, stdin="\n".join(_VALUES))
    except subprocess.CalledProcessError as error:
        raise RefusedError(error.stderr) from error
    return kcat(servers, "-C", "-t", topic, "-e", "-q", *settings).split()


Client = Callable[[str, Login, str], list[str]]
_CLIENTS: dict[str, Client] = {
    "confluent": confluent,
    "aiokafka": aiokafka_client,
    "kafka-python": kafka_python,
    "kcat": kcat_program,
}
_FOR_THE_BROKER_ALONE = {"expired token", "token for others"}  # a client has no part in this: one is enough
_LEFT_OUT = {
    "confluent": set[str](),
    "aiokafka": _FOR_THE_BROKER_ALONE,
    "kafka-python": _FOR_THE_BROKER_ALONE,
    # It can be given no token, but makes unsecured ones.
    "kcat": {"signed token", "somebody else's token", *_FOR_THE_BROKER_ALONE},
}


def pairs(names: Sequence[str]) -> list[Any]:
    """Every client with the logins that make sense for it."""
    return [
        pytest.param(client, name, marks=needs_kcat if client == "kcat" else (), id=f"{client}-{name}")
        for client in _CLIENTS
        for name in names
        if name not in _LEFT_OUT[client]
    ]


@pytest.mark.parametrize(("client", "name"), pairs(RIGHT))
def test_whoever_proves_who_he_is_gets_in(house: Secured, client: str, name: str) -> None:
    login = right(house)[name]
    house.producers.clear()

    assert _CLIENTS[client](house.servers(login), login, f"{client}-{name.replace(' ', '-')}") == _VALUES

    assert house.producers == {(login.listener, login.principal)}


@pytest.mark.parametrize(("client", "name"), pairs(WRONG))
def test_whoever_does_not_stays_outside_and_is_told_why(house: Secured, client: str, name: str) -> None:
    login = wrong(house)[name]
    house.producers.clear()

    with pytest.raises(RefusedError) as caught:
        _CLIENTS[client](house.servers(login), login, "forbidden")

    assert not house.producers
    # The other two only say that they could not connect.
    if client in ("confluent", "kcat"):
        assert re.search(login.reason, str(caught.value), re.IGNORECASE)
