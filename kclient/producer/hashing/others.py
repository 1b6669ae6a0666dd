"""The hashes of clients other than Java's: crc32 (librdkafka), fnv1a (Sarama, librdkafka) and murmur3.

As `Hash`es, for `partitioner.make_partitioner`, which knows them by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from kclient.errors import ConfigurationError
from kclient.producer.hashing import Hash
from kclient.producer.hashing.walk import ENOUGH, Walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
_NP_FNV_OFFSET, _NP_FNV_PRIME = np.uint32(_FNV_OFFSET), np.uint32(_FNV_PRIME)


def crc32_many(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """zlib's crc32 of many keys. librdkafka takes it as an unsigned number."""
    return np.fromiter(map(crc32, keys), np.uint32, len(keys))


def fnv1a(key: bytes) -> int:
    """FNV-1a of 32 bits, read as a signed number, without its sign.

    Sarama's `NewHashPartitioner` takes the signed remainder and negates it where it is negative, which gives
    the same partition for every count; librdkafka does as we do, to agree with it. Not the same: Sarama's
    `NewReferenceHashPartitioner`, which drops the sign bit as Kafka does.
    """
    hashed = _FNV_OFFSET
    for byte in key:
        hashed = (hashed ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return 0x100000000 - hashed if hashed & 0x80000000 else hashed


def fnv1a_many(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """`fnv1a` of many keys, in their order."""
    if len(keys) < ENOUGH:
        return np.fromiter(map(fnv1a, keys), np.uint32, len(keys))
    walk = Walk(keys)
    hashes = np.full(len(keys), _NP_FNV_OFFSET)
    unfinished = walk.fold(hashes, walk.bytes(), 1, _fnv1a_step)
    # Without the sign: the smallest number stays as it is, and read as unsigned it is right.
    signed = hashes.view(np.int32)
    np.abs(signed, out=signed)
    for index in unfinished:
        hashes[index] = fnv1a(keys[index])
    return hashes


def _fnv1a_step(hashes: NDArray[np.uint32], octets: NDArray[np.uint32]) -> None:
    hashes ^= octets
    hashes *= _NP_FNV_PRIME


CRC32 = Hash("crc32", crc32, crc32_many)
FNV1A = Hash("fnv1a", fnv1a, fnv1a_many)


def murmur3() -> Hash:
    """murmur3 (x86, 32 bits, seed 0) without its sign bit, from the package `mmh3`."""
    try:
        import mmh3  # noqa: PLC0415 - an optional package
    except ImportError as error:
        raise ConfigurationError(
            "partitioner='murmur3' needs the Python package mmh3: pip install 'kclient-kafka[murmur3]'"
        ) from error
    hash_of = mmh3.hash

    def one(key: bytes) -> int:
        return hash_of(key) & 0x7FFFFFFF

    def many(keys: Sequence[bytes]) -> NDArray[np.uint32]:
        return np.fromiter(map(one, keys), np.uint32, len(keys))

    return Hash("murmur3", one, many)
