"""Control records: the transaction markers (and KRaft's own records) that share the log with user data.

A control batch is recognised by its attributes (`RecordBatch.is_control`); here is what its records mean.
The consumer reads markers to end transactions, the embedded broker writes them.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from kclient.errors import CorruptBatchError

_KEY = struct.Struct(">hh")
_END = struct.Struct(">hi")


class ControlType(IntEnum):
    """The kinds of control records that Kafka defines."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """One control record. `type` is a bare number for kinds newer than this code, which readers skip.

    `coordinator_epoch` belongs to the markers COMMIT and ABORT; it is -1 for the others.
    """

    version: int
    type: ControlType | int
    coordinator_epoch: int


def parse_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """What a control record says.

    >>> parse_control(b"\\0\\0\\0\\1", b"\\0\\0\\0\\0\\0\\7")
    ControlRecord(version=0, type=<ControlType.COMMIT: 1>, coordinator_epoch=7)
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError(f"a control record with the key {key!r}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatchError(f"a control record of version {version}")
    try:
        kind: ControlType | int = ControlType(number)
    except ValueError:
        kind = number
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlRecord(version, kind, -1)
    if value is None or len(value) < _END.size:
        raise CorruptBatchError(f"a transaction marker with the value {value!r}")
    return ControlRecord(version, kind, _END.unpack_from(value)[1])


def marker(kind: ControlType, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Key and value of the control record that ends a transaction.

    >>> parse_control(*marker(ControlType.ABORT, 3)).type.name
    'ABORT'
    """
    return _KEY.pack(0, kind), _END.pack(0, coordinator_epoch)
