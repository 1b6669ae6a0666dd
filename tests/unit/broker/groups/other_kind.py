"""A group that is not a classic one, as far as the coordinator can see."""

from __future__ import annotations

from typing import ClassVar

from kclient.broker.groups.base import GroupRecord, GroupType
from kclient.errors import BrokerError, NonEmptyGroupError


class OtherGroup:
    """Says what a test wants it to say."""

    type_name: ClassVar[GroupType] = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str, *, empty: bool = False, fetch_error: BrokerError | None = None) -> None:
        self.group_id = group_id
        self.is_empty = empty
        self.fetch_error = fetch_error
        self.commit_error: BrokerError | None = None
        self.commits: list[tuple[str, int, str | None, int]] = []
        self.closed = False

    @property
    def state_name(self) -> str:
        return "Empty" if self.is_empty else "Assigning"

    def check_commit(self, member_id: str, epoch: int, instance_id: str | None, version: int) -> None:
        if self.commit_error is not None:
            raise self.commit_error
        self.commits.append((member_id, epoch, instance_id, version))

    def check_fetch(self, member_id: str | None, epoch: int) -> None:  # noqa: ARG002
        if self.fetch_error is not None:
            raise self.fetch_error

    def check_delete(self) -> None:
        if not self.is_empty:
            raise NonEmptyGroupError(about=self.group_id)

    def check_offset_delete(self) -> None:
        """Always."""

    def is_subscribed_to(self, topic: str) -> bool:
        return topic == "orders"

    def offsets_expire_from(self, committed_at_ms: int) -> int | None:
        return committed_at_ms

    def describe(self) -> None:
        return None

    def tombstones(self) -> list[GroupRecord]:
        return [(b"\x00\x03" + self.group_id.encode(), None)]

    def loaded(self) -> None:
        """No timers."""

    def close(self) -> None:
        self.closed = True
