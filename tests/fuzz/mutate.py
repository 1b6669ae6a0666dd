"""Damage to valid bytes, of the kinds that bugs, bad memory and attackers do; all of it from one Random.

A mutator takes the bytes under damage and another valid sample, which only splicing uses; `mutate` applies
one to four of them. Lengths and counts may be anywhere in Kafka's formats, so several mutators write what
decoders should fear in a length: extremes of every width, and varints of every length.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Mutator = Callable[[Random, bytearray, bytes], None]

MAX_SIZE = 1 << 16

_EXTREMES = {
    width: tuple(
        (value % (1 << 8 * width)).to_bytes(width)
        for value in (0, 1, -1, -2, 1 << 8 * width - 1, (1 << 8 * width - 1) - 1, 127, 128, 255)
    )
    for width in (1, 2, 4, 8)
}
_VARINTS = tuple(
    bytes.fromhex(text)
    for text in (
        "00",
        "01",
        "02",
        "7f",
        "8001",
        "8000",  # zero in two bytes
        "ff7f",
        "ffff03",
        "ffffff7f",
        "feffffff0f",  # 2**31 - 1 with a sign in the lowest bit
        "ffffffff07",  # 2**31 - 1 without
        "ffffffff0f",
        "ffffffff10",  # too wide for 32 bits
        "ffffffffff",  # no end
        "feffffffffffffffff01",
        "ffffffffffffffffff01",
        "ffffffffffffffffffff",
    )
)


def _flip_bits(rng: Random, data: bytearray, _other: bytes) -> None:
    for _ in range(rng.randint(1, 4)):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_bytes(rng: Random, data: bytearray, _other: bytes) -> None:
    for _ in range(rng.randint(1, 4)):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)


def _set_extreme(rng: Random, data: bytearray, _other: bytes) -> None:
    value = rng.choice(_EXTREMES[rng.choice((1, 2, 4, 8))])
    if len(data) >= len(value):
        start = rng.randrange(len(data) - len(value) + 1)
        data[start : start + len(value)] = value


def _set_varint(rng: Random, data: bytearray, _other: bytes) -> None:
    value = rng.choice(_VARINTS)
    start = rng.randrange(len(data) + 1)
    # Sometimes over as many bytes as it has, sometimes over one: what follows stays in place, or moves.
    data[start : start + rng.choice((1, len(value)))] = value


def _nudge(rng: Random, data: bytearray, _other: bytes) -> None:
    if data:
        place = rng.randrange(len(data))
        data[place] = (data[place] + rng.choice((-2, -1, 1, 2))) % 256


def _truncate(rng: Random, data: bytearray, _other: bytes) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _remove(rng: Random, data: bytearray, _other: bytes) -> None:
    start = rng.randrange(len(data) + 1)
    del data[start : start + rng.randint(1, 16)]


def _duplicate(rng: Random, data: bytearray, _other: bytes) -> None:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.randint(1, 64)]
    data[start:start] = piece * rng.choice((1, 1, 2, 8))


def _insert(rng: Random, data: bytearray, _other: bytes) -> None:
    start = rng.randrange(len(data) + 1)
    data[start:start] = rng.randbytes(rng.randint(1, 16))


def _append(rng: Random, data: bytearray, _other: bytes) -> None:
    data += rng.randbytes(rng.randint(1, 16))


def _splice(rng: Random, data: bytearray, other: bytes) -> None:
    cut = rng.randrange(len(other) + 1)
    data[rng.randrange(len(data) + 1) :] = other[cut:]


MUTATORS: tuple[Mutator, ...] = (
    _flip_bits,
    _set_bytes,
    _set_extreme,
    _set_extreme,
    _set_varint,
    _nudge,
    _truncate,
    _remove,
    _duplicate,
    _insert,
    _append,
    _splice,
)


def mutate(rng: Random, sample: bytes, other: bytes) -> bytes:
    """A damaged copy of `sample`."""
    data = bytearray(sample)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        rng.choice(MUTATORS)(rng, data, other)
    return bytes(data[:MAX_SIZE])


def random_bytes(rng: Random) -> bytes:
    """Bytes of no format, half of them with many zeroes: the way to get deep into a decoder by chance."""
    size = rng.choice((0, 1, 4, 8, 20, 64, 200))
    noise = rng.randbytes(size)
    return noise if rng.random() < 0.5 else bytes(byte if byte < 96 else 0 for byte in noise)
