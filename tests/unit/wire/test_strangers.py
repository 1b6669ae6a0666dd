"""kclient's bytes as others read them: kafka-python's and aiokafka's own codecs decode what kclient encodes,
find the same values in it, and encode the same bytes, which kclient decodes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kclient.wire.message import Message
from kclient.wire.schema import Struct, fields_of
from tests.support.catalogue import versions_of
from tests.support.instances import random_instance
from tests.support.strangers import aiokafka_pairs, kafka_python_pairs

INSTANCES = 5

# Classes of aiokafka 0.14 that miss fields of Kafka's definition; kafka-python agrees with kclient on them.
AIOKAFKA_IS_WRONG = {
    "OffsetRequest_v4",  # no current_leader_epoch
    "OffsetRequest_v5",
    "DescribeAclsRequest_v2",  # not flexible
    "DescribeAclsResponse_v2",
}

# Fields that a Kafka newer than kafka-python's copy of the definitions has renamed.
RENAMED = {("TxnOffsetCommitRequest", "generation_id_or_member_epoch"): "generation_id"}

KAFKA_PYTHON = kafka_python_pairs()
AIOKAFKA = [pair for pair in aiokafka_pairs() if pair[2].__name__ not in AIOKAFKA_IS_WRONG]


def differences(ours: Any, theirs: Any, version: int, path: str) -> Iterator[str]:
    """Where the values of our fields and of their fields of the same names differ."""
    if isinstance(ours, Struct):
        for field in fields_of(type(ours)):
            if version in field.versions:
                value = getattr(ours, field.name)
                other = getattr(theirs, RENAMED.get((type(ours).__name__, field.name), field.name))
                if field.tag is not None and other is None:
                    other = field.default()  # its word for an absent tagged field is None
                yield from differences(value, other, version, f"{path}.{field.name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, (value, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(value, other, version, f"{path}[{i}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} and {theirs!r}"


def leaves(value: Any, version: int) -> Iterator[Any]:
    """Untagged values in wire order, without the nesting: aiokafka has other names and other nesting."""
    if isinstance(value, Struct):
        for field in fields_of(type(value)):
            if version in field.versions and field.tag is None:
                yield from leaves(getattr(value, field.name), version)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item, version)
    elif not isinstance(value, dict):  # aiokafka's tagged fields
        yield value


@pytest.mark.parametrize(
    ("message", "theirs"), KAFKA_PYTHON, ids=[message.__name__ for message, _ in KAFKA_PYTHON]
)
def test_kafka_python_reads_the_same_values_and_writes_the_same_bytes(
    message: type[Message], theirs: Any
) -> None:
    for version in versions_of(message):
        if version > theirs.max_version:
            continue
        rng = Random(f"kafka-python {message.__name__} {version}")
        for _ in range(INSTANCES):
            ours = random_instance(message, version, rng)
            encoded = ours.encode(version)
            decoded = theirs.decode(encoded, version=version)
            assert list(differences(ours, decoded, version, f"v{version}")) == []
            decoded._header = None  # its encoder asks for one, its decoder sets none
            assert bytes(decoded.encode(version=version)) == encoded, f"v{version}"


@pytest.mark.parametrize(
    ("message", "version", "theirs"), AIOKAFKA, ids=[theirs.__name__ for _, _, theirs in AIOKAFKA]
)
def test_aiokafka_reads_the_same_values_and_writes_the_same_bytes(
    message: type[Message], version: int, theirs: Any
) -> None:
    rng = Random(f"aiokafka {message.__name__} {version}")
    for _ in range(INSTANCES):
        ours = random_instance(message, version, rng)
        encoded = ours.encode(version)
        decoded = theirs.decode(encoded)
        values = [getattr(decoded, name) for name in theirs.SCHEMA.names]
        assert list(leaves(values, version)) == list(leaves(ours, version))
        assert message.decode(decoded.encode(), version) == ours


def test_the_comparison_covers_most_of_the_common_apis() -> None:
    """A control: the pairs are found by looking, so a change of theirs could quietly leave none."""
    compared = {message.__name__ for message, _ in KAFKA_PYTHON}
    assert len(compared) >= 100
    assert {"ProduceRequest", "FetchResponse", "MetadataResponse", "JoinGroupRequest"} <= compared
    assert len(AIOKAFKA) >= 150
