"""The embedded broker on a thread of its own, for blocking code and for clients of any library."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kclient.config import shown_half_made
from kclient.runtime import LoopThread

if TYPE_CHECKING:
    from kclient.broker import Broker

T = TypeVar("T")


class RunningBroker:
    """A `kclient.broker.Broker`, in memory, that runs while the `with` block does.

    Takes what `Broker` takes. `broker` is the broker itself; it lives on another thread, so its coroutines go
    through `call`. What tests do most has a method here that blocks until it is done.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    @shown_half_made
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

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic; what is not given comes from the broker's settings."""
        self.broker.create_topic(name, partitions, replication_factor, configs)

    def stop_node(self, node_id: int) -> None:
        """Stop a node; others take over what it led and coordinated."""
        self.call(self.broker.stop_node(node_id))

    def start_node(self, node_id: int) -> None:
        """Start a stopped node, on the ports it had."""
        self.call(self.broker.start_node(node_id))

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Have another running node lead a partition."""
        self.broker.move_leader(topic, partition, node_id)

    def move_coordinator(self, key: str, node_id: int) -> None:
        """Have another node coordinate a group."""
        self.broker.move_coordinator(key, node_id)


async def _start(options: dict[str, Any]) -> Broker:
    from kclient.broker import Broker  # noqa: PLC0415 - not until one is wanted

    return await Broker(**options).__aenter__()
