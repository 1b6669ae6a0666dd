"""Kafka's record format: batches to bytes and back, in memory and without I/O.

Writing: `encode` (records to one batch; `pieces` cuts them), `restamp` (header fields of an encoded batch),
`sizes` (how large records will be). Reading: `reader` (a fetched buffer to batches), `batch` (one batch, and
the three ways out of it), then by shape `scalar`, `uniform` (`cutting`), `columns` (`walk`, `words`), and
`legacy` for magic 0 and 1; `objects` and `arrow` make what callers get. Beneath: `layout`, `varint`, `rows`,
`crc`, `compression` (`expansion`, `limits`), `control`.

Importing this package imports neither numpy nor pyarrow.
"""

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
