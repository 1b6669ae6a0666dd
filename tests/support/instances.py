"""Random valid instances of a declaration, as one version of it can carry them.

Fields that the version lacks stay at their default, so that decoding the encoded instance gives an equal one.
Everything comes from the `Random` passed in: the same seed makes the same instances.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from kclient.wire.schema import Element, Field, Kind, Struct, fields_of

S = TypeVar("S", bound=Struct)

INTEGER_BITS = {
    Kind.INT8: (8, True),
    Kind.INT16: (16, True),
    Kind.UINT16: (16, False),
    Kind.INT32: (32, True),
    Kind.UINT32: (32, False),
    Kind.INT64: (64, True),
}
# Lengths on both sides of what fits one byte of a compact length, which holds the length plus one.
_LENGTHS = (0, 1, 2, 5, 9, 126, 127, 128)
_LETTERS = "abcxyz-._09 é€𝄞\0"


def random_instance(declaration: type[S], version: int, rng: Random) -> S:
    """An instance whose every field `version` can carry; about half of its optional fields are filled."""
    return declaration(**{field.name: _field_value(field, version, rng) for field in fields_of(declaration)})


def _field_value(field: Field, version: int, rng: Random) -> Any:
    if version not in field.versions:
        return field.default()
    if version in field.nullable and rng.random() < 0.25:
        return None
    if field.tag is not None and rng.random() < 0.5:
        return field.default()
    return random_value(field.type, version, rng)


def random_value(element: Element, version: int, rng: Random) -> Any:
    if element.struct is not None:
        return random_instance(element.struct, version, rng)
    if element.item is not None:
        item = element.item
        return [random_value(item, version, rng) for _ in range(rng.choice((0, 1, 1, 2)))]
    if element.kind in INTEGER_BITS:
        return random_integer(*INTEGER_BITS[element.kind], rng)
    return _MAKERS[element.kind](rng)


def random_integer(bits: int, signed: bool, rng: Random) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return rng.choice((low, high, 0, 1, rng.randint(low, high)))


def _text(rng: Random) -> str:
    return "".join(rng.choices(_LETTERS, k=rng.choice(_LENGTHS)))


def _blob(rng: Random) -> bytes:
    return rng.randbytes(rng.choice(_LENGTHS))


_MAKERS: dict[Kind, Callable[[Random], Any]] = {
    Kind.BOOL: lambda rng: rng.random() < 0.5,
    Kind.FLOAT64: lambda rng: rng.choice((0.0, -1.5, 1e300, rng.uniform(-1e6, 1e6))),
    Kind.UUID: lambda rng: UUID(int=rng.getrandbits(128)),
    Kind.STRING: _text,
    Kind.BYTES: _blob,
    Kind.RECORDS: _blob,
}
