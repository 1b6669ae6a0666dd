"""A group of confluent-kafka is rolled over from one protocol to the other and back while a producer writes.

Kafka 4.3 does not upgrade a group whose assignments carry user data, and a cooperative group of librdkafka
that has rebalanced is refused now and then, by Kafka and by the embedded broker alike: most likely its leader
hands on as user data what members said of themselves when they owned something. So the members of such a
group start within the delay of the first rebalance, when they own nothing, and do not rebalance after.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.broker.conftest import Stage, staged
from tests.broker.librdkafka import PATIENCE, until

_PARTITIONS = 6
_MEMBERS = 3
_CLASSIC = {
    "group.protocol": "classic",
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 30000,
    "heartbeat.interval.ms": 200,
}
_EAGER = {**_CLASSIC, "partition.assignment.strategy": "range"}
_MODERN = {"group.protocol": "consumer"}


class Rolling:
    """A topic that is written to all the time, and the members that read it."""

    def __init__(self, stage: Stage, *, static: bool) -> None:
        self._stage = stage
        self._static = static
        self._producer = Producer({"bootstrap.servers": stage.bootstrap_servers, "linger.ms": 5})
        self._numbers = itertools.count()
        self._members: list[Any] = []
        self._written = 0
        self.failures: list[object] = []
        self.read: set[bytes] = set()

    def start(self, config: dict[str, Any], number: int) -> None:
        own = {"group.instance.id": f"member-{number}"} if self._static else {}
        member = Consumer(
            {
                "bootstrap.servers": self._stage.bootstrap_servers,
                "group.id": "rolling",
                "auto.offset.reset": "earliest",
                "enable.auto.offset.store": False,
                "fetch.wait.max.ms": 100,
                "error_cb": self.failures.append,
                **config,
                **own,
            }
        )
        member.subscribe(["rolled"])
        self._members.append(member)

    def roll(self, config: dict[str, Any], *, surge: bool) -> None:
        """Replace members one by one; with a surge the new one is there before the old one goes."""
        for number in range(_MEMBERS):
            if surge:
                self.start(config, number)
                self.settle()
                self.stop_oldest()
            else:
                self.stop_oldest()
                self.turn()
                self.start(config, number)
            self.settle()

    def settle(self) -> None:
        """Until every partition has one owner and every member some of them."""
        until(self._is_settled, self._say)

    def stop_oldest(self) -> None:
        """It commits and leaves, or goes away for now, as a consumer does that is shut down in order."""
        self._members.pop(0).close()

    def turn(self) -> None:
        """Write, and let every member read what it gets."""
        for _ in range(5):
            self._producer.produce("rolled", b"%d" % next(self._numbers), on_delivery=self._delivered)
            self._written += 1
        self._producer.poll(0)
        for member in self._members:
            self._read(member)

    def finish(self) -> set[bytes]:
        """Read to the end; what was written."""
        assert self._producer.flush(PATIENCE) == 0
        written = {b"%d" % number for number in range(self._written)}
        until(
            lambda: self._all_read(written),
            lambda: f"{len(written - self.read)} of {len(written)} were not read",
        )
        return written

    def close(self) -> None:
        while self._members:
            self.stop_oldest()

    def _all_read(self, written: set[bytes]) -> bool:
        for member in self._members:
            self._read(member)
        return self.read >= written

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.failures.append(error)

    def _read(self, member: Any) -> None:
        for message in member.consume(100, timeout=0.02):
            if message.error() is None:
                self.read.add(message.value())
                member.store_offsets(message)
            else:
                self.failures.append(message.error())

    def _owners(self) -> list[int]:
        return sorted(part.partition for member in self._members for part in member.assignment())

    def _is_settled(self) -> bool:
        self.turn()
        everybody = all(member.assignment() for member in self._members)
        return everybody and self._owners() == list(range(_PARTITIONS)) and self._group()[1] == "Stable"

    def _group(self) -> tuple[str, str]:
        async def look() -> tuple[str, str]:
            group = self._stage.broker.groups.groups["rolling"]
            return group.type_name, group.state_name

        return self._stage.call(look())

    @property
    def kind(self) -> str:
        return self._group()[0]

    def _say(self) -> str:
        shares = [[part.partition for part in member.assignment()] for member in self._members]
        return f"the members of a group {self._group()} have {shares}"


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Stage]:
    """A broker on which nobody is taken for dead, and that waits for the first members of a group."""
    config = {
        "group.initial.rebalance.delay.ms": "3000",
        "group.consumer.session.timeout.ms": "45000",
    }
    with staged(data=tmp_path / "data", config=config) as stage:
        yield stage


@pytest.mark.parametrize(
    ("old", "static", "surge"),
    [(_CLASSIC, False, True), (_EAGER, False, False), (_CLASSIC, True, False)],
    ids=["cooperative", "eager", "static"],
)
def test_a_group_is_rolled_over_to_the_new_protocol_and_back_while_it_reads(
    patient: Stage, old: dict[str, Any], static: bool, surge: bool
) -> None:
    patient.create_topic("rolled", partitions=_PARTITIONS)
    rolled = Rolling(patient, static=static)
    with closing(rolled):
        for number in range(_MEMBERS):
            rolled.start(old, number)
        rolled.settle()
        assert rolled.kind == "classic"
        rolled.roll(_MODERN, surge=surge)
        assert rolled.kind == "consumer"
        rolled.roll(old, surge=surge)
        assert rolled.kind == "classic"
        assert rolled.finish() == rolled.read
        assert rolled.failures == []
