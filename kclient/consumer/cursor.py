"""The place of a consumer in one partition: one state machine, as a table.

A cursor has two places. `position` is the next offset that the application gets, `fetch_offset` the next one
to ask a broker for; between them lies what is buffered. It begins without either:

    LOOKING_UP   the group's committed offset is wanted; without a group or a commit, the policy decides
    RESETTING    the offset of a point in time is wanted: the beginning, the end, a timestamp (`target`)
    VALIDATING   the partition has a new leader, which may have lost records that were read here (KIP-320);
                 what is buffered is still handed out meanwhile
    FETCHING     brokers are asked for records
    STUCK        reading cannot go on: the application was told, and has to seek
    DROPPED      nobody wants this cursor any more

Its identity decides whether fetched data is still wanted. To seek, to truncate and to lose a partition never
change where a cursor fetches: they drop it, and perhaps put a new one in its stead; what was fetched or is
under way for the old one finds it DROPPED, and is thrown away. So no answer can move a cursor that it was not
made for. Only a seek within what is buffered keeps the cursor, as what is fetched is wanted then: `jump`.

`paused` (by the application) and `fenced` (by the group, while a listener runs) are no states: any cursor may
be either, and neither touches what is buffered.

Read and written under `Subscription.lock` by the event loop and by the application's thread; the fields from
`asked` on belong to the event loop alone.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from kclient.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kclient.cluster.retry import Backoff
    from kclient.consumer.hand import Hand
    from kclient.errors import KafkaError

EARLIEST = -2
LATEST = -1
NO_EPOCH = -1


class State(Enum):
    """See the head of this file."""

    LOOKING_UP = "looking up"
    RESETTING = "resetting"
    VALIDATING = "validating"
    FETCHING = "fetching"
    STUCK = "stuck"
    DROPPED = "dropped"


class Event(Enum):
    """What happens to a cursor."""

    FOUND = "a position was found"
    NOT_COMMITTED = "the group has committed nothing"
    NEW_LEADER = "the partition has a new leader"
    VALID = "the new leader has everything that was read"
    FAILED = "there is no position, and none can be found"
    DROP = "the cursor is not wanted any more"


_NEXT: dict[tuple[State, Event], State] = {
    (State.LOOKING_UP, Event.FOUND): State.FETCHING,
    (State.LOOKING_UP, Event.NOT_COMMITTED): State.RESETTING,
    (State.LOOKING_UP, Event.FAILED): State.STUCK,
    (State.RESETTING, Event.FOUND): State.FETCHING,
    (State.RESETTING, Event.FAILED): State.STUCK,
    (State.FETCHING, Event.NEW_LEADER): State.VALIDATING,
    (State.FETCHING, Event.FAILED): State.STUCK,
    (State.VALIDATING, Event.VALID): State.FETCHING,
    (State.VALIDATING, Event.FAILED): State.STUCK,
    **{(state, Event.DROP): State.DROPPED for state in State},
}


class Cursor:
    """A place in one partition; see the head of this file."""

    __slots__ = (
        "_position",
        "asked",
        "backoff",
        "committed",
        "epoch",
        "fenced",
        "fetch_epoch",
        "fetch_offset",
        "hand",
        "heir",
        "high_watermark",
        "last_fetch",
        "last_stable_offset",
        "leader_epoch",
        "max_bytes",
        "not_before",
        "partition",
        "paused",
        "processed",
        "replica",
        "replica_until",
        "state",
        "target",
        "trouble",
    )

    def __init__(
        self, partition: TopicPartition, *, target: int | None = None, by_policy: bool = False
    ) -> None:
        self.partition: TopicPartition = partition
        # What to reset to; None asks the group first, unless `by_policy`, and then the reset policy.
        self.target: int | None = target
        self.state = State.LOOKING_UP if target is None and not by_policy else State.RESETTING
        self.paused: bool = False
        self.fenced: bool = False
        # Records that are being handed out one by one; while there are some, they know the position.
        self.hand: Hand | None = None
        # Where the records in the application's hands are counted on, if a truncation has replaced this.
        self.heir: Cursor | None = None
        self._position: int | None = None
        self.epoch: int = NO_EPOCH  # of the record before the position
        # The position when the application last asked for more: all before it counts as processed.
        self.processed: tuple[int, int] | None = None
        # Nothing before this is owed to the group: reading began there, or it has it.
        self.committed: int = -1
        self.fetch_offset: int = -1
        self.fetch_epoch: int = NO_EPOCH
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.last_fetch: int | None = None  # when the last answer came, in milliseconds since the epoch
        # A broker has been asked and has not answered: nobody else may be asked meanwhile.
        self.asked: bool = False
        self.leader_epoch: int = NO_EPOCH
        self.replica: int | None = None
        self.replica_until: float = 0.0
        self.max_bytes: int = 0  # what a batch that did not fit needs
        self.not_before: float = 0.0
        self.backoff: Backoff | None = None
        self.trouble: KafkaError | None = None  # what the last answer about it was, if that was an error

    def __repr__(self) -> str:
        flags = "".join(f" {name}" for name in ("paused", "fenced", "asked") if getattr(self, name))
        topic, number = self.partition
        return f"<Cursor {topic}-{number} {self.state.value} {self.position} <= {self.fetch_offset}{flags}>"

    @property
    def dropped(self) -> bool:
        return self.state is State.DROPPED

    @property
    def position(self) -> int | None:
        """The next offset that the application gets."""
        return self._position if self.hand is None else self.hand.position

    def happens(self, event: Event) -> None:
        """Go to the next state; what the table does not know is a defect."""
        try:
            self.state = _NEXT[self.state, event]
        except KeyError:
            raise AssertionError(f"{event.name} cannot happen to {self!r}") from None

    def find(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Begin at an offset, of which the record before it may have a known leader epoch."""
        self._position = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.processed = (offset, epoch)
        self.committed = offset
        self.happens(Event.FOUND)

    def ends_at(self, end: int, committed_only: bool) -> None:
        """A broker says where the partition ends; a fetch may have said more meanwhile."""
        self.high_watermark = max(self.high_watermark or 0, end)
        if committed_only:
            self.last_stable_offset = max(self.last_stable_offset or 0, end)

    def jump(self, offset: int) -> None:
        """Go on at an offset within what was fetched, which stays."""
        self._position = self.committed = offset
        self.epoch = NO_EPOCH
        self.processed = (offset, NO_EPOCH)

    def move(self, position: int, epoch: int) -> None:
        """Everything before `position` has been handed out."""
        if position < 0:
            return  # taken: an error about a partition without a position; it still has none
        self._position = position
        self.epoch = epoch

    def pass_over(self, position: int, epoch: int) -> None:
        """Nothing before `position` is shown: processed at once, if all that was handed out is."""
        done = self.processed is not None and self.processed[0] == self._position
        self.move(position, epoch)
        if done:
            self.settle()

    def drop(self) -> None:
        """Hand out nothing more, at once."""
        self.put_down()
        self.happens(Event.DROP)

    def put_down(self) -> None:
        """Stop what is being handed out one by one; the rest goes back where it came from."""
        if self.hand is not None:
            self.hand.put_back()

    def settle(self) -> None:
        """The application asks for more, so it is done with all it has got."""
        if self._position is not None:
            self.processed = (self._position, self.epoch)
        if self.heir is not None:
            self.heir.settle()

    @property
    def in_hand(self) -> bool:
        """Whether the application may still be working on what it got."""
        handing = self.hand is not None and self.hand.processed is not None
        return handing or (self.processed is not None and self.processed[0] != self._position)

    def consumed(self) -> OffsetAndMetadata | None:
        """What `commit()` commits."""
        hand, position = self.hand, self.position
        if position is None:
            return None
        return _committable(position, self.epoch if hand is None else hand.epoch_before(position))

    def settled(self) -> OffsetAndMetadata | None:
        """What auto commit commits: not the record that the application has in its hands."""
        hand = self.hand
        processed = None if hand is None else hand.processed
        if hand is not None and processed is not None:
            return _committable(processed, hand.epoch_before(processed))
        return None if self.processed is None else _committable(*self.processed)

    def inherit(self, other: Cursor, end: int, epoch: int) -> None:
        """Go on in the place of one that was dropped, or at the end, if that is before it: the log was cut.

        The application has what it had in its hands, and what was not committed is not committed yet.
        """
        position = other.position
        assert position is not None
        self.find(min(position, end), epoch)
        if other.processed is not None and other.processed[0] <= end:
            self.processed = other.processed
        self.committed = min(other.committed, end)
        other.heir = self

    def successor(self, **options: Any) -> Cursor:
        """A cursor to take this one's place in the same partition, with all that is not about the place."""
        other = Cursor(self.partition, **options)
        other.paused, other.fenced = self.paused, self.fenced
        other.high_watermark, other.last_stable_offset = self.high_watermark, self.last_stable_offset
        other.last_fetch = self.last_fetch
        return other


def _committable(offset: int, epoch: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", None if epoch < 0 else epoch)
