"""Whatever members do, a partition is never with two of them, and in the end each is with one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kclient.errors import (
    BrokerError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from kclient.wire.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from tests.unit.broker.modern.driving import INTERVAL, Owned, World, world

STEPS = 150
TOPICS = ("a", "b", "c")


def _pairs(owned: Owned) -> set[tuple[str, int]]:
    return {(topic, partition) for topic, partitions in owned.items() for partition in partitions}


class Careless:
    """A client that takes its time to let go, loses answers, and finds out late that it is out."""

    def __init__(self, where: World, name: str, random: Random, static: bool) -> None:
        self.where, self.name, self.random = where, name, random
        self.lives = 0
        self.instance: dict[str, Any] = {"instance_id": f"i-{name}"} if static else {}
        self.inside = False
        self.away = False

    def start(self) -> None:
        """(Re)join with nothing; a static member that comes back is another process with another id."""
        self.lives += 1
        self.member_id = f"{self.name}-{self.lives}"
        self.owned: Owned = {}
        self.wanted: Owned = {}
        self.epoch = 0
        self.topics = sorted(self.random.sample(TOPICS, self.random.randint(1, 3)))
        self._send(lambda: self.where.join(self.member_id, *self.topics, **self.instance), lossy=False)

    def beat(self, careful: bool = False) -> None:
        if careful or self.random.random() < 0.6:
            self.owned = self.wanted
        fields: dict[str, Any] = {"topic_partitions": self.where.owning(self.owned), **self.instance}
        if not careful and self.random.random() < 0.1:
            self.topics = sorted(self.random.sample(TOPICS, self.random.randint(1, 3)))
            fields["subscribed_topic_names"] = self.topics
        self._send(
            lambda: self.where.heartbeat(self.member_id, self.epoch, **fields),
            lossy=not careful and self.random.random() < 0.2,
        )

    def leave(self) -> None:
        self.away = bool(self.instance) and self.random.random() < 0.7
        self.inside = False
        self.owned = {}
        try:
            self.where.heartbeat(self.member_id, -2 if self.away else -1, **self.instance)
        except (UnknownMemberIdError, FencedInstanceIdError):
            self.away = False

    def vanish(self) -> None:
        """Never heard of again: what it owned is nobody's concern once its session has run out."""
        self.inside = False

    def _send(self, ask: Callable[[], ConsumerGroupHeartbeatResponse], *, lossy: bool) -> None:
        try:
            response = ask()
        except (UnknownMemberIdError, FencedMemberEpochError, FencedInstanceIdError):
            self.inside, self.owned = False, {}
            return
        except UnreleasedInstanceIdError:
            return
        self.inside = True
        if lossy:
            return
        self.epoch = response.member_epoch
        told = self.where.told(response)
        if told is not None:
            self.wanted = told
            if self.epoch and not (_pairs(self.owned) - _pairs(told)):
                self.owned = told


def _check_nothing_is_owned_twice(where: World, clients: list[Careless]) -> None:
    members = where.group().members if "g" in where.groups else {}
    by_server: set[tuple[object, int]] = set()
    for member in members.values():
        assert by_server.isdisjoint(member.held)
        assert not member.assigned.keys() & member.revoking.keys()
        by_server.update(member.held)
    by_clients: set[tuple[str, int]] = set()
    for client in clients:
        if client.inside and client.member_id in members:
            assert by_clients.isdisjoint(_pairs(client.owned)), client.name
            by_clients |= _pairs(client.owned)


def _step(where: World, random: Random, clients: list[Careless]) -> None:
    client = random.choice(clients)
    chance = random.random()
    if not client.inside:
        client.start()
    elif chance < 0.75:
        client.beat()
    elif chance < 0.85:
        client.leave()
    elif chance < 0.9:
        client.vanish()
    if random.random() < 0.05:
        name = random.choice(TOPICS)
        topic_id, count = where.topics.known[name]
        where.topics.known[name] = (topic_id, count + 1)
        where.service.topics_changed()
    where.pass_time(random.choice((0.1, 0.5, 2.0, 8.0)))


@pytest.mark.parametrize("seed", range(40))
def test_no_partition_has_two_owners_and_all_find_one_in_the_end(seed: int) -> None:
    random = Random(seed)
    with world(a=random.randint(1, 7), b=random.randint(1, 4), c=1) as where:
        clients = [Careless(where, f"c{n}", random, static=n % 3 == 0) for n in range(6)]
        for _ in range(STEPS):
            try:
                _step(where, random, clients)
            except BrokerError as error:  # pragma: no cover - says which seed and what
                pytest.fail(f"seed {seed}: {error}")
            _check_nothing_is_owned_twice(where, clients)

        where.pass_time(50)  # who vanished is out by now
        for client in clients:
            client.start()
        for _ in range(30):
            where.pass_time(INTERVAL)
            for client in clients:
                client.beat(careful=True)
            _check_nothing_is_owned_twice(where, clients)
        _check_all_is_settled(where, clients)


def _check_all_is_settled(where: World, clients: list[Careless]) -> None:
    assert where.state() == "Stable"
    wanted = {topic for client in clients for topic in client.topics}
    all_partitions = {(topic, n) for topic in wanted for n in range(where.topics.known[topic][1])}
    owned = [pair for client in clients for pair in _pairs(client.owned)]
    assert sorted(owned) == sorted(all_partitions)
    for client in clients:
        assert set(client.owned) <= set(client.topics)
