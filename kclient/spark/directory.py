"""What there is to read, asked on the driver: partitions of a subscription, their bounds, a group's offsets.

Blocking, through the session of the process. An attempt lasts as long as brokers cannot be reached, up to the
client's own deadline (`default.api.timeout.ms`), and there are as many more as `fetchOffset.numRetries` says:
a query that runs outlasts the minutes in which a cluster is away, and says in the log what it waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from kclient.cluster.metadata import Topic
from kclient.cluster.operations import Operation, run, run_one
from kclient.cluster.routes import AnyBroker
from kclient.consumer.offsets import ListOffsets
from kclient.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
    error_for,
)
from kclient.spark.offsets import EARLIEST, LATEST, Offsets, Spec
from kclient.spark.options import Options
from kclient.spark.outages import Outage
from kclient.spark.planning import Range
from kclient.spark.session import Session, session_for
from kclient.spark.subscription import subscription
from kclient.types import OffsetAndMetadata, TopicPartition
from kclient.wire.messages.metadata import MetadataRequest, MetadataResponse
from kclient.wire.schema import NO_UUID

if TYPE_CHECKING:
    from kclient.spark.sizes import RecordSizes

T = TypeVar("T")


class Directory:
    """Answers questions about what a subscription covers."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._subscription = subscription(options)
        self._pairs: tuple[float, dict[TopicPartition, str]] | None = None

    @cached_property
    def _sizes(self) -> RecordSizes:
        from kclient.spark.sizes import RecordSizes  # noqa: PLC0415 - with records, for plans that share tasks

        return RecordSizes()

    @property
    def session(self) -> Session:
        return session_for(self._options.kafka)

    @property
    def _committed_only(self) -> bool:
        return self.session.config.isolation_level == "read_committed"

    def partitions(self) -> dict[TopicPartition, str]:
        """Every partition to read, with its topic's id; empty where the brokers have no ids."""
        lifetime = self._options["partition.metadata.cache.ttl.ms"] / 1000
        now = time.monotonic()
        if self._pairs is not None and now - self._pairs[0] < lifetime:
            return self._pairs[1]
        found = self._retrying("asking for partitions", self._partitions)
        self._pairs = (now, found)
        return found

    def offsets(self, questions: Mapping[TopicPartition, int]) -> Offsets:
        """The offsets of times, of the start (-2) and of the end (-1); -1 where no record is as late."""
        if not questions:
            return {}
        return self._retrying("asking for offsets", lambda: self._offsets(questions))

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self.offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self.offsets(dict.fromkeys(partitions, LATEST))

    def resolve(self, spec: Spec, partitions: Collection[TopicPartition]) -> Offsets:
        """The offsets that a user's wish comes to now."""
        spec.check(partitions)
        found = self.offsets(spec.questions(partitions))
        nothing_found = [partition for partition, offset in found.items() if offset < 0]
        ends = self.latest(nothing_found) if spec.missing_is_latest else {}
        return spec.settle(partitions, found, ends)

    def record_sizes(self, ranges: Sequence[Range]) -> Mapping[str, float]:
        """How many bytes an offset of a topic is, about, where that could be found out."""
        return self._sizes.of(ranges, self.session, self._outage("asking how large records are"))

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Offsets:
        """What a group has committed, without those where it has nothing."""
        from kclient.admin.group_offsets import ListGroupOffsets  # noqa: PLC0415 - few queries have a group

        async def ask() -> Offsets:
            cluster = self.session.cluster
            operation = ListGroupOffsets(list(partitions), require_stable=False)
            answers = await run_one(cluster, operation, group_id, cluster.deadline())
            return {key: _known(answer).offset for key, answer in answers.items() if answer is not None}

        return self._retrying(f"asking for the offsets of group {group_id}", ask)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int], note: str) -> None:
        """Commit in the name of a group that has no members; one attempt, which lasts for an outage too."""
        from kclient.admin.group_offsets import AlterGroupOffsets  # noqa: PLC0415 - few queries have a group

        async def ask() -> None:
            cluster = self.session.cluster
            wanted = {key: OffsetAndMetadata(offset, note) for key, offset in offsets.items()}
            outcomes = await run(cluster, AlterGroupOffsets(group_id, wanted), wanted, cluster.deadline())
            for outcome in outcomes.values():
                if isinstance(outcome, KafkaError):
                    raise outcome

        if offsets:
            self.session.run(ask(), self._outage(f"committing offsets for group {group_id}"))

    async def _partitions(self) -> dict[TopicPartition, str]:
        topics = await self._topics(self._subscription.names())
        wanted = self._subscription
        if wanted.pattern is not None:
            pattern = wanted.pattern
            topics = {
                name: topic for name, topic in topics.items() if pattern.search(name) and not topic.internal
            }
        found = {
            TopicPartition(name, number): "" if topic.topic_id == NO_UUID else str(topic.topic_id)
            for name, topic in topics.items()
            for number in topic.partitions
        }
        if not wanted.partitions:
            return found
        for partition in wanted.partitions:
            if partition not in found:
                raise UnknownTopicOrPartitionError(
                    about=f"topic {partition.topic}, partition {partition.partition}, named by assign"
                )
        return {partition: found[partition] for partition in wanted.partitions}

    async def _topics(self, names: list[str] | None) -> dict[str, Topic]:
        """Topics as they are now. Asked directly, because a micro-batch must not wait for a back-off."""
        cluster = self.session.cluster
        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        response = await run_one(cluster, _Topics(asked), None, cluster.deadline())
        metadata = cluster.metadata
        metadata.update(metadata.snapshot.merge(response, names))
        snapshot = metadata.snapshot
        for name in names or ():
            error = error_for(snapshot.errors.get(name, 0), about=f"topic {name}")
            if error is not None:
                raise error
        return {name: topic for name, topic in snapshot.topics.items() if names is None or name in names}

    async def _offsets(self, questions: Mapping[TopicPartition, int]) -> Offsets:
        cluster = self.session.cluster
        operation = ListOffsets(questions, self._committed_only, {})
        outcomes = await run(cluster, operation, questions, cluster.deadline())
        return {key: _known(outcome).offset for key, outcome in outcomes.items()}

    def _outage(self, what: str) -> Outage:
        return Outage(what, self._options.kafka["bootstrap.servers"])

    def _retrying(self, what: str, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        left = self._options["fetchOffset.numRetries"]
        outage = self._outage(what)
        while True:
            try:
                return self.session.run(ask(), outage)
            except KafkaError as error:
                if not left or not (error.retriable or isinstance(error, KafkaTimeoutError)):
                    raise
            left -= 1
            time.sleep(self._options["fetchOffset.retryIntervalMs"] / 1000)


class _Topics(Operation[None, MetadataResponse]):
    """Topics, or all, from whichever broker can be reached: a query may only know one that is gone."""

    request = MetadataRequest

    def __init__(self, topics: list[MetadataRequest.MetadataRequestTopic] | None) -> None:
        self._topics = topics

    def route(self, key: None) -> AnyBroker:  # noqa: ARG002
        return AnyBroker()

    def build(self, keys: list[None], version: int) -> MetadataRequest:  # noqa: ARG002
        return MetadataRequest(topics=self._topics, allow_auto_topic_creation=version < 4)

    def read(self, response: MetadataResponse, keys: list[None]) -> dict[None, MetadataResponse | KafkaError]:
        if not response.brokers:
            return dict.fromkeys(
                keys, KafkaConnectionError("a broker knows of no brokers yet: it is starting")
            )
        return dict.fromkeys(keys, response)


def _known(outcome: T | KafkaError) -> T:
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome
