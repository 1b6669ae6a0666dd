"""Which records are not settled yet, and the one place where they are: memory, watchers, whoever waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kclient.clock import Deadline
from kclient.errors import KafkaError
from kclient.producer.delivery import Chunk
from kclient.producer.part import Part


class Ledger:
    """The unsettled chunks of a producer. `release` gives the memory of settled records back."""

    def __init__(self, release: Callable[[int], None]) -> None:
        self._release = release
        self._open: dict[Chunk, None] = {}
        self._waiting: list[tuple[set[Chunk], asyncio.Future[None]]] = []
        # Whether callbacks are being called.
        self.telling: bool = False

    def __repr__(self) -> str:
        return f"<Ledger {self.records} records open>"

    @property
    def records(self) -> int:
        """How many records are not settled."""
        return sum(chunk.left for chunk in list(self._open))  # also asked by threads

    @property
    def empty(self) -> bool:
        """Whether every record that was drained is settled."""
        return not self._open

    def enter(self, chunk: Chunk) -> None:
        """A chunk was cut: from now on its parts are settled one by one."""
        self._open[chunk] = None

    def deliver(
        self, parts: Iterable[Part], base_offset: int, append_time: int = -1, log_start_offset: int = -1
    ) -> None:
        """The records of these parts were written, from `base_offset` on; -1 where nobody knows."""
        for part in parts:
            part.base_offset = base_offset
            part.append_time = append_time
            part.log_start_offset = log_start_offset
            if base_offset >= 0:
                base_offset += len(part)
            self._settle(part)

    def fail(
        self, parts: Iterable[Part], error: KafkaError, errors: dict[int, KafkaError] | None = None
    ) -> None:
        """The records of these parts were not written; `errors` has those that have a reason of their own,
        by their rank among all.
        """
        first = 0
        for part in parts:
            part.error = error
            if errors:
                part.errors = {
                    rank - first: own for rank, own in errors.items() if 0 <= rank - first < len(part)
                }
            first += len(part)
            self._settle(part)

    async def settled(self, deadline: Deadline) -> bool:
        """Wait until every chunk that is open now is settled; False when that takes too long."""
        chunks = set(self._open)
        if not chunks:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (chunks, waiter)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout_at(deadline.at):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(entry)
        return True

    def undelivered(self) -> dict[str, int]:
        """How many records of which topic are not settled."""
        counts: dict[str, int] = {}
        for chunk in self._open:
            counts[chunk.topic] = counts.get(chunk.topic, 0) + chunk.left
        return counts

    def _settle(self, part: Part) -> None:
        chunk = part.chunk
        chunk.settle(part)
        part.keys = part.values = ()
        part.headers = None
        self._release(part.size)
        if part.watchers is not None or chunk.watched:
            self.telling = True
            chunk.call_watchers(part)
            self.telling = False
        del part.chunk
        if not chunk.left:
            del self._open[chunk]
            for chunks, waiter in self._waiting:
                chunks.discard(chunk)
                if not chunks and not waiter.done():
                    waiter.set_result(None)
            self.telling = True
            chunk.call_finished()
            self.telling = False
