"""The batches that `codec` measures with: sizes, shapes and codecs as real topics have them.

Not a benchmark itself. Payloads come from a seeded generator, so two runs measure the same bytes.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from kclient.records import Codec, encode_batch

if TYPE_CHECKING:
    from kclient.records.pieces import RecordTuple

_NOW = 1_700_000_000_000
_HEADERS = (("trace-id", b"0af7651916cd43dd8448eb211c80319c"), ("source", b"web"))


class Shape(NamedTuple):
    """One kind of batch: how many records, how large, how alike."""

    name: str
    records: int
    size: int
    varied: bool = False
    headers: bool = False
    codec: Codec = Codec.NONE
    level: int | None = None

    def make(self) -> list[RecordTuple]:
        """The records: keys of ten bytes, a new timestamp every 25 records."""
        generator = random.Random(f"{self.name} {self.records}")
        headers = _HEADERS if self.headers else ()
        return [
            (b"key-%06d" % index, self._value(generator), _NOW + index // 25, headers)
            for index in range(self.records)
        ]

    def _value(self, generator: random.Random) -> bytes:
        size = generator.randint(self.size // 2, self.size * 3 // 2) if self.varied else self.size
        if self.codec is Codec.NONE:
            return generator.randbytes(size)
        # Half noise, half text: compresses by two, as JSON with ids in it does.
        return generator.randbytes(size // 2) + (b'{"field": "value"}' * size)[: size - size // 2]

    def encoded(self) -> bytes:
        """The records as one batch."""
        return encode_batch(self.make(), codec=self.codec)


SHAPES = (
    Shape("100 B", 1000, 100),
    Shape("100 B", 8000, 100),
    Shape("100 B, sizes vary", 1000, 100, varied=True),
    Shape("100 B, sizes vary", 8000, 100, varied=True),
    Shape("1 KB", 1000, 1000),
    Shape("1 KB, sizes vary", 1000, 1000, varied=True),
    Shape("100 B, 2 headers", 1000, 100, headers=True),
    Shape("100 B", 16, 100),
    Shape("100 B", 100, 100),
    # aiokafka's fixed levels: kclient's default for lz4 is a faster one, which would not be the same work.
    Shape("100 B, lz4", 1000, 100, codec=Codec.LZ4, level=9),
    Shape("100 B, zstd", 1000, 100, codec=Codec.ZSTD, level=3),
)
