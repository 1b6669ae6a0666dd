"""Who is told what became of a record: one callback, several, or one that belongs to another event loop.

Where watchers are kept, and when they are called, is `delivery`'s.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kclient.usercode import report

if TYPE_CHECKING:
    from kclient.producer.delivery import Delivery
    from kclient.producer.part import Watcher

log: logging.Logger = logging.getLogger(__name__)


def call(watcher: Watcher, delivery: Delivery) -> None:
    # What it raises ends with it: records behind its own would never be settled, and the connection whose
    # answer is being read would be lost.
    try:
        watcher(delivery)
    except BaseException as error:  # noqa: BLE001
        report(log, f"the callback of a delivery to {delivery.topic},", watcher, error)


def nobody(_: Delivery) -> None:
    """In place of a watcher that was taken back."""


class Elsewhere:
    """A watcher of asyncio's own that belongs to another event loop than the producer's; called there."""

    __slots__ = ("_loop", "_watcher")

    def __init__(self, loop: asyncio.AbstractEventLoop, watcher: Watcher) -> None:
        self._loop = loop
        self._watcher = watcher

    def __repr__(self) -> str:
        return repr(self._watcher)

    def __eq__(self, other: object) -> bool:
        return self._watcher == (other._watcher if isinstance(other, Elsewhere) else other)

    def __hash__(self) -> int:
        return hash(self._watcher)

    def __call__(self, delivery: Delivery) -> None:
        if asyncio._get_running_loop() is not self._loop:
            try:
                self._loop.call_soon_threadsafe(call, self._watcher, delivery)
            except RuntimeError:  # that loop is closed, and nobody of it waits any more
                pass
            else:
                return
        call(self._watcher, delivery)


class Several(tuple["Watcher", ...]):
    """Watchers of one record, in the order in which they came."""

    __slots__ = ()

    def __call__(self, delivery: Delivery) -> None:
        for watcher in self:
            call(watcher, delivery)


def joined(earlier: Watcher | None, later: Watcher) -> Watcher:
    if earlier is None:
        return later
    return Several((*earlier, later) if isinstance(earlier, Several) else (earlier, later))


def without(watcher: Watcher | None, callback: Watcher) -> tuple[Watcher | None, int]:
    """What is left of the watchers of a record, and how many times `callback` was among them."""
    if watcher is None:
        return None, 0
    everyone = watcher if isinstance(watcher, Several) else (watcher,)
    kept = Several([each for each in everyone if each != callback])
    return kept or None, len(everyone) - len(kept)
