"""What type checkers are told of options is what the config classes say."""

from __future__ import annotations

import dataclasses

import pytest

from kclient.config import ClientConfig
from kclient.consumer import AsyncConsumer, Consumer, ConsumerConfig, ConsumerOptions
from kclient.options import ClientOptions
from kclient.producer import AsyncProducer, Producer, ProducerConfig, ProducerOptions

CODECS = {"key_serializer", "value_serializer", "key_deserializer", "value_deserializer"}


@pytest.mark.parametrize(
    ("options", "config"),
    [(ClientOptions, ClientConfig), (ProducerOptions, ProducerConfig), (ConsumerOptions, ConsumerConfig)],
)
def test_keyword_arguments_have_the_names_and_types_of_the_options(
    options: type, config: type[ClientConfig]
) -> None:
    told: dict[str, str] = {}
    for each in (ClientOptions, options):
        told |= {name: kind.__forward_arg__ for name, kind in each.__annotations__.items()}
    meant = {field.name: str(field.type) for field in dataclasses.fields(config) if field.name not in CODECS}
    assert told == meant
    assert not options.__required_keys__  # type: ignore[attr-defined]


@pytest.mark.parametrize("client", [AsyncProducer, Producer])
def test_a_producer_that_is_given_an_address_without_a_name_says_what_to_do(client: type) -> None:
    with pytest.raises(TypeError, match="options are given by name: bootstrap_servers=…"):
        client("localhost:9092")


@pytest.mark.parametrize("client", [AsyncProducer, AsyncConsumer, Producer, Consumer])
def test_clients_can_be_named_with_the_types_of_keys_and_values(client: type) -> None:
    assert client[str, bytes].__origin__ is client  # type: ignore[index]
