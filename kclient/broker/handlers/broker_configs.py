"""Settings of brokers: described as Kafka describes them, altered for one node or for all.

`configs` has the requests and calls this for every resource that is no topic.
"""

from __future__ import annotations

from kclient.broker.api import RequestContext
from kclient.broker.errors_to_answers import MALFORMED
from kclient.broker.known_settings import KNOWN
from kclient.broker.refusals import reason_against
from kclient.broker.settings import BROKER_DEFAULTS, FROM_BROKER, FROM_CLUSTER, Effective, Setting
from kclient.errors import InvalidConfigError, InvalidRequestError

BROKER, LOGGER, METRICS, GROUP = 4, 8, 16, 32  # resource types
# A group has these of its own in Kafka; here the broker's are everybody's.
_OF_GROUPS = ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
_NONE_OF_THESE = {
    GROUP: "settings of single groups: set group.consumer.… of the broker when it starts",
    LOGGER: "Kafka's loggers: it logs with Python's `logging`, below the logger kclient.broker",
    METRICS: "client metrics: nobody would read them",
}


def described(context: RequestContext, resource_type: int, name: str) -> list[Effective]:
    """Every setting of a resource, each with the values behind it."""
    if resource_type == BROKER:
        return _of_all(context) if not name else _of_node(context, name)
    if resource_type == GROUP and name:
        return [_of_group(context, setting) for setting in _OF_GROUPS]
    if resource_type == LOGGER and name:
        check_node(context, name)
        return []
    if resource_type == METRICS and name:
        return []
    raise InvalidRequestError("The resource has no name" if resource_type in _NONE_OF_THESE else MALFORMED)


def _of_all(context: RequestContext) -> list[Effective]:
    """What was altered for all nodes, as Kafka shows it."""
    altered = context.broker.settings.altered.get("", {})
    return [Effective.of(name, [Setting(name, altered[name], FROM_CLUSTER)]) for name in sorted(altered)]


def _of_node(context: RequestContext, name: str) -> list[Effective]:
    check_node(context, name)
    settings, node = context.broker.settings, context.node
    found = {
        known: Effective.of(known, settings.with_instead(known, node.node_id))
        for known in KNOWN.keys() | BROKER_DEFAULTS.keys()
        if known in settings.given or reason_against(known, None) is None
    }
    own = {
        "listeners": ",".join(
            f"{one.spec.name}://{one.spec.host}:{one.port}" for one in node.listeners.values()
        ),
        "advertised.listeners": ",".join(
            f"{one.spec.name}://{one.host}:{one.advertised_port}" for one in node.listeners.values()
        ),
        "log.dirs": context.broker.data_directory,
        "node.id": str(node.node_id),
        "broker.id": str(node.node_id),
    }
    for known, value in own.items():
        found[known] = Effective.of(known, [Setting(known, value, FROM_BROKER)])
    return [found[known] for known in sorted(found)]


def _of_group(context: RequestContext, setting: str) -> Effective:
    of_broker = context.broker.settings.values_of(f"group.consumer.{setting}", context.node.node_id)
    return Effective.of(f"consumer.{setting}", of_broker)


def check_node(context: RequestContext, name: str, *, to_alter: bool = False) -> None:
    """A node answers for itself, and for all where none is named."""
    if name and not name.isdecimal():
        what = "Node" if to_alter else "Broker"
        raise InvalidRequestError(f"{what} id must be an integer, but it is: {name}")
    if name and int(name) != context.node.node_id:
        alone = "" if to_alter else " or empty string"
        raise InvalidRequestError(
            f"Unexpected broker id, expected {context.node.node_id}{alone}, but received {name}"
        )


def now(context: RequestContext, resource_type: int, name: str) -> dict[str, str]:
    """What is altered of a resource by now; raises where nothing can be."""
    if resource_type in _NONE_OF_THESE:
        raise InvalidConfigError(f"The embedded broker of kclient has no {_NONE_OF_THESE[resource_type]}")
    check_node(context, name, to_alter=True)
    return dict(context.broker.settings.altered.get(name, {}))


def alter(context: RequestContext, name: str, wanted: dict[str, str], validate_only: bool) -> None:
    """Have a broker, or all ("") with these values and no others."""
    context.broker.settings.check_altered(name, wanted)
    if not validate_only:
        context.broker.settings.alter(name, wanted)
