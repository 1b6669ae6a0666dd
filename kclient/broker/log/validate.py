"""Whether a produce payload may enter a log, decided as Kafka does, from the headers where they suffice.

Records are decoded only where the answer depends on them: keys in a compacted log, timestamps that the header
shows to be out of range or that are limited to the past.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kclient.broker.log.config import FOREVER
from kclient.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    ProtocolError,
    UnknownServerError,
)
from kclient.records import DEFAULT_LIMITS, ModernBatch
from kclient.records.crc import crc32c
from kclient.records.layout import (
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC_AT,
    PREFIX,
    PREFIX_SIZE,
    BatchHeader,
)

if TYPE_CHECKING:
    from kclient.broker.log.config import LogConfig

_SMALLEST = 14
_NO_TIMESTAMP = -1
_FEW = 48
_NO_KEY = "Compacted topic cannot accept message without key"


class Origin(Enum):
    """Who appends. A coordinator may write control batches, and several batches at once."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class RecordsRefusedError(InvalidRecordError):
    """Some records are not acceptable; `record_errors` has index and reason of each."""

    record_errors: tuple[tuple[int, str], ...] = ()


class TimestampsRefusedError(InvalidTimestampError):
    """Some records have timestamps out of range; `record_errors` has index and reason of each."""

    record_errors: tuple[tuple[int, str], ...] = ()


def split(data: bytes | memoryview) -> list[memoryview]:
    """The batches of a payload, each whole; a torn one at the end is left out, as Kafka does."""
    view = memoryview(data)
    found: list[memoryview] = []
    position, end = 0, len(view)
    while position + MAGIC_AT < end:
        _, length = PREFIX.unpack_from(view, position)
        if length < _SMALLEST:
            raise CorruptMessageError(
                f"Record size {length} is less than the minimum record overhead ({_SMALLEST})"
            )
        magic = view[position + MAGIC_AT]
        if magic > 2:
            raise CorruptMessageError(f"Invalid magic found in record: {magic}")
        if position + PREFIX_SIZE + length > end:
            break
        if magic < 2:
            raise InvalidRecordError(
                "Produce requests are only allowed to contain record batches with magic version 2"
            )
        found.append(view[position : position + PREFIX_SIZE + length])
        position += PREFIX_SIZE + length
    return found


def check_payload(
    batches: list[memoryview], config: LogConfig, now_ms: int, origin: Origin
) -> list[BatchHeader]:
    """The headers of batches that may be appended; otherwise the error that Kafka answers with."""
    if not batches:
        raise InvalidRecordError("Produce requests must have exactly one record batch per partition")
    if len(batches) > 1 and origin is Origin.CLIENT:
        raise InvalidRecordError(
            "Produce requests are only allowed to contain exactly one record batch per partition"
        )
    return [_check(view, config, now_ms, origin) for view in batches]


def _check(view: memoryview, config: LogConfig, now_ms: int, origin: Origin) -> BatchHeader:
    if len(view) < HEADER_SIZE:
        raise CorruptMessageError(f"Record is corrupt: {len(view)} bytes are less than a header")
    header = BatchHeader._make(HEADER.unpack_from(view))
    if header.base_offset != 0 and origin is Origin.CLIENT:
        raise InvalidRecordError(
            f"The baseOffset of the record batch should be 0, but it is {header.base_offset}"
        )
    if len(view) > config.max_message_bytes:
        raise MessageTooLargeError(
            f"The record batch size is {len(view)} bytes which exceeds the maximum configured value of "
            f"{config.max_message_bytes}."
        )
    if crc32c(view[CHECKED_FROM:]) != header.crc:
        raise CorruptMessageError(f"Record is corrupt (stored crc = {header.crc})")
    _check_counts(header, origin)
    if header.attributes & CODEC_MASK > 4:
        raise UnknownServerError(f"Unknown compression type id: {header.attributes & CODEC_MASK}")
    if origin is Origin.CLIENT and header.attributes & CONTROL:
        raise InvalidRecordError("Clients are not allowed to write control records")
    if header.attributes & LOG_APPEND_TIME:
        raise _refused_timestamps([(0, "Producer should not set timestamp type to LogAppendTime.")])
    _check_records(view, header, config, now_ms)
    return header


def _check_counts(header: BatchHeader, origin: Origin) -> None:
    count, delta = header.record_count, header.last_offset_delta
    if delta < 0:
        raise InvalidRecordError(f"Batch has an invalid offset range: [0, {delta}]")
    if count <= 0:
        raise InvalidRecordError(f"Invalid reported count for record batch: {count}")
    if delta + 1 != count:
        raise InvalidRecordError(f"Inconsistent batch offset range [0, {delta}] and count of records {count}")
    if origin is Origin.CLIENT and header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecordError(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id}"
        )


def _check_records(view: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    keys = config.compacted and not header.attributes & CONTROL
    times = not config.stamps and (
        config.message_timestamp_before_max_ms != FOREVER
        or header.max_timestamp - now_ms > config.message_timestamp_after_max_ms
    )
    if not keys and not times:
        return
    try:
        key_sizes, timestamps = _key_sizes_and_times(ModernBatch(view, DEFAULT_LIMITS))
    except ProtocolError as error:
        raise InvalidRecordError(f"Records that cannot be decoded: {error}") from error
    errors = [(index, _NO_KEY) for index, size in enumerate(key_sizes) if keys and size < 0]
    if times:
        late = _late(timestamps, config, now_ms)
        if late:
            raise _refused_timestamps(sorted(errors + late))
    if errors:
        refused = RecordsRefusedError(
            f"One or more records have been rejected due to {len(errors)} record errors in total"
        )
        refused.record_errors = tuple(errors)
        raise refused


def _key_sizes_and_times(batch: ModernBatch) -> tuple[list[int], list[int]]:
    if batch.record_count < _FEW:
        records = batch.records("", 0)
        return [record.serialized_key_size for record in records], [record.timestamp for record in records]
    columns = batch.columns()
    return columns.key_sizes.tolist(), columns.timestamps.tolist()


def _late(timestamps: list[int], config: LogConfig, now_ms: int) -> list[tuple[int, str]]:
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    allowed = f"The timestamp should be within [{earliest}, {latest}]"
    return [
        (
            index,
            f"Timestamp {timestamp} of message with offset {index} is out of range. {allowed}",
        )
        for index, timestamp in enumerate(timestamps)
        if timestamp != _NO_TIMESTAMP and not earliest <= timestamp <= latest
    ]


def _refused_timestamps(errors: list[tuple[int, str]]) -> TimestampsRefusedError:
    refused = TimestampsRefusedError("One or more records have been rejected due to invalid timestamp")
    refused.record_errors = tuple(errors)
    return refused
