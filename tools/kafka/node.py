"""One broker of a cluster: its addresses, its process and what its log says when it fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.kafka import probe
from tools.kafka.config import CONTROLLER, PLAINTEXT
from tools.kafka.errors import BrokerError, PortTakenError
from tools.kafka.ports import HOST
from tools.kafka.processes import ServerProcess

_PORT_IN_USE = ("BindException", "Address already in use", "Failed to bind")


class Node:
    """A broker. `repr` shows its state: `<node 2 at 127.0.0.1:17012: running>`."""

    def __init__(self, node_id: int, ports: Mapping[str, int], data: Path) -> None:
        self.id = node_id
        self.data = data
        self._ports = dict(ports)
        self.process: ServerProcess | None = None

    def __repr__(self) -> str:
        state = "never started" if self.process is None else repr(self.process)
        return f"<node {self.id} at {self.bootstrap()}: {state}>"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the PLAINTEXT listener."""
        return HOST, self._ports[PLAINTEXT]

    def port(self, listener: str = PLAINTEXT) -> int:
        """The port this broker itself listens on (clients may be told another one, see `Listener`)."""
        if listener not in self._ports:
            raise ValueError(f"this cluster has no listener {listener!r}; it has {', '.join(self._ports)}")
        return self._ports[listener]

    def bootstrap(self, listener: str = PLAINTEXT) -> str:
        return f"{HOST}:{self.port(listener)}"

    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running()

    def is_answering(self) -> bool:
        return self.process is not None and self.process.is_answering()

    def sees(self, node_ids: Iterable[int]) -> bool:
        """Whether the broker serves all its listeners and counts these brokers as alive.

        When another test session took our port first, it is that session's broker that answers, with the same
        number: hence the look at the cluster id.
        """
        view = probe.metadata(self.address)
        if view is None or not view.brokers.issuperset(node_ids) or view.controller < 0:
            return False
        if view.cluster_id is None or view.cluster_id != self._cluster_id():
            return False
        clients = [port for name, port in self._ports.items() if name not in (PLAINTEXT, CONTROLLER)]
        return all(probe.accepts((HOST, port)) for port in clients)

    def _cluster_id(self) -> str | None:
        """As the broker wrote it next to its data."""
        try:
            text = (self.data / "meta.properties").read_text()
        except FileNotFoundError:
            return None
        ids = [line.partition("=")[2] for line in text.splitlines() if line.startswith("cluster.id=")]
        return ids[0] if ids else None


def check_alive(process: ServerProcess) -> None:
    """Raise when a server has ended although nobody asked it to."""
    if process.is_running():
        return
    kind = PortTakenError if any(text in process.output() for text in _PORT_IN_USE) else BrokerError
    raise kind(f"{process.name} ended with exit code {process.exit_code}; {process.log_tail()}")
