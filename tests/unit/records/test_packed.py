"""Columns of Arrow as batches: byte for byte what the plain path makes of the same records."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kclient.errors import EncodeError
from kclient.records import Codec, Stamp, encode_batch
from kclient.records import packed as packed_module
from kclient.records.encode import encode_runs
from kclient.records.packed import LONGEST, Block, Packed, Run

Payload = bytes | None


def block_of(keys: list[Payload] | None, values: list[Payload]) -> Block:
    return Block(None if keys is None else pa.array(keys, pa.binary()), pa.array(values, pa.binary()))


def payloads(random: Random, count: int, longest: int, nulls: float) -> list[Payload]:
    return [
        None if random.random() < nulls else random.randbytes(random.randrange(longest + 1))
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_runs_are_encoded_as_records_are(seed: int) -> None:
    random = Random(seed)
    runs: list[Run] = []
    rows: list[Any] = []
    for _ in range(random.randrange(1, 4)):
        count = random.choice([1, 3, 70, 300])
        longest, nulls = random.choice([5, 70, LONGEST]), random.choice([0, 0.3])
        keys = None if random.random() < 0.3 else payloads(random, count, 80, nulls)
        values = payloads(random, count, longest, nulls)
        now = 1_700_000_000_000 + random.choice([0, 5, 20_000, -7])
        times = [now + random.randrange(-(10**10), 10**12) for _ in range(count)]
        same = random.random() < 0.5
        chosen = sorted(random.sample(range(count), random.randrange(1, count + 1)))
        key_column, value_column = block_of(keys, values).columns()
        order = np.array(chosen)
        runs.append(
            Run(
                key_column.take(order),
                value_column.take(order),
                now if same else np.array(times, np.int64)[order],
            )
        )
        rows += [
            (None if keys is None else keys[row], values[row], now if same else times[row], ())
            for row in chosen
        ]
    stamp = Stamp(producer_id=7, producer_epoch=1, base_sequence=9)
    codec = random.choice([Codec.NONE, Codec.LZ4])
    assert encode_runs(runs, stamp=stamp, codec=codec) == encode_batch(rows, stamp=stamp, codec=codec)


def test_a_batch_has_more_records_than_the_table_has_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_module, "_LEAST", 16)
    values: list[Payload] = [b"%d" % number for number in range(9_000)]
    rows = [(None, value, 5, ()) for value in values]
    first, second = block_of(None, values[:50]), block_of(None, values[50:])
    runs = [Run(*first.columns(), 5), Run(*second.columns(), 5)]
    assert encode_runs(runs) == encode_batch(rows)


def test_a_packed_column_is_a_sequence_of_bytes() -> None:
    keys, values = block_of([b"a", None, b"ccc", b"d"], [b"1", b"2", None, b"4"]).columns()
    assert list(keys) == [b"a", None, b"ccc", b"d"]
    assert (keys[-1], values[2], len(keys)) == (b"d", None, 4)
    some = keys.take(np.array([2, 0]))
    assert (list(some), some[0], list(some[1:]), list(keys[1:3])) == (
        [b"ccc", b"a"],
        b"ccc",
        [b"a"],
        [None, b"ccc"],
    )
    with pytest.raises(IndexError):
        keys[4]
    assert repr(some) == "<Packed 2 keys of a block of 4>"


def test_keys_that_are_not_there_are_nulls() -> None:
    keys, _ = block_of(None, [b"1", b"2"]).columns()
    assert (list(keys), keys[1], list(keys[:1])) == ([None, None], None, [None])


def test_a_slice_of_a_block_begins_within_its_buffers() -> None:
    block = block_of([b"a", b"bb", b"ccc"], [b"1", None, b"333"]).slice(1, 3)
    keys, values = block.columns()
    assert (list(keys), list(values)) == ([b"bb", b"ccc"], [None, b"333"])
    assert encode_runs([Run(keys, values, 1)]) == encode_batch(
        [(b"bb", None, 1, ()), (b"ccc", b"333", 1, ())]
    )
    data, starts = keys.contiguous()
    assert (bytes(data), starts.tolist()) == (b"bbccc", [0, 2])


def test_no_records_are_no_batch() -> None:
    keys, values = block_of(None, []).columns()
    with pytest.raises(EncodeError):
        encode_runs([Run(keys, values, 1)])
    assert isinstance(keys[:0], Packed)
