"""Columns of a table as fields of records: bytes, partitions, timestamps and headers, checked row by row.

Called by `tables`, which knows what a table is. Every error names the column and the row it found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from kclient.producer.records import as_headers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kclient.types import Header

_INT32 = (1 << 31) - 1
_INT64 = (1 << 63) - 1
# Milliseconds of one unit, and units of one millisecond.
_UNITS = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
_DAY = 86_400_000
# Stands for a timestamp that is missing: records cannot have it.
MISSING_TIME = -1


def plain(array: Any) -> Any:
    """Without what only wraps an array: extension types such as JSON, and runs of equal values.

    Runs become a dictionary: writing them out could take many times the memory.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        places = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(array.run_ends.to_numpy(), places, "right")
        return pa.DictionaryArray.from_arrays(pa.array(runs, pa.int32()), array.values)
    return array


def check_type(name: str, kind: pa.DataType, serializer: object) -> None:
    """Refuse a column that cannot be what its name says."""
    kind = _plain_type(kind)
    if name in {"key", "value"}:
        if serializer is None and not _is_payload(kind):
            raise TypeError(
                f"column {name!r} is {kind}, not bytes or text: cast it, "
                f"or give the producer a {name}_serializer"
            )
    elif name == "partition":
        if not _is_number(kind):
            raise TypeError(f"column 'partition' is {kind}, not whole numbers: cast it")
    elif name == "timestamp":
        if not (_is_number(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise TypeError(
                f"column 'timestamp' is {kind}, not a timestamp, a date or whole milliseconds: cast it"
            )
    elif not (pa.types.is_nested(kind) or pa.types.is_null(kind)):
        raise TypeError(
            f"column 'headers' is {kind}, not lists of a key and a value each, a map or a struct: make it one"
        )


def _plain_type(kind: Any) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    return kind


def _is_payload(kind: Any) -> bool:
    types = pa.types
    return _has_offsets(kind) or _is_view(kind) or types.is_fixed_size_binary(kind) or types.is_null(kind)


def shares_bytes(kind: Any) -> bool:
    """Whether rows of a key or value may lie in the same bytes."""
    return not (_has_offsets(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind))


def _has_offsets(kind: Any) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_string(kind) or _is_large(kind)


def _is_large(kind: Any) -> bool:
    return pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)


def _is_view(kind: Any) -> bool:
    return pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


def _is_number(kind: Any) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)


def extent(array: Any) -> tuple[int, int]:
    """At least as many bytes as the longest row of a key or value has, and as all have together."""
    if array.null_count or not _has_offsets(array.type):
        each = lengths(array)
        return int(each.max(initial=0)), int(each.sum())
    offsets = _offsets(array)
    return int(np.diff(offsets).max(initial=0)), int(offsets[-1]) - int(offsets[0])


def lengths(array: Any) -> NDArray[np.int64]:
    """How many bytes each row of a key or value has, 0 for a null; nothing is copied to know it."""
    array, kind = plain(array), _plain_type(array.type)
    if pa.types.is_dictionary(array.type):
        indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = (
            lengths(array.dictionary)[indices] if len(array.dictionary) else np.zeros(len(array), np.int64)
        )
    elif pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    elif pa.types.is_fixed_size_binary(kind):
        found = np.full(len(array), kind.byte_width, np.int64)
    elif _is_view(kind):  # each is 16 bytes, which begin with the length
        views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)
        found = views[array.offset : array.offset + len(array), 0].astype(np.int64)
    else:
        found = np.diff(_offsets(array)).astype(np.int64)
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def _offsets(array: Any) -> NDArray[np.int64]:
    """Where each row begins in the bytes of an array, and where the last one ends."""
    width: Any = np.int64 if _is_large(array.type) else np.int32
    if not len(array):
        return np.zeros(1, np.int64)
    offsets: NDArray[np.int64] = np.frombuffer(
        array.buffers()[1], width, len(array) + 1, array.offset * width().itemsize
    )
    return offsets


def as_binary(array: Any) -> pa.Array[Any]:
    """A key or value, of less than 2 GiB, as bytes with 32-bit offsets; text as its UTF-8."""
    array = plain(array)
    if pa.types.is_dictionary(array.type):
        words = array.dictionary
        if _is_view(words.type):  # as of Polars' categories; Arrow has no `take` for them
            words = words.cast(pa.large_binary())
        array = as_binary(words.take(array.indices))
    kind = array.type
    if pa.types.is_binary(kind):
        return array  # type: ignore[no-any-return]
    if _is_large(kind):
        if _offsets(array)[-1] > _INT32:
            array = array.take(pa.array(np.arange(len(array))))  # a slice far behind: its offsets begin anew
        array = array.cast(pa.large_binary())
    return array.cast(pa.binary())  # type: ignore[no-any-return]


def partitions(array: Any, first: int) -> list[int | None]:
    """The partition of each row, None where the partitioner decides; `first` is the first row's number."""
    numbers, missing = _numbers("partition", array, first)
    wrong = _outside(numbers, _INT32)
    if wrong is not None:
        _refuse("partition", numbers, wrong, first, "a partition is a number from 0 on")
    found: list[int | None] = numbers.tolist()
    if missing is not None:
        for row in np.flatnonzero(missing).tolist():
            found[row] = None
    return found


def timestamps(array: Any, first: int) -> NDArray[np.int64]:
    """Milliseconds since 1970 of each row, `MISSING_TIME` for nulls, which become the time of sending."""
    array = _decoded(array)
    kind, times, over = array.type, 1, 1
    if pa.types.is_timestamp(kind):
        times, over = _UNITS[kind.unit]
        array = array.view(pa.int64())
    elif pa.types.is_date32(kind):
        times, array = _DAY, array.view(pa.int32())
    elif pa.types.is_date64(kind):
        array = array.view(pa.int64())
    numbers, missing = _numbers("timestamp", array, first)
    wrong = _outside(numbers, _INT64 // times)
    if wrong is not None:
        why = f"as {kind} it is before 1970, or later than a record can say"
        _refuse("timestamp", numbers, wrong, first, why)
    if times != 1 or over != 1:
        numbers = numbers // over * times
    return numbers if missing is None else np.where(missing, MISSING_TIME, numbers)


def _decoded(array: Any) -> Any:
    array = plain(array)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _numbers(name: str, array: Any, first: int) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Whole numbers, and which of them are missing; also as pandas makes them: float, with NaN for none."""
    array = _decoded(array)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64), np.ones(len(array), np.bool_)
    if pa.types.is_floating(array.type):
        floats = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
        missing = np.isnan(floats)
        floats = np.where(missing, 0.0, floats)
        wrong = (floats != np.floor(floats)) | (np.abs(floats) >= 2.0**63)
        _refuse(name, floats, wrong, first, "it is no whole number")
        return floats.astype(np.int64), missing
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    numbers = (array.fill_null(0) if array.null_count else array).to_numpy()
    too_large = _outside(numbers, _INT64) if pa.types.is_uint64(array.type) else None
    if too_large is not None:
        _refuse(name, numbers, too_large, first, "it is too large")
    return numbers.astype(np.int64, copy=False), missing


def _outside(numbers: NDArray[Any], most: int) -> NDArray[np.bool_] | None:
    """Which are negative or more than `most`; None where none is, which costs less to see."""
    if not len(numbers) or (numbers.min() >= 0 and numbers.max() <= most):
        return None
    outside: NDArray[np.bool_] = (numbers < 0) | (numbers > most)
    return outside


def _refuse(name: str, values: NDArray[Any], wrong: NDArray[np.bool_], first: int, why: str) -> None:
    rows = np.flatnonzero(wrong)
    if len(rows):
        row = int(rows[0])
        raise ValueError(f"column {name!r}, row {first + row}: {values[row].item()}: {why}")


def payload_objects(name: str, column: list[Any]) -> list[bytes | None]:
    """Keys or values that came as Python's objects: bytes as they are, text as its UTF-8."""
    return [_payload(name, row, value) for row, value in enumerate(column)]


def _payload(name: str, row: int, value: Any) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return _encoded(name, row, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(
        f"column {name!r}, row {row}: {value!r} is {type(value).__name__}, not bytes or text: "
        f"encode it, or give the producer a {name}_serializer"
    )


def _encoded(name: str, row: int, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair
        _wrong(name, row, error)


def headers(column: Any, first: int) -> list[tuple[Header, ...]]:
    """Headers of each row of an Arrow column, or of a list of Python's objects; text as its UTF-8.

    A row is a mapping, a list of pairs, a list of structs of `key` and `value`, or one struct with a field
    for each header. Fields of such a struct that are null are left out: every row has all fields.
    """
    if not isinstance(column, list):
        one_field_each = pa.types.is_struct(_plain_type(column.type))
        column = column.to_pylist()
        if one_field_each:
            column = [
                row and {name: each for name, each in row.items() if each is not None} for row in column
            ]
    return [_row_headers(first + row, given) for row, given in enumerate(column)]


def _row_headers(row: int, given: Any) -> tuple[Header, ...]:
    if given is None:
        return ()
    if isinstance(given, dict):
        pairs: Any = given.items()
    elif isinstance(given, (list, tuple)):
        pairs = [_pair(each) if isinstance(each, dict) else each for each in given]
    else:
        raise TypeError(
            f"column 'headers', row {row}: {given!r} is {type(given).__name__}, not a list or a mapping"
        )
    try:
        return as_headers([_with_bytes(pair) for pair in pairs])
    except (TypeError, ValueError) as error:
        _wrong("headers", row, error)


def _pair(struct: dict[str, Any]) -> tuple[Any, ...]:
    if struct.keys() == {"key", "value"}:
        return struct["key"], struct["value"]
    return tuple(struct.values())


def _with_bytes(pair: Any) -> Any:
    if isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[1], str):
        return pair[0], pair[1].encode()
    return pair


def _wrong(name: str, row: int, error: Exception) -> NoReturn:
    kind = TypeError if isinstance(error, TypeError) else ValueError
    raise kind(f"column {name!r}, row {row}: {error}") from error
