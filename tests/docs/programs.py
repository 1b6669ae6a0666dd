"""Runs a block of Python as the program that it is, with an embedded broker where the reader has a cluster.

There are records in `orders` where the block reads. Called by the tests of blocks, here and for Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kclient import Producer
from kclient.broker.security.listeners import ListenerSpec
from kclient.testing import RunningBroker
from kclient.types import Secret
from tests.docs.pages import ADDRESS, ROOT, Block
from tools.kafka.certificates import Certificates

SECURED = "broker:9093"


@contextmanager
def cluster_for(block: Block, directory: Path) -> Iterator[str]:
    """The block's code, with the address of a cluster that lives while it runs."""
    if SECURED in block.code:
        with _secured(block, directory) as address:
            yield block.code.replace(SECURED, address)
    elif ADDRESS in block.code:
        with RunningBroker(config={"num.partitions": "6"}) as kafka:
            if re.search(r"Consumer\(|subscribe", block.code):
                _write_orders(kafka.bootstrap_servers)
            yield block.code.replace(ADDRESS, kafka.bootstrap_servers)
    else:
        yield block.code


@contextmanager
def _secured(block: Block, directory: Path) -> Iterator[str]:
    """A broker that knows the block's user and password, and `ca.pem` where the block runs."""
    certificates = Certificates(directory)
    user, password, mechanism = (
        re.findall(rf'{option}="(.*?)"', block.code)[0]
        for option in ("sasl_plain_username", "sasl_plain_password", "sasl_mechanism")
    )
    listener = ListenerSpec(
        "SECURED",
        "SASL_SSL",
        certfile=certificates.broker_keystore_pem,
        mechanisms=(mechanism,),
        users={user: Secret(password)},
    )
    with RunningBroker(listeners=[listener]) as kafka:
        yield kafka.broker.bootstrap("SECURED")


def execute(block: Block, code: str) -> dict[str, Any]:
    """Run it as a program, its lines numbered as on its page; gives the names that it leaves."""
    names: dict[str, Any] = {"__name__": "__main__"}
    where = str(ROOT / block.page)
    exec(compile("\n" * (block.line - 1) + code, where, "exec", dont_inherit=True), names)
    return names


def _write_orders(address: str) -> None:
    """What there is to read: JSON, and in the first partition something else at the end."""
    with Producer(bootstrap_servers=address) as producer:
        for number in range(12):
            producer.send("orders", b'{"item": "teapot"}', partition=number % 6)
        producer.send("orders", b"three apples", partition=0)
