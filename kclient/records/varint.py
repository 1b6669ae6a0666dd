"""Zigzag varints as Kafka's records use them: encoded from tables, decoded one at a time.

Not the unsigned varints of flexible messages (those are `kclient.wire`), and not the vectorised decoding of a
whole batch (`columns`). Called by everything in this package that writes or walks records.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from kclient.errors import CorruptBatchError

Bytes: TypeAlias = bytes | memoryview

# Lengths and deltas below this are looked up; above it a record is mostly payload, or its batch is very long.
TABLED = 8192


def encode(value: int) -> bytes:
    """`value` (int64) as a zigzag varint.

    >>> encode(-1), encode(64)
    (b'\\x01', b'\\x80\\x01')
    """
    rest = value << 1 if value >= 0 else (~value << 1) | 1
    if rest < 0x80:
        return bytes((rest,))
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def size(value: int) -> int:
    """How many bytes `encode(value)` has.

    >>> size(63), size(64), size(-64), size(-65)
    (1, 2, 1, 2)
    """
    bits = (value if value >= 0 else ~value).bit_length()
    return bits // 7 + 1


@cache
def table() -> list[bytes]:
    """The encodings of the numbers below `TABLED`; shared, not to be changed.

    Building it takes some milliseconds, so it happens when the first batch is written and not at import.
    """
    return [encode(value) for value in range(TABLED)]


def decode32(buffer: Bytes, position: int) -> tuple[int, int]:
    """The int32 at `position` and where it ends. `IndexError` when the buffer ends first."""
    raw = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise CorruptBatchError("a varint of more than 5 bytes where an int32 was expected")
    if raw > 0xFFFFFFFF:
        raise CorruptBatchError(f"a varint of {raw.bit_length()} bits where an int32 was expected")
    return (raw >> 1) ^ -(raw & 1), position


def decode64(buffer: Bytes, position: int) -> tuple[int, int]:
    """The int64 at `position` and where it ends. `IndexError` when the buffer ends first."""
    raw = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise CorruptBatchError("a varint of more than 10 bytes")
    if raw > 0xFFFFFFFFFFFFFFFF:
        raise CorruptBatchError(f"a varint of {raw.bit_length()} bits where an int64 was expected")
    return (raw >> 1) ^ -(raw & 1), position
