"""Where the fields of decoded records lie in their buffer, as plain lists.

What the scalar decoders (`scalar`, `legacy`) make and `objects` and `columns` take further. No copies of
payloads are made until then.
"""

from __future__ import annotations

from typing import NamedTuple

from kclient.records.varint import Bytes


class HeaderRows(NamedTuple):
    """One entry per header of the whole batch, in order; a value size of -1 is null."""

    records: list[int]
    key_starts: list[int]
    key_sizes: list[int]
    value_starts: list[int]
    value_sizes: list[int]


class Rows(NamedTuple):
    """One entry per record; a size of -1 is null."""

    buffer: Bytes
    offsets: list[int]
    timestamps: list[int]
    key_starts: list[int]
    key_sizes: list[int]
    value_starts: list[int]
    value_sizes: list[int]
    headers: HeaderRows | None
