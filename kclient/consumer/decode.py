"""From batches to what the application gets: deserialized, filtered, and with a policy for poison records.

Pure. Hot, per batch: without deserializers a batch's records pass through as they are.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kclient.errors import PoisonRecordError
from kclient.records import ControlType, ModernBatch, parse_control
from kclient.records.objects import records_of
from kclient.types import Record, TopicPartition
from kclient.uncollected import list_uncollected
from kclient.usercode import failure

if TYPE_CHECKING:
    from kclient.records.batch import RecordBatch
    from kclient.records.objects import BytesRecord

log: logging.Logger = logging.getLogger(__name__)

Deserializer = Callable[[bytes], Any]
_offset, _key, _value = attrgetter("offset"), attrgetter("key"), attrgetter("value")
# Out of a call for records, a CancelledError would look as if the caller had been cancelled.
_FAILED = (Exception, CancelledError)


class Decoded(NamedTuple):
    """What became of records: those to hand out, and how many from the first on are `done` with.

    `trouble` is why it is not all of them: the application is told of it when it has got those before.
    `passed` is the offset of the last poison record that was let pass; nobody is asked about it again.
    """

    records: list[Record[Any, Any]]
    done: int
    trouble: Exception | None
    passed: int


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
        # Whether records pass through as they are, so that `deserialized` need not be called.
        self.plain: bool = key_deserializer is None and value_deserializer is None
        self._on_poison = on_poison
        self.poisoned: int = 0

    def records(self, batch: RecordBatch, partition: TopicPartition, start: int) -> list[BytesRecord]:
        """The records from offset `start` on, as bytes."""
        records = batch.records(*partition)
        if records and records[0].offset < start:
            records = records[bisect_left(records, start, key=_offset) :]
        return records

    def deserialized(self, records: Sequence[BytesRecord], passed: int) -> Decoded:
        """Keys and values made of the bytes, up to the first record of which that cannot be had."""
        keys: list[Any] = []
        values: list[Any] = []
        total = len(records)
        error: BaseException | None = None
        try:
            # What was made before one failed stays in the lists.
            keys.extend(_each(self._key, map(_key, records)))
            if len(keys) == total:
                values.extend(_each(self._value, map(_value, records)))
        except _FAILED as raised:  # a deserializer is a stranger; the records are tried one by one
            error = raised
        if len(values) == total:
            return Decoded(_with(records, keys, values), total, None, passed)
        if len(keys) < total:  # a value before that key may fail too
            try:
                values.extend(_each(self._value, map(_value, records[: len(keys)])))
            except _FAILED as raised:
                error = raised
        return self._from_the_failed(records, keys, values, error or StopIteration(), passed)

    def _from_the_failed(
        self,
        records: Sequence[BytesRecord],
        keys: list[Any],
        values: list[Any],
        error: BaseException,
        passed: int,
    ) -> Decoded:
        """The records before the first that failed, and what the policy makes of that and those behind it."""
        failed = len(values)
        out = _with(records[:failed], keys[:failed], values)
        poison: PoisonRecordError | None = _poison(records[failed], error)
        for done in range(failed, len(records)):
            record = records[done]
            if done > failed:
                poison = self._try(record, out)
            if poison is not None and record.offset > passed:
                if self._on_poison == "raise":
                    return Decoded(out, done, poison, passed)
                try:
                    self._let_pass(poison)
                except Exception as refused:  # noqa: BLE001 - told when the records before it were handed out
                    return Decoded(out, done, refused, passed)
                passed = record.offset
        return Decoded(out, len(records), None, passed)

    def _try(self, record: BytesRecord, out: list[Record[Any, Any]]) -> PoisonRecordError | None:
        """Append the record, or say what is wrong with it."""
        try:
            key, value = _one(self._key, record.key), _one(self._value, record.value)
        except _FAILED as error:  # see above
            return _poison(record, error)
        out.append(record._replace(key=key, value=value))
        return None

    def _let_pass(self, poison: PoisonRecordError) -> None:
        if callable(self._on_poison):
            try:
                self._on_poison(poison)
            except CancelledError as error:
                raise failure("on_poison", self._on_poison, error) from error
        else:
            log.warning("skipped: %s", poison)
        self.poisoned += 1


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


def _each(deserializer: Deserializer | None, fields: Iterable[bytes | None]) -> Iterable[Any]:
    """Keys or values, made one after the other as they are asked for.

    One that raises StopIteration ends them early.
    """
    if deserializer is None:
        return fields
    fields = list(fields)
    if None in fields:
        return (None if data is None else deserializer(data) for data in fields)
    return map(deserializer, fields)  # type: ignore[arg-type]


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
