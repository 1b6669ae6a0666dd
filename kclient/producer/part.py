"""Records by columns: those of a chunk, and the part of them that goes to one partition.

A part is made by the drain and lives until its records are settled; then it knows what became of them. Who
asks and who is told is `delivery`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from kclient.errors import KafkaError
from kclient.records.packed import Packed
from kclient.records.sizes import RECORD_OVERHEAD, headers_size
from kclient.types import Header, RecordMetadata, TimestampType, TopicPartition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kclient.producer.delivery import Chunk, Delivery

Watcher: TypeAlias = "Callable[[Delivery], object]"
# An array where there are many, as numbers by themselves are dear.
Places: TypeAlias = "Sequence[int] | NDArray[np.intp]"

# Fields of one record in the flat list of a chunk: key and value, or an `Odd` in place of the value.
WIDTH = 2
_UNKNOWN_OFFSET = -1


class Odd(NamedTuple):
    """The value of a record that has more than key and value, with the rest."""

    value: bytes | None
    timestamp_ms: int | None
    headers: Sequence[Header]
    partition: int | None


class Columns(NamedTuple):
    """The records of a chunk by field. `times` is one number where all are alike.

    `headers`, `given` (partitions) and `watchers` are None where no record has any.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    times: int | Sequence[int]
    headers: Sequence[Sequence[Header]] | None
    given: Sequence[int | None] | None
    watchers: Sequence[Watcher | None] | None = None

    def sizes(self) -> list[int]:
        """What each record counts for in batches and in the buffer."""
        return record_sizes(self.keys, self.values, self.headers)


def record_sizes(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Sequence[Header]] | None,
) -> list[int]:
    """What records count for, each by itself."""
    if isinstance(keys, Packed) and isinstance(values, Packed):
        counted: list[int] = packed_sizes(keys, values).tolist()
        return counted
    try:
        lengths = map(add, map(len, keys), map(len, values))  # type: ignore[arg-type]
        sizes = [RECORD_OVERHEAD + length for length in lengths]
    except TypeError:  # some are null
        pairs = zip(keys, values, strict=True)
        sizes = [RECORD_OVERHEAD + len(key or b"") + len(value or b"") for key, value in pairs]
    if headers is None:
        return sizes
    return [size + headers_size(own) if own else size for size, own in zip(sizes, headers, strict=True)]


def packed_sizes(keys: Packed, values: Packed) -> NDArray[np.int64]:
    """The same for columns of Arrow."""
    sizes = np.maximum(keys.lengths, 0).astype(np.int64)
    sizes += np.maximum(values.lengths, 0)
    sizes += RECORD_OVERHEAD
    return sizes


class Part:
    """The records of one chunk that go to one partition, in order, as columns.

    `places` are their places in the chunk's flat list. `times` may be one number for all, `headers` and
    `watchers` None.
    """

    __slots__ = (
        "_places",
        "append_time",
        "base_offset",
        "chunk",
        "error",
        "errors",
        "headers",
        "keys",
        "log_start_offset",
        "origin",
        "partition",
        "settled",
        "size",
        "times",
        "topic",
        "values",
        "watchers",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - one per column
        self,
        chunk: Chunk,
        partition: int,
        places: Places,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times: int | Sequence[int],
        headers: Sequence[Sequence[Header]] | None,
        size: int,
        watchers: Sequence[Watcher | None] | None = None,
    ) -> None:
        # Taken away once it is settled: with it, chunk and parts are a circle, which only the collector ends.
        self.chunk: Chunk = chunk
        self.origin: object = chunk.origin
        self.topic: str = chunk.topic
        self.partition: int = partition
        self._places = places
        self.keys: Sequence[bytes | None] = keys
        self.values: Sequence[bytes | None] = values
        self.times: int | Sequence[int] = times
        self.headers: Sequence[Sequence[Header]] | None = headers
        self.size: int = size
        self.watchers: Sequence[Watcher | None] | None = watchers
        self.settled: bool = False
        self.base_offset: int = _UNKNOWN_OFFSET
        self.append_time: int = -1
        self.log_start_offset: int = -1
        self.error: KafkaError | None = None
        # Errors of single records by their rank, where the broker names them.
        self.errors: dict[int, KafkaError] | None = None

    def __len__(self) -> int:
        return len(self._places)

    @property
    def places(self) -> Sequence[int]:
        """The places of its records in the chunk."""
        return self._places if isinstance(self._places, Sequence) else self._places.tolist()

    def place(self, rank: int) -> int:
        """The place of one of its records in the chunk."""
        return int(self._places[rank])

    def split(self, at: int) -> tuple[Part, Part]:
        """The first `at` records and the rest, in place of this part."""
        headers = None if self.headers is None else self.headers[:at]
        share = sum(record_sizes(self.keys[:at], self.values[:at], headers))
        first = self._half(slice(None, at), share)
        second = self._half(slice(at, None), self.size - share)
        self.chunk.replace(self, [first, second])
        return first, second

    def _half(self, cut: slice, size: int) -> Part:
        times = self.times if isinstance(self.times, int) else self.times[cut]
        headers = None if self.headers is None else self.headers[cut]
        watchers = None if self.watchers is None else self.watchers[cut]
        keys, values = self.keys[cut], self.values[cut]
        return Part(
            self.chunk, self.partition, self._places[cut], keys, values, times, headers, size, watchers
        )

    def metadata(self, rank: int) -> RecordMetadata:
        """What is known of a record that was written, by its rank in the part."""
        offset, time = self.base_offset, self.append_time
        stamped = TimestampType.CREATE_TIME if time < 0 else TimestampType.LOG_APPEND_TIME
        if time < 0:
            time = self.times if isinstance(self.times, int) else int(self.times[rank])
        topic = self.topic
        return RecordMetadata(
            topic,
            self.partition,
            TopicPartition(topic, self.partition),
            offset + rank if offset >= 0 else _UNKNOWN_OFFSET,
            time,
            stamped,
            self.log_start_offset,
        )

    def error_of(self, rank: int) -> KafkaError | None:
        if self.errors is not None and rank in self.errors:
            return self.errors[rank]
        return self.error
