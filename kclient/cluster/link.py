"""The way to one address: at most one connection, dialled when needed, with waits between failures.

Keyed by address and not by node: a broker that moves gets a new link, two names for one broker two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy

from kclient.clock import Deadline
from kclient.cluster.retry import Backoff
from kclient.config import Endpoint
from kclient.errors import ClientClosedError, KafkaConnectionError, KafkaError
from kclient.net.connection import Connection
from kclient.net.dial import DialSettings, dial

_IDLE_STEP = 1.0
# Told of every attempt: the address, why it failed (None if it did not), and when it began.
Tried = Callable[[Endpoint, BaseException | None, float], object]


class Link:
    """Hands out the connection to an address. Callers that come while it is dialled share that attempt."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: DialSettings,
        backoff: Backoff,
        max_idle: float | None,
        tried: Tried | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.connection: Connection | None = None
        self.last_error: KafkaError | None = None
        self._settings = settings
        self._backoff = backoff
        self._max_idle = max_idle
        self._tried = tried
        self._loop = asyncio.get_running_loop()
        self._not_before = 0.0
        self._began = 0.0  # the attempt under way
        self._dialling: asyncio.Task[Connection] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "dialling" if self._dialling else repr(self.connection)
        return f"<Link {self.endpoint} {state}>"

    @property
    def connected(self) -> bool:
        return self.connection is not None and not self.connection.closed

    @property
    def failures(self) -> int:
        """How many attempts, or connections, have failed since the last attempt that succeeded."""
        return self._backoff.attempts

    @property
    def pending(self) -> int:
        return self.connection.pending if self.connection is not None and self.connected else 0

    async def open(self, deadline: Deadline) -> Connection:
        """The connection, dialled first if there is none."""
        if self.connection is not None and not self.connection.closed:
            return self.connection
        if self._closed:
            raise ClientClosedError(f"the client of {self.endpoint} is closed")
        dialling = self._dialling
        if dialling is None:
            dialling = self._loop.create_task(self._dial(), name=f"dial {self.endpoint}")
            dialling.add_done_callback(self._dialled)
            self._dialling = dialling
        # Watched, not awaited: the attempt belongs to everyone who waits for it. A caller that is cancelled
        # must not end it, and an attempt that is given up must not look to its callers as if they were.
        await asyncio.wait([dialling], timeout=deadline.remaining(self._loop))
        if not dialling.done():
            raise deadline.expired(f"connecting to {self.endpoint}") from self.last_error
        if dialling.cancelled():
            raise KafkaConnectionError(
                f"connecting to {self.endpoint} was given up: it left the cluster, or the client was closed"
            )
        error = dialling.exception()
        if isinstance(error, KafkaError):
            raise copy(error)  # a traceback belongs to one caller
        if error is not None:
            raise KafkaError(
                f"connecting to {self.endpoint} failed in a way that kclient does not know: {error!r}"
            ) from error
        return dialling.result()

    def retire(self) -> None:
        """Close at once; requests in flight fail."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
        if self.connection is not None:
            self.connection.close(ClientClosedError(f"the client of {self.endpoint} was closed"))

    async def close(self) -> None:
        """Close and wait until task and socket are gone."""
        dialling = self._dialling
        self.retire()
        if dialling is not None:
            await asyncio.wait([dialling])
        if self.connection is not None:
            await self.connection.wait_closed()

    async def _dial(self) -> Connection:
        wait = self._not_before - self._loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        self._began = self._loop.time()
        return await dial(
            self.endpoint, self._settings, Deadline.after(self._loop, self._settings.setup_timeout)
        )

    def _dialled(self, task: asyncio.Task[Connection]) -> None:
        self._dialling = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._backoff.reset()
            self.connection = task.result()
            self._dialled_connection(self.connection)
        else:
            self._not_before = self._loop.time() + self._backoff.next()
            if isinstance(error, KafkaError):
                self.last_error = error
        if self._tried is not None:
            self._tried(self.endpoint, error, self._began)

    def _dialled_connection(self, connection: Connection) -> None:
        """Take over a connection, which may have ended, or be unwanted, since the attempt succeeded."""
        if connection.closed:
            self._lost()
            return
        connection.on_close(self._lost)
        self._watch_idleness()
        if self._closed:
            self.retire()

    def _lost(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self.connection is not None:
            self.last_error = self.connection.error
        self._not_before = self._loop.time() + self._backoff.next()

    def _watch_idleness(self) -> None:
        if self._max_idle is not None and self.connection is not None:
            due = max(self.connection.last_used + self._max_idle, self._loop.time() + _IDLE_STEP)
            self._idle_timer = self._loop.call_at(due, self._check_idleness, self._max_idle, self.connection)

    def _check_idleness(self, max_idle: float, connection: Connection) -> None:
        """Close a connection that nobody uses before the broker does it in the middle of a request."""
        if connection.pending or self._loop.time() < connection.last_used + max_idle:
            self._watch_idleness()
            return
        connection.close()
        self._not_before, self.last_error = 0.0, None  # our own doing, no failure
        self._backoff.reset()
