"""The members of a classic group: who they are, who leads them, and which protocol all of them speak.

Nothing here waits or writes: `rebalance` and `joining` decide when members come and go.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kclient.errors import FencedInstanceIdError, UnknownMemberIdError
from kclient.wire.messages.classic_groups import JoinGroupResponse, SyncGroupResponse


@dataclass(eq=False, slots=True)
class Member:
    """One member, and the requests of it that wait for an answer.

    A request whose client went away still counts as waiting: the member is there until its time is up.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]
    assignment: bytes = b""
    # It has never been told its generation, so it cannot send heartbeats yet.
    is_new: bool = False
    joining: asyncio.Future[JoinGroupResponse] | None = None
    syncing: asyncio.Future[SyncGroupResponse] | None = None

    @property
    def needs_no_heartbeat(self) -> bool:
        """It waits for us, so it is not its fault that it is silent."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def answer_join(self, response: JoinGroupResponse) -> None:
        waiting, self.joining = self.joining, None
        if waiting is not None and not waiting.done():
            waiting.set_result(response)

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Whether a sync waited."""
        waiting, self.syncing = self.syncing, None
        if waiting is not None and not waiting.done():
            waiting.set_result(response)
        return waiting is not None


class Members:
    """The members of one group, in the order in which they came.

    `pending` are the ids that were handed out to members that have not come back with them, `unsynced` the
    members of this generation that have not asked for their assignment.
    """

    def __init__(self) -> None:
        self.leader: str | None = None
        self.pending: set[str] = set()
        self.unsynced: set[str] = set()
        self._by_id: dict[str, Member] = {}
        self._by_instance: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_id.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def get(self, member_id: str) -> Member | None:
        return self._by_id.get(member_id)

    def static(self, instance_id: str | None) -> Member | None:
        """The member that holds a group instance id."""
        held = None if instance_id is None else self._by_instance.get(instance_id)
        return None if held is None else self._by_id[held]

    def add(self, member: Member) -> None:
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Forget a member or an id that was handed out; the oldest member follows a leader."""
        member = self._by_id.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self._by_instance[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        return member

    def rename(self, old: Member, member_id: str) -> Member:
        """A static member came back under a new id: same place, assignment and, if so, leadership."""
        new = replace(old, member_id=member_id, is_new=False, joining=None, syncing=None)
        self._by_id = {
            one.member_id: one for one in (new if one is old else one for one in self._by_id.values())
        }
        assert old.instance_id is not None
        self._by_instance[old.instance_id] = member_id
        if self.leader == old.member_id:
            self.leader = member_id
        if old.member_id in self.unsynced:
            self.unsynced.discard(old.member_id)
            self.unsynced.add(member_id)
        return new

    def check(self, member_id: str, instance_id: str | None) -> None:
        """Is it a member, and the current holder of its instance id?"""
        if instance_id is not None:
            holder = self.static(instance_id)
            if holder is None:
                raise UnknownMemberIdError(about=f"group instance id {instance_id}")
            if holder.member_id != member_id:
                raise FencedInstanceIdError(about=f"member {member_id} of group instance id {instance_id}")
        if member_id not in self._by_id:
            raise UnknownMemberIdError(about=f"member {member_id}")

    @property
    def joined(self) -> int:
        """How many wait for the others to join."""
        return sum(member.joining is not None for member in self._by_id.values())

    @property
    def all_joined(self) -> bool:
        return self.joined == len(self._by_id) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member wants to have."""
        return max((member.rebalance_timeout_ms for member in self._by_id.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Have a member lead that joined; False where none did."""
        if self.leader is None:
            return False
        if self._by_id[self.leader].joining is None:
            joined = (member.member_id for member in self._by_id.values() if member.joining is not None)
            elected = next(joined, None)
            if elected is None:
                return False
            self.leader = elected
        return True

    def speaks(self, protocols: Iterable[str]) -> bool:
        """Do all members speak one of these?"""
        common = self._common()
        return not self._by_id or any(name in common for name in protocols)

    def select_protocol(self) -> str:
        """What most members like best of what all of them speak."""
        common = self._common()
        votes = Counter(
            next(name for name in member.protocols if name in common) for member in self._by_id.values()
        )
        ((name, _),) = votes.most_common(1)
        return name

    def _common(self) -> set[str]:
        spoken = [set(member.protocols) for member in self._by_id.values()]
        return set.intersection(*spoken) if spoken else set()
