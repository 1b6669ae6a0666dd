"""Small batches that become 400 MB when they are decompressed, one of each framing."""

from __future__ import annotations

import struct
import zlib

import cramjam

from kclient.records import Codec, encode_batch
from kclient.records.expansion import xxh32_short
from tests.unit.records.building import NOW, patched, sealed

SIZE = 400_000_000


def _batch(payload: bytes, codec: Codec) -> bytes:
    head = encode_batch([(b"k", b"v", NOW, ())])[:61]
    return patched(sealed(head + payload), 21, struct.pack(">h", codec))


def zstd() -> bytes:
    """Blocks that repeat one byte 128 KiB times, four bytes each; no size in the frame."""
    block = 128 * 1024
    count = SIZE // block
    blocks = (
        struct.pack("<I", block << 3 | 1 << 1 | (number == count - 1))[:3] + b"\0" for number in range(count)
    )
    return _batch(b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(blocks), Codec.ZSTD)


def zstd_with_size() -> bytes:
    """The same with its size in front."""
    payload = zstd()[61:]
    return _batch(payload[:4] + b"\xc0\x58" + struct.pack("<Q", SIZE) + payload[6:], Codec.ZSTD)


def _deflated() -> bytes:
    """400 MB of zeros as deflate blocks that depend on nothing, so one can stand for all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    megabyte = packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    return megabyte * (SIZE // 1_000_000) + packer.flush()


def gzip() -> bytes:
    """A stream that says at its end how large it is."""
    return _gzip(SIZE)


def gzip_lying() -> bytes:
    """A stream that says at its end that it is small."""
    return _gzip(100)


def _gzip(claimed: int) -> bytes:
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    return _batch(head + _deflated() + struct.pack("<II", 0, claimed), Codec.GZIP)


def lz4() -> bytes:
    """Independent blocks of 4 MiB zeros."""
    block = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
    descriptor = b"\x60\x70"
    head = b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32_short(descriptor) >> 8 & 0xFF])
    body = (struct.pack("<I", len(block)) + block) * (SIZE // (4 << 20))
    return _batch(head + body + bytes(4), Codec.LZ4)


def snappy() -> bytes:
    """One bare block: its size, one zero, then copies of 64 bytes from one byte back."""
    size, rest = b"", SIZE
    while rest >= 0x80:
        size, rest = size + bytes([rest & 0x7F | 0x80]), rest >> 7
    return _batch(size + bytes([rest]) + b"\0\0" + b"\xfe\x01\0" * (SIZE // 64), Codec.SNAPPY)


def xerial() -> bytes:
    """Blocks of snappy-java."""
    block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
    head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return _batch(head + (struct.pack(">i", len(block)) + block) * (SIZE >> 20), Codec.SNAPPY)


BOMBS = {bomb.__name__: bomb for bomb in (zstd, zstd_with_size, gzip, gzip_lying, lz4, snappy, xerial)}
