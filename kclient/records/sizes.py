"""How many bytes records will take, before they are encoded.

The accumulator asks this for every record to know when a batch is full, so the common question has a constant
for an answer: `len(key) + len(value) + RECORD_OVERHEAD` is never too small for a record without headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient.records import varint
from kclient.records.layout import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kclient.types import Header

BATCH_OVERHEAD = HEADER_SIZE
# length 5, attributes 1, timestamp 10, offset 5, key size 5, value size 5, header count 5
RECORD_OVERHEAD = 36


def record_size(
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header] = (),
    timestamp_delta: int = 0,
    offset_delta: int = 0,
) -> int:
    """Exact size of one record inside a batch without compression.

    >>> record_size(b"key", b"value")
    15
    """
    body = (
        1
        + varint.size(timestamp_delta)
        + varint.size(offset_delta)
        + _field_size(key)
        + _field_size(value)
        + headers_size(headers)
    )
    return varint.size(body) + body


def record_size_bound(key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()) -> int:
    """A size that the record cannot exceed whatever its place in the batch.

    >>> record_size_bound(b"key", b"value")
    44
    """
    size = RECORD_OVERHEAD + (0 if key is None else len(key)) + (0 if value is None else len(value))
    return size + headers_size(headers) if headers else size


def headers_size(headers: Iterable[Header]) -> int:
    """Exact size of the headers of one record, with their count."""
    count = size = 0
    for name, value in headers:
        count += 1
        size += _field_size(name.encode()) + _field_size(value)
    return varint.size(count) + size


def _field_size(field: bytes | None) -> int:
    return 1 if field is None else varint.size(len(field)) + len(field)
