"""Records to the pieces of bytes that, joined, are the records of a batch.

Hot. Two ways that must agree: `by_columns` never touches a single record (lengths, lookups and layout are all
loops in C) and knows the usual shapes; `by_record` knows every shape. Only `encode` calls them.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache, lru_cache
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from kclient.records import varint
from kclient.records.varint import TABLED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kclient.types import Header

T = TypeVar("T")

# Where the varint of an offset delta becomes a byte longer.
_OFFSET_CLASSES = ((64, 1), (8192, 2), (1 << 20, 3), (1 << 27, 4), (1 << 31, 5))
_NULL = varint.encode(-1)


def by_record(
    rows: Iterable[tuple[bytes | None, bytes | None, int, Sequence[Header]]], base: int, deltas: Iterable[int]
) -> list[bytes]:
    """One row after the other, each at the offset delta that belongs to it."""
    small = varint.table()
    heads = _lengths_alone()
    encode = varint.encode
    limit = TABLED
    pieces: list[bytes] = []
    for delta, (key, value, timestamp, headers) in zip(deltas, rows, strict=False):
        elapsed = timestamp - base
        time = small[elapsed] if 0 <= elapsed < limit else encode(elapsed)
        offset = small[delta] if 0 <= delta < limit else encode(delta)
        body = len(time) + len(offset) + 2
        if key is None:
            key, key_size = b"", _NULL  # noqa: PLW2901 - a null takes no bytes
        else:
            size = len(key)
            body += size
            key_size = small[size] if size < limit else encode(size)
        if value is None:
            value, value_size = b"", _NULL  # noqa: PLW2901
        else:
            size = len(value)
            body += size
            value_size = small[size] if size < limit else encode(size)
        body += len(key_size) + len(value_size)
        tail = b"\0"
        if headers:
            tail = _header_bytes(headers)
            body += len(tail) - 1
        head = heads[body] if body < limit else encode(body) + b"\0"
        pieces += head, time, offset, key_size, key, value_size, value, tail
    return pieces


def _header_bytes(headers: Sequence[Header]) -> bytes:
    pieces = [varint.encode(len(headers))]
    for name, value in headers:
        raw = name.encode()
        pieces += varint.encode(len(raw)), raw
        pieces += (_NULL,) if value is None else (varint.encode(len(value)), value)
    return b"".join(pieces)


class _Lengths(NamedTuple):
    """The lengths of one field of all records, encoded and plain; single items where all are alike."""

    pieces: Sequence[bytes] | bytes
    sizes: Sequence[int] | int  # -1 when all are null


# Neighbours with one timestamp whose offset deltas are of one size: start, end, offset size, timestamp delta.
_Run: TypeAlias = tuple[int, int, int, bytes]


def by_columns(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], times: int | Sequence[int], base: int
) -> list[bytes] | None:
    """All records without headers at consecutive offsets, or None when it does not know the shape.

    It knows keys and values below 8 KB that are not null, keys that are all null, and timestamps that rise.
    """
    total = len(keys)
    runs = _runs(times, base, total)
    if runs is None:
        return None
    try:
        key = _lengths(keys)
        value = _lengths(values)
        columns = _heads(key.sizes, value.sizes, runs)
    except (TypeError, IndexError):
        return None
    if isinstance(key.pieces, bytes):
        columns.append(_offsets(total, key.pieces))
    else:
        columns += [_offsets(total, b""), key.pieces]
    if key.sizes != -1:
        columns.append(keys)
    columns += [[value.pieces] * total if isinstance(value.pieces, bytes) else value.pieces, values]
    return _interleave(columns, total)


def _lengths(fields: Sequence[bytes | None]) -> _Lengths:
    total = len(fields)
    if fields[0] is None and fields.count(None) == total:
        return _Lengths(_NULL, -1)
    lengths = list(map(len, fields))  # type: ignore[arg-type]
    first = lengths[0]
    if lengths.count(first) == total:
        return _Lengths(varint.table()[first], first)
    return _Lengths(_pick(varint.table(), lengths), lengths)


def _runs(times: int | Sequence[int], base: int, total: int) -> list[_Run] | None:
    """The batch cut where a timestamp changes or an offset delta grows; None when that is too often."""
    if isinstance(times, int):
        times = (times,)
    elif times[0] == times[-1] and times.count(times[0]) == total:
        times = times[:1]
    elif list(times) != sorted(times):
        return None
    still = len(times) == 1
    small = varint.table()
    runs: list[_Run] = []
    most = 16 + total // 16
    start = 0
    for end, offset_size in _OFFSET_CLASSES:
        stop = min(end, total)
        while start < stop:
            now = times[0 if still else start]
            cut = stop if still else bisect_right(times, now, start, stop)
            elapsed = now - base
            time = small[elapsed] if 0 <= elapsed < TABLED else varint.encode(elapsed)
            runs.append((start, cut, offset_size, time))
            start = cut
            if len(runs) > most:
                return None
    return runs


def _heads(
    keys: Sequence[int] | int, values: Sequence[int] | int, runs: list[_Run]
) -> list[Sequence[bytes | None]]:
    """What stands before the offset delta: end of the record before, length, attributes, timestamp.

    One column where all records have one size or one timestamp, else the timestamps are a second.
    """
    heads: list[bytes] = []
    sizes = _sizes_with_length()
    if isinstance(keys, int) and isinstance(values, int):
        fixed = 2 + sizes[keys] + sizes[values]
        every = _heads_from(0)
        for start, end, offset_size, time in runs:
            heads += [every[fixed + offset_size + len(time)] + time] * (end - start)
        return [heads]
    if isinstance(keys, int):
        fixed, bodies, table = 2 + sizes[keys], values, _heads_by_value
    else:
        varying = _pick(sizes, keys)
        if isinstance(values, int):
            fixed, bodies, table = 2 + sizes[values], varying, _heads_from
        else:
            fixed, bodies, table = 2, list(map(add, varying, _pick(sizes, values))), _heads_from
    assert not isinstance(bodies, int)
    still = all(time == b"\0" for _, _, _, time in runs)
    times: list[bytes] = []
    for start, end, offset_size, time in runs:
        heads += _pick(table(fixed + offset_size + len(time), still), bodies[start:end])
        times += [time] * (end - start)
    return [heads] if still else [heads, times]


def _offsets(total: int, suffix: bytes) -> list[bytes]:
    """Offset deltas 0, 1, 2 ... with the length of the key behind them where all keys are of one size."""
    offsets = _offset_table(suffix)
    if total <= TABLED:
        return offsets[:total]
    return offsets + [varint.encode(delta) + suffix for delta in range(TABLED, total)]


@lru_cache(maxsize=8)
def _offset_table(suffix: bytes) -> list[bytes]:
    return [piece + suffix for piece in varint.table()]


@cache
def _sizes_with_length() -> list[int]:
    """Sizes of fields of 0, 1 ... bytes with their length in front; the last is that of null, at -1."""
    return [*(size + len(piece) for size, piece in enumerate(varint.table())), 1]


@cache
def _lengths_alone() -> list[bytes]:
    """For bodies of 0, 1 ... bytes: [length] [attributes]."""
    return [piece + b"\0" for piece in varint.table()]


@lru_cache(maxsize=32)
def _heads_from(smallest: int, still: bool = False) -> list[bytes]:
    """For bodies of `smallest`, `smallest` + 1 ... bytes: [end of record before] [length] [attributes].

    And the timestamp delta 0 where `still`. The lists share their items.
    """
    if smallest:
        return _heads_from(0, still)[smallest:]
    end = b"\0" if still else b""
    return [b"\0" + piece + end for piece in _lengths_alone()]


@lru_cache(maxsize=32)
def _heads_by_value(rest: int, still: bool) -> list[bytes]:
    """The same for values of 0, 1 ... bytes, where all else in the body takes `rest` bytes."""
    heads = _heads_from(0, still)
    return [heads[rest + size] for size in _sizes_with_length()[:-1] if rest + size < TABLED]


def _pick(table: Mapping[Any, T] | Sequence[T], places: Sequence[Any]) -> Sequence[T]:
    """`[table[place] for place in places]`, in about half the time."""
    if len(places) < 2:
        return [table[place] for place in places]
    picked: Sequence[T] = itemgetter(*places)(table)
    return picked


def _interleave(columns: list[Sequence[bytes | None]], total: int) -> list[bytes]:
    """Column by column to record by record."""
    width = len(columns)
    pieces: list[Any] = [b""] * (width * total)
    for place, column in enumerate(columns):
        pieces[place::width] = column
    # A head begins with the end of the record before it, which the first one has not.
    pieces[0] = pieces[0][1:]
    pieces.append(b"\0")
    return pieces
