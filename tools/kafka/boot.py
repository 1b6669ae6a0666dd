"""The processes of one cluster: format storage, start in the right order, wait until they answer, end them.

`KafkaCluster` owns one `Boot` per attempt to start; tests never see it.
"""

from __future__ import annotations

import base64
import socket
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tools.kafka import commands
from tools.kafka.config import SCRAM_MECHANISMS, Layout, render, server_properties, zookeeper_properties
from tools.kafka.errors import BrokerError
from tools.kafka.jars import JarSet
from tools.kafka.jvm import SERVER_FLAGS, CommandRunner, Java, class_path_flags
from tools.kafka.node import Node, check_alive
from tools.kafka.ports import HOST
from tools.kafka.processes import ServerProcess
from tools.kafka.waiting import poll
from tools.kafka.workspace import Workspace

if TYPE_CHECKING:
    from tools.kafka.security import Security


class Boot:
    """Starts and ends what one `Layout` describes."""

    def __init__(
        self, java: Java, jar_set: JarSet, workspace: Workspace, layout: Layout, security: Security | None
    ) -> None:
        self.workspace = workspace
        self.runner = CommandRunner(java, jar_set.class_path, workspace)
        self._java = java
        self._jar_set = jar_set
        self._layout = layout
        self._security = security
        self._zookeeper: ServerProcess | None = None
        self._nodes = [Node(n, layout.ports[n - 1], layout.data_directory(n)) for n in layout.node_ids]

    def start(self, timeout: float) -> list[Node]:
        """Every broker, answering and known to every other."""
        self._layout.directory.mkdir()
        for node in self._nodes:
            text = render(server_properties(self._layout, node.id))
            self._config_file(node).write_text(text)
        if self._layout.zookeeper_port is None:
            self._format_storage()
        else:
            self._start_zookeeper(self._layout.zookeeper_port, timeout)
        for node in self._nodes:
            self._launch(node)
        for node in self._nodes:
            self._wait_for(node, self._nodes, timeout)
        return self._nodes

    def start_again(self, node: Node, timeout: float) -> None:
        """One broker that has ended, with its old ports and data."""
        if self._layout.zookeeper_port is not None:
            self._wait_for_old_session(node, self._layout.zookeeper_port, timeout)
        self._launch(node)
        self._wait_for(node, [other for other in self._nodes if other.is_answering()], timeout)

    def process(self, node: Node) -> ServerProcess:
        if node.process is None or not node.process.is_running():
            raise RuntimeError(f"{node!r} is not running")
        return node.process

    def process_ids(self) -> list[int]:
        servers = [*(node.process for node in self._nodes), self._zookeeper]
        return [server.pid for server in servers if server is not None and server.is_running()]

    def stop(self, grace: float) -> None:
        """SIGTERM to all brokers, SIGKILL to those still there after `grace` seconds; ZooKeeper last."""
        running = [
            node.process for node in self._nodes if node.process is not None and node.process.is_running()
        ]
        answering = [process for process in running if process.is_answering()]
        if grace > 0:
            for process in answering:
                process.terminate()
            self._await_end(answering, grace)
        self.kill()

    def kill(self) -> None:
        for node in self._nodes:
            if node.process is not None:
                node.process.kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()

    @staticmethod
    def _await_end(processes: Sequence[ServerProcess], grace: float) -> None:
        try:
            poll(
                lambda: not any(p.is_running() for p in processes),
                timeout=grace,
                failure=lambda: "still running",
            )
        except TimeoutError:
            return  # expected of the last KRaft broker

    def _config_file(self, node: Node) -> Path:
        return self._layout.directory / f"server-{node.id}.properties"

    def _launch(self, node: Node) -> None:
        flags = [*SERVER_FLAGS, *self._layout.jvm_flags]
        flags += self._security.jvm_flags() if self._security is not None else ()
        node.process = self._server(f"broker {node.id}", flags, ["kafka.Kafka", str(self._config_file(node))])

    def _server(self, name: str, flags: Sequence[str], main: Sequence[str]) -> ServerProcess:
        command = [self._java.program, *flags, *class_path_flags(self._java, self._jar_set.class_path), *main]
        log = self._layout.directory / f"{name.replace(' ', '-')}.log"
        return ServerProcess(f"{name} of Kafka {self._layout.version}", command, log, self.workspace)

    def _wait_for(self, node: Node, others: Sequence[Node], timeout: float) -> None:
        process = self.process(node)
        numbers = {other.id for other in others}

        def attempt() -> bool:
            check_alive(process)
            return node.sees(numbers)

        try:
            poll(
                attempt,
                timeout=timeout,
                failure=lambda: f"{node!r} does not answer, or not for brokers {numbers}",
            )
        except TimeoutError as error:
            raise BrokerError(f"{error}; {process.log_tail()}") from error

    def _format_storage(self) -> None:
        cluster_id = _new_cluster_id()
        main = commands.resolve("storage", self._jar_set.directory)
        scram: list[str] = []
        for user, password in self._scram_users().items():
            for mechanism in SCRAM_MECHANISMS:
                scram += ["--add-scram", f"{mechanism}=[name={user},password={password}]"]

        def format_one(node: Node) -> None:
            self.runner.run(main, ["format", "-t", cluster_id, "-c", str(self._config_file(node)), *scram])

        with ThreadPoolExecutor(len(self._nodes)) as pool:
            list(pool.map(format_one, self._nodes))

    def _start_zookeeper(self, port: int, timeout: float) -> None:
        config = self._layout.directory / "zookeeper.properties"
        config.write_text(render(zookeeper_properties(port, self._layout.directory / "zookeeper")))
        flags = [*SERVER_FLAGS, "-Dzookeeper.jmx.log4j.disable=true"]
        main = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        process = self._zookeeper = self._server("zookeeper", flags, main)

        def attempt() -> bool:
            check_alive(process)
            return _ask_zookeeper(port, b"ruok") == "imok"

        poll(attempt, timeout=timeout, failure=lambda: f"ZooKeeper does not answer; {process.log_tail()}")
        configs = commands.resolve("configs", self._jar_set.directory)

        def store(user: str, password: str) -> None:
            credentials = ",".join(f"{mechanism}=[password={password}]" for mechanism in SCRAM_MECHANISMS)
            entity = ["--entity-type", "users", "--entity-name", user]
            change = ["--alter", *entity, "--add-config", credentials]
            self.runner.run(configs, ["--zookeeper", f"{HOST}:{port}", *change])

        users = self._scram_users()
        with ThreadPoolExecutor(max(1, len(users))) as pool:
            list(pool.map(store, users.keys(), users.values()))

    def _wait_for_old_session(self, node: Node, port: int, timeout: float) -> None:
        """A broker refuses to start while ZooKeeper still holds the session of its killed predecessor."""
        poll(
            lambda: f"/brokers/ids/{node.id}\n" not in _ask_zookeeper(port, b"dump") + "\n",
            timeout=timeout,
            failure=lambda: f"ZooKeeper still counts {node!r} as alive",
        )

    def _scram_users(self) -> Mapping[str, str]:
        return {} if self._security is None else self._security.scram_users()


def _new_cluster_id() -> str:
    """Sixteen random bytes as Kafka writes them; a leading dash would be taken for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def _ask_zookeeper(port: int, word: bytes) -> str:
    """The answer to one of ZooKeeper's four-letter words; empty when it does not answer."""
    try:
        with socket.create_connection((HOST, port), 2) as sock, sock.makefile("rb") as stream:
            sock.sendall(word)
            return stream.read().decode()
    except OSError:
        return ""
