"""From batches to what the application gets: deserialized, filtered, and with a policy for poison records.

Pure. Hot, per batch: without deserializers a batch's records pass through as they are.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kclient.errors import KafkaError, PoisonRecordError
from kclient.records import ControlType, ModernBatch, parse_control
from kclient.records.objects import records_of
from kclient.types import Record, TopicPartition
from kclient.uncollected import list_uncollected
from kclient.usercode import failure

if TYPE_CHECKING:
    from kclient.records.batch import RecordBatch
    from kclient.records.objects import BytesRecord

log = logging.getLogger(__name__)

Deserializer = Callable[[bytes], Any]
_offset = attrgetter("offset")
# Out of a call for records, a CancelledError would look as if the caller had been cancelled.
_FAILED = (Exception, CancelledError)


class Decoder:
    """Turns batches into records with the deserializers of one consumer."""

    def __init__(
        self,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        on_poison: str | Callable[[PoisonRecordError], object],
    ) -> None:
        self._key = key_deserializer
        self._value = value_deserializer
        self._plain = key_deserializer is None and value_deserializer is None
        self._on_poison = on_poison
        self.poisoned = 0

    def records(
        self, batch: RecordBatch, partition: TopicPartition, start: int
    ) -> tuple[list[Record[Any, Any]], KafkaError | None]:
        """The records from offset `start` on, up to the first that cannot be had, and why it cannot."""
        records = batch.records(*partition)
        if records and records[0].offset < start:
            records = records[bisect_left(records, start, key=_offset) :]
        if self._plain:
            return records, None
        try:
            return _with(records, _all(self._key, records, "key"), _all(self._value, records, "value")), None
        except _FAILED:  # a deserializer is a stranger; the records are tried one by one
            return self._one_by_one(records)

    def _one_by_one(
        self, records: Sequence[BytesRecord]
    ) -> tuple[list[Record[Any, Any]], PoisonRecordError | None]:
        out: list[Record[Any, Any]] = []
        for record in records:
            try:
                key, value = _one(self._key, record.key), _one(self._value, record.value)
            except _FAILED as error:  # see above
                poison = _poison(record, error)
                if self._on_poison == "raise":
                    return out, poison
                self._let_pass(poison)
            else:
                out.append(record._replace(key=key, value=value))
        return out, None

    def _let_pass(self, poison: PoisonRecordError) -> None:
        self.poisoned += 1
        if callable(self._on_poison):
            try:
                self._on_poison(poison)
            except CancelledError as error:
                raise failure("on_poison", self._on_poison, error) from error
        else:
            log.warning("skipped: %s", poison)


def _poison(record: BytesRecord, cause: BaseException) -> PoisonRecordError:
    error = PoisonRecordError(
        f"a deserializer failed with {cause!r}; seek beyond the record to skip it",
        record.topic,
        record.partition,
        record.offset,
    )
    error.record = record
    error.__cause__ = cause
    return error


def _one(deserializer: Deserializer | None, data: bytes | None) -> Any:
    return data if deserializer is None or data is None else deserializer(data)


def _all(deserializer: Deserializer | None, records: Sequence[BytesRecord], field: str) -> list[Any]:
    fields: list[bytes | None] = list(map(attrgetter(field), records))
    if deserializer is None:
        return fields
    if None in fields:
        return [None if data is None else deserializer(data) for data in fields]
    return list(map(deserializer, fields))  # type: ignore[arg-type]


def _with(
    records: Sequence[BytesRecord], keys: Sequence[Any], values: Sequence[Any]
) -> list[Record[Any, Any]]:
    if not records:
        return []
    topic, partition, offset, timestamp, kind, _, _, headers, epoch, key_size, value_size = zip(
        *records, strict=True
    )
    fields = zip(
        topic,
        partition,
        offset,
        timestamp,
        kind,
        keys,
        values,
        headers,
        epoch,
        key_size,
        value_size,
        strict=True,
    )
    return list_uncollected(records_of(fields))


def visible(
    batches: Iterable[RecordBatch], aborted: Iterable[tuple[int, int]], committed_only: bool
) -> Iterator[RecordBatch]:
    """The batches that applications may see: no control records and, if wanted, none of aborted transactions.

    `aborted` are (producer id, first offset) in any order: brokers do not sort them. A producer's transaction
    counts as aborted from its first offset on until the marker that aborts it.
    """
    waiting = sorted(aborted, key=lambda item: item[1], reverse=True) if committed_only else []
    aborting: set[int] = set()
    for batch in batches:
        if not isinstance(batch, ModernBatch):
            yield batch
            continue
        while waiting and waiting[-1][1] <= batch.last_offset:
            aborting.add(waiting.pop()[0])
        if batch.is_control:
            if batch.producer_id in aborting and _ends_aborted(batch):
                aborting.discard(batch.producer_id)
        elif not (aborting and batch.is_transactional and batch.producer_id in aborting):
            yield batch


def _ends_aborted(batch: ModernBatch) -> bool:
    return any(
        parse_control(record.key, record.value).type is ControlType.ABORT for record in batch.records("", -1)
    )
