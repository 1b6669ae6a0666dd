"""Records of one partition that are handed out one by one, without work per record.

`getone` and iteration take from `records` with a plain list iterator, which counts for us: the position is
computed from it when somebody asks. To stop handing out (a seek, a pause, a lost partition) the iterator is
emptied, and ends by itself.

With the client on a thread of its own, the application may take records in the very moment in which the
group takes the partition away. Between counting and emptying it must not, or what it took would be handed out
again: so what is left is taken out of the iterator in one call, inside of which the interpreter does not
change threads. And Ctrl-C may come in the middle of putting it back: then it is put back once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kclient.consumer.chunk import Chunk
    from kclient.types import Record, TopicPartition


class Hand:
    """Open until it is put back or used up."""

    __slots__ = ("_after", "_chunk", "_iterator", "_records", "_rest")

    def __init__(self, chunk: Chunk, records: list[Record[Any, Any]], after: int) -> None:
        self._chunk = chunk
        self._records = records
        self._after = after  # the position when all are handed out
        self._iterator = iter(records)
        self._rest: list[Record[Any, Any]] = []  # what was taken out of the iterator to be put back
        chunk.cursor.hand = self

    @property
    def iterator(self) -> Iterator[Record[Any, Any]]:
        return self._iterator

    @property
    def partition(self) -> TopicPartition:
        return self._chunk.cursor.partition

    @property
    def open(self) -> bool:
        return self._chunk.cursor.hand is self

    @property
    def left(self) -> int:
        """How many are not handed out yet."""
        return length_hint(self._iterator) + len(self._rest)

    @property
    def position(self) -> int:
        """The offset of the next record, or where reading goes on after the last."""
        left = self.left
        return self._records[-left].offset if left else self._after

    @property
    def processed(self) -> int | None:
        """The offset of the record handed out last: the application may still work on it. None for none."""
        taken = len(self._records) - self.left
        return self._records[taken - 1].offset if taken else None

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the record before a position in here."""
        records, chunk = self._records, self._chunk
        if offset > records[-1].offset:
            return chunk.epoch
        return chunk.cursor.epoch if offset <= records[0].offset else records[0].leader_epoch

    def put_back(self) -> None:
        """Give what is left back to the chunk, and let the iterator end. May be repeated."""
        self._rest.extend(self._iterator)
        records, rest, cursor = self._records, self._rest, self._chunk.cursor
        taken = len(records) - len(rest)
        position = rest[0].offset if rest else self._after
        if taken:
            cursor.processed = (records[taken - 1].offset, self._chunk.epoch)
            cursor.move(position, self._chunk.epoch)
        else:
            cursor.pass_over(position, self._chunk.epoch)
        self._chunk.keep(rest)
        cursor.hand = None
