"""What an ACL has to allow for a request, and for whom: for errors that say so.

A broker says only that something is forbidden. Which operation it looked for is Kafka's, request by request;
the user is known where a name and a password log in.
"""

from __future__ import annotations

from typing import Any, TypeVar

from kclient.config import ClientConfig
from kclient.errors import (
    AuthorizationError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kclient.wire.api import ApiKey
from kclient.wire.message import Request

E = TypeVar("E")

_Kind = type[AuthorizationError]
_TOPIC, _GROUP, _CLUSTER = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
)
# A client without any right to write hears of the cluster, when it asks for a producer id.
PRODUCER_ID = "Write on any topic, or IdempotentWrite"

_NEEDED: dict[ApiKey, dict[_Kind, str]] = {
    ApiKey.PRODUCE: {_TOPIC: "Write", _CLUSTER: PRODUCER_ID},
    ApiKey.FETCH: {_TOPIC: "Read"},
    ApiKey.LIST_OFFSETS: {_TOPIC: "Describe"},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {_TOPIC: "Describe"},
    ApiKey.METADATA: {_TOPIC: "Describe"},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {_TOPIC: "Describe"},
    ApiKey.INIT_PRODUCER_ID: {_CLUSTER: PRODUCER_ID, TransactionalIdAuthorizationFailedError: "Write"},
    ApiKey.FIND_COORDINATOR: {_GROUP: "Describe", TransactionalIdAuthorizationFailedError: "Describe"},
    ApiKey.OFFSET_COMMIT: {_GROUP: "Read", _TOPIC: "Read"},
    ApiKey.OFFSET_FETCH: {_GROUP: "Describe", _TOPIC: "Describe"},
    ApiKey.OFFSET_DELETE: {_GROUP: "Delete", _TOPIC: "Read"},
    ApiKey.LEAVE_GROUP: {_GROUP: "Read"},
    ApiKey.DESCRIBE_GROUPS: {_GROUP: "Describe"},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {_GROUP: "Describe", _TOPIC: "Describe"},
    ApiKey.DELETE_GROUPS: {_GROUP: "Delete"},
    ApiKey.CREATE_TOPICS: {_TOPIC: "Create", _CLUSTER: "Create"},
    ApiKey.CREATE_PARTITIONS: {_TOPIC: "Alter"},
    ApiKey.DELETE_TOPICS: {_TOPIC: "Delete"},
    ApiKey.DELETE_RECORDS: {_TOPIC: "Delete"},
    ApiKey.DESCRIBE_CONFIGS: dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), "DescribeConfigs"),
    ApiKey.ALTER_CONFIGS: dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), "AlterConfigs"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), "AlterConfigs"),
    ApiKey.DESCRIBE_CLUSTER: {_CLUSTER: "Describe"},
    ApiKey.DESCRIBE_LOG_DIRS: {_CLUSTER: "Describe"},
    ApiKey.DESCRIBE_QUORUM: {_CLUSTER: "Describe"},
    ApiKey.DESCRIBE_ACLS: {_CLUSTER: "Describe"},
    ApiKey.CREATE_ACLS: {_CLUSTER: "Alter"},
    ApiKey.DELETE_ACLS: {_CLUSTER: "Alter"},
}


def lacking(error: E, right: str | type[Request[Any]], config: ClientConfig) -> E:
    """The error; one of a missing right says which one it is, and which user lacks it.

    `right` is an operation of ACLs, or the request that was refused.
    """
    if isinstance(error, AuthorizationError):
        if not isinstance(right, str):
            right = _NEEDED.get(right.api_key, {}).get(type(error), "")
        error.explain(right, user_of(config))
    return error


def user_of(config: ClientConfig) -> str | None:
    """As whom a client logs in, where its configuration says so; a delegation token's id is no name."""
    if config.sasl_delegation_token or not config.security_protocol.startswith("SASL"):
        return None
    return config.sasl_plain_username
