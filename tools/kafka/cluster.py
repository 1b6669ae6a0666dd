"""Real Kafka clusters for tests: `with KafkaCluster("4.3.1", nodes=3) as cluster: ...`

One to n brokers as plain Java processes on the loopback address, KRaft or ZooKeeper as the version demands.
Nothing outlives the process that started it (see `workspace`). Used by the pytest fixtures and by `python
-m tools.kafka up`.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tools.kafka import commands, probe
from tools.kafka.boot import Boot
from tools.kafka.config import PLAINTEXT, Layout, Listener, port_names
from tools.kafka.errors import KafkaToolError, PortTakenError
from tools.kafka.jars import Announce, JarSet
from tools.kafka.jvm import CommandRunner, Output, require_java
from tools.kafka.node import Node
from tools.kafka.ports import free_ports
from tools.kafka.versions import DEFAULT_VERSION, KafkaVersion
from tools.kafka.waiting import poll
from tools.kafka.workspace import Workspace

if TYPE_CHECKING:
    from tools.kafka.security import (
        Security,
    )  # at run time only callers who want security need `cryptography`

_START_ATTEMPTS = 3
_NOT_CONTROLLER = 41
_running: set[KafkaCluster] = set()


def quietly(_: str) -> None:
    """The `announce` of a cluster that says nothing."""


class KafkaCluster:
    """Brokers of one version, started by `start()` (or `with`), gone after `stop()`.

    `listeners` are further ones besides PLAINTEXT (for proxies, say), `config` overrides any broker
    property. Methods that act on one broker take a `Node` or its number (1 is the first).
    """

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        *,
        nodes: int = 1,
        security: Security | None = None,
        listeners: Sequence[Listener] = (),
        config: Mapping[str, str | None] | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster needs at least one node, not {nodes}")
        for listener in listeners:
            if listener.advertised_ports and len(listener.advertised_ports) != nodes:
                count = len(listener.advertised_ports)
                raise ValueError(f"listener {listener.name} advertises {count} ports for {nodes} nodes")
        self.version = KafkaVersion.parse(version)
        self.security = security
        self.nodes: list[Node] = []
        self._size = nodes
        self._extra_listeners = tuple(listeners)
        self._config = dict(config or {})
        self._owner = os.getpid()
        self._workspace: Workspace | None = None
        self._boot: Boot | None = None

    def __repr__(self) -> str:
        return f"<KafkaCluster {self.version}: {self.nodes or 'not started'}>"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def directory(self) -> Path:
        """The cluster's temporary directory: configurations, logs, data, certificates."""
        return self._started().workspace.directory

    # Starting and stopping

    def start(self, *, announce: Announce = quietly, timeout: float = 60) -> Self:
        """Fetch the jars if needed, start every broker, return when all answer and know each other."""
        if self._workspace is not None:
            raise RuntimeError(f"{self!r} is started already")
        java = require_java(self.version.minimum_java, f"run Kafka {self.version}")
        jar_set = JarSet.broker(self.version.text)
        jar_set.fetch(announce)
        announce(f"starting Kafka {self.version}, {self._size} node(s) …")
        self._workspace = Workspace()
        self._owner = os.getpid()
        _running.add(self)
        try:
            if self.security is not None:
                self.security.prepare(self._workspace, self.version)
            for attempt in range(1, _START_ATTEMPTS + 1):
                self._boot = Boot(java, jar_set, self._workspace, self._layout(attempt), self.security)
                try:
                    self.nodes = self._boot.start(timeout)
                    break
                except PortTakenError:
                    self._boot.kill()
                    if attempt == _START_ATTEMPTS:
                        raise
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, grace: float = 0) -> None:
        """End everything and remove the directory; brokers get `grace` seconds to leave in good order.

        None by default: their data goes with them, and the last KRaft broker would wait 30 s for a quorum.
        """
        if self._workspace is None:
            return
        if self._boot is not None:
            self._boot.stop(grace)
        if self.security is not None:
            self.security.close()
        self._workspace.close()
        self._workspace = None
        self._boot = None
        _running.discard(self)

    # Single brokers

    def node(self, which: Node | int) -> Node:
        number = which.id if isinstance(which, Node) else which
        for node in self.nodes:
            if node.id == number:
                return node
        raise ValueError(f"there is no node {number}; there are {[node.id for node in self.nodes]}")

    def kill(self, which: Node | int) -> None:
        """kill -9."""
        self._started().process(self.node(which)).kill()

    def freeze(self, which: Node | int) -> None:
        """SIGSTOP: its connections stay open, it answers nothing."""
        self._started().process(self.node(which)).freeze()

    def thaw(self, which: Node | int) -> None:
        """SIGCONT after `freeze`."""
        self._started().process(self.node(which)).thaw()

    def shut_down(self, which: Node | int, timeout: float = 30) -> None:
        """End one broker in good order (it hands its leaderships over first)."""
        node = self.node(which)
        process = self._started().process(node)
        process.terminate()
        if not process.wait(timeout):
            raise KafkaToolError(
                f"{node!r} did not end within {timeout:g} s of SIGTERM; {process.log_tail()}"
            )

    def restart(self, which: Node | int, timeout: float = 60) -> None:
        """Start a broker again on its old ports and data; one that still runs is shut down first."""
        node = self.node(which)
        if node.is_running():
            self.shut_down(node, timeout)
        self._started().start_again(node, timeout)

    def process_ids(self) -> list[int]:
        """Every process of the cluster that runs now, ZooKeeper included."""
        return self._started().process_ids()

    # Addresses and topics

    def bootstrap(self, listener: str = PLAINTEXT) -> str:
        """The addresses of all brokers, ready for `bootstrap_servers`."""
        self._started()
        return ",".join(node.bootstrap(listener) for node in self.nodes)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: int | None = None,
        configs: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> None:
        """Make a topic and wait until every partition has a leader."""
        factor = replicas or min(3, len(self.nodes))

        def attempt() -> tuple[int, str] | None:
            view = self._view()
            if view is None or view.controller not in [node.id for node in self.nodes]:
                return None
            answer = probe.create_topic(
                self.node(view.controller).address, name, partitions, factor, configs or {}
            )
            return None if answer[0] == _NOT_CONTROLLER else answer

        code, message = poll(
            attempt, timeout=timeout, failure=lambda: f"no controller made the topic {name!r}"
        )
        if code != 0:
            raise KafkaToolError(
                f"Kafka {self.version} refused to make the topic {name!r}: error {code} {message}"
            )
        for partition in range(partitions):
            self.leader(name, partition, timeout=timeout)

    def leader(self, topic: str, partition: int = 0, *, timeout: float = 30) -> Node:
        """The broker that leads a partition, waiting until that is one which runs and is not frozen."""

        def attempt() -> Node | None:
            view = self._view(topic)
            found = view.partitions.get(partition) if view is not None else None
            leaders = [node for node in self.nodes if found is not None and node.id == found.leader]
            return next((node for node in leaders if node.is_answering()), None)

        return poll(
            attempt, timeout=timeout, failure=lambda: f"no running broker leads {topic}-{partition}: {self!r}"
        )

    def in_sync(self, topic: str, partition: int = 0) -> frozenset[int]:
        """The numbers of the brokers that hold every record of a partition, as known now."""
        view = self._view(topic)
        found = view.partitions.get(partition) if view is not None else None
        return frozenset(found.in_sync) if found is not None else frozenset()

    def segment(self, topic: str, partition: int = 0, node: Node | int = 1) -> Path:
        """The newest log segment of a partition on one broker's disk."""
        self._started()
        return max((self.node(node).data / f"{topic}-{partition}").glob("*.log"))

    # Java

    def run_tool(
        self,
        name: str,
        args: Sequence[str] = (),
        *,
        stdin: str | bytes = b"",
        timeout: float = 60,
    ) -> Output:
        """Run one of Kafka's command-line tools ("console-consumer", "topics", … or a full class name).

        A tool called by its friendly name gets the cluster's address unless the arguments name one.
        """
        main = commands.resolve(name, JarSet.broker(self.version.text).directory)
        complete = commands.with_bootstrap(name, args, self.bootstrap(), self.version)
        return self._started().runner.run(main, complete, stdin=stdin, timeout=timeout)

    def java(
        self, code: str, args: Sequence[str] = (), *, stdin: str | bytes = b"", timeout: float = 60
    ) -> Output:
        """Compile and run one Java source file with the cluster's jars on the class path."""
        return self._started().runner.run_source(code, args, stdin=stdin, timeout=timeout)

    def jar(self, name: str) -> Path:
        """One of the cluster's jars, such as `kafka-clients`."""
        return JarSet.broker(self.version.text).jar(name)

    def _layout(self, attempt: int) -> Layout:
        assert self._workspace is not None
        listeners = [Listener(PLAINTEXT)]
        extra: dict[str, str] = {}
        if self.security is not None:
            listeners += self.security.listeners(self.version)
            extra |= self.security.properties(self.version)
        listeners += self._extra_listeners
        names = port_names(self.version, listeners)
        ports = free_ports(self._size * len(names) + 1)
        return Layout(
            version=self.version,
            directory=self._workspace.directory / f"attempt-{attempt}",
            listeners=listeners,
            ports=[
                dict(zip(names, ports[i * len(names) : (i + 1) * len(names)], strict=True))
                for i in range(self._size)
            ],
            zookeeper_port=ports[-1] if self.version.uses_zookeeper else None,
            extra=extra | self._config,
        )

    def _view(self, topic: str | None = None) -> probe.Metadata | None:
        for node in self.nodes:
            if node.is_answering():
                view = probe.metadata(node.address, topic)
                if view is not None:
                    return view
        return None

    def _started(self) -> Boot:
        if self._boot is None:
            raise RuntimeError(f"{self!r} is not running: call start() first, or use `with`")
        return self._boot


def run_java(
    code: str, version: str, args: Sequence[str] = (), *, stdin: str | bytes = b"", timeout: float = 60
) -> Output:
    """Compile and run one Java source with `kafka-clients` of any version, without a broker."""
    java = require_java(11, "run a Java source file")
    jar_set = JarSet.clients(version)
    jar_set.fetch()
    with Workspace() as workspace:
        return CommandRunner(java, jar_set.class_path, workspace).run_source(
            code, args, stdin=stdin, timeout=timeout
        )


@atexit.register
def _stop_running_clusters() -> None:
    for cluster in list(_running):
        if cluster._owner == os.getpid():  # a forked child must not end its parent's brokers
            cluster.stop()
