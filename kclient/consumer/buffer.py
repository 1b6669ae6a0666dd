"""What is fetched and not handed out yet: chunks in the order of their arrival, bounded in bytes.

The event loop puts, the application takes, perhaps on another thread: everything happens under the lock that
they share. A frame's memory is one piece, so its bytes count until the last chunk of it is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kclient.consumer.chunk import Chunk
    from kclient.consumer.cursor import Cursor


class Frame:
    """The memory of one answer, shared by its chunks."""

    __slots__ = ("chunks", "size")

    def __init__(self, size: int) -> None:
        self.size: int = size
        self.chunks: int = 0


class FetchBuffer:
    """`on_data` is called when there is something to take, `on_room` when there is room again."""

    def __init__(
        self,
        limit: int,
        lock: AbstractContextManager[Any],
        on_data: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        self.limit = limit
        self.held: int = 0
        self.reserved: int = 0  # for answers that are under way
        self.starved: bool = False  # somebody waits, and nothing of what is held is for him
        self._lock = lock
        self._on_data = on_data
        self._on_room = on_room
        self._short = False  # a fetcher waits for room
        self._chunks: deque[Chunk] = deque()

    def __repr__(self) -> str:
        return (
            f"<FetchBuffer {len(self._chunks)} chunks, {self.held} + {self.reserved} of {self.limit} bytes>"
        )

    def reserve(self, most: int) -> int:
        """Room for an answer of up to `most` bytes: that much, or less; 0 if there is none, then wait."""
        with self._lock:
            room = min(most, self.limit - self.held - self.reserved)
            if room < min(most, self.limit // 4):  # rather one good fetch later than many small ones now
                self._short = True
                return 0
            self.reserved += room
            return room

    @property
    def full(self) -> bool:
        """Whether fetchers wait until the application has taken something."""
        return self._short

    def unreserve(self, size: int) -> None:
        with self._lock:
            self.reserved -= size
        self._tell_of_room()

    def put(self, chunks: Iterable[Chunk]) -> None:
        """Add what one answer brought."""
        with self._lock:
            before = len(self._chunks)
            for chunk in chunks:
                if not chunk.frame.chunks:
                    self.held += chunk.frame.size
                chunk.frame.chunks += 1
                self._chunks.append(chunk)
            arrived = len(self._chunks) > before
            self.starved = False
        if arrived:
            self._on_data()

    def snapshot(self) -> list[Chunk]:
        """All chunks, the oldest first."""
        with self._lock:
            return list(self._chunks)

    def remove(self, chunk: Chunk) -> None:
        """The chunk is used up, or not wanted."""
        with self._lock:
            self._chunks.remove(chunk)
            chunk.frame.chunks -= 1
            if not chunk.frame.chunks:
                self.held -= chunk.frame.size
        self._tell_of_room()

    def to_the_back(self, cursor: Cursor) -> None:
        """Let other partitions go first. All chunks of this one move, so that none overtakes another."""
        with self._lock:
            others = [chunk for chunk in self._chunks if chunk.cursor is not cursor]
            later = [chunk for chunk in self._chunks if chunk.cursor is cursor]
            self._chunks = deque(others + later)

    def recount(self) -> None:
        """Count again what is held, after a call that changed it was interrupted."""
        with self._lock:
            frames: dict[Frame, int] = {}
            for chunk in self._chunks:
                frames[chunk.frame] = frames.get(chunk.frame, 0) + 1
            for frame, chunks in frames.items():
                frame.chunks = chunks
            self.held = sum(frame.size for frame in frames)
            self._short = False
        self._on_room()

    def starve(self) -> None:
        """Somebody waits for partitions of which nothing is here: they may be fetched beyond the bound."""
        if self._chunks and self._short and not self.starved:
            self.starved = True
            self._on_room()

    def clear(self) -> None:
        with self._lock:
            self._chunks.clear()
            self.held = 0

    def _tell_of_room(self) -> None:
        if self._short and self.limit - self.held - self.reserved >= self.limit // 4:
            self._short = False
            self._on_room()
