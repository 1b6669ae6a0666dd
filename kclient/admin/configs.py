"""Settings of topics, brokers and groups: what they are, and the requests that read and change them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, NamedTuple, Self

from kclient.admin.operation import AdminOperation
from kclient.cluster.routes import AnyBroker, Node, Route
from kclient.errors import KafkaError, error_for
from kclient.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_FIRST_WITH_DOCUMENTATION = 3


class _Kind(IntEnum):
    """A number from the wire; one that this version of kclient does not know is UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:  # noqa: ARG003
        return cls["UNKNOWN"] if "UNKNOWN" in cls.__members__ else None


class ConfigResourceType(_Kind):
    """What has a configuration; the numbers are Kafka's."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """One thing that has a configuration.

    >>> str(ConfigResource.topic("orders"))
    'topic orders'
    """

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None = None) -> ConfigResource:
        """One broker; without a number, the defaults of all brokers."""
        return cls(ConfigResourceType.BROKER, "" if node_id is None else str(node_id))

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        return cls(ConfigResourceType.GROUP, group_id)

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(default)'}"


class ConfigSource(_Kind):
    """Where a value comes from, the most specific first."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(_Kind):
    """The type of a value; before Kafka 2.6 brokers do not tell."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSynonym(NamedTuple):
    """One of the places that a value could come from, and what stands there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. The value is None where it is unset, or sensitive: brokers never show those."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class OpType(IntEnum):
    """How a setting is changed; APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """A change of one setting. Its value may be a password, so it is not shown.

    >>> AlterConfigOp.append("cleanup.policy", "compact")
    AlterConfigOp(name='cleanup.policy', op_type=<OpType.APPEND: 2>)
    """

    name: str
    value: str | None = field(default=None, repr=False)
    op_type: OpType = OpType.SET

    @classmethod
    def set(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value, OpType.SET)

    @classmethod
    def delete(cls, name: str) -> AlterConfigOp:
        """Back to the default."""
        return cls(name, None, OpType.DELETE)

    @classmethod
    def append(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value, OpType.APPEND)

    @classmethod
    def subtract(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value, OpType.SUBTRACT)


class DescribeConfigs(AdminOperation[ConfigResource, dict[str, ConfigEntry]]):
    """Reads the settings of resources: all, or those of the given names."""

    request: ClassVar[type[DescribeConfigsRequest]] = DescribeConfigsRequest

    def __init__(
        self, names: Collection[str] | None, include_synonyms: bool, include_documentation: bool
    ) -> None:
        self._names = names
        self._include_synonyms = include_synonyms
        self._include_documentation = include_documentation

    def route(self, key: ConfigResource) -> Route:
        return _route(key)

    def build(self, keys: list[ConfigResource], version: int) -> DescribeConfigsRequest:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        names = None if self._names is None else list(self._names)
        return DescribeConfigsRequest(
            resources=[
                resource(resource_type=key.type, resource_name=key.name, configuration_keys=names)
                for key in keys
            ],
            include_synonyms=self._include_synonyms,
            include_documentation=self._include_documentation and version >= _FIRST_WITH_DOCUMENTATION,
        )

    def read(
        self, response: DescribeConfigsResponse, keys: list[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        outcomes: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
        for result in response.results:
            key = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
            error = error_for(result.error_code, result.error_message, about=f"configs of {key}")
            outcomes[key] = error or {entry.name: _entry(entry) for entry in result.configs}
        return outcomes


class IncrementalAlterConfigs(AdminOperation[ConfigResource, None]):
    """Changes single settings of resources and leaves the others alone."""

    request: ClassVar[type[IncrementalAlterConfigsRequest]] = IncrementalAlterConfigsRequest
    since: ClassVar[str] = "2.3"

    def __init__(
        self, changes: Mapping[ConfigResource, Sequence[AlterConfigOp]], validate_only: bool
    ) -> None:
        self._changes = changes
        self._validate_only = validate_only

    def route(self, key: ConfigResource) -> Route:
        return _route(key)

    def build(self, keys: list[ConfigResource], version: int) -> IncrementalAlterConfigsRequest:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        change = resource.AlterableConfig
        return IncrementalAlterConfigsRequest(
            resources=[
                resource(
                    resource_type=key.type,
                    resource_name=key.name,
                    configs=[
                        change(name=each.name, config_operation=each.op_type, value=each.value)
                        for each in self._changes[key]
                    ],
                )
                for key in keys
            ],
            validate_only=self._validate_only,
        )

    def read(
        self, response: IncrementalAlterConfigsResponse, keys: list[ConfigResource]
    ) -> dict[ConfigResource, KafkaError | None]:
        outcomes: dict[ConfigResource, KafkaError | None] = {}
        for result in response.responses:
            key = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
            outcomes[key] = error_for(result.error_code, result.error_message, about=f"configs of {key}")
        return outcomes


def _route(resource: ConfigResource) -> Route:
    """A broker answers for its own settings; those of everything else are known to all."""
    of_one_broker = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
    return Node(int(resource.name)) if of_one_broker and resource.name else AnyBroker()


def _entry(entry: DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=ConfigSource(entry.config_source),
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        type=ConfigType(entry.config_type),
        synonyms=tuple(
            ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source))
            for synonym in entry.synonyms
        ),
        documentation=entry.documentation or None,
    )
