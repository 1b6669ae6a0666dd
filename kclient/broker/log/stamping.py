"""A validated batch as the log stores it: with its place, its append time, and the log's own compression.

Only headers change; the records are copied with them once, and compressed again only where the topic demands
another codec than the producer's.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, cast

from kclient.errors import InvalidRecordError, MessageTooLargeError, ProtocolError
from kclient.records import DEFAULT_LIMITS, Codec, compress, decompress, with_append_time, with_place
from kclient.records.crc import crc32c
from kclient.records.layout import (
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    PREFIX_SIZE,
    BatchHeader,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kclient.broker.log.config import LogConfig

_CRC = struct.Struct(">I")


class Appended(NamedTuple):
    """Where a payload went. For a duplicate, where it went the first time (with the timestamp of then)."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    duplicate: bool


class Stored(NamedTuple):
    """Batches as they go into a segment, one after the other, with their headers."""

    data: bytes
    headers: list[BatchHeader]
    next_offset: int


class Stamps(NamedTuple):
    """What all batches of an append share."""

    config: LogConfig
    leader_epoch: int
    now_ms: int


def stored_form(
    batches: Iterable[tuple[memoryview, BatchHeader]], stamps: Stamps, base_offset: int
) -> Stored:
    """What to append for validated batches, from `base_offset` on."""
    pieces: list[bytes] = []
    headers: list[BatchHeader] = []
    for view, header in batches:
        piece = with_place(_prepared(view, header, stamps), base_offset, stamps.leader_epoch)
        pieces.append(piece)
        headers.append(BatchHeader._make(HEADER.unpack_from(piece)))
        base_offset += header.last_offset_delta + 1
    return Stored(pieces[0] if len(pieces) == 1 else b"".join(pieces), headers, base_offset)


def _prepared(view: memoryview, header: BatchHeader, stamps: Stamps) -> bytes:
    batch = cast("bytes", view)  # what is declared for bytes works on any buffer, and spares a copy here
    codec = stamps.config.codec
    if codec is not None and codec != header.attributes & CODEC_MASK and not header.attributes & CONTROL:
        batch = recompressed(view, header, codec)
        if len(batch) > stamps.config.max_message_bytes:
            raise MessageTooLargeError(
                f"Message batch size is {len(batch)} bytes in the log's compression, which exceeds the "
                f"maximum configured size of {stamps.config.max_message_bytes}."
            )
    return with_append_time(batch, stamps.now_ms) if stamps.config.stamps else batch


def recompressed(view: memoryview, header: BatchHeader, codec: Codec) -> bytes:
    """The same records behind the same header, in another compression."""
    try:
        records = decompress(view[HEADER_SIZE:], Codec(header.attributes & CODEC_MASK), DEFAULT_LIMITS)
    except ProtocolError as error:
        raise InvalidRecordError(f"Records that cannot be decompressed: {error}") from error
    packed = bytes(records)
    if codec is not Codec.NONE:
        packed = compress(packed, codec)
    return assembled(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), packed)


def emptied(header: BatchHeader) -> bytes:
    """What stays of a batch without records: its offsets, its producer's sequence, its latest timestamp."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return assembled(header._replace(attributes=attributes, base_timestamp=-1, record_count=0), b"")


def assembled(header: BatchHeader, records: bytes) -> bytes:
    """A header before its records, with length and checksum put right."""
    out = bytearray(HEADER.pack(*header._replace(length=HEADER_SIZE - PREFIX_SIZE + len(records))))
    out += records
    _CRC.pack_into(out, CRC_AT, crc32c(memoryview(out)[CHECKED_FROM:]))
    return bytes(out)
