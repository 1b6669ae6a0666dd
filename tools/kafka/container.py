"""A plain single-node broker in a container, for machines with a Docker engine but without Java.

Built on testcontainers' generic container and the `apache/kafka` image. Its own `KafkaContainer` is not
used: it rewrites scripts that exist only in another vendor's image.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Self

from tools.kafka import probe
from tools.kafka.config import replication, small_and_quick
from tools.kafka.errors import BrokerError, KafkaToolError
from tools.kafka.ports import free_ports
from tools.kafka.versions import KafkaVersion
from tools.kafka.waiting import poll

_IMAGE = "apache/kafka"
_INSIDE = 9092


def _docker_container(image: str) -> Any:
    return importlib.import_module("testcontainers.core.container").DockerContainer(image)


class KafkaContainer:
    """One broker in one container. `new_container` makes the testcontainers object from the image's name."""

    def __init__(
        self,
        version: KafkaVersion,
        new_container: Callable[[str], Any] = _docker_container,
        start_timeout: float = 120,
    ) -> None:
        self.version = version
        self._container = new_container(f"{_IMAGE}:{version}")
        self._start_timeout = start_timeout
        self._address = ("", 0)

    def start(self) -> Self:
        """The port is chosen before the start, because the broker has to advertise it."""
        port = free_ports(1)[0]
        self._address = (str(self._container.get_docker_client().host()), port)
        self._container.with_bind_ports(_INSIDE, port)
        for name, value in container_properties(*self._address, self.version).items():
            self._container.with_env(_variable(name), value)
        self._container.start()
        try:
            poll(
                lambda: probe.metadata(self._address) is not None,
                timeout=self._start_timeout,
                failure=lambda: (
                    f"the container of Kafka {self.version} does not answer at {self.bootstrap()}"
                ),
            )
        except TimeoutError as error:
            self.stop()
            raise BrokerError(str(error)) from error
        return self

    def stop(self) -> None:
        self._container.stop()

    def bootstrap(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    def create_topic(self, name: str, partitions: int = 1) -> None:
        code, message = probe.create_topic(self._address, name, partitions, 1, {})
        if code != 0:
            raise KafkaToolError(f"Kafka {self.version} refused to make the topic {name!r}: {code} {message}")


def container_properties(host: str, port: int, version: KafkaVersion) -> dict[str, str]:
    """The broker properties of a single KRaft node that clients reach at `host:port`."""
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://:{_INSIDE},CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        **replication(version, 1),
        **small_and_quick(),
    }


def _variable(name: str) -> str:
    """The image reads `a.b` from KAFKA_A_B."""
    return "KAFKA_" + name.upper().replace(".", "_")
