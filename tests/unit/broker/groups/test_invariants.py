"""Whatever members do, and whatever they fail to do, what a group tells them stays consistent."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kclient.broker.groups.states import State
from kclient.wire.messages.classic_groups import JoinGroupResponse
from tests.support.virtual_loop import VirtualLoop
from tests.unit.broker.groups.driving import MEMBER_ID_REQUIRED, OK, Groups, settle

ONE = ("join", "change", "sync", "heartbeat", "leave", "vanish")
ALL = ("join", "sync", "heartbeat", "wait", "wait long")
# What one client does, or all of them one after another; the latter alone makes a group stable.
STEPS = st.one_of(
    st.tuples(st.integers(min_value=0, max_value=4), st.sampled_from(ONE)),
    st.tuples(st.none(), st.sampled_from(ALL)),
)


class Client:
    """A member that does what it is told, in any order. Its name outlives its member ids."""

    def __init__(self, world: World, name: str, instance: str | None) -> None:
        self.world = world
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.led: list[str] | None = None
        self.topics = ("orders",)

    async def join(self) -> None:
        answer = await self.world.groups.join(self.member_id, instance=self.instance, topics=self.topics)
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.world.names[answer.member_id] = self.name
            self.member_id = answer.member_id
            await self.join()
        elif answer.error_code == OK:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.world.names[answer.member_id] = self.name
            self.led = [member.member_id for member in answer.members] or None
            if answer.skip_assignment:
                self.led = None
            self.world.joined(self, answer)
        else:
            self.member_id, self.led = "", None

    async def sync(self) -> None:
        generation, member_id, led = self.generation, self.member_id, self.led or []
        assignments = {one: self.world.share(generation, one) for one in led}
        answer = await self.world.groups.sync(member_id, generation, assignments, instance=self.instance)
        if answer.error_code == OK:
            assert answer.assignment == self.world.share(generation, member_id)

    async def heartbeat(self) -> None:
        generation = self.generation
        code = await self.world.groups.heartbeat(self.member_id, generation, instance=self.instance)
        assert code != OK or generation == self.world.generation

    async def leave(self) -> None:
        await self.world.groups.leave((self.member_id, self.instance) if self.instance else self.member_id)


class World:
    """A group, its clients, and all that was ever said about its generations."""

    def __init__(self) -> None:
        self.groups = Groups(group_initial_rebalance_delay_ms=1_000)
        self.names: dict[str, str] = {}
        self.leaders: dict[int, str] = {}
        self.generation = 0
        self.clients = [Client(self, f"dynamic {number}", None) for number in range(3)]
        self.clients += [Client(self, f"static {number}", f"static-{number}") for number in range(2)]

    def share(self, generation: int, member_id: str) -> bytes:
        return f"{self.names[member_id]} in {generation}".encode()

    def joined(self, client: Client, answer: JoinGroupResponse) -> None:
        """Generations only grow, and each has one leader, who is a member and alone sees the others."""
        assert answer.generation_id >= self.generation
        self.generation = answer.generation_id
        led_by = self.names.get(answer.leader)
        if led_by is not None:
            assert self.leaders.setdefault(answer.generation_id, led_by) == led_by
        if answer.members:
            assert answer.leader == answer.member_id == client.member_id
            assert answer.leader in [member.member_id for member in answer.members]

    def check(self) -> None:
        group: Any = self.groups.coordinator.groups.get("g")
        if group is None:
            return
        ids = [member.member_id for member in group.members]
        assert (group.members.leader in ids) == bool(ids)
        assert group.members.unsynced <= set(ids)
        assert not group.members.pending & set(ids)
        if group.state is State.EMPTY:
            assert not ids
        if group.state in (State.STABLE, State.COMPLETING):
            assert ids
            assert all(group.protocol_name in member.protocols for member in group.members)
        if group.state is not State.COMPLETING:
            assert not any(member.syncing for member in group.members)
        if group.state is State.STABLE:
            assert not any(member.joining for member in group.members)
            for member in group.members:
                assert member.assignment == self.share(group.generation, member.member_id)

    async def run(self, steps: list[tuple[int | None, str]]) -> None:
        async with self.groups:
            for number, action in steps:
                if action.startswith("wait"):
                    await asyncio.sleep(2 if action == "wait" else 9)
                for client in self.clients if number is None else [self.clients[number]]:
                    await self.act(client, action)
                    await settle()
                    self.check()
            await asyncio.sleep(600)
            self.check()
            assert "g" not in self.groups.coordinator.groups or self.groups.state == "Empty"

    async def act(self, client: Client, action: str) -> None:
        if action == "join":
            self.groups.start(client.join())
        elif action == "change":
            client.topics = ("payments",) if client.topics == ("orders",) else ("orders",)
            self.groups.start(client.join())
        elif action == "sync" and client.generation >= 0 and client.member_id:
            self.groups.start(client.sync())
        elif action == "heartbeat" and client.member_id:
            await client.heartbeat()
        elif action == "leave" and client.member_id:
            await client.leave()
        elif action == "vanish":
            client.member_id, client.generation, client.led = "", -1, None


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_generations_have_one_leader_and_members_get_what_it_assigned(
    steps: list[tuple[int | None, str]],
) -> None:
    loop = VirtualLoop()

    async def run() -> None:
        await World().run(steps)

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
