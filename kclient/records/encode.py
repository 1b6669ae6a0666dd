"""Records to the immutable bytes of one record batch (magic 2), for the producer and the embedded broker.

Hot. Every payload is copied once, by the `join` that makes the batch. Not here: how records are cut into
pieces (`pieces`), when a batch is full (`sizes`), changing a batch that is already encoded (`restamp`).
"""

from __future__ import annotations

import struct
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from kclient.errors import EncodeError
from kclient.records import pieces as cut
from kclient.records import varint
from kclient.records.compression import Codec, compress
from kclient.records.crc import crc32c
from kclient.records.layout import (
    CHECKED_FROM,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    PREFIX_SIZE,
    TRANSACTIONAL,
)
from kclient.records.pieces import Fields, RecordTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kclient.records.packed import Run


_CRC = struct.Struct(">I")
_NULL = varint.encode(-1)
# Fewer records than this are encoded faster one by one.
_FEW = 24


class Stamp(NamedTuple):
    """The header fields of a batch that its records do not decide.

    `append_time` marks the batch as stamped by the broker at that time; `delete_horizon` (ms) is when its
    tombstones and markers may be compacted away.
    """

    base_offset: int = 0
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False
    append_time: int | None = None
    delete_horizon: int | None = None


PLAIN = Stamp()


def encode_batch(
    records: Sequence[RecordTuple],
    *,
    stamp: Stamp = PLAIN,
    codec: Codec = Codec.NONE,
    level: int | None = None,
) -> bytes:
    """One batch of `(key, value, timestamp, headers)` tuples with consecutive offsets.

    >>> len(encode_batch([(b"key", b"value", 1700000000000, ())]))
    76
    """
    flat: list[Any] = []
    extend = flat.extend
    for record in records:
        extend(record)
    return encode_flat(flat, stamp=stamp, codec=codec, level=level)


def encode_flat(
    flat: Sequence[Any], *, stamp: Stamp = PLAIN, codec: Codec = Codec.NONE, level: int | None = None
) -> bytes:
    """One batch of `key, value, timestamp, headers, key, value ...` in one flat list.

    The cheapest way to collect records: `flat += key, value, timestamp, headers` leaves no tuple behind for
    the garbage collector to walk, and columns are slices.
    """
    fields = Fields(flat[0::4], flat[1::4], flat[2::4], flat[3::4])
    return encode_fields(fields, stamp=stamp, codec=codec, level=level)


def encode_fields(
    fields: Fields,
    *,
    stamp: Stamp = PLAIN,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    plain_sizes: list[int] | None = None,
) -> bytes:
    """One batch of records given as columns, with consecutive offsets.

    With a codec, `plain_sizes` is told how large the batch would be without it.
    """
    keys, values, times, headers = fields
    total = len(keys)
    if total == 0:
        raise EncodeError("a batch without records: use encode_sparse for what compaction leaves behind")
    for column in (values, headers, None if isinstance(times, int) else times):
        if column is not None and len(column) != total:
            raise EncodeError(f"{total} keys but {len(column)} values, timestamps or headers")
    first = times if isinstance(times, int) else times[0]
    base = first if stamp.delete_horizon is None else stamp.delete_horizon
    try:
        pieces, latest = _cut(fields, base)
    except (TypeError, ValueError, AttributeError) as error:
        raise EncodeError(f"records that a batch cannot carry: {error}") from error
    return _assemble(pieces, _Open(stamp, total, total - 1, base, latest), codec, level, plain_sizes)


def encode_one(key: bytes | None, value: bytes | None, timestamp: int, stamp: Stamp) -> bytes:
    """A batch of one record without headers, not compressed: for who waits for it. As `encode_fields`."""
    record = b"".join(
        (
            b"\0\0\0",  # attributes, timestamp delta, offset delta
            _NULL if key is None else varint.encode(len(key)) + key,
            _NULL if value is None else varint.encode(len(value)),
            value or b"",
            b"\0",
        )
    )
    size = varint.encode(len(record))
    header = _Open(stamp, 1, 0, timestamp, timestamp).pack(len(size) + len(record), Codec.NONE)
    checked = b"".join((header[CHECKED_FROM:], size, record))
    return b"".join((header[:CRC_AT], _CRC.pack(crc32c(checked)), checked))


def encode_runs(
    runs: Sequence[Run],
    *,
    stamp: Stamp = PLAIN,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    plain_sizes: list[int] | None = None,
) -> bytes:
    """One batch of records that come in columns of Arrow, with consecutive offsets and without headers.

    For `plain_sizes` see `encode_fields`.
    """
    from kclient.records import packed  # noqa: PLC0415 - numpy, for those who have it loaded anyway

    total = sum(len(run.values) for run in runs)
    if total == 0:
        raise EncodeError("a batch without records: use encode_sparse for what compaction leaves behind")
    base = packed.first_time(runs[0]) if stamp.delete_horizon is None else stamp.delete_horizon
    latest = max(map(packed.latest_time, runs))
    header = _Open(stamp, total, total - 1, base, latest)
    return _assemble(packed.records(runs, base), header, codec, level, plain_sizes)


def encode_sparse(
    records: Sequence[tuple[int, RecordTuple]],
    last_offset_delta: int,
    *,
    stamp: Stamp = PLAIN,
    codec: Codec = Codec.NONE,
    level: int | None = None,
) -> bytes:
    """A batch with gaps, or empty, as compaction leaves it: each record comes with its offset delta."""
    rows = [record for _, record in records]
    times = [row[2] for row in rows]
    first, latest = (times[0], max(times)) if rows else (-1, -1)
    base = first if stamp.delete_horizon is None else stamp.delete_horizon
    try:
        pieces = cut.by_record(rows, base, [varint.encode(delta) for delta, _ in records])
    except (TypeError, ValueError, AttributeError) as error:
        raise EncodeError(f"records that a batch cannot carry: {error}") from error
    header = _Open(stamp, len(rows), last_offset_delta, base, latest)
    return _assemble(pieces, header, codec if rows else Codec.NONE, level)


def _cut(fields: Fields, base: int) -> tuple[list[bytes], int]:
    """The pieces of all records, and the latest timestamp."""
    keys, _, times, headers = fields
    total = len(keys)
    if total >= _FEW and (not headers or headers.count(()) == total or not any(headers)):
        pieces = cut.by_columns(fields, base)
        if pieces is not None:
            # It takes only timestamps that rise.
            return pieces, times if isinstance(times, int) else times[-1]
    pieces = cut.by_record(_rows(fields), base, cut.consecutive(total))
    return pieces, times if isinstance(times, int) else max(times)


class _Open(NamedTuple):
    """What is known of a batch before its length and checksum are."""

    stamp: Stamp
    record_count: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int

    def pack(self, size: int, codec: Codec) -> bytes:
        stamp = self.stamp
        attributes = (
            codec
            | (0 if stamp.append_time is None else LOG_APPEND_TIME)
            | (TRANSACTIONAL if stamp.transactional else 0)
            | (CONTROL if stamp.control else 0)
            | (0 if stamp.delete_horizon is None else DELETE_HORIZON)
        )
        return HEADER.pack(
            stamp.base_offset,
            HEADER_SIZE - PREFIX_SIZE + size,
            stamp.leader_epoch,
            2,
            0,
            attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp if stamp.append_time is None else stamp.append_time,
            stamp.producer_id,
            stamp.producer_epoch,
            stamp.base_sequence,
            self.record_count,
        )


def _assemble(
    pieces: list[bytes],
    header: _Open,
    codec: Codec,
    level: int | None,
    plain_sizes: list[int] | None = None,
) -> bytes:
    """Join the records behind their header and put length and checksum in.

    `BytesIO` hands out the very bytes object it was given as long as nobody else holds it, so writing the
    header into it costs no second copy of the payloads.
    """
    try:
        if codec is not Codec.NONE:
            plain = b"".join(pieces)
            if plain_sizes is not None:
                plain_sizes.append(HEADER_SIZE + len(plain))
            pieces = [compress(plain, codec, level)]
            del plain  # it may be large
        pieces.insert(0, bytes(HEADER_SIZE))
        file = BytesIO(b"".join(pieces))
        with file.getbuffer() as view:
            view[:HEADER_SIZE] = header.pack(len(view) - HEADER_SIZE, codec)
            _CRC.pack_into(view, CRC_AT, crc32c(view[CHECKED_FROM:]))
        return file.getvalue()
    except (TypeError, struct.error) as error:
        raise EncodeError(f"records that a batch cannot carry: {error}") from error


def _rows(fields: Fields) -> Iterable[RecordTuple]:
    keys, values, times, headers = fields
    total = len(keys)
    times = [times] * total if isinstance(times, int) else times
    return zip(keys, values, times, [()] * total if headers is None else headers, strict=True)
