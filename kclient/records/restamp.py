"""Changing header fields of a batch that is already encoded, without touching its records.

For the producer that must send a batch again under another producer id, and for the embedded broker, which
gives batches their offsets. Only fields under the checksum cost a pass over the records.
"""

from __future__ import annotations

import struct

from kclient.errors import EncodeError
from kclient.records.crc import crc32c
from kclient.records.layout import (
    CHECKED_FROM,
    CRC_AT,
    HEADER_SIZE,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
    PRODUCER_AT,
)

_UINT32 = struct.Struct(">I")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT16 = struct.Struct(">H")
_PRODUCER = struct.Struct(">qhi")


def with_place(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """The batch at another offset, as appended under `leader_epoch`. Neither is under the checksum."""
    header = _header(batch)
    try:
        _INT64.pack_into(header, 0, base_offset)
        _INT32.pack_into(header, LEADER_EPOCH_AT, leader_epoch)
    except struct.error as error:
        raise EncodeError(f"offset {base_offset} and leader epoch {leader_epoch}: {error}") from error
    return b"".join((header, memoryview(batch)[HEADER_SIZE:]))


def with_producer(batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """The batch as written by another producer, or by the same one at another place in its sequence."""
    header = _header(batch)
    try:
        _PRODUCER.pack_into(header, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    except struct.error as error:
        raise EncodeError(
            f"producer {producer_id}, epoch {producer_epoch}, sequence {base_sequence}: {error}"
        ) from error
    return _checked(header, batch)


def with_append_time(batch: bytes, timestamp: int) -> bytes:
    """The batch with all its records stamped by the broker at `timestamp`."""
    header = _header(batch)
    (attributes,) = _UINT16.unpack_from(header, CHECKED_FROM)
    _UINT16.pack_into(header, CHECKED_FROM, attributes | LOG_APPEND_TIME)
    try:
        _INT64.pack_into(header, MAX_TIMESTAMP_AT, timestamp)
    except struct.error as error:
        raise EncodeError(f"timestamp {timestamp}: {error}") from error
    return _checked(header, batch)


def _header(batch: bytes) -> bytearray:
    if len(batch) < HEADER_SIZE:
        raise EncodeError(f"{len(batch)} bytes are no record batch")
    return bytearray(memoryview(batch)[:HEADER_SIZE])


def _checked(header: bytearray, batch: bytes) -> bytes:
    records = memoryview(batch)[HEADER_SIZE:]
    _UINT32.pack_into(header, CRC_AT, crc32c(records, crc32c(bytes(header[CHECKED_FROM:]))))
    return b"".join((header, records))
