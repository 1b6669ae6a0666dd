"""Members of both protocols come and go: no partition is ever with two of them, and each ends with one."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from kclient.errors import FencedMemberEpochError, UnknownMemberIdError
from tests.unit.broker.groups.driving import OK
from tests.unit.broker.modern.mixed_driving import PARTITIONS, Mixed, told

STEPS = 120
_CLIENTS = 4


class Client:
    """A consumer of either protocol that takes its time to do what it is told."""

    def __init__(self, groups: Mixed, name: str) -> None:
        self.groups, self.name = groups, name
        self.lives = 0
        self.inside = False
        self.has_joined = False
        self.owned: list[int] = []

    async def start(self, *, classic: bool) -> None:
        self.lives += 1
        self.member_id = f"{self.name}-{self.lives}"
        self.classic, self.inside, self.owned = classic, True, []
        if classic:
            await self._join()
        else:
            response = self.groups.begin(self.member_id)
            self.epoch, self.owned = response.member_epoch, told(response) or []
            self.wanted = self.owned

    async def go_on(self) -> None:
        if self.classic:
            await self._heartbeat()
        else:
            self._beat()

    async def leave(self) -> None:
        if self.classic:
            await self.groups.leave(self.member_id)
        else:
            self.groups.beat(self.member_id, -1)
        self.inside, self.owned = False, []

    def _beat(self) -> None:
        self.owned = [one for one in self.owned if one in self.wanted]
        try:
            response = self.groups.beat(self.member_id, self.epoch, self.owned)
        except (UnknownMemberIdError, FencedMemberEpochError):
            self.inside, self.owned = False, []
            return
        self.epoch = response.member_epoch
        news = told(response)
        if news is not None:
            self.wanted = news
            if set(self.owned) <= set(news):
                self.owned = news

    async def _heartbeat(self) -> None:
        """What it lost is let go when it is told so, some time after it has joined."""
        if self.has_joined:
            self.has_joined = False
            answer = await self.groups.sync(self.member_id, self.epoch)
            if answer.error_code == OK:
                self.owned = await self.groups.held(self.member_id, self.epoch)
        elif await self.groups.heartbeat(self.member_id, self.epoch) != OK:
            await self._join()

    async def _join(self) -> None:
        joined = await self.groups.rejoin(self.member_id, self.owned)
        assert joined.error_code == OK
        self.epoch = joined.generation_id
        self.has_joined = True


def check_nothing_is_owned_twice(groups: Mixed, clients: list[Client]) -> None:
    held = [partition for member in groups.modern.members.values() for partition in member.held]
    assert len(held) == len(set(held))
    members = groups.modern.members
    owned = [
        one for client in clients if client.inside and client.member_id in members for one in client.owned
    ]
    assert len(owned) == len(set(owned))


@pytest.mark.parametrize("seed", range(25))
async def test_whoever_comes_and_goes_a_partition_has_one_owner(seed: int) -> None:
    random = Random(seed)
    async with Mixed() as groups:
        anchor = Client(groups, "anchor")  # keeps the group a consumer group
        await anchor.start(classic=False)
        clients = [anchor, *(Client(groups, f"c{number}") for number in range(_CLIENTS))]
        for _ in range(STEPS):
            client = random.choice(clients)
            if not client.inside:
                await client.start(classic=random.random() < 0.5)
            elif client is not anchor and random.random() < 0.15:
                await client.leave()
            else:
                await client.go_on()
            check_nothing_is_owned_twice(groups, clients)
            await asyncio.sleep(random.choice((0.01, 0.1, 0.5)))
        for client in clients[1:]:
            if client.inside:
                await client.leave()
            await client.start(classic=random.random() < 0.5)
        for _ in range(25):
            await asyncio.sleep(0.5)
            for client in clients:
                await client.go_on()
            check_nothing_is_owned_twice(groups, clients)
        assert groups.seen == ("consumer", "Stable")
        assert sorted(one for client in clients for one in client.owned) == list(range(PARTITIONS))
