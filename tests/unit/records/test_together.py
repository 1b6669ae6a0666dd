"""Many small batches decoded at once: the same as one by one, and never an answer to what is damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from kclient.errors import ProtocolError
from kclient.records import Codec, Stamp, encode_batch, encode_sparse, read_batches
from kclient.records.batch import ModernBatch
from kclient.records.columns import Columns
from kclient.records.layout import HEADER_SIZE
from kclient.records.pieces import RecordTuple
from kclient.records.together import columns_together
from tests.unit.records.building import NOW, decoder, mixed, uniform, varied, wide

Row = tuple[int, int, bytes | None, bytes | None]


def modern(data: bytes | bytearray) -> list[ModernBatch]:
    return [batch for batch in read_batches(data, check_crcs=False) if isinstance(batch, ModernBatch)]


def one_by_one(batches: Sequence[ModernBatch]) -> list[Row]:
    """What the reference decoder finds."""
    with decoder("scalar"):
        records = [record for batch in batches for record in batch.records("orders", 0)]
    return [(record.offset, record.timestamp, record.key, record.value) for record in records]


def rows(columns: Columns) -> list[Row]:
    def field(start: int, size: int) -> bytes | None:
        return None if size < 0 else bytes(columns.buffer[start : start + size])

    return [
        (offset, time, field(key, key_size), field(value, value_size))
        for offset, time, key, key_size, value, value_size in zip(
            *(items.tolist() for items in columns[1:7]), strict=True
        )
    ]


def log(make: Callable[[int], list[RecordTuple]], counts: Sequence[int], codec: Codec = Codec.NONE) -> bytes:
    """Batches one behind the other, one of them stamped by the broker, the last one compacted."""
    parts: list[bytes] = []
    offset = 1_000
    for number, count in enumerate(counts):
        stamp = Stamp(base_offset=offset, append_time=NOW + 77 if number == 1 else None)
        parts.append(encode_batch(make(count), stamp=stamp, codec=codec))
        offset += count
    thin = [(2 * place + 1, record) for place, record in enumerate(make(40))]
    parts.append(encode_sparse(thin, 90, stamp=Stamp(base_offset=offset), codec=codec))
    return b"".join(parts)


def without_headers(count: int) -> list[RecordTuple]:
    return [(key, value, time, ()) for key, value, time, _ in mixed(count)]


@pytest.mark.parametrize("make", [uniform, varied, wide, without_headers])
@pytest.mark.parametrize("counts", [(1, 1, 3), (16, 130, 47), (300, 1, 500)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_batches_together_are_what_they_are_one_by_one(
    make: Callable[[int], list[RecordTuple]], counts: tuple[int, ...], codec: Codec
) -> None:
    batches = modern(log(make, counts, codec))

    found = columns_together(batches)

    assert found is not None
    assert rows(found) == one_by_one(batches)
    assert found.offsets.dtype == found.timestamps.dtype == np.int64


def test_headers_empty_batches_and_far_timestamps_are_left_to_others() -> None:
    plain = encode_batch(uniform(20))
    far: list[RecordTuple] = [(b"k", b"v", 1 << 62, ())]
    for odd in (encode_batch(mixed(20)), encode_sparse([], 5), encode_batch(far)):
        assert columns_together(modern(plain + odd)) is None


@pytest.mark.parametrize("make", [uniform, varied])
def test_damage_is_refused_or_means_what_it_means_to_the_reference(
    make: Callable[[int], list[RecordTuple]],
) -> None:
    random = Random(7)
    sound = log(make, (30, 20, 60))
    sections = [range(at + HEADER_SIZE, at + batch.size) for at, batch in _places(sound)]
    answered = 0
    for _ in range(1_500):
        data = bytearray(sound)
        place = random.choice(random.choice(sections))
        data[place] = random.choice((0, 1, 2, 127, 128, 255, data[place] ^ 1 << random.randrange(8)))
        batches = modern(data)
        found = columns_together(batches)
        if found is not None:
            answered += 1
            assert rows(found) == one_by_one(batches), f"byte {place} is {data[place]}"
    assert answered > 300


def test_what_cannot_be_decompressed_is_left_to_others() -> None:
    data = bytearray(encode_batch(uniform(20)) + encode_batch(uniform(20), codec=Codec.LZ4))
    data[-10:] = bytes(10)
    batches = modern(data)

    assert columns_together(batches) is None
    with pytest.raises(ProtocolError):
        one_by_one(batches)


def _places(data: bytes) -> list[tuple[int, ModernBatch]]:
    places, at = [], 0
    for batch in modern(data):
        places.append((at, batch))
        at += batch.size
    return places
