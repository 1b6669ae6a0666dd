"""Java reads what kclient encodes, for every message and version, and encodes it to the same bytes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kclient.wire.message import Message, Request, Response
from kclient.wire.messages.headers import RequestHeader, ResponseHeader
from tests.support.catalogue import every_version
from tests.support.instances import random_instance
from tools.kafka.cluster import run_java
from tools.kafka.versions import CLIENTS_VERSION

INSTANCES = 5


def java_name(message: type[Message]) -> str:
    generated = issubclass(message, (Request, Response)) or message in (RequestHeader, ResponseHeader)
    return f"{message.__name__}Data" if generated else message.__name__


@pytest.mark.usefixtures("clients_jar")
def test_java_encodes_what_it_decoded_to_the_same_bytes() -> None:
    rng = Random(20)
    sent = [
        (message, version, random_instance(message, version, rng).encode(version))
        for message, version in every_version()
        for _ in range(INSTANCES)
    ]
    lines = "".join(f"{java_name(message)} {version} {data.hex()}\n" for message, version, data in sent)
    source = Path(__file__).with_name("Echo.java").read_text()
    answers = run_java(source, CLIENTS_VERSION, stdin=lines, timeout=240).stdout.splitlines()
    assert len(answers) == len(sent)
    different = [
        f"{message.__name__} v{version}: sent {data.hex()}, Java made {answer}"
        for (message, version, data), answer in zip(sent, answers, strict=True)
        if answer != data.hex()
    ]
    assert not different, f"{len(different)} of {len(sent)} differ, the first:\n" + "\n".join(different[:5])
