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
from kclient.records.steps import Steps
from kclient.records.varint import TABLED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kclient.types import Header

T = TypeVar("T")
RecordTuple: TypeAlias = "tuple[bytes | None, bytes | None, int, Sequence[Header]]"

# Where the varint of an offset delta becomes a byte longer.
_OFFSET_CLASSES = ((64, 1), (8192, 2), (1 << 20, 3), (1 << 27, 4), (1 << 31, 5))
_NULL = varint.encode(-1)
# Encoded offset deltas by what follows them.
_MOST_OFFSET_TABLES = 64
_offsets: dict[bytes, list[bytes]] = {}


class Fields(NamedTuple):
    """The records of one batch as columns. One timestamp may stand for all; no headers means none at all."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: int | Sequence[int]
    headers: Sequence[Sequence[Header]] | None = None


def by_record(rows: Iterable[RecordTuple], base: int, offsets: Iterable[bytes]) -> list[bytes]:
    """Any records, each at the (encoded) offset delta that belongs to it. A hot loop."""
    lengths, sizes = _field_tables()
    pieces: list[bytes] = []
    last = None
    for offset, (key, value, timestamp, headers) in zip(offsets, rows, strict=False):
        if timestamp != last:
            last = timestamp
            time = _time(timestamp - base)
            heads = _heads_from(2 + len(time))
        tail = _header_bytes(headers) if headers else b"\0"
        key_at = 0 if key is None else len(key) + 1
        value_at = 0 if value is None else len(value) + 1
        try:
            head = heads[sizes[key_at] + sizes[value_at] + len(offset) + len(tail) - 1]
            pieces += head, time, offset, lengths[key_at], key or b"", lengths[value_at], value or b"", tail
        except IndexError:
            fields = _field(key) + _field(value)
            body = 1 + len(time) + len(offset) + sum(map(len, fields)) + len(tail)
            pieces += varint.encode(body), b"\0", time, offset, *fields, tail
    return pieces


def _field(field: bytes | None) -> tuple[bytes, bytes]:
    return (_NULL, b"") if field is None else (varint.encode(len(field)), field)


def _header_bytes(headers: Sequence[Header]) -> bytes:
    small = varint.table()
    pieces = [varint.encode(len(headers))]
    for name, value in headers:
        if value is None:
            pieces += _header_name(name), _NULL
        else:
            size = len(value)
            pieces += _header_name(name), small[size] if size < TABLED else varint.encode(size), value
    return b"".join(pieces)


@lru_cache(maxsize=256)
def _header_name(name: str) -> bytes:
    """The key of a header with its length; an application uses few different ones."""
    raw = name.encode()
    return varint.encode(len(raw)) + raw


class _Lengths(NamedTuple):
    """The lengths of one field of all records, encoded and plain; single items where all are alike."""

    pieces: Sequence[bytes] | bytes
    sizes: Sequence[int] | int  # -1 when all are null


class _Run(NamedTuple):
    """Neighbours whose timestamp and offset deltas have one size together. They share the timestamp delta,
    unless those are a column of their own.
    """

    start: int
    end: int
    size: int
    time: bytes


def by_columns(fields: Fields, base: int) -> list[bytes] | None:
    """All records without headers at consecutive offsets, or None when it does not know the shape.

    It knows keys and values below 8 KB that are not null, keys that are all null, and timestamps that rise in
    few steps, or come as `Steps`. Never touches a single record: all loops are in C.
    """
    keys, values, times, _ = fields
    total = len(keys)
    cut = _runs(times, base, total)
    if cut is None:
        return None
    runs, elapsed = cut
    try:
        key, value = _lengths(keys), _lengths(values)
        if value.sizes == -1:
            return None
        columns = _heads(key.sizes, value.sizes, runs, elapsed)
    except (TypeError, IndexError):
        return None
    if isinstance(key.pieces, bytes):
        columns.append(consecutive(total, key.pieces))
    else:
        columns += [consecutive(total, b""), key.pieces]
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


def _runs(times: int | Sequence[int], base: int, total: int) -> tuple[list[_Run], list[bytes] | None] | None:
    """The batch cut where a timestamp changes or a delta grows; or only where a delta grows, and a column of
    timestamp deltas. None when the timestamps fall, or change often and nobody knows where.
    """
    most = 4 + total // 24
    steps = times if isinstance(times, Steps) else _steps(times, total, most)
    if steps is None or not steps.rising:
        return None
    deltas = [_time(number - base) for number in steps.numbers]
    column: list[bytes] | None = [] if len(deltas) > most else None
    runs: list[_Run] = []
    for (begin, end, _), delta in zip(steps.runs(), deltas, strict=True):
        start = begin
        if column is not None:
            column += [delta] * (end - start)
        for bound, offset_size in _OFFSET_CLASSES:
            stop = min(end, bound)
            if start < stop:
                size = offset_size + len(delta)
                if column is not None and runs and runs[-1].size == size:
                    runs[-1] = runs[-1]._replace(end=stop)
                else:
                    runs.append(_Run(start, stop, size, b"" if column is not None else delta))
                start = stop
    return runs, column


def _steps(times: int | Sequence[int], total: int, most: int) -> Steps | None:
    """Where timestamps change, if they rise in no more than so many steps."""
    if isinstance(times, int):
        return Steps([0], [times], total)
    if times[0] == times[-1] and times.count(times[0]) == total:
        return Steps([0], [times[0]], total)
    if list(times) != sorted(times):
        return None
    starts: list[int] = []
    start = 0
    while start < total:
        starts.append(start)
        if len(starts) > most:
            return None
        start = bisect_right(times, times[start], start)
    return Steps(starts, [times[start] for start in starts], total)


def _heads(
    keys: Sequence[int] | int, values: Sequence[int] | int, runs: list[_Run], elapsed: list[bytes] | None
) -> list[Sequence[bytes | None]]:
    """What stands before the offset delta: end of the record before, length, attributes, timestamp.

    One column where all records have one size or one timestamp, else the timestamps are a second: `elapsed`,
    where there is such a one.
    """
    heads: list[bytes] = []
    sizes = _field_tables()[1]
    if isinstance(keys, int) and isinstance(values, int):
        fixed = 2 + sizes[keys + 1] + sizes[values + 1]
        every = _ended_heads_from(0, still=False)
        for start, end, size, time in runs:
            heads += [every[fixed + size] + time] * (end - start)
        return [heads] if elapsed is None else [heads, elapsed]
    if isinstance(keys, int):
        fixed, bodies, table = 2 + sizes[keys + 1], values, _ended_heads_by_value
    else:
        varying = _pick(_sizes(), keys)
        if isinstance(values, int):
            fixed, bodies, table = 2 + sizes[values + 1], varying, _ended_heads_from
        else:
            bodies = list(map(add, varying, _pick(_sizes(), values)))
            fixed, table = 2, _ended_heads_from
    assert not isinstance(bodies, int)
    still = all(run.time == b"\0" for run in runs)
    times: list[bytes] = []
    for start, end, size, time in runs:
        heads += _pick(table(fixed + size, still), bodies[start:end])
        times += [time] * (end - start)
    return [heads] if still else [heads, times if elapsed is None else elapsed]


def consecutive(total: int, suffix: bytes = b"") -> list[bytes]:
    """Offset deltas 0, 1, 2 ... with the length of the key behind them where all keys are of one size."""
    if total > TABLED:
        return consecutive(TABLED, suffix) + [varint.encode(delta) + suffix for delta in range(TABLED, total)]
    known = _offsets.get(suffix, [])
    if len(known) < total:
        # Made as long as needed, because there may be many sizes of keys, and anew, because others may be
        # reading the one there is.
        known = [piece + suffix for piece in varint.table()[: 1 << total.bit_length()]]
        if len(_offsets) >= _MOST_OFFSET_TABLES:
            _offsets.clear()
        _offsets[suffix] = known
    return known[:total]


@cache
def _field_tables() -> tuple[list[bytes], list[int]]:
    """Encoded length, and size with it, of a field that is null or has 0, 1 ... bytes, in this order."""
    table = varint.table()
    return [_NULL, *table], [1, *(size + len(piece) for size, piece in enumerate(table))]


@cache
def _sizes() -> list[int]:
    """The sizes of `_field_tables` without that of null."""
    return _field_tables()[1][1:]


@lru_cache(maxsize=16)
def _heads_from(smallest: int) -> list[bytes]:
    """For bodies of `smallest`, `smallest` + 1 ... bytes: [length] [attributes]."""
    if smallest:
        return _heads_from(0)[smallest:]
    return [piece + b"\0" for piece in varint.table()]


@lru_cache(maxsize=32)
def _ended_heads_from(smallest: int, still: bool) -> list[bytes]:
    """The same after the end of the record before, and before the timestamp delta 0 where `still`.

    The lists share their items.
    """
    if smallest:
        return _ended_heads_from(0, still)[smallest:]
    end = b"\0" if still else b""
    return [b"\0" + head + end for head in _heads_from(0)]


@lru_cache(maxsize=64)
def _ended_heads_by_value(rest: int, still: bool) -> list[bytes]:
    """The same for values of 0, 1 ... bytes, where all else in the body takes `rest` bytes."""
    heads = _ended_heads_from(0, still)
    # Up to 63 bytes the length of the value takes one byte, from then on two.
    return heads[rest + 1 : rest + 65] + heads[rest + 66 :]


def _time(elapsed: int) -> bytes:
    return varint.table()[elapsed] if 0 <= elapsed < TABLED else varint.encode(elapsed)


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
