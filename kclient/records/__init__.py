"""Kafka's record format: batches to bytes and back, in memory and without I/O.

Writing: `encode` (records to one batch; `pieces` cuts them), `restamp` (header fields of an encoded batch),
`sizes` (how large records will be). Reading: `reader` (a fetched buffer to batches), `batch` (one batch, and
the three ways out of it), then by shape `scalar`, `uniform` (`cutting`), `columns` (`walk`, `words`), and
`legacy` for magic 0 and 1; `objects` and `arrow` make what callers get. Beneath: `layout`, `varint`, `rows`,
`crc`, `compression` (`expansion`, `limits`), `control`.

Importing this package imports neither numpy nor pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kclient.records.batch import ModernBatch, RecordBatch
    from kclient.records.compression import Codec, compress, decompress
    from kclient.records.control import ControlRecord, ControlType, marker, parse_control
    from kclient.records.encode import Stamp, encode_batch, encode_fields, encode_flat, encode_sparse
    from kclient.records.limits import DEFAULT_LIMITS, Limits
    from kclient.records.pieces import Fields
    from kclient.records.reader import read_batches
    from kclient.records.restamp import with_append_time, with_place, with_producer
    from kclient.records.sizes import BATCH_OVERHEAD, RECORD_OVERHEAD, record_size, record_size_bound

__all__ = [
    "BATCH_OVERHEAD",
    "DEFAULT_LIMITS",
    "RECORD_OVERHEAD",
    "Codec",
    "ControlRecord",
    "ControlType",
    "Fields",
    "Limits",
    "ModernBatch",
    "RecordBatch",
    "Stamp",
    "compress",
    "decompress",
    "encode_batch",
    "encode_fields",
    "encode_flat",
    "encode_sparse",
    "marker",
    "parse_control",
    "read_batches",
    "record_size",
    "record_size_bound",
    "with_append_time",
    "with_place",
    "with_producer",
]

# Imported on first use: whoever needs a bound or a size needs no codec.
_HOMES = {
    "BATCH_OVERHEAD": "kclient.records.sizes",
    "Codec": "kclient.records.compression",
    "ControlRecord": "kclient.records.control",
    "ControlType": "kclient.records.control",
    "DEFAULT_LIMITS": "kclient.records.limits",
    "Fields": "kclient.records.pieces",
    "Limits": "kclient.records.limits",
    "ModernBatch": "kclient.records.batch",
    "RECORD_OVERHEAD": "kclient.records.sizes",
    "RecordBatch": "kclient.records.batch",
    "Stamp": "kclient.records.encode",
    "compress": "kclient.records.compression",
    "decompress": "kclient.records.compression",
    "encode_batch": "kclient.records.encode",
    "encode_fields": "kclient.records.encode",
    "encode_flat": "kclient.records.encode",
    "encode_sparse": "kclient.records.encode",
    "marker": "kclient.records.control",
    "parse_control": "kclient.records.control",
    "read_batches": "kclient.records.reader",
    "record_size": "kclient.records.sizes",
    "record_size_bound": "kclient.records.sizes",
    "with_append_time": "kclient.records.restamp",
    "with_place": "kclient.records.restamp",
    "with_producer": "kclient.records.restamp",
}


if not TYPE_CHECKING:  # a checker that saw it would take every misspelt name for one of these

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
