"""Message sets of magic 0 and 1, as brokers before 0.11 wrote them: read, never written.

Each message is its own batch; a compressed message wraps a whole set of others. Old logs and old producers
are the only source, so this is written to be right, not fast. `reader` makes these batches.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from zlib import crc32

from kclient.errors import CorruptBatchError, ProtocolError
from kclient.records.batch import Extent, RecordBatch
from kclient.records.compression import Codec, codec_of, decompress, too_many_records
from kclient.records.layout import CODEC_MASK, LOG_APPEND_TIME, PREFIX, PREFIX_SIZE
from kclient.records.objects import BytesRecord, Origin, records_from_rows
from kclient.records.rows import Rows

if TYPE_CHECKING:
    import pyarrow

    from kclient.records.columns import Columns
    from kclient.records.limits import Limits

# After offset and size: crc, magic, attributes, and for magic 1 the timestamp.
_START = struct.Struct(">IBb")
_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")
_CHECKED_FROM = PREFIX_SIZE + 4
_MIN_MESSAGE = _START.size + 8
_LAST_OFFSET = (1 << 63) - 1


class _Message:
    """One message inside `view`, from its offset to its end."""

    __slots__ = ("attributes", "key", "magic", "offset", "timestamp", "value", "view")

    def __init__(self, view: memoryview) -> None:
        try:
            self._parse(view)
        except struct.error as error:
            raise CorruptBatchError(f"a message of {len(view)} bytes is cut short: {error}") from None

    def _parse(self, view: memoryview) -> None:
        self.view = view
        self.offset, _ = PREFIX.unpack_from(view)
        _, self.magic, self.attributes = _START.unpack_from(view, PREFIX_SIZE)
        if self.magic not in (0, 1):
            raise CorruptBatchError(f"a message of magic {self.magic} in a message set")
        position = PREFIX_SIZE + _START.size
        self.timestamp = -1
        if self.magic == 1:
            (self.timestamp,) = _TIMESTAMP.unpack_from(view, position)
            position += 8
        self.key, position = self._field(position)
        self.value, position = self._field(position)
        if position != len(view):
            raise CorruptBatchError(f"{len(view) - position} bytes are left after the value of a message")
        if not 0 <= self.offset < _LAST_OFFSET:
            raise CorruptBatchError(f"a message at offset {self.offset}")

    def _field(self, position: int) -> tuple[tuple[int, int], int]:
        """(start, size) of the field at `position` and where it ends; a size of -1 is null."""
        (size,) = _SIZE.unpack_from(self.view, position)
        position += 4
        if size < -1 or position + max(size, 0) > len(self.view):
            raise CorruptBatchError(f"a message field of {size} bytes in a message of {len(self.view)}")
        return (position, size), position + max(size, 0)

    def verify(self) -> None:
        (expected,) = struct.unpack_from(">I", self.view, PREFIX_SIZE)
        found = crc32(self.view[_CHECKED_FROM:])
        if found != expected:
            raise CorruptBatchError(f"the checksum of the message is {found:#010x}, it says {expected:#010x}")


class LegacyBatch(RecordBatch):
    """One message of magic 0 or 1, with the messages inside it when it is compressed.

    The offset of a compressed message is that of the last record in it; where the first one is shows only
    when it is decoded, so `base_offset` is that too.
    """

    __slots__ = ("_check_crcs", "_message")

    def __init__(self, view: memoryview, limits: Limits, *, check_crcs: bool) -> None:
        self._view = view
        self._limits = limits
        self._check_crcs = check_crcs
        self.base_offset: int = PREFIX.unpack_from(view)[0]
        self.last_offset: int = self.base_offset
        self.leader_epoch = -1
        try:
            self._message = message = _Message(view)
        except ProtocolError as error:
            error.locate(offset=self.base_offset)
            raise
        self.magic: int = message.magic
        self.attributes: int = message.attributes
        self.max_timestamp: int = message.timestamp

    @property
    def is_transactional(self) -> bool:
        return False

    @property
    def is_control(self) -> bool:
        return False

    def verify(self) -> None:
        try:
            self._message.verify()
        except ProtocolError as error:
            error.locate(offset=self.base_offset)
            raise

    def _records(self, origin: Origin) -> list[BytesRecord]:
        return records_from_rows(self._rows(), origin)

    def _columns(self) -> Columns:
        from kclient.records.columns import columns_from_rows  # noqa: PLC0415 - imports numpy

        return columns_from_rows(self._rows())

    def _arrow(self, origin: Origin, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        from kclient.records.arrow import arrow_from_records  # noqa: PLC0415 - imports pyarrow

        return arrow_from_records(self._records(origin), schema)

    def _rows(self) -> Rows:
        data = self._decompressed()
        if data is None:
            return _rows(self._view, [(0, self._message)], self._message)
        return _rows(data, self._inner(data), self._message)

    def _extent(self) -> Extent:
        data = self._decompressed()
        if data is None:
            return Extent(1, len(self._view))
        return Extent(len(data) // (PREFIX_SIZE + _MIN_MESSAGE), len(data))

    def _decompressed(self) -> memoryview | None:
        """The messages in a compressed one; None for one that is not."""
        codec = codec_of(self.attributes & CODEC_MASK)
        if codec is Codec.NONE:
            return None
        start, size = self._message.value
        if size < 0:
            raise CorruptBatchError("a compressed message without a value")
        return decompress(self._view[start : start + size], codec, self._limits, magic=self.magic)

    def _inner(self, data: memoryview) -> list[tuple[int, _Message]]:
        """The messages in a compressed one, with where they begin."""
        messages: list[tuple[int, _Message]] = []
        position = 0
        while position < len(data):
            if position + PREFIX_SIZE > len(data):
                raise CorruptBatchError("a compressed message set ends inside a message")
            _, size = PREFIX.unpack_from(data, position)
            end = position + PREFIX_SIZE + size
            if size < _MIN_MESSAGE or end > len(data):
                raise CorruptBatchError(f"a message of {size} bytes in a compressed set of {len(data)}")
            message = _Message(data[position:end])
            if message.magic != self.magic or message.attributes & CODEC_MASK:
                raise CorruptBatchError(
                    f"a message of magic {message.magic}, codec {message.attributes & CODEC_MASK} "
                    f"inside a compressed one of magic {self.magic}"
                )
            if self._check_crcs:
                message.verify()
            if len(messages) == self._limits.most_records:
                raise too_many_records(len(messages) + 1, self._limits)
            messages.append((position, message))
            position = end
        if not messages:
            raise CorruptBatchError("a compressed message without messages")
        return messages


def _rows(buffer: memoryview, messages: list[tuple[int, _Message]], wrapper: _Message) -> Rows:
    """Where everything is. Inner offsets of magic 1 count from the first message, those of 0 are final.

    Producers leave the offset of the wrapper at 0; only the broker knows it.
    """
    last = wrapper.offset or messages[-1][1].offset
    base = last - messages[-1][1].offset if wrapper.magic == 1 else 0
    rows = Rows(buffer, [], [], [], [], [], [], None)
    stamped = bool(wrapper.attributes & LOG_APPEND_TIME) and wrapper.magic == 1
    for start, message in messages:
        offset = base + message.offset
        if not 0 <= offset <= last:
            raise CorruptBatchError(f"offset {offset} in a message set that ends at offset {last}")
        rows.offsets.append(offset)
        rows.timestamps.append(wrapper.timestamp if stamped else message.timestamp)
        rows.key_starts.append(start + message.key[0])
        rows.key_sizes.append(message.key[1])
        rows.value_starts.append(start + message.value[0])
        rows.value_sizes.append(message.value[1])
    return rows
