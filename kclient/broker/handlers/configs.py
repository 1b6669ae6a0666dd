"""Settings of topics and of the broker: described, and for topics altered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kclient.broker.api import RequestContext, handles
from kclient.broker.errors_to_answers import MALFORMED
from kclient.broker.settings import BROKER_DEFAULTS
from kclient.broker.topic_settings import (
    FROM_BROKER,
    FROM_DEFAULT,
    Setting,
    check_topic_configs,
    config_type,
    effective_configs,
)
from kclient.broker.topics import TopicState, check_name
from kclient.errors import (
    BrokerError,
    InvalidConfigError,
    InvalidRequestError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from kclient.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_TOPIC, _BROKER = 2, 4  # resource types
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_LIST_SETTINGS = {"cleanup.policy"}

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
        settings = _settings(context, resource.resource_type, resource.resource_name)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message or ""
        return result
    wanted = resource.configuration_keys
    for setting in settings:
        if not wanted or setting.name in wanted:
            result.configs.append(_entry(setting, resource.resource_type, synonyms))
    return result


def _settings(context: RequestContext, resource_type: int, name: str) -> Iterable[Setting]:
    broker = context.broker
    if resource_type == _TOPIC:
        check_name(name)
        return effective_configs(broker.topics.topic(name).configs, broker.settings)
    if resource_type == _BROKER:
        _check_node(context, name)
        return [
            Setting(key, broker.settings[key], FROM_BROKER if key in broker.settings.given else FROM_DEFAULT)
            for key in sorted(BROKER_DEFAULTS)
        ]
    raise InvalidRequestError(MALFORMED)


def _check_node(context: RequestContext, name: str) -> None:
    """A node answers for itself, and for all where none is named."""
    if name and not name.isdecimal():
        raise InvalidRequestError(f"Broker id must be an integer, but it is: {name}")
    if name and int(name) != context.node.node_id:
        raise InvalidRequestError(
            f"Unexpected broker id, expected {context.node.node_id} or empty string, but received {name}"
        )


def _entry(setting: Setting, resource_type: int, synonyms: bool) -> Entry:
    return Entry(
        name=setting.name,
        value=setting.value,
        read_only=resource_type == _BROKER,
        config_source=setting.source,
        is_sensitive=False,
        synonyms=[Entry.DescribeConfigsSynonym(name=setting.name, value=setting.value, source=setting.source)]
        if synonyms
        else [],
        config_type=config_type(setting.name) if resource_type == _TOPIC else _type_of(setting.value),
        documentation=None,
    )


def _type_of(value: str) -> int:
    """The type of a broker setting, as DescribeConfigs numbers them."""
    if value in ("true", "false"):
        return 1
    return 3 if value.isdecimal() else 2


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
    topic = _alterable(context, resource.resource_type, resource.resource_name)
    own = dict(topic.configs)
    now = {setting.name: setting.value for setting in effective_configs(own, context.broker.settings)}
    for config in resource.configs:
        if config.config_operation == _DELETE:
            own.pop(config.name, None)
        elif config.config_operation == _SET and config.value is not None:
            own[config.name] = config.value
        else:
            own[config.name] = _list_change(config, now.get(config.name, ""))
    return own


def _list_change(
    config: IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig, now: str
) -> str:
    if config.config_operation not in (_APPEND, _SUBTRACT):
        raise UnknownServerError(about=f"operation {config.config_operation}")
    if config.name not in _LIST_SETTINGS:
        operation = "APPEND" if config.config_operation == _APPEND else "SUBTRACT"
        raise InvalidConfigError(f"Can't {operation} to key {config.name} because its type is not LIST.")
    have = [word for word in now.split(",") if word]
    words = [word for word in (config.value or "").split(",") if word]
    if config.config_operation == _APPEND:
        return ",".join(have + [word for word in words if word not in have])
    return ",".join(word for word in have if word not in words)


def _alterable(context: RequestContext, resource_type: int, name: str) -> TopicState:
    if resource_type not in (_TOPIC, _BROKER):
        raise InvalidRequestError(f"Unknown resource type {resource_type}")
    if resource_type != _TOPIC:
        raise InvalidRequestError("The embedded broker can only alter settings of topics.")
    if name not in context.broker.topics.by_name:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
    return context.broker.topics.by_name[name]


def _alter(
    context: RequestContext, resource_type: int, name: str, wanted: dict[str, str], validate_only: bool
) -> None:
    topic = _alterable(context, resource_type, name)
    check_topic_configs(wanted)
    if not validate_only:
        context.broker.topics.configure(topic, wanted)
