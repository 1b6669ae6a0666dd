"""The text of a broker's configuration, as pure functions of what the cluster looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.kafka.ports import HOST
from tools.kafka.versions import KafkaVersion

PLAINTEXT = "PLAINTEXT"
CONTROLLER = "CONTROLLER"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class Listener:
    """One address that every broker of a cluster listens on.

    `properties` are written with the listener's own prefix. `advertised_ports`, one per node, tell clients
    to connect elsewhere: to a proxy that forwards to the real port (`node.port(name)`). `advertised_host` is
    another name of the loopback address.
    """

    name: str
    protocol: str = "PLAINTEXT"
    properties: Mapping[str, str] = field(default_factory=dict)
    advertised_ports: Sequence[int] = ()
    advertised_host: str = HOST


@dataclass(frozen=True)
class Layout:
    """Everything a configuration is computed from. `ports[i]` are node i+1's ports by listener name."""

    version: KafkaVersion
    directory: Path
    listeners: Sequence[Listener]
    ports: Sequence[Mapping[str, int]]
    zookeeper_port: int | None
    extra: Mapping[str, str | None]  # over everything else; None takes a setting away
    jvm_flags: Sequence[str] = ()

    @property
    def node_ids(self) -> range:
        return range(1, len(self.ports) + 1)

    def data_directory(self, node_id: int) -> Path:
        return self.directory / f"data-{node_id}"


def port_names(version: KafkaVersion, listeners: Sequence[Listener]) -> list[str]:
    """The ports each node needs, by name."""
    names = [listener.name for listener in listeners]
    return names if version.uses_zookeeper else [*names, CONTROLLER]


def server_properties(layout: Layout, node_id: int) -> dict[str, str]:
    """The configuration of one broker."""
    ports = layout.ports[node_id - 1]
    protocols = {listener.name: listener.protocol for listener in layout.listeners}
    properties = {
        "listeners": ",".join(f"{name}://{HOST}:{ports[name]}" for name in protocols),
        "advertised.listeners": ",".join(
            f"{listener.name}://{listener.advertised_host}:{_advertised(listener, ports, node_id)}"
            for listener in layout.listeners
        ),
        "inter.broker.listener.name": PLAINTEXT,
        "log.dirs": str(layout.data_directory(node_id)),
        "broker.rack": f"rack{node_id}",
        **replication(layout.version, len(layout.ports)),
        **small_and_quick(),
    }
    if layout.zookeeper_port is None:
        protocols[CONTROLLER] = "PLAINTEXT"
        properties["listeners"] += f",{CONTROLLER}://{HOST}:{ports[CONTROLLER]}"
        properties |= _kraft(layout, node_id)
    else:
        properties |= _zookeeper_client(layout.zookeeper_port, node_id)
    properties["listener.security.protocol.map"] = ",".join(
        f"{name}:{what}" for name, what in protocols.items()
    )
    for listener in layout.listeners:
        prefix = f"listener.name.{listener.name.lower()}."
        properties |= {prefix + key: value for key, value in listener.properties.items()}
    changed: dict[str, str | None] = {**properties, **layout.extra}
    return {name: value for name, value in changed.items() if value is not None}


def zookeeper_properties(port: int, data: Path) -> dict[str, str]:
    return {
        "tickTime": "500",  # sessions last at least two ticks; a killed broker is noticed when its ends
        "dataDir": str(data),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok,dump",
    }


def render(properties: Mapping[str, str]) -> str:
    """A Java properties file."""
    return "".join(f"{key}={_escape(value)}\n" for key, value in properties.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _advertised(listener: Listener, ports: Mapping[str, int], node_id: int) -> int:
    if not listener.advertised_ports:
        return ports[listener.name]
    return listener.advertised_ports[node_id - 1]


def replication(version: KafkaVersion, nodes: int) -> dict[str, str]:
    """As many replicas as there are brokers, up to three, with one allowed to be missing."""
    factor = min(3, nodes)
    in_sync = max(1, factor - 1)
    properties = {
        "default.replication.factor": factor,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 3,
    }
    if version.has_share_coordinator:
        properties |= {
            "share.coordinator.state.topic.replication.factor": factor,
            "share.coordinator.state.topic.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": 3,
        }
    return {key: str(value) for key, value in properties.items()}


def small_and_quick() -> dict[str, str]:
    """For brokers that live for seconds on a machine with other work."""
    return {
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "log.cleaner.dedupe.buffer.size": "2097152",  # 128 MB of heap by default
        # Tests write records that are years old; retention would take them between a test's writing and its
        # reading: 30 s after the start, and every five minutes.
        "log.retention.ms": "-1",
    }


def _kraft(layout: Layout, node_id: int) -> dict[str, str]:
    voters = ",".join(f"{i}@{HOST}:{layout.ports[i - 1][CONTROLLER]}" for i in layout.node_ids)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": CONTROLLER,
        "broker.session.timeout.ms": "3000",  # 9000 by default: how long a killed broker stays unnoticed
        "broker.heartbeat.interval.ms": "500",
    }


def _zookeeper_client(port: int, node_id: int) -> dict[str, str]:
    return {
        "broker.id": str(node_id),
        "zookeeper.connect": f"{HOST}:{port}",
        "zookeeper.session.timeout.ms": "3000",
        "zookeeper.connection.timeout.ms": "20000",
    }
