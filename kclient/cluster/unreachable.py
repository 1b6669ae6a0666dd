"""Which brokers cannot be reached, for the log and for `health()`.

A client that gets its metadata from one broker may be unable to reach another: its advertised listener names
a host that does not resolve here, or a port that nobody listens on. The calls that need that broker wait and
try again, and say nothing. Called by `Cluster`, on its event loop.

Nobody dials a broker that nobody needs, so an attempt that failed says nothing of now after a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from kclient.cluster.metadata import Metadata
from kclient.config import Endpoint
from kclient.errors import KafkaConnectionError, KafkaError
from kclient.reminders import IN_LOG, Reminders

log: logging.Logger = logging.getLogger(__name__)


class Unreachable:
    """The addresses that nothing has reached since an attempt failed. `outage` says why no broker answers.

    A failure stands for `standing` seconds: as long as the next attempt of who needs the broker may take.
    """

    def __init__(
        self,
        metadata: Callable[[], Metadata],
        outage: Callable[[], KafkaError | None],
        bootstrap: Collection[Endpoint],
        standing: float,
    ) -> None:
        self._metadata = metadata
        self._outage = outage
        self._bootstrap = frozenset(bootstrap)
        self._loop = asyncio.get_running_loop()
        self._standing = standing
        self._errors: dict[Endpoint, tuple[KafkaConnectionError, float]] = {}
        self._reminders = Reminders(IN_LOG)

    def __repr__(self) -> str:
        return f"<Unreachable {', '.join(map(str, self._errors)) or 'nobody'}>"

    def tried(self, endpoint: Endpoint, error: BaseException | None, began: float) -> None:
        """An attempt to connect that began then has come to its end."""
        if not isinstance(error, KafkaConnectionError):  # others are final, and raised
            self.forget(endpoint)
            return
        if not self._stands(endpoint, began):
            self.forget(endpoint)  # what was then is over, as far as anybody knows
        self._errors[endpoint] = error, self._loop.time()
        # While no broker answers at all, that is what the log says, and once is enough.
        counts = self._outage() is None and self._node(endpoint) is not None
        if counts and self._reminders.due(endpoint, self._loop.time(), began):
            log.warning("%s", self._told(endpoint, error))

    def forget(self, endpoint: Endpoint) -> None:
        """The cluster has this address no longer."""
        self._errors.pop(endpoint, None)
        self._reminders.over(endpoint)

    def complaints(self) -> tuple[str, ...]:
        """What is the matter now, one sentence or two for each broker."""
        outage = self._outage()
        if outage is not None:
            return (f"cannot fetch metadata: {outage}",)
        return tuple(
            self._told(endpoint, error)
            for endpoint, (error, _) in self._errors.items()
            if self._node(endpoint) is not None and self._stands(endpoint, self._loop.time())
        )

    def _stands(self, endpoint: Endpoint, now: float) -> bool:
        """Whether the last attempt failed so lately that the next one may be under way."""
        failed = self._errors.get(endpoint)
        return failed is not None and now - failed[1] <= self._standing

    def _node(self, endpoint: Endpoint) -> int | None:
        """Whose address it is; an address that the cluster has no longer is nobody's business."""
        brokers = self._metadata().brokers.values()
        return next((broker.node_id for broker in brokers if broker.endpoint == endpoint), None)

    def _told(self, endpoint: Endpoint, error: KafkaConnectionError) -> str:
        hint = (
            ""
            if endpoint in self._bootstrap
            else " The cluster gave this address to its clients: if the broker is up, correct its "
            "advertised.listeners, or make the address reachable from this machine"
        )
        return f"broker {self._node(endpoint)} cannot be reached at {endpoint}: {error}.{hint}"
