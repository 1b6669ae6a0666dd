"""What type checkers make of a program that uses kclient: types of keys and values, and options misspelt.

mypy is always asked, pyright where it can run: it needs a node. It is also asked whether it knows the type of
all that the package shows: every module without an underscore counts, the embedded broker among them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAM = """
import json
from typing import Any, Unpack

from kclient import AsyncConsumer, AsyncProducer, Consumer, Producer, Record
from kclient.consumer import ConsumerOptions
from kclient.producer import ProducerOptions


class Order:
    def __init__(self, data: bytes) -> None: ...


def to_bytes(order: Order) -> bytes:
    return b"an order"


def to_key(number: int) -> bytes:
    return b"%d" % number


async def main() -> None:
    reveal_type(AsyncConsumer("t"))  # AsyncConsumer[bytes | None, bytes | None]
    reveal_type(AsyncConsumer("t", value_deserializer=Order))  # AsyncConsumer[bytes | None, Order | None]
    reveal_type(AsyncConsumer("t", key_deserializer=int))  # AsyncConsumer[int | None, bytes | None]
    orders = AsyncConsumer("t", group_id="g", key_deserializer=bytes.decode, value_deserializer=Order)
    reveal_type(orders)  # AsyncConsumer[str | None, Order | None]
    reveal_type((await orders.getone()).value)  # Order | None
    for batch in (await orders.getmany()).values():
        reveal_type([record.key for record in batch])  # list[str | None]
    async for record in orders:
        reveal_type(record.key)  # str | None
    async with AsyncProducer(key_serializer=to_key, value_serializer=to_bytes) as producer:
        reveal_type(producer)  # AsyncProducer[int, Order]
        await producer.send("t", Order(b""), 17)
        await producer.send_and_wait("t", None, 17)
        await producer.send_many("t", [Order(b""), None], [1, 2])
        await producer.send("t", "text")  # error
        producer.send_nowait("t", Order(b""), b"key")  # error
        await producer.send_many("t", ["text"])  # error
    AsyncProducer(linger=5)  # error
    AsyncProducer(linger_ms="5")  # error
    AsyncConsumer("t", group="g")  # error
    AsyncConsumer("t", fetch_max_bytes="5")  # error


def blocking(**options: Any) -> None:
    reveal_type(Consumer("t"))  # Consumer[bytes | None, bytes | None]
    reveal_type(Consumer("t", value_deserializer=json.loads))  # Consumer[bytes | None, Any | None]
    with Consumer("t", key_deserializer=int, value_deserializer=Order) as consumer:
        reveal_type(consumer)  # Consumer[int | None, Order | None]
        reveal_type(next(consumer).value)  # Order | None
    with Producer(value_serializer=to_bytes) as producer:
        reveal_type(producer.send)
        producer.send("t", Order(b""), key=b"key")
        producer.send("t", Order(b""), key=bytearray(b"key"))
        producer.send("t", b"value")  # error
        producer.send_many("t", [17])  # error
    with Producer(value_serializer=lambda value: json.dumps(value).encode()) as producer:
        producer.send("t", {"any": "thing"})
    Producer().send("t", b"value", memoryview(b"key"))
    Producer().send("t", "text")  # error
    Producer(bootstrap_server="localhost")  # error
    Consumer("t", enable_auto_comit=False)  # error
    Producer("localhost:9092")  # error
    Producer(**options), Consumer("t", **options)


def wrapped(name: str, **options: Unpack[ConsumerOptions]) -> AsyncConsumer[bytes | None, bytes | None]:
    return AsyncConsumer(name, **options)


def produced(**options: Unpack[ProducerOptions]) -> None:
    anything: AsyncProducer = AsyncProducer(value_serializer=to_bytes, **options)
    anything.send_nowait("t", 17)


class Service:
    def __init__(self, producer: AsyncProducer[bytes, bytes]) -> None:
        self.producer: AsyncProducer[bytes, bytes] = AsyncProducer()
        self.orders: Producer[bytes, Order] = Producer(value_serializer=to_bytes)
        self.wrong: Producer[bytes, str] = Producer(value_serializer=to_bytes)  # error


def told(consumer: AsyncConsumer, record: Record, given: Record[str, Order]) -> None:
    reveal_type(record.value)  # Any
    reveal_type(given.value)  # Order
"""


def mypy(program: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--python-version", "3.11"]
    command += ["--cache-dir", str(program.parent / "cache"), "--config-file", "", str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def pyright(program: Path) -> str:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def runs() -> Callable[[str], None]:
    """Skips a test whose checker is not installed or cannot start, as pyright cannot without a node."""

    @cache
    def check(name: str) -> None:
        command = [sys.executable, "-m", name, "--version"]
        if find_spec(name) is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip(f"{name} is not installed or cannot start")

    return check


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_program_has_the_types_that_it_should(
    checker: Callable[[Path], str], runs: Callable[[str], None], tmp_path: Path
) -> None:
    runs(checker.__name__)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    said = checker(program)
    found: dict[int, str] = {}
    for number, text in re.findall(
        r"program\.py:(\d+):.*?((?:Revealed type is|Type of).*|error)", said.replace(" note:", "")
    ):
        shown = re.sub(r"(?:[a-z]\w*\.)+(?=[A-Za-z])", "", text.rpartition(' is "')[2].rstrip('"'))
        found[int(number)] = "error" if text == "error" else shown
    meant = {
        number: line.rpartition("  # ")[2]
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if "  # " in line
    }
    found = {number: shown for number, shown in found.items() if number in meant or shown == "error"}
    assert found == meant


def test_every_type_that_the_package_shows_is_known(runs: Callable[[str], None]) -> None:
    runs("pyright")
    options = ["--verifytypes", "kclient", "--ignoreexternal", "--outputjson"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where it looks for packages
    said = subprocess.run(
        [sys.executable, "-m", "pyright", *options],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": path},
    )
    found = json.loads(said.stdout)["typeCompleteness"]
    shown = [symbol for symbol in found["symbols"] if symbol["isExported"]]
    unknown = [symbol["name"] for symbol in shown if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    assert len(shown) > 10_000
    assert not unknown
    assert found["completenessScore"] == 1
