"""Broker settings that the embedded broker refuses, each with the reason and what to do instead. A table.

What Kafka knows and is not here is taken: either it does something here, or what it tunes (threads, buffers,
replication, quorums) has nothing to tune here and no client could tell the difference.
"""

from __future__ import annotations

from difflib import get_close_matches

from kclient.broker.known_settings import KNOWN

_LISTENERS = "every listener has its own: Broker(listeners=[ListenerSpec(…)]), or the options of the command"
_JAVA = "it names a Java class, which cannot run here"
_UNLIMITED = "connections are not limited here"
_NO_ACLS = "there are no ACLs yet: everybody may do everything"
_NO_TIERS = "there is no tiered storage"
_GROUPS = "classic and consumer groups with both assignors are always there"
_GONE = "Kafka has not had it since 4.0"

# By name, or by how names begin. Where Kafka has the setting, its default is taken all the same.
_REASONS = {
    "advertised.host.name": f"{_GONE}: use advertised.listeners",
    "advertised.port": f"{_GONE}: use advertised.listeners",
    "allow.everyone.if.no.acl.found": _NO_ACLS,
    "alter.config.policy.class.name": _JAVA,
    "authorizer.class.name": _NO_ACLS,
    "broker.id": "the nodes of a cluster are numbered from 1",
    "broker.id.generation.enable": _GONE,
    "client.quota.callback.class": _JAVA,
    "config.providers": "values are taken as they are written",
    "connections.max.reauth.ms": f"{_LISTENERS} (max_reauth_ms)",
    "control.plane.listener.name": _GONE,
    "cordoned.log.dirs": "there is one data directory",
    "create.topic.policy.class.name": _JAVA,
    "delegation.token.master.key": _GONE,
    "delegation.token.secret.key": "there are no delegation tokens yet",
    "group.consumer.assignors": _GROUPS,
    "group.coordinator.rebalance.protocols": _GROUPS,
    "host.name": f"{_GONE}: use Broker(host=…) or --host",
    "inter.broker.protocol.version": _GONE,
    "leader.imbalance.per.broker.percentage": _GONE,
    "listener.name.": _LISTENERS,
    "listeners": "use Broker(host=…, port=…) or --host and --port; for TLS and SASL Broker(listeners=[…])",
    "log.dir": "use Broker(data=…) or --data",
    "log.dirs": "use Broker(data=…) or --data",
    "log.message.downconversion.enable": _GONE,
    "log.message.format.version": _GONE,
    "log.message.timestamp.difference.max.ms": (
        f"{_GONE}: use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "max.connection.creation.rate": _UNLIMITED,
    "max.connections": _UNLIMITED,
    "max.connections.per.ip": _UNLIMITED,
    "max.connections.per.ip.overrides": _UNLIMITED,
    "node.id": "the nodes of a cluster are numbered from 1",
    "offsets.commit.required.acks": _GONE,
    "offsets.topic.compression.codec": "committed offsets are not compressed",
    "password.encoder.": _GONE,
    "port": f"{_GONE}: use Broker(port=…) or --port",
    "principal.builder.class": _JAVA,
    "quota.consumer.default": f"{_GONE}, and there are no quotas yet",
    "quota.producer.default": f"{_GONE}, and there are no quotas yet",
    "remote.log.storage.system.enable": _NO_TIERS,
    "reserved.broker.max.id": _GONE,
    "sasl.": _LISTENERS,
    "security.providers": _JAVA,
    "ssl.": _LISTENERS,
    "super.users": _NO_ACLS,
    "transaction.two.phase.commit.enable": "there are no transactions yet",
    "zookeeper.": _GONE,
}
# Whose default means something else here.
_ALWAYS = frozenset({"listeners", "log.dir"})
# What else is said by those who mean the same.
_ALSO_TAKEN = {"broker.id": "1", "node.id": "1"}


def reason_against(name: str, value: str | None) -> str | None:
    """Why a setting is refused, or None. Without a value: whether it is with every one but the default."""
    reason = _REASONS.get(name) or next(
        (text for start, text in _REASONS.items() if start.endswith(".") and name.startswith(start)), None
    )
    if reason is not None:
        known = KNOWN.get(name)
        default = known is not None and value == (known.default or "") and name not in _ALWAYS
        return None if default or value == _ALSO_TAKEN.get(name, "") else reason
    if name in KNOWN:
        return None
    near = get_close_matches(name, KNOWN, n=2, cutoff=0.75)
    return "Kafka has no such setting" + (f": is it {' or '.join(near)}?" if near else "")
