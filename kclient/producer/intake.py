"""What one call of `send_many` or `send_arrow` brings, chunk by chunk, and what becomes of all of it.

Both clients put the chunks into the accumulator and wait for room; nothing here waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Self

from kclient.errors import KafkaError
from kclient.producer.delivery import Chunk
from kclient.producer.many import Deliveries, Many, Source
from kclient.producer.spread import whole

# The chunks of many records, checked, and the highest partition that any of them is meant for.
Gather = Callable[[Many], tuple[list[Chunk], int | None]]


class Intake:
    """Iterate within `with`, and put each chunk into the accumulator before asking for the next."""

    def __init__(self, gather: Gather, source: Source) -> None:
        pieces = map(gather, source.pieces)
        self._pieces = list(pieces) if source.at_once else pieces
        self._highest = source.partition
        self._chunks: list[Chunk] = []
        self._counts: list[int] = []
        self._refusal: KafkaError | None = None
        # How many records are in the accumulator.
        self.taken: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and (self.taken or isinstance(error, asyncio.CancelledError)):
            error.add_note(f"the first {self.taken} records are sent all the same")

    def __iter__(self) -> Iterator[tuple[Chunk, int | None]]:
        """Each chunk, with the highest partition of those that begin with it."""
        for chunks, highest in self._pieces:
            wanted = max((each for each in (highest, self._highest) if each is not None), default=None)
            for chunk in chunks:
                yield from self._offered(chunk, wanted)
                wanted = self._highest = None

    def _offered(self, chunk: Chunk, wanted: int | None) -> Iterator[tuple[Chunk, int | None]]:
        count = chunk.flat_records()
        self._chunks.append(chunk)
        self._counts.append(count)
        if self._refusal is None:
            yield chunk, wanted
        if self._refusal is None:
            self.taken += count
        else:
            _give_up(chunk, self._refusal)

    def refuse(self, error: KafkaError) -> None:
        """Fail the chunk that was asked for last, and all after it; raises where it was the first."""
        if not self.taken:
            raise error
        self._refusal = error

    def deliveries(self) -> Deliveries:
        """The fate of all records, once there are no more chunks."""
        return Deliveries(self._chunks, self._counts)


def _give_up(chunk: Chunk, error: KafkaError) -> None:
    part = whole(chunk, -1)
    part.error = error
    chunk.cut([part], len(part))
    chunk.settle(part)
