"""Records of a batch (magic 2), decoded one after the other.

The reference: it knows every shape and finds every fault. `columns` decodes large batches faster and leaves
everything it finds odd to this file, so what is an error is decided here and only here. Called by `batch`.
"""

from __future__ import annotations

from kclient.errors import CorruptBatchError
from kclient.records.layout import LOG_APPEND_TIME, BatchHeader
from kclient.records.rows import HeaderRows, Rows
from kclient.records.varint import decode32, decode64

_INT64 = 1 << 63
_ONE_BYTE = [byte >> 1 ^ -(byte & 1) for byte in range(128)]
# The part of the first byte in a varint of two bytes that is not negative.
_TWO_BYTES = [(byte & 0x7F) >> 1 for byte in range(256)]


def decode_rows(buffer: bytes, header: BatchHeader) -> Rows:
    """Find the fields of `header.record_count` records in `buffer`, which holds exactly them."""
    try:
        return _decode(buffer, header)
    except IndexError:
        raise CorruptBatchError(
            f"{len(buffer)} bytes end before the last of {header.record_count} records does"
        ) from None


def _decode(buffer: bytes, header: BatchHeader) -> Rows:  # noqa: C901, PLR0912, PLR0915 - a hot loop
    """Varints of one and two bytes, which nearly all are, are read in place: calls would double the time."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    last_delta, limit = header.last_offset_delta, len(buffer)
    rows = Rows(buffer, [], [], [], [], [], [], HeaderRows([], [], [], [], []))
    _, offsets, timestamps, key_starts, key_sizes, value_starts, value_sizes, spans = rows
    assert spans is not None
    fields = ((key_starts, key_sizes), (value_starts, value_sizes))
    one, two = _ONE_BYTE, _TWO_BYTES
    position = 0
    for index in range(header.record_count):
        byte = buffer[position]
        if byte < 0x80:
            size = one[byte]
            position += 1
        elif buffer[position + 1] < 0x80:
            size = two[byte] + (buffer[position + 1] << 6) if not byte & 1 else -1
            position += 2
        else:
            size, position = decode32(buffer, position)
        end = position + size
        if size < 0 or end > limit:
            raise CorruptBatchError(f"record {index} claims {size} of {limit - position} bytes")
        byte = buffer[position + 1]
        if byte < 0x80:
            timestamp = base_timestamp + one[byte]
            position += 2
        else:
            elapsed, position = decode64(buffer, position + 1)
            timestamp = base_timestamp + elapsed
        byte = buffer[position]
        if byte < 0x80:
            delta = one[byte]
            position += 1
        else:
            delta, position = decode32(buffer, position)
        if not 0 <= delta <= last_delta or not -_INT64 <= timestamp < _INT64:
            raise CorruptBatchError(f"record {index} has offset delta {delta}, timestamp {timestamp}")
        offsets.append(base_offset + delta)
        timestamps.append(timestamp)
        for starts, sizes in fields:
            byte = buffer[position]
            if byte < 0x80:
                size = one[byte]
                position += 1
            elif buffer[position + 1] < 0x80:
                size = two[byte] + (buffer[position + 1] << 6) if not byte & 1 else -2
                position += 2
            else:
                size, position = decode32(buffer, position)
            starts.append(position)
            sizes.append(size)
            if size > 0:
                position += size
            elif size < -1:
                raise CorruptBatchError(f"record {index} has a field of {size} bytes")
        position = _headers(buffer, position, end, index, spans) if buffer[position] else position + 1
        if position != end:
            raise CorruptBatchError(f"record {index} should end at byte {end} but ends at {position}")
    if position != len(buffer):
        raise CorruptBatchError(f"{len(buffer) - position} bytes are left after the last record")
    if header.attributes & LOG_APPEND_TIME:
        timestamps[:] = [header.max_timestamp] * len(timestamps)
    return rows if spans.records else rows._replace(headers=None)


def _headers(buffer: bytes, position: int, end: int, index: int, spans: HeaderRows) -> int:
    if position >= end:
        raise CorruptBatchError(f"record {index} should end at byte {end} but has fields up to {position}")
    count, position = decode32(buffer, position)
    if count < 0 or count * 2 > end - position:
        raise CorruptBatchError(f"record {index} claims {count} headers in {end - position} bytes")
    for _ in range(count):
        key_size, position = decode32(buffer, position)
        if key_size < 0:
            raise CorruptBatchError(f"record {index} has a header key of {key_size} bytes")
        spans.records.append(index)
        spans.key_starts.append(position)
        spans.key_sizes.append(key_size)
        position += key_size
        value_size, position = decode32(buffer, position)
        if value_size < -1:
            raise CorruptBatchError(f"record {index} has a header value of {value_size} bytes")
        spans.value_starts.append(position)
        spans.value_sizes.append(value_size)
        position += max(value_size, 0)
    return position
