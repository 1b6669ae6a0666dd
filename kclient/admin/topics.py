"""Topics: what can be said of them, and the requests that create, grow, delete and describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple
from uuid import UUID

from kclient.admin.operation import AdminOperation
from kclient.admin.permissions import AclOperation, read_operations
from kclient.cluster.routes import AnyBroker, Controller
from kclient.errors import KafkaError, error_for
from kclient.wire.messages.metadata import MetadataRequest, MetadataResponse
from kclient.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kclient.wire.schema import NO_UUID

_FIRST_WITH_DEFAULTS = 4
_FIRST_DELETE_BY_ID = 6
_FIRST_NULL_FOR_ALL = 1
_FIRST_WITHOUT_AUTO_CREATION = 4
_FIRST_WITH_PERMISSIONS = 8


@dataclass(frozen=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default. `assignments` names the replicas of each partition.

    >>> NewTopic("orders", num_partitions=6, configs={"cleanup.policy": "compact"}).replication_factor
    -1
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """A topic as it was made; the counts are -1 before Kafka 2.4 and the id is zero before 2.8."""

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int


@dataclass(frozen=True)
class NewPartitions:
    """The number of partitions a topic shall have; `assignments` names the replicas of the added ones."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicListing(NamedTuple):
    """A topic that exists; the id is zero before Kafka 2.8."""

    name: str
    topic_id: UUID
    internal: bool


class PartitionDescription(NamedTuple):
    """Who has a partition: broker numbers, the leader None while there is none."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True)
class TopicDescription:
    """A topic and its partitions in order. `authorized_operations` is None unless they were asked for."""

    name: str
    topic_id: UUID
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


class CreateTopics(AdminOperation[str, CreatedTopic]):
    """Creates topics, by name."""

    request: ClassVar[type[CreateTopicsRequest]] = CreateTopicsRequest

    def __init__(self, topics: Mapping[str, NewTopic], timeout_ms: int, validate_only: bool) -> None:
        self._topics = topics
        self._timeout_ms = timeout_ms
        self._validate_only = validate_only

    def route(self, key: str) -> Controller:
        return Controller()

    def build(self, keys: list[str], version: int) -> CreateTopicsRequest:
        return CreateTopicsRequest(
            topics=[self._creatable(self._topics[key], version) for key in keys],
            timeout_ms=self._timeout_ms,
            validate_only=self._validate_only,
        )

    def _creatable(self, topic: NewTopic, version: int) -> CreateTopicsRequest.CreatableTopic:
        declaration = CreateTopicsRequest.CreatableTopic
        # Before Kafka 2.4 a broker has no defaults to offer; one of each is what its own default would be.
        default = 1 if version < _FIRST_WITH_DEFAULTS and not topic.assignments else -1
        return declaration(
            name=topic.name,
            num_partitions=default if topic.num_partitions == -1 else topic.num_partitions,
            replication_factor=default if topic.replication_factor == -1 else topic.replication_factor,
            assignments=[
                declaration.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in topic.assignments.items()
            ],
            configs=[
                declaration.CreatableTopicConfig(name=name, value=value)
                for name, value in topic.configs.items()
            ],
        )

    def read(self, response: CreateTopicsResponse, keys: list[str]) -> dict[str, CreatedTopic | KafkaError]:
        return {
            topic.name: error_for(topic.error_code, topic.error_message, about=f"topic {topic.name}")
            or CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor)
            for topic in response.topics
        }


class DeleteTopics(AdminOperation[str, None]):
    """Deletes topics, by name."""

    request: ClassVar[type[DeleteTopicsRequest]] = DeleteTopicsRequest

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms

    def route(self, key: str) -> Controller:
        return Controller()

    def build(self, keys: list[str], version: int) -> DeleteTopicsRequest:
        if version < _FIRST_DELETE_BY_ID:
            return DeleteTopicsRequest(topic_names=keys, timeout_ms=self._timeout_ms)
        state = DeleteTopicsRequest.DeleteTopicState
        return DeleteTopicsRequest(
            topics=[state(name=key, topic_id=NO_UUID) for key in keys], timeout_ms=self._timeout_ms
        )

    def read(self, response: DeleteTopicsResponse, keys: list[str]) -> dict[str, KafkaError | None]:
        return {
            topic.name: error_for(topic.error_code, topic.error_message, about=f"topic {topic.name}")
            for topic in response.responses
            if topic.name is not None
        }


class CreatePartitions(AdminOperation[str, None]):
    """Adds partitions to topics, by name."""

    request: ClassVar[type[CreatePartitionsRequest]] = CreatePartitionsRequest

    def __init__(self, topics: Mapping[str, NewPartitions], timeout_ms: int, validate_only: bool) -> None:
        self._topics = topics
        self._timeout_ms = timeout_ms
        self._validate_only = validate_only

    def route(self, key: str) -> Controller:
        return Controller()

    def build(self, keys: list[str], version: int) -> CreatePartitionsRequest:
        return CreatePartitionsRequest(
            topics=[self._grown(key, self._topics[key]) for key in keys],
            timeout_ms=self._timeout_ms,
            validate_only=self._validate_only,
        )

    def _grown(self, name: str, wanted: NewPartitions) -> CreatePartitionsRequest.CreatePartitionsTopic:
        declaration = CreatePartitionsRequest.CreatePartitionsTopic
        assignment = declaration.CreatePartitionsAssignment
        assignments = (
            None
            if wanted.assignments is None
            else [assignment(broker_ids=list(brokers)) for brokers in wanted.assignments]
        )
        return declaration(name=name, count=wanted.total_count, assignments=assignments)

    def read(self, response: CreatePartitionsResponse, keys: list[str]) -> dict[str, KafkaError | None]:
        return {
            topic.name: error_for(topic.error_code, topic.error_message, about=f"topic {topic.name}")
            for topic in response.results
        }


class DescribeTopics(AdminOperation[str, TopicDescription]):
    """Describes topics, by name."""

    request: ClassVar[type[MetadataRequest]] = MetadataRequest

    def __init__(self, include_authorized_operations: bool) -> None:
        self._include_authorized_operations = include_authorized_operations

    def route(self, key: str) -> AnyBroker:
        return AnyBroker()

    def build(self, keys: list[str], version: int) -> MetadataRequest:
        return MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=key) for key in keys],
            allow_auto_topic_creation=version < _FIRST_WITHOUT_AUTO_CREATION,
            include_topic_authorized_operations=(
                self._include_authorized_operations and version >= _FIRST_WITH_PERMISSIONS
            ),
        )

    def read(self, response: MetadataResponse, keys: list[str]) -> dict[str, TopicDescription | KafkaError]:
        error = error_for(response.error_code)
        if error is not None:
            return dict.fromkeys(keys, error)
        return {
            topic.name: error_for(topic.error_code, about=f"topic {topic.name}") or _described(topic)
            for topic in response.topics
            if topic.name is not None
        }


class ListTopics(AdminOperation[None, dict[str, TopicListing]]):
    """Lists every topic; there is one key, None."""

    request: ClassVar[type[MetadataRequest]] = MetadataRequest

    def route(self, key: None) -> AnyBroker:
        return AnyBroker()

    def build(self, keys: list[None], version: int) -> MetadataRequest:
        return MetadataRequest(
            topics=None if version >= _FIRST_NULL_FOR_ALL else [],
            allow_auto_topic_creation=version < _FIRST_WITHOUT_AUTO_CREATION,
        )

    def read(
        self, response: MetadataResponse, keys: list[None]
    ) -> dict[None, dict[str, TopicListing] | KafkaError]:
        topics = sorted(response.topics, key=lambda topic: topic.name or "")
        return {
            None: error_for(response.error_code)
            or {
                topic.name: TopicListing(topic.name, topic.topic_id, topic.is_internal)
                for topic in topics
                if topic.name is not None
            }
        }


def _described(topic: MetadataResponse.MetadataResponseTopic) -> TopicDescription:
    return TopicDescription(
        name=topic.name or "",
        topic_id=topic.topic_id,
        internal=topic.is_internal,
        partitions=tuple(
            PartitionDescription(
                partition=partition.partition_index,
                leader=partition.leader_id if partition.leader_id >= 0 else None,
                leader_epoch=partition.leader_epoch,
                replicas=tuple(partition.replica_nodes),
                isr=tuple(partition.isr_nodes),
                offline_replicas=tuple(partition.offline_replicas),
            )
            for partition in sorted(topic.partitions, key=lambda each: each.partition_index)
        ),
        authorized_operations=read_operations(topic.topic_authorized_operations),
    )
