"""One record batch as it stands in a fetched frame, and the ways its records come out of it.

A batch is a view: nothing is decompressed or decoded until `records`, `columns` or `arrow` is called, on the
caller's side. `reader` makes batches; the consumer, the embedded broker and tests use them. This file chooses
between the decoders (`scalar`, `uniform`, `columns`) and puts the place on their errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from kclient.errors import CorruptBatchError, ProtocolError
from kclient.records.compression import Codec, codec_of, decompress, too_many_records
from kclient.records.crc import crc32c
from kclient.records.layout import (
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MIN_RECORD_SIZE,
    TRANSACTIONAL,
    BatchHeader,
)
from kclient.records.objects import (
    BytesRecord,
    Origin,
    records_from_columns,
    records_from_rows,
    records_from_runs,
)
from kclient.records.scalar import decode_rows
from kclient.types import TimestampType

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow

    from kclient.records.columns import Columns
    from kclient.records.limits import Limits
    from kclient.records.uniform import Run

# From so many records on, numpy is faster than a loop: in runs of one shape, and in any other shape.
RUNS_FROM = 48
COLUMNS_FROM = 192
# Batches from here on are decoded as fast by themselves as with others, or faster where records are alike.
LARGE = 512
_LAST_OFFSET = (1 << 63) - 1


class Extent(NamedTuple):
    """How many records a batch has at most, and their bytes decompressed."""

    records: int
    size: int


class RecordBatch(ABC):
    """A run of records that was written together.

    Offsets of the batch itself may have gaps after compaction: `last_offset` is where the batch ends, whether
    or not its last records still exist.
    """

    __slots__ = (
        "_limits",
        "_view",
        "attributes",
        "base_offset",
        "last_offset",
        "leader_epoch",
        "magic",
        "max_timestamp",
    )

    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    max_timestamp: int
    _view: memoryview
    _limits: Limits

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(offsets {self.base_offset}-{self.last_offset}, magic {self.magic}, "
            f"attributes {self.attributes:#x}, {self.size} bytes)"
        )

    @property
    def next_offset(self) -> int:
        """Where reading goes on after this batch."""
        return self.last_offset + 1

    @property
    def size(self) -> int:
        """Bytes of the whole batch with its header."""
        return len(self._view)

    @property
    def codec(self) -> Codec:
        """How the records are compressed."""
        try:
            return codec_of(self.attributes & CODEC_MASK)
        except ProtocolError as error:
            error.locate(offset=self.base_offset)
            raise

    @property
    def timestamp_type(self) -> TimestampType:
        """Who stamped the records."""
        return (
            TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME
        )

    @property
    @abstractmethod
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""

    @property
    @abstractmethod
    def is_control(self) -> bool:
        """Whether the records are control records, which applications never see."""

    @abstractmethod
    def verify(self) -> None:
        """Raise `CorruptBatchError` unless the checksum fits."""

    def extent(self) -> Extent:
        """How large the records are. What is decompressed to know it is kept for the next decoding."""
        try:
            return self._extent()
        except ProtocolError as error:
            error.locate(offset=self.base_offset)
            raise

    def records(self, topic: str, partition: int) -> list[BytesRecord]:
        """All records as objects."""
        try:
            return self._records(Origin(topic, partition, self.timestamp_type, self.leader_epoch))
        except ProtocolError as error:
            error.locate(topic=topic, partition=partition, offset=self.base_offset)
            raise

    def columns(self) -> Columns:
        """All records as numpy columns over the buffer they lie in."""
        try:
            return self._columns()
        except ProtocolError as error:
            error.locate(offset=self.base_offset)
            raise

    def arrow(self, topic: str, partition: int, columns: Sequence[str] | None = None) -> pyarrow.RecordBatch:
        """All records as one Arrow batch with the columns of `kclient.records.arrow.SCHEMA`.

        `columns` names those that are wanted; no others are made.
        """
        from kclient.records.arrow import schema_of  # noqa: PLC0415 - imports pyarrow

        schema = schema_of(columns)
        try:
            return self._arrow(Origin(topic, partition, self.timestamp_type, self.leader_epoch), schema)
        except ProtocolError as error:
            error.locate(topic=topic, partition=partition, offset=self.base_offset)
            raise

    @abstractmethod
    def _extent(self) -> Extent: ...

    @abstractmethod
    def _records(self, origin: Origin) -> list[BytesRecord]: ...

    @abstractmethod
    def _columns(self) -> Columns: ...

    @abstractmethod
    def _arrow(self, origin: Origin, schema: pyarrow.Schema) -> pyarrow.RecordBatch: ...


class ModernBatch(RecordBatch):
    """A batch of magic 2, as all brokers since 0.11 write it."""

    __slots__ = ("_section", "header")
    header: BatchHeader

    def __init__(self, view: memoryview, limits: Limits) -> None:
        self.header = header = BatchHeader._make(HEADER.unpack_from(view))
        self._view = view
        self._limits = limits
        self._section: memoryview | None = None  # decompressed, and not decoded yet
        self.magic = 2
        self.base_offset: int = header.base_offset
        self.last_offset: int = header.base_offset + header.last_offset_delta
        self.leader_epoch: int = header.leader_epoch
        self.attributes: int = header.attributes
        self.max_timestamp: int = header.max_timestamp
        if not 0 <= header.record_count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
            raise self._corrupt(
                f"{header.record_count} records in a batch of last offset delta {header.last_offset_delta}"
            )
        if header.base_offset < 0 or self.last_offset >= _LAST_OFFSET:
            raise self._corrupt(f"a batch from offset {self.base_offset} to {self.last_offset}")

    def _corrupt(self, message: str) -> ProtocolError:
        return CorruptBatchError(message).locate(offset=self.base_offset)

    @property
    def record_count(self) -> int:
        """How many records there are."""
        return self.header.record_count

    @property
    def producer_id(self) -> int:
        """The idempotent or transactional producer, -1 for none."""
        return self.header.producer_id

    @property
    def producer_epoch(self) -> int:
        """Epoch of the producer id."""
        return self.header.producer_epoch

    @property
    def base_sequence(self) -> int:
        """Place of the first record in the producer's sequence, -1 for none."""
        return self.header.base_sequence

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """When (ms) compaction may remove the tombstones and markers in here, if that was decided."""
        return self.header.base_timestamp if self.attributes & DELETE_HORIZON else None

    def verify(self) -> None:
        found = crc32c(self._view[CHECKED_FROM:])
        if found != self.header.crc:
            raise self._corrupt(
                f"the checksum of the batch is {found:#010x}, its header says {self.header.crc:#010x}"
            )

    def section(self) -> memoryview:
        """The records, decompressed; enough bytes for their number."""
        held, self._section = self._section, None
        return self._decompressed() if held is None else held

    def _extent(self) -> Extent:
        if self._section is None:
            self._section = self._decompressed()
        return Extent(self.header.record_count, len(self._section))

    def _decompressed(self) -> memoryview:
        codec = codec_of(self.attributes & CODEC_MASK)
        if codec and self.record_count > self._limits.most_records:
            raise too_many_records(self.record_count, self._limits)
        section = decompress(self._view[HEADER_SIZE:], codec, self._limits)
        if self.record_count * MIN_RECORD_SIZE > len(section):
            raise CorruptBatchError(f"{self.record_count} records cannot be in {len(section)} bytes")
        return section

    def _runs(self, section: memoryview) -> list[Run] | None:
        if self.record_count < RUNS_FROM:
            return None
        from kclient.records.uniform import decode_runs  # noqa: PLC0415 - imports numpy

        return decode_runs(section, self.header)

    def _wide(self, section: memoryview) -> Columns | None:
        if self.record_count < COLUMNS_FROM:
            return None
        from kclient.records.columns import decode_columns  # noqa: PLC0415 - imports numpy

        return decode_columns(section, self.header)

    def _records(self, origin: Origin) -> list[BytesRecord]:
        section = self.section()
        runs = self._runs(section)
        if runs is not None:
            return records_from_runs(section, runs, self.header, origin)
        columns = self._wide(section)
        if columns is not None:
            return records_from_columns(columns, origin)
        return records_from_rows(decode_rows(bytes(section), self.header), origin)

    def _arrow(self, origin: Origin, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        from kclient.records.arrow import arrow_batch, arrow_from_records  # noqa: PLC0415 - imports pyarrow

        if self.record_count < RUNS_FROM:
            return arrow_from_records(self._records(origin), schema)
        return arrow_batch(self._columns(), origin, schema)

    def _columns(self) -> Columns:
        from kclient.records.columns import columns_from_rows, columns_from_runs  # noqa: PLC0415

        section = self.section()
        runs = self._runs(section)
        if runs is not None:
            return columns_from_runs(section, runs, self.header)
        return self._wide(section) or columns_from_rows(decode_rows(bytes(section), self.header))
