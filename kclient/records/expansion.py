"""How large compressed data will be, read from its framing without decompressing it.

The codec libraries say neither how much they would write nor that they were about to write too much; the
frame formats do: gzip and zstd carry the size, lz4 and zstd are made of blocks of a known largest size. Only
`compression` calls this; what it finds is a hint that a limit is put on, never trusted.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kclient.errors import CorruptBatchError

if TYPE_CHECKING:
    from kclient.records.compression import Codec

_UINT32 = struct.Struct("<I")
_LZ4_MAGIC = 0x184D2204
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 128 * 1024
_MASK = 0xFFFFFFFF


def expansion_bound(data: memoryview, codec: Codec) -> tuple[int, bool]:
    """Decompressed size of `data`, and whether that is exact for data that keeps its own promises.

    0 when the framing makes no sense: then the decompressor will say why.
    """
    try:
        if codec == 1:
            return _UINT32.unpack_from(data, len(data) - 4)[0], True
        if codec == 3:
            return _lz4_bound(data), False
        return _zstd_bound(data)
    except (struct.error, IndexError):
        return 0, False


def _lz4_bound(data: memoryview) -> int:
    flags, descriptor = data[4], data[5]
    largest = 1 << (8 + 2 * (descriptor >> 4 & 7))
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    checksum = 4 if flags & 0x10 else 0
    bound = 0
    end = len(data) - 4
    while position <= end:
        (size,) = _UINT32.unpack_from(data, position)
        if size == 0:
            break
        stored = size & 0x7FFFFFFF
        bound += stored if size & 0x80000000 else largest
        position += 4 + stored + checksum
    return bound


def _zstd_bound(data: memoryview) -> tuple[int, bool]:
    if _UINT32.unpack_from(data, 0)[0] != _ZSTD_MAGIC:
        return 0, False
    descriptor = data[4]
    single = descriptor >> 5 & 1
    position = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    width = (single, 2, 4, 8)[descriptor >> 6]
    if width:
        size = int.from_bytes(data[position : position + width], "little")
        return size + (256 if width == 2 else 0), True
    bound = 0
    end = len(data) - 3
    while position <= end:
        block = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        kind, size = block >> 1 & 3, block >> 3
        bound += size if kind < 2 else _ZSTD_BLOCK
        position += 3 + (1 if kind == 1 else size)
        if block & 1:
            break
    return bound, False


def lz4_with_standard_checksum(data: memoryview) -> bytes:
    """`data` with the header checksum that lz4 asks for.

    Clients of message format 0 put the frame's magic number under the checksum (KAFKA-3160), so what they
    wrote is not lz4 until that byte is put right.
    """
    frame = bytearray(data)
    if len(frame) < 7 or _UINT32.unpack_from(frame)[0] != _LZ4_MAGIC:
        raise CorruptBatchError("lz4 data without a frame header")
    end = 6 + (8 if frame[4] & 0x08 else 0) + (4 if frame[4] & 0x01 else 0)
    if end >= len(frame):
        raise CorruptBatchError("lz4 data ends inside its frame header")
    frame[end] = xxh32_short(bytes(frame[4:end])) >> 8 & 0xFF
    return bytes(frame)


def xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which is all that a frame header needs.

    >>> hex(xxh32_short(b"abc"))
    '0x32d153ff'
    """
    value = 374761393 + len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        value = (value + _UINT32.unpack_from(data, position)[0] * 3266489917) & _MASK
        value = (value << 17 | value >> 15) * 668265263 & _MASK
    for byte in data[whole:]:
        value = (value + byte * 374761393) & _MASK
        value = (value << 11 | value >> 21) * 2654435761 & _MASK
    value = (value ^ value >> 15) * 2246822519 & _MASK
    value = (value ^ value >> 13) * 3266489917 & _MASK
    return value ^ value >> 16
