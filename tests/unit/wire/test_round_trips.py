"""Every message in every version survives encoding and decoding, and damage to its end is noticed."""

from __future__ import annotations

from random import Random

import pytest

from kclient.errors import ProtocolError
from kclient.wire.message import Message
from kclient.wire.schema import fields_of
from tests.support.catalogue import every_message, every_version, versions_of
from tests.support.instances import random_instance

SEED = 20260101
INSTANCES = 25


@pytest.mark.parametrize("message", every_message(), ids=lambda message: message.__name__)
def test_random_instances_of_every_version_decode_to_what_was_encoded(message: type[Message]) -> None:
    for version in versions_of(message):
        rng = Random(f"{SEED} {message.__name__} {version}")
        for _ in range(INSTANCES):
            original = random_instance(message, version, rng)
            encoded = original.encode(version)
            decoded = message.decode(encoded, version)
            assert decoded == original, f"v{version}"
            assert decoded.encode(version) == encoded, f"v{version}"
            assert message.decode(memoryview(encoded), version) == decoded, f"v{version}"


@pytest.mark.parametrize("message", every_message(), ids=lambda message: message.__name__)
def test_a_message_in_a_longer_buffer_is_read_from_its_position_to_its_end(
    message: type[Message],
) -> None:
    for version in versions_of(message):
        original = random_instance(message, version, Random(f"{SEED} inside {message.__name__} {version}"))
        encoded = original.encode(version)
        decoded, end = message.decode_from(b"before" + encoded + b"after", 6, version)
        assert decoded == original, f"v{version}"
        assert end == 6 + len(encoded), f"v{version}"


@pytest.mark.parametrize("message", every_message(), ids=lambda message: message.__name__)
def test_a_message_cut_short_at_any_byte_is_a_protocol_error(message: type[Message]) -> None:
    for version in versions_of(message):
        encoded = random_instance(message, version, Random(f"{SEED} cut {message.__name__}")).encode(version)
        for length in range(len(encoded)):
            with pytest.raises(ProtocolError, match=message.__name__):
                message.decode(encoded[:length], version)


def test_bytes_after_a_message_are_a_protocol_error() -> None:
    rng = Random(SEED)
    for message, version in every_version():
        encoded = random_instance(message, version, rng).encode(version)
        with pytest.raises(ProtocolError, match="3 bytes left over"):
            message.decode(encoded + b"\0\0\0", version)


def test_the_random_instances_give_every_field_of_a_version_more_than_its_default() -> None:
    """A control on the generator: a sweep over empty messages would prove nothing."""
    for message, version in every_version():
        rng = Random(SEED)
        instances = [random_instance(message, version, rng) for _ in range(INSTANCES)]
        for field in fields_of(message):
            if version in field.versions:
                values = [getattr(instance, field.name) for instance in instances]
                assert any(value != field.default() for value in values), f"{message.__name__}.{field.name}"
