"""The embedded broker: one or several nodes in one process, for development and tests. Not for production.

    async with Broker(nodes=3) as broker:
        print(broker.bootstrap_servers)

Without `data` everything is in memory; with it, partitions are stored in Kafka's own format below that
directory and are there again the next time. Nodes share topics, logs and groups; what a client sees is a
cluster in which leaders and coordinators can be moved, and nodes stopped and started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Self

from kclient.broker import handlers
from kclient.broker.crossing import from_any_loop, from_any_thread
from kclient.broker.data_directory import DataDirectory, Memory, Storage
from kclient.broker.disk_notices import DiskNotices
from kclient.broker.faults import Faults
from kclient.broker.group_store import OffsetsTopicStore
from kclient.broker.groups.coordinator import GroupConfig, GroupCoordinator
from kclient.broker.groups.modern import Surroundings
from kclient.broker.groups.modern_service import ConsumerGroups
from kclient.broker.groups.offsets_topic import partition_for
from kclient.broker.log.config import LogConfig
from kclient.broker.node import Node
from kclient.broker.producer_ids import ProducerIds
from kclient.broker.security.listeners import ListenerSpec
from kclient.broker.security.users import UserStore
from kclient.broker.settings import BrokerSettings
from kclient.broker.topics import OFFSETS_TOPIC, PartitionState, TopicCatalogue, TopicState
from kclient.broker.upkeep import Upkeep
from kclient.clock import Clock, SystemClock
from kclient.config import shown_half_made
from kclient.errors import ConfigurationError, DataDirectoryError, KafkaStorageError

handlers.load()

PLAINTEXT = ListenerSpec("PLAINTEXT", "PLAINTEXT")


# Clients that ask the operating system for the time (aiokafka does, in C) are far ahead of a clock of a test.
_NO_LATEST_TIMESTAMP = {"log.message.timestamp.after.max.ms": str((1 << 63) - 1)}


class Broker:
    """An embedded Kafka cluster. `config` holds broker settings under Kafka's names."""

    def __init__(  # noqa: PLR0913 - one parameter per choice, all optional
        self,
        *,
        nodes: int = 1,
        host: str = "127.0.0.1",
        port: int = 0,
        data: Path | str | None = None,
        config: Mapping[str, str] | None = None,
        listeners: Sequence[ListenerSpec] = (),
        racks: Sequence[str] = (),
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        if nodes < 1:
            raise ConfigurationError(f"nodes={nodes}: a cluster has at least one")
        self.loop: asyncio.AbstractEventLoop | None = None
        self.settings: BrokerSettings = BrokerSettings(
            config if clock is None else {**_NO_LATEST_TIMESTAMP, **(config or {})}
        )
        self.clock: Clock = clock or SystemClock()
        self.random: Random = Random(seed)  # noqa: S311 - ids of topics, not secrets
        self.users: UserStore = UserStore()
        self.faults: Faults = Faults()
        self.disk: DiskNotices = DiskNotices()
        # Absolute: else data would leave its lock behind when the process changes its working directory.
        self._data = None if data is None else Path(data).absolute()
        self.cluster_id: str = _cluster_id(self.random)
        specs = list(listeners) or [replace(PLAINTEXT, host=host)]
        self.nodes: dict[int, Node] = {}
        for number in range(1, nodes + 1):
            # A given port is the first node's; the others listen on those that follow.
            own = [replace(spec, port=spec.port + number - 1 if spec.port else 0) for spec in specs]
            if port:
                own[0] = replace(own[0], port=port + number - 1)
            rack = racks[number - 1] if racks else self.settings["broker.rack"] or None
            self.nodes[number] = Node(self, number, own, rack)
        defaults = self.settings.topic_defaults()
        sync = self._sync = LogConfig.from_topic_config(defaults).syncs
        self.storage: Storage = Memory() if self._data is None else DataDirectory(self._data, sync=sync)
        self.producer_ids: ProducerIds = ProducerIds(self._data, sync=sync)
        self.topics: TopicCatalogue = TopicCatalogue(self.storage, self.clock, self.random, defaults)
        self._coordinators: dict[str, int] = {}
        self._upkeep = Upkeep(self)
        self._turns = asyncio.Lock()
        self._to_close = ExitStack()

    @shown_half_made
    def __repr__(self) -> str:
        return f"<Broker of {len(self.nodes)} nodes {self.where}, {len(self.topics.by_name)} topics>"

    @property
    def on_disk(self) -> bool:
        return self._data is not None

    @property
    def where(self) -> str:
        """Where records are, for people."""
        return "in memory" if self._data is None else f"in {self._data}"

    @property
    def data_directory(self) -> str:
        """Where partitions are stored."""
        return "memory" if self._data is None else str(self._data)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the first listener of every running node."""
        return self.bootstrap()

    def bootstrap(self, listener: str | None = None) -> str:
        """Addresses of one listener, by its name."""
        found = []
        for node in self.running():
            chosen = node.listeners[listener or next(iter(node.listeners))]
            found.append(f"{chosen.spec.host}:{chosen.port}")
        return ",".join(found)

    async def start(self, opened: Callable[[int, int], None] | None = None) -> None:
        """Open everything, or nothing; `opened` is told how many of how many stored partitions are open.

        Raises what the operating system says about a port, and `DataDirectoryError` for a data directory that
        cannot be used.
        """
        try:
            with _about_the_directory():
                await self._start(opened)
        except BaseException:
            await self.stop()
            raise

    async def _start(self, opened: Callable[[int, int], None] | None) -> None:
        self._turns = asyncio.Lock()  # of this loop: a broker may be started on another one than before
        self.storage.claim()
        self._to_close.callback(self.storage.release)
        if self._data is not None:
            self.settings.load(self._data, sync=self._sync)
        self.topics.take_defaults(self.settings.topic_defaults)
        self.topics.load(list(self.nodes), opened)
        self.settings.on_change = [self._settings_changed]
        # Only now: closing marks the directory as left in order, which one that could not be read is not.
        self._to_close.callback(self.topics.close)
        self.cluster_id = self.storage.identify(self.cluster_id)
        self._start_groups()
        for node in self.nodes.values():
            for listener in node.listeners.values():
                self.users.seed(listener.spec)
        for node in self.nodes.values():
            await node.start()
        self._upkeep.start()
        self.loop = asyncio.get_running_loop()

    def _settings_changed(self) -> None:
        self.topics.take_defaults(self.settings.topic_defaults)
        self._around_groups.assignment_interval_ms = self._assignment_interval_ms()

    def _assignment_interval_ms(self) -> int:
        return self.settings.number("group.consumer.assignment.interval.ms")

    def _start_groups(self) -> None:
        """Take up the groups of an earlier run, and the offsets they committed."""
        store = OffsetsTopicStore(self)
        config = GroupConfig.from_settings(self.settings)
        self.groups: GroupCoordinator = GroupCoordinator(store, self.clock, config, self.topics, self.random)
        self._to_close.callback(self.groups.close)
        loop = asyncio.get_running_loop()
        pause = self._assignment_interval_ms()
        around = Surroundings(store, self.topics, config, self.clock, loop, pause)
        self._around_groups = around
        self.consumer_groups: ConsumerGroups = ConsumerGroups(self.groups, around)
        self.groups.add_reader(self.consumer_groups)
        self.groups.load()
        self.topics.on_change += [self.groups.topics_changed, self.consumer_groups.topics_changed]

    async def stop(self) -> None:
        self.loop = None
        try:
            await self._upkeep.stop()
        finally:  # also where this is cancelled, and the tasks with it: else ports and lock would be kept
            with self._to_close:
                for node in self.nodes.values():
                    node.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # Nodes

    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.running]

    @property
    def controller_id(self) -> int:
        """The first running node answers for the controller."""
        return next((node.node_id for node in self.running()), -1)

    def _node(self, node_id: int) -> Node:
        if node_id not in self.nodes:
            known = ", ".join(str(number) for number in self.nodes)
            raise ConfigurationError(f"there is no node {node_id!r} in this cluster: name one of {known}")
        return self.nodes[node_id]

    def _running_node(self, node_id: int) -> Node:
        node = self._node(node_id)
        if not node.running:
            raise ConfigurationError(f"node {node_id} is stopped: start it first, or name one that runs")
        return node

    @from_any_loop
    async def stop_node(self, node_id: int) -> None:
        """Stop a node; others take over what it led and coordinated."""
        node = self._node(node_id)
        async with self._turns:  # a node that is being started opens its ports first, else they stay open
            node.stop()
            for partition in self._partitions():
                if partition.leader == node_id:
                    up = (replica for replica in partition.replicas if self.is_running(replica))
                    partition.lead_by(next(up, -1))
            self.topics.save()

    @from_any_loop
    async def start_node(self, node_id: int) -> None:
        """Start a stopped node, on the ports it had; one that runs goes on."""
        node = self._node(node_id)
        async with self._turns:
            if node.running:
                return
            await node.start()
            for partition in self._partitions():
                if partition.leader == -1 and node_id in partition.replicas:
                    partition.lead_by(node_id)
            self.topics.save()

    def is_running(self, node_id: int) -> bool:
        return self._node(node_id).running

    @from_any_thread
    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Have another running node lead a partition, one of its replicas or not."""
        state = self.topics.partition(topic, partition)
        self._running_node(node_id)
        if node_id not in state.replicas:
            state.replicas = (*state.replicas[:-1], node_id)
        state.lead_by(node_id)
        self.topics.save(self.topics.by_name[topic])

    def in_sync(self, partition: PartitionState) -> list[int]:
        """The replicas that are up: logs are shared, so whoever is up has everything."""
        return [node for node in partition.replicas if self.is_running(node)]

    def coordinator_of(self, key: str) -> int:
        """The node that coordinates a group or a transactional id; -1 when none is up."""
        moved = self._coordinators.get(key)
        if moved is not None and self.is_running(moved):
            return moved
        running = self.running()
        if not running:
            return -1
        return running[partition_for(key, len(running))].node_id

    @from_any_thread
    def move_coordinator(self, key: str, node_id: int) -> None:
        """Have another node coordinate a group or transactional id, once it runs."""
        self._node(node_id)
        before = self.coordinator_of(key)
        self._coordinators[key] = node_id
        if self.coordinator_of(key) != before:
            self.groups.moved(key)

    # Topics

    @from_any_thread
    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> TopicState:
        """Make a topic; what is not given comes from the settings."""
        count = self.settings.number("num.partitions") if partitions is None else partitions
        factor = replication_factor or self.settings.number("default.replication.factor")
        return self.topics.create(name, self.place(count, factor), configs)

    def place(self, partitions: int, replication_factor: int, first: int = 0) -> list[tuple[int, ...]]:
        """Replicas for so many partitions, leaders in turn over the running nodes."""
        ids = [node.node_id for node in self.running()]
        return [
            tuple(ids[(first + index + step) % len(ids)] for step in range(min(replication_factor, len(ids))))
            for index in range(partitions)
        ]

    def offsets_partition(self, group_id: str) -> PartitionState:
        """Where a group's records go; the topic is made when the first group needs it."""
        if OFFSETS_TOPIC not in self.topics.by_name:
            count = self.settings.number("offsets.topic.num.partitions")
            factor = self.settings.number("offsets.topic.replication.factor")
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": self.settings["offsets.topic.segment.bytes"],
            }
            self.topics.create(OFFSETS_TOPIC, self.place(count, factor), configs)
        topic = self.topics.by_name[OFFSETS_TOPIC]
        return topic.partitions[partition_for(group_id, len(topic.partitions))]

    def _partitions(self) -> list[PartitionState]:
        return [partition for topic in self.topics.by_name.values() for partition in topic.partitions]


@contextmanager
def _about_the_directory() -> Iterator[None]:
    """Say what is wrong without the words for clients, which are that another replica has to take over."""
    try:
        yield
    except KafkaStorageError as error:
        raise DataDirectoryError(error.message or str(error)) from error


def _cluster_id(random: Random) -> str:
    """22 characters of URL-safe base64 that do not begin with a dash, as Kafka's."""
    import base64  # noqa: PLC0415 - once per cluster

    return base64.urlsafe_b64encode(b"\x4b" + random.randbytes(15)).decode().rstrip("=")
