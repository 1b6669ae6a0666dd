"""The embedded broker on a thread of its own, for blocking code and for clients of any library."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kclient.runtime import LoopThread

if TYPE_CHECKING:
    from kclient.broker import Broker

T = TypeVar("T")


class RunningBroker:
    """A `kclient.broker.Broker`, in memory, that runs while the `with` block does.

    Takes what `Broker` takes. `broker` is the broker itself; it lives on another thread, so its coroutines go
    through `call`.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    def __repr__(self) -> str:
        return f"<RunningBroker {self._options}>"

    def __enter__(self) -> Self:
        self._thread = LoopThread("embedded broker")
        try:
            self.broker: Broker = self._thread.call(_start(self._options))
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._thread.call(self.broker.__aexit__(None, None, None))
        finally:
            self._thread.stop()

    @property
    def bootstrap_servers(self) -> str:
        """What a client needs to find it: "host:port", or several with commas."""
        return self.broker.bootstrap_servers

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, such as `running.broker.stop_node(2)`, on the broker's thread."""
        return self._thread.call(work)


async def _start(options: dict[str, Any]) -> Broker:
    from kclient.broker import Broker  # noqa: PLC0415 - not until one is wanted

    return await Broker(**options).__aenter__()
