"""Every error code against the `Errors` enum of the newest kafka-clients jar."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from kclient.errors import (
    BROKER_ERRORS,
    ApplicationRecoverableError,
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    RetriableBrokerError,
    StaleMetadataError,
)
from tools.kafka.cluster import run_java
from tools.kafka.versions import CLIENTS_VERSION

PROGRAM = Path(__file__).with_name("ErrorCodes.java")


class Facts(NamedTuple):
    """What there is to know about a code, the flags in the order of the Java program."""

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool
    authorization: bool
    authentication: bool
    recoverable: bool


def theirs() -> list[Facts]:
    printed = run_java(PROGRAM.read_text(), CLIENTS_VERSION, timeout=120).stdout
    rows = [line.split("\t") for line in printed.splitlines()]
    return [Facts(int(code), name, *(flag == "true" for flag in flags)) for code, name, *flags in rows]


def ours() -> list[Facts]:
    return [facts_of(kind) for _, kind in sorted(BROKER_ERRORS.items())]


def facts_of(kind: type[BrokerError]) -> Facts:
    # The flag and the parent are two ways to ask the same; callers use both.
    assert kind.retriable == issubclass(kind, RetriableBrokerError)
    assert kind.refresh_metadata == issubclass(kind, StaleMetadataError)
    return Facts(
        kind.code,
        kind.name,
        kind.retriable,
        kind.refresh_metadata,
        issubclass(kind, AuthorizationError),
        issubclass(kind, AuthenticationError),
        issubclass(kind, ApplicationRecoverableError),
    )


@pytest.mark.usefixtures("clients_jar")
def test_every_code_of_kafka_has_a_class_that_agrees_with_javas_exception() -> None:
    expected = theirs()
    assert len(expected) > 130
    assert ours() == sorted(expected)
