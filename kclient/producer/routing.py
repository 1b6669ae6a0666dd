"""Which outbox belongs to which sender: follows the leaders of partitions as metadata names them.

Not here: what is in an outbox, and when it is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from kclient.cluster.client import Cluster
from kclient.cluster.metadata import NO_LEADER, Metadata, Topic
from kclient.producer.outbox import Outbox, Rules
from kclient.producer.partitioner import PartitionView
from kclient.producer.sender import Sender
from kclient.wire.schema import NO_UUID


class Routing:
    """The outboxes and senders of one producer. `make` makes the sender of a node."""

    def __init__(
        self, cluster: Cluster, rules: Rules, patience: float, make: Callable[[int], Sender]
    ) -> None:
        self.senders: dict[int, Sender] = {}
        self._cluster = cluster
        self._rules = rules
        # How long records may wait before those without a key go elsewhere; 0 for any time.
        self._patience = patience
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._by_topic: dict[str, dict[int, Outbox]] = {}
        self._leaderless: dict[Outbox, None] = {}
        self._views: dict[str, tuple[Topic, PartitionView]] = {}
        self._to_pump: dict[Sender, None] = {}

    def __iter__(self) -> Iterator[Outbox]:
        # As they are now: a callback of what fails meanwhile may begin a `flush`, which in an eager task
        # drains at once, and makes outboxes.
        return iter([outbox for outboxes in self._by_topic.values() for outbox in outboxes.values()])

    def outbox(self, topic: str, partition: int) -> Outbox:
        """The outbox of a partition, made when it is first needed."""
        outboxes = self._by_topic.setdefault(topic, {})
        outbox = outboxes.get(partition)
        if outbox is None:
            outbox = outboxes[partition] = Outbox(topic, partition, self._rules, self._cluster.backoff())
            self._lead(outbox, self._cluster.metadata.snapshot)
        return outbox

    def place(self, outbox: Outbox) -> None:
        """Have whoever leads the partition look at an outbox that has something to take."""
        if not outbox:
            return
        if outbox.leader is None:
            self._leaderless[outbox] = None
            # It may have been forgotten: records can wait for longer than metadata is kept unused.
            self._cluster.metadata.look_up(outbox.topic)
            self._cluster.metadata.ask(outbox.topic)
            return
        sender = self.senders.get(outbox.leader)
        if sender is None:
            sender = self.senders[outbox.leader] = self._make(outbox.leader)
        sender.busy[outbox] = None
        self.pump_soon(sender)

    def pump_soon(self, sender: Sender) -> None:
        """Once for all that happens in this turn of the loop."""
        if not self._to_pump:
            self._loop.call_soon(self.pump)
        self._to_pump[sender] = None

    def pump(self) -> None:
        senders, self._to_pump = self._to_pump, {}
        for sender in senders:
            sender.pump()

    def pump_all(self) -> None:
        for sender in list(self.senders.values()):
            sender.pump()

    def follow(self, snapshot: Metadata) -> None:
        """Move outboxes to the leaders that are known now, and let go of brokers that are gone."""
        for outbox in self:
            self._lead(outbox, snapshot)
        waiting, self._leaderless = self._leaderless, {}
        for outbox in waiting:
            self.place(outbox)
        for node_id, sender in list(self.senders.items()):
            if node_id not in snapshot.brokers and not sender.busy and not sender.in_flight:
                sender.close()
                del self.senders[node_id]

    def view(self, topic: Topic) -> PartitionView:
        """What a partitioner is shown; the same object as long as nothing has changed."""
        known = self._views.get(topic.name)
        if known is not None and known[0] is topic and not self._patience:
            return known[1]
        outboxes = self._by_topic.setdefault(topic.name, {})

        def queued(partition: int) -> int:
            outbox = outboxes.get(partition)
            return 0 if outbox is None else outbox.bytes

        available = tuple(
            number for number, partition in topic.partitions.items() if partition.leader != NO_LEADER
        )
        # Numbers need not be dense for a moment after partitions were added; the highest one counts.
        count = max(topic.partitions) + 1
        view = PartitionView(count, available, queued, self._stalled(outboxes))
        self._views[topic.name] = (topic, view)
        return view

    def _stalled(self, outboxes: dict[int, Outbox]) -> tuple[int, ...]:
        if not self._patience:
            return ()
        since = self._loop.time() - self._patience
        return tuple(
            number
            for number, outbox in outboxes.items()
            if outbox.waiting and outbox.waiting[0].chunk.opened < since
        )

    def _lead(self, outbox: Outbox, snapshot: Metadata) -> None:
        topic = snapshot.topics.get(outbox.topic)
        if topic is not None and topic.topic_id not in (outbox.topic_id, NO_UUID):
            outbox.new_log(topic.topic_id)
        partition = topic.partitions.get(outbox.partition) if topic else None
        leader = partition.leader if partition and partition.leader != NO_LEADER else None
        epoch = partition.leader_epoch if partition else -1
        if leader == outbox.leader and epoch == outbox.leader_epoch:
            return
        if outbox.leader is not None and outbox.leader in self.senders:
            self.senders[outbox.leader].busy.pop(outbox, None)
        self._leaderless.pop(outbox, None)
        outbox.led_by(leader, epoch)
        self.place(outbox)
