"""Codecs: every framing in the wild, levels, and limits that hold against bombs."""

from __future__ import annotations

import gzip
import os
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kclient.errors import CorruptBatchError, DecompressionLimitError, EncodeError
from kclient.records import Codec, Limits, compress, decompress, encode_batch, read_batches
from kclient.records.expansion import expansion_bound, lz4_with_standard_checksum
from tests.unit.records.bombs import BOMBS
from tests.unit.records.building import NOW, uniform

real_codecs = pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
WIDE = Limits()


def _opened(data: bytes, codec: Codec, limits: Limits = WIDE) -> bytes:
    return bytes(decompress(memoryview(data), codec, limits))


@given(st.binary(max_size=2000), st.integers(1, 200), st.sampled_from(Codec))
@settings(max_examples=100, deadline=None)
def test_data_survives_compression(data: bytes, times: int, codec: Codec) -> None:
    assert _opened(compress(data * times, codec), codec) == data * times


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 12), (Codec.ZSTD, 1, 19)]
)
def test_higher_levels_compress_better(codec: Codec, low: int, high: int) -> None:
    chance = random.Random(1)
    words = [bytes(chance.choices(b"abcdefghijklmnop", k=chance.randint(3, 9))) for _ in range(2000)]
    data = b" ".join(chance.choices(words, k=20_000))
    small, large = compress(data, codec, high), compress(data, codec, low)
    assert len(small) < len(large)
    assert _opened(small, codec) == _opened(large, codec) == data


def test_snappy_is_written_as_blocks_of_snappy_java() -> None:
    data = os.urandom(70_000)
    packed = compress(data, Codec.SNAPPY)
    assert packed[:16] == b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"
    blocks, position = [], 16
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        blocks.append(bytes(cramjam.snappy.decompress_raw(packed[position + 4 : position + 4 + size])))
        position += 4 + size
    assert list(map(len, blocks)) == [32768, 32768, 4464]
    assert b"".join(blocks) == data


def test_snappy_is_read_bare_as_librdkafka_writes_it() -> None:
    data = b"abc" * 50_000
    assert _opened(bytes(cramjam.snappy.compress_raw(data)), Codec.SNAPPY) == data


def test_lz4_is_written_in_independent_blocks() -> None:
    packed = compress(bytes(200_000), Codec.LZ4)
    version_and_independence = packed[4] & 0xE0
    assert version_and_independence == 0x60


def test_lz4_stores_blocks_that_do_not_become_smaller() -> None:
    data = os.urandom(65_536) + bytes(65_536) + os.urandom(1_000)
    packed = compress(data, Codec.LZ4)
    assert len(data) - 65_536 < len(packed) < len(data) - 65_000
    assert bytes(cramjam.lz4.decompress(packed)) == _opened(packed, Codec.LZ4) == data


def test_lz4_of_old_clients_has_its_header_checksum_put_right() -> None:
    packed = bytearray(compress(b"value" * 100, Codec.LZ4))
    packed[6] ^= 0x55
    with pytest.raises(CorruptBatchError):
        decompress(memoryview(packed), Codec.LZ4, WIDE)
    assert bytes(decompress(memoryview(packed), Codec.LZ4, WIDE, magic=0)) == b"value" * 100


def test_lz4_checksum_covers_the_optional_header_fields() -> None:
    sized = bytes(cramjam.lz4.compress(b"value" * 100))
    flags = sized[4]
    with_size = sized[:4] + bytes([flags | 0x08, sized[5]]) + struct.pack("<Q", 500) + b"?" + sized[7:]
    repaired = lz4_with_standard_checksum(memoryview(with_size))
    assert _opened(repaired, Codec.LZ4) == b"value" * 100


@pytest.mark.parametrize("data", [b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x68\x40\0\0\0\0", bytes(20)])
def test_lz4_headers_that_are_cut_short_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(memoryview(data), Codec.LZ4, WIDE, magic=0)


def test_gzip_of_several_members_is_read_whole() -> None:
    packed = gzip.compress(b"a" * 50_000) + gzip.compress(b"b" * 10)
    assert _opened(packed, Codec.GZIP) == b"a" * 50_000 + b"b" * 10


def test_zstd_streams_without_a_size_are_read() -> None:
    packer = cramjam.zstd.Compressor()
    packer.compress(b"abc" * 100_000)
    packed = bytes(packer.finish())
    assert expansion_bound(memoryview(packed), Codec.ZSTD)[1] is False
    assert _opened(packed, Codec.ZSTD) == b"abc" * 100_000


@real_codecs
def test_bounds_are_never_below_what_comes_out(codec: Codec) -> None:
    for data in (b"", b"x", os.urandom(300_000), bytes(300_000)):
        if codec is not Codec.SNAPPY:
            assert expansion_bound(memoryview(compress(data, codec)), codec)[0] >= len(data)


@real_codecs
def test_limits_are_exact(codec: Codec) -> None:
    data = os.urandom(5000) + bytes(95_000)
    packed = compress(data, codec)
    assert _opened(packed, codec, Limits(len(data))) == data
    with pytest.raises(DecompressionLimitError, match="raise decompressed_batch_max_bytes"):
        _opened(packed, codec, Limits(len(data) - 1))


@real_codecs
@pytest.mark.parametrize("unit", [b"\0", b'{"item": "teapot", "price": 17}\n'], ids=["zeros", "json"])
def test_large_values_that_compress_well_are_no_bombs(codec: Codec, unit: bytes) -> None:
    value = unit * (20_000_000 // len(unit))
    [batch] = read_batches(encode_batch([(b"k", value, NOW, ())], codec=codec))
    assert batch.records("t", 0)[0].value == value


@real_codecs
def test_a_compressed_batch_has_no_more_records_than_its_bytes_would_justify(codec: Codec) -> None:
    batch = encode_batch([(None, None, NOW, ())] * 1_000, codec=codec)
    [wide] = read_batches(batch, limits=Limits(40_000))
    assert len(wide.records("t", 0)) == 1_000
    [narrow] = read_batches(batch, limits=Limits(39_960))
    with pytest.raises(DecompressionLimitError, match="1000 records, where 999 are allowed"):
        narrow.records("t", 0)


@real_codecs
@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-3], lambda data: data[3:], lambda _: b"", lambda _: bytes(40)]
)
def test_data_of_no_codec_is_refused(codec: Codec, spoil: Callable[[bytes], bytes]) -> None:
    packed = compress(os.urandom(1000) + bytes(1000), codec)
    # The last bytes of gzip are its size, so a stream that is cut may seem too large.
    with pytest.raises((CorruptBatchError, DecompressionLimitError)):
        _opened(spoil(packed), codec)


@pytest.mark.parametrize(
    "blocks", [b"\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x09abc", b"\0\0\0\x03abc", b"\0\0\0\0"]
)
def test_snappy_blocks_that_leave_the_data_are_corrupt(blocks: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        _opened(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01" + blocks, Codec.SNAPPY)


def test_sizes_that_lie_are_found_out() -> None:
    packed = bytearray(gzip.compress(b"a" * 100_000))
    for claimed in (0, 5, 1 << 20):
        packed[-4:] = struct.pack("<I", claimed)
        with pytest.raises(CorruptBatchError):
            _opened(bytes(packed), Codec.GZIP)


def test_checksums_of_the_codecs_are_compared() -> None:
    packed = bytearray(gzip.compress(b"a" * 1000))
    packed[-8] ^= 1
    with pytest.raises(CorruptBatchError):
        _opened(bytes(packed), Codec.GZIP)
    assert zlib.crc32(b"a" * 1000) != struct.unpack("<I", packed[-8:-4])[0]


# Peak memory comes from the kernel, because the codecs allocate outside of Python; not from `getrusage`,
# which counts what the parent had before the program began.
_OPEN = """
import sys
from pathlib import Path
from kclient.errors import ProtocolError
from kclient.records import read_batches
try:
    opened = [batch.records("t", 0) for batch in read_batches(Path(sys.argv[1]).read_bytes())]
except ProtocolError as error:
    status = Path("/proc/self/status")
    if status.exists():
        peak = int(status.read_text().split("VmHWM:")[1].split()[0])
    else:
        import resource
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
    print(type(error).__name__, peak)
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_within_200_megabytes(bomb: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(BOMBS[bomb]())
    # A gzip bomb is a thousandth of what it becomes, a snappy one a twentieth.
    assert path.stat().st_size < 21_000_000
    run = subprocess.run([sys.executable, "-c", _OPEN, path], capture_output=True, text=True, check=True)
    name, peak = run.stdout.split()
    assert name == "DecompressionLimitError"
    assert int(peak) < 200_000


def test_the_same_program_opens_what_is_within_the_limits(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(encode_batch(uniform(1000), codec=Codec.ZSTD))
    run = subprocess.run([sys.executable, "-c", _OPEN, path], capture_output=True, text=True, check=True)
    assert run.stdout == ""


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, 0),
        (Codec.GZIP, 10),
        (Codec.LZ4, 18),
        (Codec.ZSTD, 23),
        (Codec.SNAPPY, 1),
        (Codec.NONE, 1),
    ],
)
def test_a_level_that_a_codec_does_not_have_is_refused(codec: Codec, level: int) -> None:
    with pytest.raises(EncodeError, match=f"{codec.name.lower()} has .*levels.* not {level}"):
        compress(b"data", codec, level)


def test_lz4_compresses_fast_unless_a_level_is_asked_for() -> None:
    data = bytes(range(256)) * 40 + b"".join(b"%d" % (number * 7919) for number in range(2_000))
    assert compress(data, Codec.LZ4) == compress(data, Codec.LZ4, 1)
    assert len(compress(data, Codec.LZ4, 9)) < len(compress(data, Codec.LZ4))
