"""Valid record batches to damage: each shape that has a decoder of its own, each codec, and old message sets.

Three kinds of targets. Whole batches, damaged anywhere. The records of a batch behind a header that stays
right: damage to headers alone is refused early, so this is what reaches deep. And message sets of magic 0 and
1, which are made here because kclient does not write them. Checksums are not looked at, except where said.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from zlib import crc32

from kclient.records import (
    Codec,
    Limits,
    RecordBatch,
    Stamp,
    compress,
    encode_batch,
    encode_sparse,
    read_batches,
)
from kclient.records.batch import ModernBatch
from kclient.records.layout import HEADER_SIZE, PREFIX_SIZE
from kclient.records.objects import BytesRecord, Origin, records_from_rows
from kclient.records.scalar import decode_rows
from kclient.types import Header
from tests.fuzz.harness import Target

RecordTuple = tuple[bytes | None, bytes | None, int, Sequence[Header]]

NOW = 1_700_000_000_000
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
# Damaged sizes are believed up to this: a hundred megabytes, now and then, would hide a leak.
_NARROW = Limits(16 << 20)


def records_of(shape: str, count: int, rng: Random) -> list[RecordTuple]:
    make: dict[str, Callable[[int], RecordTuple]] = {
        "uniform": lambda i: (b"key%05d" % i, b"value%08d" % i, NOW + i, ()),
        "null keys": lambda i: (None, b"value%03d" % (i % 1000), NOW, ()),
        "mixed sizes": lambda i: (rng.randbytes(i % 5), rng.randbytes(rng.randrange(90)), NOW + i, ()),
        "tombstones": lambda i: (b"key%d" % i, None if i % 3 else b"v", NOW - i, ()),
        "headers": lambda i: (b"k", b"v" * (i % 9), NOW + i, [(f"h{i % 3}", b"x"), ("ü", None)][: i % 3]),
        "empty": lambda _: (b"", b"", NOW, ()),
    }
    return [make[shape](i) for i in range(count)]


# A few records are decoded one by one, from 48 on in runs of one shape, from 192 on as columns.
SHAPES: list[tuple[str, int]] = [
    ("uniform", 1),
    ("uniform", 7),
    ("uniform", 60),
    ("uniform", 200),
    ("null keys", 60),
    ("null keys", 200),
    ("mixed sizes", 5),
    ("mixed sizes", 20),
    ("mixed sizes", 200),
    ("tombstones", 9),
    ("tombstones", 64),
    ("tombstones", 192),
    ("headers", 6),
    ("headers", 60),
    ("headers", 192),
    ("empty", 3),
    ("empty", 200),
]


def batch_of(shape: str, count: int, codec: Codec = Codec.NONE) -> bytes:
    rng = Random(f"{shape} {count}")
    stamp = Stamp(base_offset=1000, append_time=NOW if count % 2 else None, producer_id=7)
    return encode_batch(records_of(shape, count, rng), stamp=stamp, codec=codec)


def sparse_batch() -> bytes:
    records = records_of("mixed sizes", 5, Random(1))
    return encode_sparse(list(zip((0, 3, 4, 9, 11), records, strict=True)), 20)


def whole_batch_targets(decode: Callable[[bytes], object]) -> list[Target]:
    """Damage anywhere: in headers, in records, in what is compressed; also in two batches that follow."""
    plain = [batch_of(shape, count) for shape, count in SHAPES if count < 10]
    targets = [Target("batches", decode, [*plain, sparse_batch(), plain[0] + plain[1]])]
    for codec in COMPRESSED:
        samples = [batch_of(shape, 12, codec) for shape in ("uniform", "mixed sizes", "headers")]
        targets.append(Target(f"{codec.name} batches", decode, samples))
    return targets


def section_targets(decode: Callable[[bytes], object]) -> list[Target]:
    """Damage only behind the header, which keeps its record count and says the right length."""
    targets = [_section_target(f"{count} {shape}", batch_of(shape, count), decode) for shape, count in SHAPES]
    for codec in COMPRESSED:
        for shape, count in (("mixed sizes", 10), ("uniform", 200)):
            batch = batch_of(shape, count, codec)
            targets.append(_section_target(f"{count} {shape} in {codec.name}", batch, decode))
    return targets


def _section_target(name: str, batch: bytes, decode: Callable[[bytes], object]) -> Target:
    def decode_section(section: bytes) -> object:
        length = (HEADER_SIZE - PREFIX_SIZE + len(section)).to_bytes(4)
        return decode(batch[:8] + length + batch[12:HEADER_SIZE] + section)

    return Target(f"section of {name}", decode_section, [batch[HEADER_SIZE:]])


def message(magic: int, offset: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    """One message of magic 0 or 1, with its checksum."""
    fields = b"".join(
        struct.pack(">i", -1 if field is None else len(field)) + (field or b"") for field in (key, value)
    )
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", NOW) if magic else b"") + fields
    return struct.pack(">qiI", offset, 4 + len(body), crc32(body)) + body


def message_set(magic: int, count: int) -> bytes:
    return b"".join(message(magic, i, None if i % 3 else b"k", b"v" * (i * 7 % 20)) for i in range(count))


def wrapped_set(magic: int, count: int, codec: Codec) -> bytes:
    return message(magic, count - 1, None, compress(message_set(magic, count), codec), codec)


def legacy_targets(decode: Callable[[bytes], object]) -> list[Target]:
    targets = []
    for magic in (0, 1):
        targets.append(Target(f"messages of magic {magic}", decode, [message_set(magic, n) for n in (1, 5)]))
        for codec in COMPRESSED[: 3 if magic == 0 else 4]:
            samples = [wrapped_set(magic, n, codec) for n in (1, 12)]
            targets.append(Target(f"{codec.name} messages of magic {magic}", decode, samples))
    return targets


def scalar_records(batch: RecordBatch, origin: Origin) -> list[BytesRecord]:
    """What the reference decoder makes of a batch, whatever its size."""
    if not isinstance(batch, ModernBatch):
        return batch.records(origin.topic, origin.partition)
    return records_from_rows(decode_rows(bytes(batch.section()), batch.header), origin)


def all_batches(data: bytes) -> list[RecordBatch]:
    return list(read_batches(data, check_crcs=False, limits=_NARROW))
