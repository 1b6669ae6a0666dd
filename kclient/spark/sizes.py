"""How large records are, from some batches where reading begins: tasks share by bytes too.

Brokers tell offsets and no sizes, except to who may describe the cluster, which readers rarely may. `Samples`
is the question, without I/O; `RecordSizes` remembers answers for the life of a query. A topic without an
answer is packed by its records alone, so nothing here fails a query. Called by `directory`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import ClassVar, NamedTuple

from kclient.cluster.operations import Operation, run
from kclient.cluster.routes import Leader
from kclient.errors import KafkaError, ProtocolError, error_for
from kclient.records import Limits, read_batches
from kclient.spark.outages import Outage
from kclient.spark.planning import Range
from kclient.spark.session import Session
from kclient.types import TopicPartition
from kclient.wire.messages.fetch import FetchRequest, FetchResponse

log: logging.Logger = logging.getLogger(__name__)

# Of one partition: several batches where they are small, one where they are large.
_BYTES = 64 << 10
# Partitions of a topic are alike, and a plan must not read half of what it plans.
_PARTITIONS_OF_A_TOPIC = 3
_PARTITIONS = 16
_PATIENCE_MS = 5_000.0
_LIFETIME = 300.0
_NO_SESSION = -1


class Sample(NamedTuple):
    """Some batches: how many bytes their records are, decompressed, and how many offsets they cover."""

    size: int
    offsets: int


class Samples(Operation[TopicPartition, Sample]):
    """The first batches from an offset on. Ask one partition at a time: only the first gets a large one."""

    request: ClassVar[type[FetchRequest]] = FetchRequest
    newest: ClassVar[int | None] = 12  # the last that takes a topic by its name

    def __init__(self, starts: Mapping[TopicPartition, int], limits: Limits) -> None:
        self._starts = starts
        self._limits = limits

    def route(self, key: TopicPartition) -> Leader:
        return Leader(key)

    def build(self, keys: list[TopicPartition], version: int) -> FetchRequest:  # noqa: ARG002
        topic = FetchRequest.FetchTopic
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_BYTES,
            session_epoch=_NO_SESSION,
            topics=[
                topic(
                    topic=key.topic,
                    partitions=[
                        topic.FetchPartition(
                            partition=key.partition,
                            fetch_offset=self._starts[key],
                            partition_max_bytes=_BYTES,
                        )
                    ],
                )
                for key in keys
            ],
        )

    def read(
        self, response: FetchResponse, keys: list[TopicPartition]
    ) -> dict[TopicPartition, Sample | KafkaError]:
        failed = error_for(response.error_code)
        if failed is not None:
            return dict.fromkeys(keys, failed)
        outcomes: dict[TopicPartition, Sample | KafkaError] = {}
        for topic in response.responses:
            for data in topic.partitions:
                key = TopicPartition(topic.topic, data.partition_index)
                outcomes[key] = error_for(data.error_code) or self._sample(data)
        return outcomes

    def _sample(self, data: FetchResponse.FetchableTopicResponse.PartitionData) -> Sample | KafkaError:
        try:
            batches = list(read_batches(data.records, check_crcs=False, limits=self._limits))
            size = sum(batch.extent().size for batch in batches)
        except ProtocolError as error:
            return error
        # Compaction leaves gaps, which cost nothing and count as offsets.
        return Sample(size, batches[-1].next_offset - batches[0].base_offset if batches else 0)


class RecordSizes:
    """Bytes per offset, by topic, as far as they are known."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}

    def of(self, ranges: Sequence[Range], session: Session, outage: Outage) -> Mapping[str, float]:
        """What is known after asking for some of the ranges, where nothing or something old is known."""
        starts = self._due(ranges, monotonic())
        if starts:
            found: defaultdict[str, list[Sample]] = defaultdict(list)
            for key, sample in _ask(starts, session, outage).items():
                if isinstance(sample, Sample):
                    found[key.topic].append(sample)
                else:
                    log.debug("the size of records is not known of %s-%d: %s", *key, sample)
            for topic, samples in found.items():
                offsets = sum(sample.offsets for sample in samples)
                if offsets:
                    self._known[topic] = sum(sample.size for sample in samples) / offsets
        return self._known

    def _due(self, ranges: Sequence[Range], now: float) -> dict[TopicPartition, int]:
        """Where to look: the largest ranges of topics, of every topic one before any has a second."""
        by_topic: defaultdict[str, list[Range]] = defaultdict(list)
        for each in sorted(ranges, key=lambda each: -each.size):
            asked_at = self._asked_at.get(each.topic)
            if (asked_at is None or now - asked_at >= _LIFETIME) and len(
                by_topic[each.topic]
            ) < _PARTITIONS_OF_A_TOPIC:
                by_topic[each.topic].append(each)
        ranked = sorted(
            (place, -each.size, each) for some in by_topic.values() for place, each in enumerate(some)
        )
        chosen = [each for _, _, each in ranked[:_PARTITIONS]]
        self._asked_at |= {each.topic: now for each in chosen}
        return {each.topic_partition: each.start for each in chosen}


def _ask(
    starts: Mapping[TopicPartition, int], session: Session, outage: Outage
) -> dict[TopicPartition, Sample | KafkaError]:
    async def ask() -> dict[TopicPartition, Sample | KafkaError]:
        cluster = session.cluster
        operation = Samples(starts, session.config.limits)
        deadline = cluster.deadline(_PATIENCE_MS)
        answers = await asyncio.gather(*(run(cluster, operation, [key], deadline) for key in starts))
        return {key: outcome for answer in answers for key, outcome in answer.items()}

    try:
        return session.run(ask(), outage, _PATIENCE_MS)
    except KafkaError as error:
        return dict.fromkeys(starts, error)
