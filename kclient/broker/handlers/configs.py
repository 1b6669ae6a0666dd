"""Settings described and altered: the requests, and those of topics. Others are in `broker_configs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kclient.broker.api import RequestContext, handles
from kclient.broker.handlers import broker_configs
from kclient.broker.known_settings import KNOWN, TYPES
from kclient.broker.settings import Effective
from kclient.broker.settings import config_type as broker_type
from kclient.broker.topic_settings import check_topic_configs, config_type, effective_configs
from kclient.broker.topics import TopicState, check_name
from kclient.errors import (
    BrokerError,
    InvalidConfigError,
    InvalidRequestError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kclient.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_TOPIC = 2  # a resource type, as those of `broker_configs`
_RESOURCES = (
    _TOPIC,
    broker_configs.BROKER,
    broker_configs.LOGGER,
    broker_configs.METRICS,
    broker_configs.GROUP,
)
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_LIST = TYPES["list"]

Result = DescribeConfigsResponse.DescribeConfigsResult
Entry = Result.DescribeConfigsResourceResult


@handles(DescribeConfigsRequest)
async def describe_configs(
    context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(context, resource, request.include_synonyms) for resource in request.resources]
    )


def _describe(
    context: RequestContext, resource: DescribeConfigsRequest.DescribeConfigsResource, synonyms: bool
) -> Result:
    result = Result(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
    try:
        entries = list(_entries(context, resource, synonyms))
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message or ""
        return result
    wanted = resource.configuration_keys
    result.configs = [entry for entry in entries if not wanted or entry.name in wanted]
    return result


def _entries(
    context: RequestContext, resource: DescribeConfigsRequest.DescribeConfigsResource, synonyms: bool
) -> Iterator[Entry]:
    name = resource.resource_name
    node = context.node.node_id
    if resource.resource_type == _TOPIC:
        check_name(name)
        own = context.broker.topics.topic(name).configs
        for one in effective_configs(own, context.broker.settings, node):
            yield _entry(one, config_type(one.name), synonyms=synonyms, fixed=False)
    else:
        of_broker = resource.resource_type == broker_configs.BROKER
        for one in broker_configs.described(context, resource.resource_type, name):
            fixed = of_broker and not _is_dynamic(one.name)
            yield _entry(one, broker_type(one.name), synonyms=synonyms, fixed=fixed)


def _is_dynamic(name: str) -> bool:
    return name in KNOWN and KNOWN[name].dynamic


def _entry(one: Effective, kind: int, *, synonyms: bool, fixed: bool) -> Entry:
    return Entry(
        name=one.name,
        value=one.value,
        read_only=fixed,
        config_source=one.source,
        is_sensitive=False,
        synonyms=[
            Entry.DescribeConfigsSynonym(name=behind.name, value=behind.value, source=behind.source)
            for behind in (one.behind if synonyms else ())
        ],
        config_type=kind,
        documentation=None,
    )


def _check_values(configs: Iterable[Any]) -> None:
    names = [config.name for config in configs]
    if len(set(names)) != len(names):
        raise InvalidRequestError("Error due to duplicate config keys")
    null = [
        config.name
        for config in configs
        if config.value is None and getattr(config, "config_operation", 0) != _DELETE
    ]
    if null:
        raise InvalidRequestError(f"Null value not supported for : {','.join(null)}")


def _check_once(resource: Any, resources: Iterable[Any]) -> None:
    key = resource.resource_type, resource.resource_name
    if sum((one.resource_type, one.resource_name) == key for one in resources) > 1:
        raise InvalidRequestError("Each resource must appear at most once.")


@handles(AlterConfigsRequest)
async def alter_configs(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    responses = []
    for resource in request.resources:
        answer = AlterConfigsResponse.AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            _check_once(resource, request.resources)
            _check_values(resource.configs)
            wanted = {config.name: config.value for config in resource.configs if config.value is not None}
            _alter(context, resource.resource_type, resource.resource_name, wanted, request.validate_only)
        except BrokerError as error:
            answer.error_code, answer.error_message = error.code, error.message or None
        responses.append(answer)
    return AlterConfigsResponse(responses=responses)


@handles(IncrementalAlterConfigsRequest)
async def incremental_alter_configs(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    responses = []
    for resource in request.resources:
        answer = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            _check_once(resource, request.resources)
            _check_values(resource.configs)
            wanted = _changed(context, resource)
            _alter(context, resource.resource_type, resource.resource_name, wanted, request.validate_only)
        except BrokerError as error:
            answer.error_code, answer.error_message = error.code, error.message or None
        responses.append(answer)
    return IncrementalAlterConfigsResponse(responses=responses)


def _changed(
    context: RequestContext, resource: IncrementalAlterConfigsRequest.AlterConfigsResource
) -> dict[str, str]:
    own, now = _own(context, resource.resource_type, resource.resource_name)
    for config in resource.configs:
        if config.config_operation == _DELETE:
            own.pop(config.name, None)
        elif config.config_operation == _SET and config.value is not None:
            own[config.name] = config.value
        else:
            own[config.name] = _list_change(config, now(config.name), resource.resource_type)
    return own


def _own(
    context: RequestContext, resource_type: int, name: str
) -> tuple[dict[str, str], Callable[[str], str]]:
    """What a resource sets itself, and what a setting of it is by now."""
    if resource_type not in _RESOURCES:
        raise InvalidRequestError(f"Unknown resource type {resource_type}")
    settings, node = context.broker.settings, context.node.node_id
    if resource_type != _TOPIC:
        own = broker_configs.now(context, resource_type, name)
        return own, lambda config: settings.values_of(config, node)[0].value or ""
    own = dict(_topic(context, name).configs)
    known = {one.name: one.value or "" for one in effective_configs(own, settings, node)}
    return own, lambda config: known.get(config, "")


def _list_change(
    config: IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig,
    now: str,
    resource_type: int,
) -> str:
    if config.config_operation not in (_APPEND, _SUBTRACT):
        raise UnknownServerError(about=f"operation {config.config_operation}")
    if _LIST not in (config_type(config.name), broker_type(config.name)):
        operation = "APPEND" if config.config_operation == _APPEND else "SUBTRACT"
        if resource_type != _TOPIC:
            raise InvalidConfigError(
                f"Config value {operation.lower()} is not allowed for config key: {config.name}"
            )
        raise InvalidConfigError(f"Can't {operation} to key {config.name} because its type is not LIST.")
    have = [word for word in now.split(",") if word]
    words = [word for word in (config.value or "").split(",") if word]
    if config.config_operation == _APPEND:
        return ",".join(have + [word for word in words if word not in have])
    return ",".join(word for word in have if word not in words)


def _topic(context: RequestContext, name: str) -> TopicState:
    if name not in context.broker.topics.by_name:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
    return context.broker.topics.by_name[name]


def _alter(
    context: RequestContext, resource_type: int, name: str, wanted: dict[str, str], validate_only: bool
) -> None:
    if resource_type not in _RESOURCES:
        raise InvalidRequestError(f"Unknown resource type {resource_type}")
    if resource_type != _TOPIC:
        broker_configs.now(context, resource_type, name)
        broker_configs.alter(context, name, wanted, validate_only)
        return
    topic = _topic(context, name)
    check_topic_configs(wanted)
    if not validate_only:
        context.broker.topics.configure(topic, wanted)


@handles(ListConfigResourcesRequest)
async def list_config_resources(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    resource = ListConfigResourcesResponse.ConfigResource
    if context.version == 0:  # which asks for client metrics
        return ListConfigResourcesResponse(config_resources=[])
    wanted = set(request.resource_types) or set(_RESOURCES)
    if not wanted <= set(_RESOURCES):
        return ListConfigResourcesResponse(error_code=UnsupportedVersionError.code, config_resources=[])
    nodes = [str(node.node_id) for node in context.broker.running()]
    names = {_TOPIC: list(context.broker.topics.by_name), broker_configs.BROKER: nodes}
    return ListConfigResourcesResponse(
        config_resources=[
            resource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in names.get(kind, [])
        ]
    )
