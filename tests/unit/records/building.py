"""What the tests of records share: generated records, ways to decode with one decoder, bytes to break."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias
from unittest import mock

from hypothesis import strategies as st

from kclient.records import RecordBatch, batch, read_batches
from kclient.records.crc import crc32c
from kclient.records.pieces import RecordTuple
from kclient.types import Header

NOW = 1_700_000_000_000
Plain: TypeAlias = tuple[bytes | None, bytes | None, int, tuple[Header, ...]]

# From how many records on runs and columns are tried: the decoders one by one, then as it ships.
DECODERS = {
    "scalar": (1 << 40, 1 << 40),
    "runs": (1, 1 << 40),
    "columns": (1 << 40, 1),
    "shipped": (batch.RUNS_FROM, batch.COLUMNS_FROM),
}


@contextmanager
def decoder(name: str) -> Iterator[None]:
    """Decode with one decoder only (and with `scalar` whatever it does not know)."""
    runs, columns = DECODERS[name]
    with mock.patch.multiple(batch, RUNS_FROM=runs, COLUMNS_FROM=columns):
        yield


def read_one(data: bytes, **options: Any) -> RecordBatch:
    """The only batch in `data`."""
    (found,) = read_batches(data, **options)
    return found


def plain(data: bytes, **options: Any) -> list[Plain]:
    """Key, value, timestamp and headers of all records."""
    return [
        (record.key, record.value, record.timestamp, record.headers)
        for found in read_batches(data, **options)
        for record in found.records("topic", 0)
    ]


def tupled(records: Sequence[RecordTuple]) -> list[Plain]:
    """Records as `plain` returns them."""
    return [(key, value, time, tuple(headers)) for key, value, time, headers in records]


def sealed(data: bytes | bytearray) -> bytes:
    """`data` with length and checksum put right, so that only what a test broke is broken."""
    out = bytearray(data)
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def patched(data: bytes, at: int, new: bytes) -> bytes:
    """`data` with other bytes at one place, sealed again."""
    return sealed(data[:at] + new + data[at + len(new) :])


def uniform(count: int, size: int = 20, step: int = 9) -> list[RecordTuple]:
    """Records of one shape, as `uniform` knows them, with a new timestamp every `step`."""
    return [
        (b"key-%05d" % index, bytes([index % 251]) * size, NOW + index // step, ()) for index in range(count)
    ]


def varied(count: int) -> list[RecordTuple]:
    """Records of many sizes, with timestamps out of order."""
    return [
        (b"k" * (index * 7 % 80), b"v" * (index * 13 % 300), NOW + index * 31 % 9000, ())
        for index in range(count)
    ]


def wide(count: int) -> list[RecordTuple]:
    """Records with two bytes for each length and timestamp: more than a word before the key."""
    return [(b"k" * 70, b"v" * (64 + index * 17 % 300), NOW + index * 3 % 8000, ()) for index in range(count)]


def mixed(count: int) -> list[RecordTuple]:
    """Records of every kind: nulls, empty fields, headers with null values and the same key twice."""
    headers: tuple[tuple[Header, ...], ...] = (
        (),
        (("a", b"1"),),
        (("a", b"1"), ("a", None), ("\N{SNOWMAN}", b"")),
    )
    keys = (None, b"", b"key", b"k" * 70)
    values = (b"value", None, b"", b"v" * 200)
    return [
        (keys[index % 4], values[index // 4 % 4], NOW + index, headers[index % 3]) for index in range(count)
    ]


payloads = st.none() | st.binary(max_size=90) | st.integers(0, 9000).map(bytes)
header_lists = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=4).map(
    tuple
)
timestamps = st.integers(0, 200).map(lambda delta: NOW + delta) | st.integers(-(1 << 60), 1 << 60)
record_tuples = st.tuples(payloads, payloads, timestamps, st.just(()) | header_lists)


@st.composite
def batches(draw: st.DrawFn, most: int = 300) -> list[RecordTuple]:
    """Long batches of few different records: the shapes that the fast paths look for, and near misses."""
    kinds = draw(st.lists(record_tuples, min_size=1, max_size=6))
    runs = draw(
        st.lists(st.tuples(st.integers(0, len(kinds) - 1), st.integers(1, 90)), min_size=1, max_size=8)
    )
    step = draw(st.integers(0, 3))
    records: list[RecordTuple] = []
    for kind, length in runs:
        key, value, time, headers = kinds[kind]
        records += [(key, value, time + index * step, headers) for index in range(length)]
    return records[:most]
