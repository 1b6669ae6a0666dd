"""The reading half of a consumer as a group sees it, without reading anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kclient.consumer.seam import Subscribed
from kclient.types import OffsetAndMetadata, TopicPartition


@dataclass
class FakePositions:
    """Keeps what it is told. Every step is in `steps`; positions are set by the test."""

    topics: frozenset[str] | None = None
    server_pattern: str | None = None
    reading: set[TopicPartition] = field(default_factory=set)
    fenced: set[TopicPartition] = field(default_factory=set)
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    unfinished: set[TopicPartition] = field(default_factory=set)
    gone: set[TopicPartition] = field(default_factory=set)  # and what was handed out of them
    awaited: bool = False
    waits: bool = True
    woken: int = 0
    steps: list[tuple[str, frozenset[TopicPartition]]] = field(default_factory=list)

    def subscribed(self) -> Subscribed | None:
        return None if self.topics is None else Subscribed(self.topics, self.server_pattern)

    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self.reading)

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: at for p, at in self.offsets.items() if p in self.reading}

    def processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: at for p, at in self.to_commit().items() if p not in self.unfinished}

    def forfeited(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> frozenset[TopicPartition]:
        return frozenset(offsets) & self.gone

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        pass

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        assert self.reading.isdisjoint(partitions)
        self.reading.update(partitions)
        self._note("assign", partitions)

    def revoke(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:  # noqa: ARG002
        self.reading.difference_update(partitions)
        self.fenced.difference_update(partitions)
        self._note("revoke", partitions)

    def fence(self, partitions: Collection[TopicPartition]) -> None:
        assert self.reading.issuperset(partitions)
        self.fenced.update(partitions)
        self._note("fence", partitions)

    def release(self, partitions: Collection[TopicPartition]) -> None:
        self.fenced.difference_update(partitions)
        self._note("release", partitions)

    def in_hand(self, partitions: Collection[TopicPartition]) -> bool:
        return not self.unfinished.isdisjoint(partitions)

    def waiting(self) -> bool:
        return self.waits

    def wake(self) -> None:
        self.woken += 1

    def _note(self, step: str, partitions: Collection[TopicPartition]) -> None:
        self.steps.append((step, frozenset(partitions)))
