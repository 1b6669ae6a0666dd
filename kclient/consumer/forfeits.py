"""What was handed out of partitions that a group has taken away since.

Such a partition may have another reader by now, one that committed more, or this consumer again, which begins
at what was committed. So the offset of what was handed out before can no longer be committed: the application
is told by its commits until it asks for records again, as it would else take the work for recorded: the first
attempt may be followed by another. Kept by `Subscription`, asked by `Commits` and the clients.
"""

from __future__ import annotations

from collections.abc import Mapping

from kclient.types import OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Forfeits:
    """The end of what was handed out, by partition. `positions` are those of now, of what is assigned."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, OffsetAndMetadata] = {}
        self._untold: set[TopicPartition] = set()
        self._told = False

    def __bool__(self) -> bool:
        return bool(self._ends)

    def note(self, partition: TopicPartition, end: OffsetAndMetadata, *, tell: bool) -> None:
        """A partition goes. `tell`: the application may believe that it can still commit this.

        It may have come back since it went before. Then what is settled of it by now, as far as it went
        then, is nothing to be told of any more.
        """
        before = self._ends[partition] if partition in self._untold else None
        further = before is not None and _ahead(before, end)
        self._ends[partition] = before if before is not None and further else end
        if tell or further:
            self._untold.add(partition)
        else:
            self._untold.discard(partition)

    def asked_for_more(self) -> None:
        """The application goes on: what a commit has told it of is done with."""
        if self._told:
            self._told = False
            self._untold.clear()

    def tell(self, positions: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit of everything has to fail for; not what was handed out again."""
        self._told = self._told or bool(self._untold)
        found = {partition: self._ends[partition] for partition in self._untold}
        return {partition: end for partition, end in found.items() if _ahead(end, positions.get(partition))}

    def among(self, offsets: Offsets, positions: Offsets) -> frozenset[TopicPartition]:
        """Which of these offsets belong to what went."""
        return frozenset(
            partition
            for partition, offset in offsets.items()
            if partition in self._ends
            and not _ahead(offset, self._ends[partition])
            and _ahead(offset, positions.get(partition))
        )

    def clear(self) -> None:
        """The application itself decided to read something else."""
        self._ends.clear()
        self._untold.clear()
        self._told = False


def _ahead(offset: OffsetAndMetadata, of: OffsetAndMetadata | None) -> bool:
    return of is None or offset.offset > of.offset
