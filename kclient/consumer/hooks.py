"""Hooks of a consumer: what they are, and how they are called. What they raise is logged with their name.

`poller` calls them for records, on the application's stack, `commits` for offsets, on the client's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kclient.types import OffsetAndMetadata, Record, TopicPartition
from kclient.usercode import report

if TYPE_CHECKING:
    from kclient.errors import KafkaError

log: logging.Logger = logging.getLogger(__name__)


class ConsumerHook(Protocol):
    """Sees every record when it is handed out, deserialized, and the fate of every commit.

    `on_consume` runs where the application asks for records, `on_commit` on the event loop of the client
    (with `Consumer`, and with `io_thread`, on its thread). They must not block. What they raise is logged and
    changes nothing.
    """

    def on_consume(self, record: Record[Any, Any]) -> Record[Any, Any] | None:
        """The record to hand out instead, of the same place; None for this one."""

    def on_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None
    ) -> None:
        """What was committed, by itself or by a call, or why not all of it was."""


class Hooks:
    """Those of one consumer, in their order."""

    def __init__(self, hooks: Sequence[ConsumerHook]) -> None:
        self._hooks = hooks

    def consumed(self, records: Sequence[Record[Any, Any]]) -> list[Record[Any, Any]]:
        """The records as they are handed out."""
        return list(map(self.shown, records))

    def shown(self, record: Record[Any, Any]) -> Record[Any, Any]:
        """One of them."""
        for hook in self._hooks:
            try:
                record = _instead(record, hook.on_consume(record))
            except BaseException as error:  # noqa: BLE001 - a hook sees records, and does not decide about them
                about = f"for the record at {record.topic}-{record.partition}, offset {record.offset}"
                report(log, f"{about}, the hook", hook.on_consume, error)
        return record

    def committed(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None
    ) -> None:
        """Tell them of a commit."""
        for hook in self._hooks:
            try:
                hook.on_commit(offsets, error)
            except BaseException as raised:  # noqa: BLE001 - it ends no commits
                report(log, "for a commit, the hook", hook.on_commit, raised)


def _instead(record: Record[Any, Any], given: object) -> Record[Any, Any]:
    if given is None:
        return record
    if not isinstance(given, Record) or given[:3] != record[:3]:
        raise TypeError(
            f"it returned {given!r}: return a Record of the same place, or None for the one it got"
        )
    return given
