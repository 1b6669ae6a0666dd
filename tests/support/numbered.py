"""Numbered records: each key has the values 0, 1, 2 … so a log shows what it lost, has twice or mixed up.

`Numbered` writes them with kclient, `verdict_of_java` has Kafka's own client read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kclient.errors import KafkaError
from kclient.producer import AsyncProducer, Delivery
from tools.kafka import KafkaCluster

_PROGRAM = Path(__file__).parents[1] / "integration" / "LogInJava.java"


class LogVerdict(NamedTuple):
    """What a log holds, and what is wrong with it: counts of records."""

    records: int
    missing: int
    duplicates: int
    disorder: int


class Numbered:
    """Sends the numbers of all keys in turn, and counts what becomes of them."""

    def __init__(self, producer: AsyncProducer, topic: str, keys: int, each: int) -> None:
        self.acknowledged = 0
        self.errors: list[KafkaError] = []
        self._producer = producer
        self._topic = topic
        self._rest = _all(keys, each)

    async def send(self, count: int) -> int:
        """Send the next `count` records, or as many as are left; how many those were."""
        sent = 0
        for key, value in self._rest:
            delivery = await self._producer.send(self._topic, value, key)
            delivery.add_done_callback(self._settled)
            sent += 1
            if sent == count:
                break
        return sent

    def _settled(self, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(error)


def _all(keys: int, each: int) -> Iterator[tuple[bytes, bytes]]:
    names = [b"%d" % key for key in range(keys)]
    for number in range(each):
        value = b"%d" % number
        for name in names:
            yield name, value


def verdict_of_java(kafka: KafkaCluster, topic: str, keys: int, each: int) -> LogVerdict:
    """Have Java read a topic that should have `each` records of each of `keys` keys."""
    arguments = [kafka.bootstrap(), topic, str(keys), str(each)]
    printed = kafka.java(_PROGRAM.read_text(), arguments, timeout=180).stdout
    return LogVerdict(*(int(number) for number in re.findall(r"=(\d+)", printed)))
