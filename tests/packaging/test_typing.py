"""What type checkers make of a program that uses kclient: types of keys and values, and options misspelt.

mypy is always asked, pyright where it is installed: it brings a node of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

# Whose public names are looked at one by one; the embedded broker's are not clients'.
PACKAGES = (
    "kclient",
    "kclient.admin",
    "kclient.consumer",
    "kclient.errors",
    "kclient.producer",
    "kclient.testing",
    "kclient.types",
)
EMBEDDED = "kclient.testing.running."

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


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_program_has_the_types_that_it_should(checker: Callable[[Path], str], tmp_path: Path) -> None:
    if find_spec(checker.__name__) is None:
        pytest.skip(f"{checker.__name__} is not installed")
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


def public_names() -> set[str]:
    """Every class and function that the packages offer, by where it is defined."""
    names: set[str] = set()
    for package in map(import_module, PACKAGES):
        for name in getattr(package, "__all__", None) or vars(package):
            offered = getattr(package, name)
            home, own = getattr(offered, "__module__", None), getattr(offered, "__qualname__", None)
            if own is not None and str(home).startswith("kclient."):
                names.add(f"{home}.{own}")
    return names


@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")
def test_of_all_that_clients_offer_the_types_are_known() -> None:
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--verifytypes",
        "kclient",
        "--ignoreexternal",
        "--outputjson",
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where it looks for packages
    said = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path}
    ).stdout
    symbols = json.loads(said)["typeCompleteness"]["symbols"]
    names = public_names()
    offered = [
        each
        for each in symbols
        if {each["name"], *parents(each["name"])} & names and EMBEDDED not in each["name"]
    ]
    assert len(offered) > 1_000
    assert not [each["name"] for each in offered if not each["isTypeKnown"] or each["isTypeAmbiguous"]]


def parents(name: str) -> list[str]:
    """The classes and modules that something is in."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]
