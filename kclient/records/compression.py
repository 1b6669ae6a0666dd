"""The five codecs of record batches: bytes to compressed bytes and back, bounded.

Decompression writes into a buffer that is never larger than `Limits` allows, so a small batch cannot become a
large allocation. Not here: what the bytes mean. Called by `encode` and `batch`, and by `legacy` for the
wrapper messages of old message sets.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING

from kclient.errors import CorruptBatchError, DecompressionLimitError, EncodeError, UnsupportedCodecError
from kclient.records.expansion import expansion_bound, lz4_with_standard_checksum

if TYPE_CHECKING:
    from collections.abc import Callable

    from kclient.records.limits import Limits

    Buffer = bytes | bytearray | memoryview


class Codec(IntEnum):
    """Compression of a record batch, as numbered in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CODECS = tuple(Codec)

# snappy-java's stream: marker, name, version 1, readable since version 1; then blocks, each behind its size.
_XERIAL_MARK = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MARK + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")

# An LZ4 frame: its mark, "independent blocks without checksums", "of at most 64 KB", a checksum of these two;
# then blocks, each behind its size, in which the highest bit says that it is stored as it was.
_LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 1 << 31
_LZ4_END = bytes(4)
LZ4_THOROUGH_FROM = 3  # below, all levels are the same
_UINT32_LITTLE = struct.Struct("<I")

# Levels as in KIP-390, and what none given stands for. Kafka calls lz4's default 9 but compresses fast then,
# not at all as at 8 or 10: 0 is that here.
_LEVELS = {Codec.GZIP: range(1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(-131072, 23)}
_DEFAULT_LEVELS = {Codec.GZIP: 6, Codec.LZ4: 0, Codec.ZSTD: 3}
_ADVICE = (
    "raise decompressed_batch_max_bytes (in properties decompressed.batch.max.bytes) if the data is trusted"
)
# So many bytes, or so many times the data, are made room for at once; more when that is full.
_BELIEVED = 1 << 20
_BELIEVED_RATIO = 256
_overflow_messages: dict[Codec, str] = {}


def codec_of(number: int) -> Codec:
    """The codec with this number; `UnsupportedCodecError` for numbers that Kafka does not define."""
    if not 0 <= number < len(_CODECS):
        raise UnsupportedCodecError(f"compression codec {number} is not one of 0 to 4")
    return _CODECS[number]


def compress(data: Buffer, codec: Codec, level: int | None = None) -> bytes:
    """`data` compressed in the framing that every Kafka client reads. Snappy has no levels."""
    import cramjam  # noqa: PLC0415 - only those who compress pay for the import

    check_level(codec, level)
    if level is None:
        level = _DEFAULT_LEVELS.get(codec)
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    if codec is Codec.LZ4:
        return _compress_lz4(data, level or 0)
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=level))
    if codec is Codec.SNAPPY:
        return _compress_xerial(data, lambda block: memoryview(cramjam.snappy.compress_raw(block)))
    return bytes(data)


def check_level(codec: Codec, level: int | None) -> None:
    """Raise `EncodeError` unless the codec has such a level; None, the default, every codec has."""
    levels = _LEVELS.get(codec, ())
    if level is not None and level not in levels:
        allowed = f"levels {levels[0]} to {levels[-1]}" if levels else "no levels"
        raise EncodeError(f"{codec.name.lower()} has {allowed}, not {level}")


def decompress(data: memoryview, codec: Codec, limits: Limits, *, magic: int = 2) -> memoryview:
    """What `data` was before `compress`, in memory of at most `limits.max_batch_bytes`.

    Raises `DecompressionLimitError` beyond that, `CorruptBatchError` when `data` is not of this codec.
    """
    if codec is Codec.NONE:
        return data
    allowance = limits.max_batch_bytes
    if codec is Codec.SNAPPY:
        return _decompress_snappy(data, allowance)
    if codec is Codec.LZ4 and magic == 0:
        data = memoryview(lz4_with_standard_checksum(data))
    size, exact = expansion_bound(data, codec)
    if exact and size > allowance:
        raise _too_large(len(data), codec, allowance)
    # What the framing says may be a lie, for which a large buffer would be zeroed in vain.
    size = min(max(size, 64), max(_BELIEVED, len(data) * _BELIEVED_RATIO), allowance)
    while True:
        buffer = bytearray(size)
        used = _decompress_into(data, buffer, codec)
        if used is not None:
            return memoryview(buffer)[:used]
        if size >= allowance:
            raise _too_large(len(data), codec, allowance)
        del buffer
        size = min(size * 4, allowance)


def _too_large(compressed: int, codec: Codec, allowance: int) -> DecompressionLimitError:
    return DecompressionLimitError(
        f"{compressed} bytes of {codec.name.lower()} expand to more than {allowance} bytes: {_ADVICE}"
    )


def too_many_records(count: int, limits: Limits) -> DecompressionLimitError:
    """For a batch whose records would take far more memory than their bytes."""
    return DecompressionLimitError(
        f"a compressed batch of {count} records, where {limits.most_records} are allowed: {_ADVICE}"
    )


def _decompress_into(data: memoryview, buffer: bytearray, codec: Codec) -> int | None:
    """Bytes written to `buffer`, or None when it is too small for `data`."""
    import cramjam  # noqa: PLC0415

    module = getattr(cramjam, codec.name.lower())
    try:
        return int(module.decompress_into(data, buffer))
    except (cramjam.DecompressionError, OSError, ValueError) as error:
        if str(error) == _overflow_message(codec):
            return None
        raise CorruptBatchError(f"{codec.name.lower()} data cannot be decompressed: {error}") from error


def _overflow_message(codec: Codec) -> str:
    """What the library says when the output buffer is full: asked of it, because it has no type for it."""
    known = _overflow_messages.get(codec)
    if known is None:
        import cramjam  # noqa: PLC0415

        try:
            getattr(cramjam, codec.name.lower()).decompress_into(compress(bytes(64), codec), bytearray(1))
        except (cramjam.DecompressionError, OSError, ValueError) as error:
            known = str(error)
        else:
            raise AssertionError("64 bytes fit into one")
        _overflow_messages[codec] = known
    return known


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """A frame of independent blocks: Java's reader knows no others (KIP-57).

    The library makes whole frames too, at a tenth of the speed of its blocks. These know no levels, so that
    those which search thoroughly have to be left to it. Blocks are written into a buffer because the library
    then keeps the interpreter's lock: for tens of microseconds, where having it back from a busy thread takes
    milliseconds.
    """
    import cramjam  # noqa: PLC0415

    if level >= LZ4_THOROUGH_FROM:
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    view = memoryview(data)
    room = memoryview(bytearray(cramjam.lz4.compress_block_bound(view[:_LZ4_BLOCK])))
    pieces: list[Buffer] = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK):
        plain = view[start : start + _LZ4_BLOCK]
        size = cramjam.lz4.compress_block_into(plain, room, store_size=False)
        if size < len(plain):
            pieces += _UINT32_LITTLE.pack(size), bytes(room[:size])
        else:
            pieces += _UINT32_LITTLE.pack(len(plain) | _LZ4_STORED), plain
    pieces.append(_LZ4_END)
    return b"".join(pieces)


def _compress_xerial(data: Buffer, compress_raw: Callable[[memoryview], Buffer]) -> bytes:
    view = memoryview(data)
    pieces: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = compress_raw(view[start : start + _XERIAL_BLOCK])
        pieces += _INT32.pack(len(block)), block
    return b"".join(pieces)


def _decompress_snappy(data: memoryview, allowance: int) -> memoryview:
    """Both framings: blocks behind snappy-java's header, or one bare block as librdkafka writes it.

    Every block says first how large it will be, so the limit is checked before anything is decompressed.
    """
    import cramjam  # noqa: PLC0415

    blocks = _xerial_blocks(data) if data[:8] == _XERIAL_MARK else [data]
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        if sum(sizes) > allowance:
            raise _too_large(len(data), Codec.SNAPPY, allowance)
        buffer = memoryview(bytearray(sum(sizes)))
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            if size:
                cramjam.snappy.decompress_raw_into(block, buffer[position : position + size])
            elif len(block) != 1:
                raise CorruptBatchError(f"a snappy block of {len(block)} bytes that holds nothing")
            position += size
    except (cramjam.DecompressionError, OSError, ValueError) as error:
        raise CorruptBatchError(f"snappy data cannot be decompressed: {error}") from error
    return buffer


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if position + 4 > len(data):
            raise CorruptBatchError("a snappy stream ends inside the size of a block")
        (size,) = _INT32.unpack_from(data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise CorruptBatchError(f"a snappy block of {size} bytes where {len(data) - position} are left")
        blocks.append(data[position : position + size])
        position += size
    return blocks
