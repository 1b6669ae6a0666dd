"""The batches in the records of one partition, as a fetch response or a log segment holds them.

Cuts, checks checksums, decodes nothing. A batch that the end of the data cuts off is not an error: brokers
fill responses to the last byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient.errors import CorruptBatchError
from kclient.records.batch import ModernBatch, RecordBatch
from kclient.records.layout import HEADER_SIZE, MAGIC_AT, PREFIX, PREFIX_SIZE
from kclient.records.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

# crc, magic, attributes, key size, value size
_SMALLEST_MESSAGE = 14


def read_batches(
    data: bytes | bytearray | memoryview | None,
    *,
    check_crcs: bool = True,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[RecordBatch]:
    """Every whole batch in `data`, in order. `CorruptBatchError` where the bytes are none.

    >>> from kclient.records import encode_batch
    >>> data = encode_batch([(b"key", b"value", 1700000000000, ())])
    >>> [record.value for batch in read_batches(data + data[:20]) for record in batch.records("topic", 0)]
    [b'value']
    """
    view = memoryview(b"" if data is None else data)
    position, end = 0, len(view)
    # Up to the magic byte, all formats are of one shape.
    while position + MAGIC_AT < end:
        offset, length = PREFIX.unpack_from(view, position)
        magic = view[position + MAGIC_AT]
        smallest = HEADER_SIZE - PREFIX_SIZE if magic == 2 else _SMALLEST_MESSAGE
        if magic > 2 or length < smallest:
            raise CorruptBatchError(f"a batch of magic {magic} and {length} bytes").locate(offset=offset)
        start, position = position, position + PREFIX_SIZE + length
        if position > end:
            return
        batch = _batch(view[start:position], magic, limits, check_crcs)
        if check_crcs:
            batch.verify()
        yield batch


def _batch(view: memoryview, magic: int, limits: Limits, check_crcs: bool) -> RecordBatch:
    if magic == 2:
        return ModernBatch(view, limits)
    from kclient.records.legacy import LegacyBatch  # noqa: PLC0415 - hardly anyone has such data

    return LegacyBatch(view, limits, check_crcs=check_crcs)
