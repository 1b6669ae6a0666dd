"""What both consumers offer without waiting: what to read, where, and how it goes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kclient.cluster.client import ClusterHealth
from kclient.config import shown_half_made
from kclient.consumer.arguments import place, places, topic_partition
from kclient.consumer.config import ConsumerConfig
from kclient.consumer.engine import Engine
from kclient.consumer.metrics import ConsumerMetrics
from kclient.consumer.seam import CommitCallback, GroupHealth
from kclient.errors import ConfigurationError, IllegalStateError
from kclient.topics import check_topic
from kclient.types import GroupMetadata, OffsetAndMetadata, TopicPartition

_NEVER_CONNECTED = ClusterHealth(
    connected=False, brokers=(), cluster_id=None, metadata_age=None, last_error=None
)


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """One assigned partition; None for what is not known yet. `lag` is in records."""

    state: str
    position: int | None
    high_watermark: int | None
    lag: int | None
    paused: bool


@dataclass(frozen=True, slots=True)
class ConsumerHealth:
    """How a consumer is. Ages are in seconds, None where it never happened; `group` is None without one.

    `complaints` are what keeps records from coming now, a sentence or two for each cause: a topic that does
    not exist or may not be read, a broker that cannot be reached. `last_error` may be of long ago.
    """

    cluster: ClusterHealth
    group: GroupHealth | None
    partitions: Mapping[TopicPartition, PartitionHealth]
    last_poll_age: float | None
    last_error: str | None
    complaints: tuple[str, ...] = ()


class Controls:
    """Everything here is done at once: nothing waits for the network."""

    _engine: Engine
    _config: ConsumerConfig

    @shown_half_made
    def __repr__(self) -> str:
        engine = self._engine
        state = "closed" if engine.closed else "new" if engine.cluster is None else "open"
        subscription = engine.subscription
        return (
            f"<{type(self).__name__} {self._config.client_id} {state}, subscribed {subscription.describe()}, "
            f"{len(subscription.cursors)} partitions>"
        )

    def _start_if_new(self) -> None:
        """Start, where a caller can be kept waiting."""

    @property
    def closed(self) -> bool:
        return self._engine.closed

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: object | None = None,
        *,
        server_pattern: str | None = None,
    ) -> None:
        """Read topics, or those whose whole name matches a pattern, also those to come.

        In a group, the partitions are shared with its other members; `listener` is told of it. Without one,
        all of them are read. `server_pattern` (RE2) is matched by the broker: with group_protocol="consumer".
        """
        if isinstance(topics, str):
            raise ConfigurationError(f"topics={topics!r} must be a list of names: [{topics!r}]")
        names = _names(topics)
        if (bool(names), pattern is not None, server_pattern is not None).count(True) != 1:
            raise ConfigurationError("give topics, a pattern or a server_pattern: exactly one of them")
        if server_pattern is not None and self._config.group_protocol != "consumer":
            raise ConfigurationError('server_pattern needs a group_id and group_protocol="consumer"')
        try:
            compiled = None if pattern is None else re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"pattern={pattern!r} is no regular expression: {error}") from error
        self._engine.subscription.subscribe(names, compiled, server_pattern)
        self._engine.subscription_changed(self._carried(listener))

    def _carried(self, listener: object | None) -> object | None:
        """The listener as the group is to call it, from wherever the client works."""
        return listener

    def unsubscribe(self) -> None:
        """Read nothing. A group is left, after offsets were committed and the listener was told."""
        self._engine.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to; of a pattern, those that match now."""
        return self._engine.subscription.topics

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without sharing them with a group.

        Automatic commits cover what was handed out of those that are read no more, too.
        """
        self._engine.assign([topic_partition(each) for each in partitions])

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return self._engine.subscription.assignment()

    # Where to read

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at an offset. What was fetched already is not fetched again."""
        self._engine.check_process()
        target = place(offset)
        epoch = -1 if target.leader_epoch is None else target.leader_epoch
        self._engine.poller.seek(topic_partition(partition), target.offset, epoch)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these, and fetch no more; what was fetched is kept for `resume`."""
        self._engine.subscription.pause(map(topic_partition, partitions), True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with paused partitions."""
        self._engine.subscription.pause(map(topic_partition, partitions), False)
        self._engine.bell.ring()

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        subscription = self._engine.subscription
        with subscription.lock:
            return frozenset(key for key, cursor in subscription.cursors.items() if cursor.paused)

    # How it goes

    def highwater(self, partition: TopicPartition) -> int | None:
        """The partition's end as of the last fetch, or question while it is paused; None before the first."""
        return self._engine.subscription.cursor(topic_partition(partition)).high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Up to where transactions are decided, as of the last fetch."""
        return self._engine.subscription.cursor(topic_partition(partition)).last_stable_offset

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """When the broker last answered a fetch of the partition, in milliseconds since the epoch."""
        return self._engine.subscription.cursor(topic_partition(partition)).last_fetch

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets are between the position and the end, as of the last fetch.

        Of a partition that is paused, and of all while the buffer is full, the end is asked for each second.
        """
        cursor = self._engine.subscription.cursor(topic_partition(partition))
        committed_only = self._config.isolation_level == "read_committed"
        end = cursor.last_stable_offset if committed_only else cursor.high_watermark
        position = cursor.position
        return None if end is None or position is None else max(0, end - position)

    def partitions_for_topic(self, topic: str) -> frozenset[int] | None:
        """The numbers of a topic's partitions, None for a topic that is not known, or not yet."""
        check_topic(topic)
        self._start_if_new()
        cluster = self._engine.opened()
        self._engine.post(lambda: cluster.metadata.look_up(topic))
        known = cluster.metadata.snapshot.topics.get(topic)
        return None if known is None else frozenset(known.partitions)

    def metrics(self) -> ConsumerMetrics:
        """Counters since the beginning."""
        engine = self._engine
        counters, buffer = engine.counters, engine.buffer
        lags = [lag for lag in map(self.lag, self.assignment()) if lag is not None]
        return ConsumerMetrics(
            records_consumed=counters.records,
            bytes_fetched=counters.bytes,
            fetches=counters.fetches,
            fetch_seconds=counters.fetch_seconds,
            polls=counters.polls,
            records_skipped=engine.decoder.poisoned,
            bytes_buffered=buffer.held,
            bytes_reserved=buffer.reserved,
            lag=sum(lags) if lags else None,
        )

    def health(self) -> ConsumerHealth:
        """How the consumer is; never waits for the network."""
        engine = self._engine
        reader, loop = engine.reader, engine.loop
        error = reader.last_error if reader is not None else None
        partitions = {
            partition: PartitionHealth(
                state=cursor.state.value,
                position=cursor.position,
                high_watermark=cursor.high_watermark,
                lag=self.lag(partition),
                paused=cursor.paused,
            )
            for partition, cursor in list(engine.subscription.cursors.items())
        }
        last_poll = engine.last_poll
        cluster = _NEVER_CONNECTED if engine.cluster is None else engine.cluster.health()
        return ConsumerHealth(
            cluster=cluster,
            group=None if engine.group is None else engine.group.health(),
            partitions=partitions,
            last_poll_age=None if last_poll is None or loop is None else loop.time() - last_poll,
            last_error=None if error is None else str(error),
            complaints=(() if reader is None else reader.complaints.texts()) + cluster.complaints,
        )

    # The group

    def commit_nowait(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | tuple[int, str] | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit these offsets, or all that was handed out, in the background.

        `callback(offsets, error)` is told how it went. An older commit never overtakes a newer one.
        """
        self._start_if_new()
        store = self._engine.offset_store()
        chosen = self._engine.subscription.to_commit() if offsets is None else places(offsets)
        self._engine.post(lambda: store.commit_nowait(chosen, callback))

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group: for a transaction that commits its offsets."""
        self._start_if_new()
        group = self._engine.group
        if group is None:
            raise IllegalStateError("this consumer is in no group: give it a group_id, and start it")
        return group.metadata()


def _names(topics: Iterable[object]) -> frozenset[str]:
    names: set[str] = set()
    for name in topics:
        if not isinstance(name, str):
            raise ConfigurationError(f"topic {name!r} must be a name")
        check_topic(name)
        names.add(name)
    return frozenset(names)
