"""The blocking admin client: `AsyncAdmin` on a loop thread of its own.

Every coroutine of `AsyncAdmin` has a twin here of the same name and signature; a test says so.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from kclient.admin.client import CLOSE_TIMEOUT_MS, AsyncAdmin
from kclient.cluster.client import ClusterHealth
from kclient.config import ClientConfig, configured_by, shown_half_made
from kclient.errors import ClientClosedError
from kclient.runtime import LoopThread

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    verb: Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Admin, P], T]:
    """The same verb for callers that wait in their own thread."""

    @functools.wraps(verb)
    def call(self: Admin, /, *args: P.args, **options: P.kwargs) -> T:
        return self._thread.call(lambda: verb(self._admin, *args, **options))

    return call


class Admin:
    """Manages topics, settings, groups and offsets of a Kafka cluster, from ordinary code.

        with Admin(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics(NewTopic("orders", num_partitions=6))
            print(admin.list_topics())

    The options, verbs and results are those of `AsyncAdmin`, without `await`. Threads may share a client;
    processes may not. The constructor does not connect: `start` (or `with`) does and says at once if that
    fails; without it the first verb connects.
    """

    _thread: LoopThread
    _shares_thread = False

    @configured_by(ClientConfig)
    def __init__(self, config: ClientConfig) -> None:
        self._admin = AsyncAdmin(**vars(config))
        self._thread = LoopThread(f"kclient admin {config.client_id}")

    @classmethod
    def on(cls, thread: LoopThread, **options: Any) -> Self:
        """A client on a loop thread that others use too, and that outlives it.

        with LoopThread("mine") as thread:
            admin = Admin.on(thread, bootstrap_servers="localhost:9092")
        """
        admin = cls.__new__(cls)
        admin._admin = AsyncAdmin(**options)
        admin._thread = thread
        admin._shares_thread = True
        return admin

    start: Final = _blocking(AsyncAdmin.start)

    create_topics: Final = _blocking(AsyncAdmin.create_topics)
    delete_topics: Final = _blocking(AsyncAdmin.delete_topics)
    list_topics: Final = _blocking(AsyncAdmin.list_topics)
    describe_topics: Final = _blocking(AsyncAdmin.describe_topics)
    create_partitions: Final = _blocking(AsyncAdmin.create_partitions)

    describe_configs: Final = _blocking(AsyncAdmin.describe_configs)
    incremental_alter_configs: Final = _blocking(AsyncAdmin.incremental_alter_configs)

    list_groups: Final = _blocking(AsyncAdmin.list_groups)
    describe_consumer_groups: Final = _blocking(AsyncAdmin.describe_consumer_groups)
    delete_consumer_groups: Final = _blocking(AsyncAdmin.delete_consumer_groups)
    list_consumer_group_offsets: Final = _blocking(AsyncAdmin.list_consumer_group_offsets)
    alter_consumer_group_offsets: Final = _blocking(AsyncAdmin.alter_consumer_group_offsets)
    delete_consumer_group_offsets: Final = _blocking(AsyncAdmin.delete_consumer_group_offsets)

    list_offsets: Final = _blocking(AsyncAdmin.list_offsets)
    describe_cluster: Final = _blocking(AsyncAdmin.describe_cluster)

    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Close all connections; calls in flight fail with `ClientClosedError`. Ends within `timeout_ms`."""
        # In a forked child there is nothing to close: thread and connections are the parent's.
        if not self._thread.running:
            return
        closing = functools.partial(self._admin.close, timeout_ms)
        # Of threads that close at the same time, one finds the loop ended by another: closed is closed.
        with contextlib.suppress(ClientClosedError):
            if self._shares_thread:
                self._thread.call(closing)
            else:
                self._thread.await_last(self._thread.launch_last(closing, lambda: self._admin.ending.done))

    def health(self) -> ClusterHealth:
        """Whether the client is in touch with its cluster; never waits for the network."""
        return self._admin.health() if self._thread.ended else self._thread.call(self._health)

    async def _health(self) -> ClusterHealth:
        return self._admin.health()

    @shown_half_made
    def __repr__(self) -> str:
        return repr(self._admin).replace("AsyncAdmin", "Admin", 1)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.running and not thread.ending and not self._admin.closed:
            warnings.warn(f"{self!r} was never closed: use `with` or close()", ResourceWarning, 2, self)
            if self._shares_thread:
                thread.begin(self._admin.close())
            else:
                thread.finish(self._admin.close())
