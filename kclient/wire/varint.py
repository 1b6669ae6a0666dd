"""Unsigned variable-length integers as flexible message versions use them for lengths and tags."""

from __future__ import annotations

from kclient.errors import ProtocolError

# Lengths and tag numbers are nearly always below 128: one table look-up instead of a loop.
SHORT_UVARINTS = tuple(bytes((value,)) for value in range(128))


def encode_uvarint(value: int) -> bytes:
    """The bytes of a non-negative integer, seven bits a byte, lowest first."""
    if value < 128:
        return SHORT_UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_uvarint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The integer at `position` and the position after it; IndexError where the data ends first."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFF_FFFF:
                break
            return value, position
    raise ProtocolError(f"variable-length integer at byte {position - 5} does not fit 32 bits")
