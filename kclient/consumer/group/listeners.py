"""Whom an application has told of rebalances, and how the group calls it.

A listener is any object with some of the methods of `ConsumerRebalanceListener`, each a function or a
coroutine function.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from kclient.errors import KafkaError
from kclient.types import TopicPartition
from kclient.usercode import call, failure

log = logging.getLogger(__name__)

REVOKED, ASSIGNED, LOST = "on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost"


class ConsumerRebalanceListener:
    """Told when partitions come and go; override what you need, with `def` or `async def`.

    The group waits for each call, and heartbeats go on meanwhile. What it takes too long for
    (`rebalance_timeout_ms`) is taken for lost.
    """

    def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> object:
        """These go to others now. Nothing of them is handed out any more; their offsets can be committed."""

    def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> object:
        """These were added. Nothing of them has been handed out yet: the place for a `seek`."""

    def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> object:
        """These are gone and others may read them already: commits will fail. By default as if revoked."""
        return self.on_partitions_revoked(lost)


async def tell(
    listener: object | None, method: str, partitions: Collection[TopicPartition]
) -> KafkaError | None:
    """Call a listener; what it raises is returned, as an error for the application's next call.

    A listener that cancels workers of its own and awaits them raises `CancelledError`: an error as any other.
    """
    called = getattr(listener, method, None)
    if called is None and method == LOST:
        called = getattr(listener, REVOKED, None)
    if called is None:
        return None
    _, error = await call(called, frozenset(partitions))
    if error is None:
        return None
    original = getattr(getattr(listener, "__wrapped__", listener), called.__name__, called)
    log.warning("the rebalance listener's %s failed", method, exc_info=error)
    return failure("the rebalance listener's", original, error)
