"""Hashes of keys: known answers, and one key at a time against many at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from zlib import crc32

import mmh3
import pytest

from kclient.errors import ConfigurationError
from kclient.producer import murmur2
from kclient.producer.hashing import Hash
from kclient.producer.hashing.murmur2 import MURMUR2, murmur2_many, plain
from kclient.producer.hashing.others import CRC32, FNV1A, fnv1a, fnv1a_many, murmur3
from kclient.producer.hashing.walk import ENOUGH

One = Callable[[bytes], int]
Many = Callable[[Sequence[bytes]], Any]

EVERY_HASH = [MURMUR2, CRC32, FNV1A, murmur3()]
WALKED = [pytest.param(plain, murmur2_many, id="murmur2"), pytest.param(fnv1a, fnv1a_many, id="fnv1a")]


def keys_of(rng: Random, count: int, least: int, most: int) -> list[bytes]:
    return [rng.randbytes(rng.randint(least, most)) for _ in range(count)]


@pytest.mark.parametrize(
    ("key", "hashed"),
    # What Java's Utils.murmur2 returned.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_has_the_bits_of_javas_int(key: bytes, hashed: int) -> None:
    assert murmur2(key) == plain(key) == hashed & 0xFFFFFFFF


def test_murmur2_tells_anyone_the_partition_that_the_producer_chooses() -> None:
    rng = Random(2)
    for key in keys_of(rng, 200, 0, 90):
        assert (murmur2(key) & 0x7FFFFFFF) % 7 == MURMUR2.partition(key, 7)
    with pytest.raises(TypeError):
        murmur2("text")  # type: ignore[arg-type]


def test_murmur2_of_every_length_is_the_plain_loop() -> None:
    rng = Random(1)
    for size in range(300):
        for key in (rng.randbytes(size), b"\xff" * size, bytes(size)):
            assert murmur2(key) == plain(key), size


@pytest.mark.parametrize(
    ("key", "hashed"),
    # FNV's own vectors: 0x811c9dc5, 0xe40c292c and 0xbf9cf968, negative if signed, and 0x6222e842.
    [(b"", 0x7EE3623B), (b"a", 0x1BF3D6D4), (b"foobar", 0x40630698), (b"fo", 0x6222E842)],
)
def test_fnv1a_is_the_absolute_value_of_the_signed_hash(key: bytes, hashed: int) -> None:
    assert fnv1a(key) == hashed


@pytest.mark.parametrize(("one", "many"), WALKED)
@pytest.mark.parametrize(
    "lengths", [(0, 0), (1, 1), (3, 3), (8, 8), (9, 11), (0, 5), (0, 40), (60, 68), (0, 300), (255, 1100)]
)
@pytest.mark.parametrize("count", [0, 1, ENOUGH - 1, ENOUGH, 500])
def test_many_keys_have_the_hashes_of_each(
    one: One, many: Many, lengths: tuple[int, int], count: int
) -> None:
    keys = keys_of(Random(count), count, *lengths)
    assert many(keys).tolist() == list(map(one, keys))


@pytest.mark.parametrize(("one", "many"), WALKED)
@pytest.mark.parametrize(
    "long",
    [[17], [70], [254], [255], [256], [1020], [1024], [1028, 90_000], [100] * 15, [2_000] * 16],
    ids=lambda sizes: f"{len(sizes)}-of-{sizes[-1]}",
)
def test_a_few_long_keys_among_short_ones_have_their_own_hashes(
    one: One, many: Many, long: list[int]
) -> None:
    rng = Random(3)
    keys = keys_of(rng, 100, 0, 12) + [rng.randbytes(size) for size in long]
    rng.shuffle(keys)
    assert many(keys).tolist() == list(map(one, keys))


@pytest.mark.parametrize("hashing", EVERY_HASH, ids=lambda hashing: hashing.name)
@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 64, 1000, 2**31 - 1])
def test_partitions_of_many_keys_are_those_of_each(hashing: Hash, count: int) -> None:
    keys = keys_of(Random(count), 300, 0, 30)
    together = hashing.partitions(keys, count).tolist()
    assert together == [hashing.partition(key, count) for key in keys]
    assert all(0 <= partition < count for partition in together)
    if count <= 7:
        assert set(together) == set(range(count))


def test_partitions_drop_the_sign_as_kafka_does() -> None:
    keys = [b"21", b"foobar", b"abc"]
    assert MURMUR2.partitions(keys, 7).tolist() == [(murmur2(key) & 0x7FFFFFFF) % 7 for key in keys]
    assert MURMUR2.partitions(keys * ENOUGH, 7).tolist() == MURMUR2.partitions(keys, 7).tolist() * ENOUGH


def test_crc32_is_taken_unsigned() -> None:
    keys = [key for key in keys_of(Random(5), 50, 1, 9) if crc32(key) > 0x7FFFFFFF]
    assert keys
    assert [CRC32.partition(key, 1000) for key in keys] == [crc32(key) % 1000 for key in keys]


def test_murmur3_drops_the_sign() -> None:
    keys = [key for key in keys_of(Random(6), 50, 0, 9) if mmh3.hash(key) < 0]
    assert keys
    hashing = murmur3()
    assert [hashing.partition(key, 97) for key in keys] == [
        (mmh3.hash(key) & 0x7FFFFFFF) % 97 for key in keys
    ]


def test_murmur3_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mmh3", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'kclient-kafka\[murmur3\]'"):
        murmur3()
