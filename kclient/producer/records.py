"""From what a caller passes to what a batch can carry: hooks, serializers, types, limits.

Bad input is refused here, at the call that brought it, because in a batch it would take others with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from operator import index
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from kclient.topics import check_topic as check_topic  # noqa: PLC0414 - others take it from here
from kclient.types import Header, RecordMetadata
from kclient.usercode import failure, name_of, report

if TYPE_CHECKING:
    from kclient.producer.config import ProducerConfig
    from kclient.producer.delivery import Delivery

log: logging.Logger = logging.getLogger(__name__)

_LATEST = (1 << 63) - 1
# The hooks whose `on_delivery` runs on this thread.
_telling = local()
# The place of a record that was not appended.
_NOWHERE = -1


class ProducerRecord(NamedTuple):
    """A record before it is sent, as hooks see it and may change it (`record._replace(value=…)`).

    Its headers are pairs, whatever `send` was given. Add to them:
    `record._replace(headers=(*record.headers, ("trace", b"17")))`.
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()


class ProducerHook(Protocol):
    """Sees every record on its way, before it is serialized and partitioned, and its fate.

    Both run where the caller is (`on_delivery` on the event loop) and must not block. What they raise is
    logged and changes nothing, and so does a record that could not be sent.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """The record to send instead; None for this one."""

    def on_delivery(
        self, record: ProducerRecord, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """Where the record was written, or why it was not; also of a record that `send` itself refused.

        Where this sends, and that is refused, only the other hooks are told: `send` has raised it here.
        """


class Fields(NamedTuple):
    """A record as the accumulator takes it, in the order of its parameters."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp_ms: int | None
    headers: tuple[Header, ...]


class Told:
    """Those who want to know what becomes of a record: called with its delivery, or left by what `send`
    raised where that is what became of it.

    `note` goes with the record: whoever appends it notes there where it is, in the step in which the record
    and this watcher are appended. So a signal handler that raises finds both of them there or none, and the
    hooks hear of every record once: what became of it, or why it was not sent.
    """

    __slots__ = ("_hooks", "note", "record")

    def __init__(self, config: ProducerConfig, record: ProducerRecord) -> None:
        self._hooks = config.hooks
        self.record: ProducerRecord = record
        self.note: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._hooks:
            self.note = [_NOWHERE, self]
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        note, self.note = self.note, None  # a circle would wait for the garbage collector
        if error is not None and note is not None and note[0] == _NOWHERE:
            self._tell(None, error)

    def __call__(self, delivery: Delivery) -> None:
        error = delivery.exception()
        self._tell(None if error else delivery.result(), error)

    def _tell(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        outer: tuple[ProducerHook, ...] = getattr(_telling, "hooks", ())
        for hook in self._hooks:
            if any(hook is each for each in outer):
                # It sends in `on_delivery`, and `send` raises there. If it heard of that here too, it
                # would send again, without end.
                continue
            _telling.hooks = (*outer, hook)
            try:
                hook.on_delivery(self.record, metadata, error)
            except BaseException as raised:  # noqa: BLE001 - it changes nothing for the others
                report(log, f"for a delivery to {self.record.topic}, the hook", hook.on_delivery, raised)
            finally:
                _telling.hooks = outer


def prepare(config: ProducerConfig, told: Told) -> Fields:
    """A caller's record as bytes, after the hooks have seen it."""
    if not config.hooks:
        return _checked(config, told.record)
    headers = told.record.headers
    told.record = told.record._replace(headers=())  # as hooks are told of it where its headers are refused
    told.record = told.record._replace(headers=as_headers(headers))
    changed = []
    for hook in config.hooks:
        record = told.record
        try:
            given = _in_place_of(record, config, hook.on_send(record))
        except BaseException as error:  # noqa: BLE001 - a hook sees records, and does not decide about them
            report(log, f"for a record to {record.topic}, the hook", hook.on_send, error)
        else:
            if given is not None:
                told.record = given
                changed.append(name_of(hook.on_send))
    try:
        return _checked(config, told.record)
    except BaseException as error:
        if changed:
            error.add_note(f"the record is as it was returned by the hook {', then '.join(changed)}")
        raise


def _checked(config: ProducerConfig, record: ProducerRecord) -> Fields:
    topic, value, key, partition, timestamp_ms, headers = record
    if topic.__class__ is not str:
        check_topic(topic)
    return Fields(
        topic,
        as_bytes(value, "value", config.value_serializer),
        as_bytes(key, "key", config.key_serializer),
        None if partition is None else as_partition(partition),
        None if timestamp_ms is None else as_timestamp(timestamp_ms),
        as_headers(headers),
    )


def as_bytes(value: Any, what: str, serializer: Callable[[Any], bytes | None] | None) -> bytes | None:
    """A key or value as bytes of its own. A serializer is asked for everything, None included."""
    if serializer is not None:
        try:
            value = serializer(value)
        except asyncio.CancelledError as error:  # would look as if the caller had been cancelled
            raise failure(f"the {what}_serializer", serializer, error) from error
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)  # the caller may go on writing into it
    if serializer is not None:
        raise TypeError(f"{what}_serializer returned {type(value).__name__}, not bytes or None")
    raise TypeError(
        f"{what} is {type(value).__name__}, not bytes: encode it, or give the producer a {what}_serializer"
    )


def as_headers(headers: Any) -> tuple[Header, ...]:
    """Headers as a batch carries them: from a mapping, or from pairs of text and bytes or None."""
    if not headers:
        return ()
    pairs: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers
    return tuple(_header(pair) for pair in pairs)


def _header(pair: Any) -> Header:
    try:
        name, value = pair
    except (TypeError, ValueError) as error:
        raise TypeError(f"header {pair!r} is no pair of a name and bytes") from error
    if not isinstance(name, str):
        raise TypeError(f"header name {name!r} is {type(name).__name__}, not text")
    if value is not None and not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"header {name!r} is {type(value).__name__}, not bytes or None")
    name.encode()  # a lone surrogate has no bytes, and raises here
    return name, None if value is None else bytes(value)


def as_partition(partition: Any) -> int:
    """Refuse what is no partition; whether the topic has it is seen when the record is sent."""
    number = _whole(partition)
    if number is None or number < 0:
        raise ValueError(f"partition={partition!r} must be a whole number from 0 on")
    return number


def as_timestamp(timestamp_ms: Any) -> int:
    """Refuse what no record can have."""
    number = _whole(timestamp_ms)
    if number is None or not 0 <= number <= _LATEST:
        raise ValueError(f"timestamp_ms={timestamp_ms!r} must be whole milliseconds since 1970, not negative")
    return number


def _whole(value: Any) -> int | None:
    """A number as Python's own; numpy and pandas have others. None for what is none."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def _in_place_of(record: ProducerRecord, config: ProducerConfig, given: object) -> ProducerRecord | None:
    """What a hook returned, if that is another record; raises what is known by now to be wrong with it."""
    if given is None or given is record:
        return None
    if not isinstance(given, ProducerRecord):
        raise TypeError(f"it returned {given!r}: return a ProducerRecord, or None for the one it got")
    check_topic(given.topic)
    for what in ("value", "key"):
        if getattr(config, f"{what}_serializer") is None:
            as_bytes(getattr(given, what), what, None)
    if given.partition is not None:
        as_partition(given.partition)
    if given.timestamp_ms is not None:
        as_timestamp(given.timestamp_ms)
    return given._replace(headers=as_headers(given.headers))
