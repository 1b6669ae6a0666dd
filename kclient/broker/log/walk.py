"""Walks over the batches of a segment by their headers alone; no records are decoded.

A window of the store is read at a time, so that small batches cost no call each and large ones are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kclient.records import DEFAULT_LIMITS, ModernBatch
from kclient.records.crc import crc32c
from kclient.records.layout import CHECKED_FROM, HEADER, HEADER_SIZE, PREFIX_SIZE, BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kclient.broker.log.storage import Store

_WINDOW = 16 * 1024
_CHUNK = 1024 * 1024


class Place(NamedTuple):
    """A batch in a segment."""

    position: int
    size: int
    header: BatchHeader

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def last_offset(self) -> int:
        return self.header.base_offset + self.header.last_offset_delta

    def load(self, store: Store) -> ModernBatch:
        """The batch itself."""
        return ModernBatch(memoryview(store.read(self.position, self.size)), DEFAULT_LIMITS)


def places(store: Store, start: int, *, window: int = _WINDOW) -> Iterator[Place]:
    """Every batch from `start` on, up to the first that is torn or none at all."""
    end = store.size
    buffer: bytes | memoryview = b""
    origin = position = start
    while position + HEADER_SIZE <= end:
        if position + HEADER_SIZE > origin + len(buffer):
            buffer, origin = store.read(position, window), position
            if len(buffer) < HEADER_SIZE:
                return
        header = BatchHeader._make(HEADER.unpack_from(buffer, position - origin))
        size = PREFIX_SIZE + header.length
        if header.magic != 2 or size < HEADER_SIZE or position + size > end:
            return
        yield Place(position, size, header)
        position += size


def checked_places(store: Store) -> Iterator[Place]:
    """Every batch from the beginning whose checksum fits, up to the first that is not as it should be."""
    chunk, origin = memoryview(b""), 0
    next_offset = 0
    for place in places(store, 0):
        if place.end > origin + len(chunk):
            chunk, origin = memoryview(store.read(place.position, max(_CHUNK, place.size))), place.position
        checked = chunk[place.position - origin + CHECKED_FROM : place.end - origin]
        header = place.header
        if header.base_offset < next_offset or header.last_offset_delta < 0 or crc32c(checked) != header.crc:
            return
        yield place
        next_offset = place.last_offset + 1
