"""Properties as Java's clients and librdkafka name them, as options that kclient's configs know.

One table for all who read properties: the command line and PySpark. Kafka's dotted names are known to the
configs themselves. Here is what is called otherwise, what means nothing outside of Java or C, and what has no
counterpart, with what to use instead. Pure; secrets are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kclient.config import checks_hostname, token_auth
from kclient.errors import ConfigurationError

_RENAMED = {
    "auto.commit.enable": "enable.auto.commit",
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl_cafile",
    "ssl.ca.pem": "ssl_cadata",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.certificate.pem": "ssl_certdata",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.pem": "ssl_keydata",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
# Values that are called otherwise.
_VALUES: Mapping[str, Mapping[str, str]] = {
    "auto.offset.reset": {
        **dict.fromkeys(("smallest", "beginning"), "earliest"),
        **dict.fromkeys(("largest", "end"), "latest"),
        "error": "none",
    },
}
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_PARTITIONERS = {
    "DefaultPartitioner": "default",
    "UniformStickyPartitioner": "sticky",
    "RoundRobinPartitioner": "round_robin",
}
_LEVELS = {f"compression.{codec}.level": codec for codec in ("gzip", "lz4", "zstd")}

# What asks for what kclient does anyway.
_DONE_ANYWAY: Mapping[str, tuple[str, ...]] = {
    "allow.auto.create.topics": ("false",),
    "enable.auto.offset.store": ("true",),
    "enable.sasl.oauthbearer.unsecure.jwt": ("false",),
    "enable.ssl.certificate.verification": ("true",),
    "offset.store.method": ("broker",),
    "sasl.oauthbearer.grant.type": ("client_credentials",),
    "sasl.oauthbearer.method": ("oidc",),
    "statistics.interval.ms": ("0",),
    "transaction.two.phase.commit.enable": ("false",),
    "socket.receive.buffer.bytes": ("0",),
    "socket.send.buffer.bytes": ("0",),
}
# The business of a JVM, of librdkafka's threads or of a broker: left out, nothing of it can be noticed.
_WITHOUT_MEANING = frozenset(
    [
        "allow.auto.create.topics",
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "auto.include.jmx.reporter",
        "batch.num.messages",
        "bootstrap.resolve.timeout.ms",
        "broker.address.family",
        "broker.address.ttl",
        "broker.version.fallback",
        "buffer.memory.allocation.strategy",
        "builtin.features",
        "client.dns.lookup",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "debug",
        "delivery.report.only.error",
        "enable.gapless.guarantee",
        "enable.metrics.push",
        "enable.partition.eof",
        "enable.random.seed",
        "enabled_events",
        "fetch.error.backoff.ms",
        "fetch.queue.backoff.ms",
        "group.protocol.type",
        "https.ca.location",
        "https.ca.pem",
        "internal.termination.signal",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "log.connection.close",
        "log.queue",
        "log.thread.name",
        "log_level",
        "message.copy.max.bytes",
        "metadata.cluster.check.enable",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "msg_order_cmp",
        "offset.store.path",
        "offset.store.sync.interval.ms",
        "partitioner.rack.aware",
        "produce.offset.report",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.messages",
        "queued.min.messages",
        "queuing.strategy",
        "reconnect.backoff.jitter.ms",
        "sasl.client.callback.handler.class",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "security.providers",
        "socket.blocking.max.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "ssl.ca.certificate.stores",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "sticky.partitioning.linger.ms",
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
        "transaction.timeout.ms",
    ]
)

_FUNCTION = "a function is given in Python, as an option of the client"
_JAVA_CLASS = "classes of Java cannot run here"
_TLS = "set it in an ssl.SSLContext, and give that as ssl_context in Python"
_TOKENS = "give sasl.oauthbearer.token.endpoint.url, client id and secret, or a token provider in Python"
_ASSERTIONS = (
    *(f"claim.{name}" for name in ("aud", "exp.seconds", "iss", "jti.include", "nbf.seconds", "sub")),
    *("algorithm", "file", "private.key.file", "private.key.passphrase", "private.key.pem"),
    *("template.file", "jwt.template.file"),
)
# No counterpart: what to use instead.
_REFUSED: Mapping[str, str] = {
    "bootstrap.controllers": "brokers are asked: give bootstrap.servers",
    "config.providers": "values stand in the file itself, or in variables of the environment",
    "enable.auto.offset.store": "set enable.auto.commit=false and commit what was processed",
    "enable.sasl.oauthbearer.unsecure.jwt": _TOKENS,
    "enable.ssl.certificate.verification": (
        "certificates are always verified: name their authority, with ssl.truststore.location in PEM"
    ),
    "interceptor.classes": f"{_JAVA_CLASS}: give hooks in Python",
    "interceptors": f"{_JAVA_CLASS}: give hooks in Python",
    "offset.store.method": "offsets are committed to the broker",
    "partitioner.class": (
        f"{_JAVA_CLASS}: give partitioner, a name (murmur2, round_robin, sticky, consistent_random, …) or a "
        "function in Python"
    ),
    "plugin.library.paths": "plugins of librdkafka cannot run here",
    "sasl.kerberos.keytab": "get a ticket with kinit -kt before; the ticket cache is used",
    "sasl.kerberos.principal": "get a ticket with kinit before; the ticket cache is used",
    "sasl.oauthbearer.config": _TOKENS,
    "sasl.oauthbearer.grant.type": _TOKENS,
    "sasl.oauthbearer.jwt.retriever.class": _TOKENS,
    "sasl.oauthbearer.metadata.authentication.type": _TOKENS,
    "sasl.oauthbearer.method": _TOKENS,
    **{f"sasl.oauthbearer.assertion.{name}": _TOKENS for name in _ASSERTIONS},
    "share.acknowledgement.mode": "there are no share groups yet",
    "share.acquire.mode": "there are no share groups yet",
    **dict.fromkeys(
        ("ssl.cipher.suites", "ssl.crl.location", "ssl.curves.list", "ssl.engine.factory.class"), _TLS
    ),
    **dict.fromkeys(("ssl.engine.id", "ssl.engine.location", "ssl.providers", "ssl.sigalgs.list"), _TLS),
    "ssl.keystore.password": "it is for Java's key stores: give PEM files, without it",
    "ssl.truststore.password": "it is for Java's key stores: give PEM files, without it",
    "statistics.interval.ms": "ask metrics() and health() of the client",
    "topic.blacklist": "topics are named, or matched by a pattern that leaves these out",
    "transaction.two.phase.commit.enable": "there are no transactions yet",
    "transactional.id": "there are no transactions yet",
    **dict.fromkeys(
        ("key.serializer", "value.serializer"), f"{_JAVA_CLASS}: give bytes, or a function in Python"
    ),
    **dict.fromkeys(("key.deserializer", "value.deserializer"), f"{_JAVA_CLASS}: give a function in Python"),
    **dict.fromkeys(
        [
            "background_event_cb",
            "closesocket_cb",
            "connect_cb",
            "consume_cb",
            "default_topic_conf",
            "dr_cb",
            "dr_msg_cb",
            "error_cb",
            "log_cb",
            "oauthbearer_token_refresh_cb",
            "offset_commit_cb",
            "opaque",
            "open_cb",
            "partitioner_cb",
            "rebalance_cb",
            "resolve_cb",
            "socket_cb",
            "ssl.certificate.verify_cb",
            "ssl_ca",
            "ssl_certificate",
            "ssl_engine_callback_data",
            "ssl_key",
            "stats_cb",
            "throttle_cb",
        ],
        _FUNCTION,
    ),
}
_JAAS = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\s*(.*?);?\s*", re.DOTALL)
_PAIR = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


class Translated(NamedTuple):
    """Options for the configs; names that were left out, as they mean nothing; why others are refused."""

    options: dict[str, Any]
    without_meaning: list[str]
    refused: dict[str, str]


def translated(properties: Mapping[str, str], label: Callable[[str], str] = str) -> Translated:
    """Properties as our configs take them; `label` is what a property is called in errors.

    Raises `ConfigurationError` for what must not be passed over: it would be less secure than was asked for.

    >>> translated({"metadata.broker.list": "kafka:9092", "metric.reporters": "x", "transactional.id": "t"})
    Translated(options={'bootstrap.servers': 'kafka:9092'}, without_meaning=['metric.reporters'], refused={'transactional.id': 'there are no transactions yet'})
    """  # noqa: E501
    found = Translated({}, [], {})
    for name, given in properties.items():
        value = given.strip() if name not in ("sasl.password", "ssl.key.password") else given
        options = _special(name, value, label(name))
        if options is not None:
            found.options.update(options)
        elif value.lower() in _DONE_ANYWAY.get(name, ()) or (name in _REFUSED and not value):
            continue
        elif name in _REFUSED:
            if name.startswith("ssl."):
                raise ConfigurationError(f"{label(name)}: {_REFUSED[name]}")
            found.refused[name] = _REFUSED[name]
        elif name in _WITHOUT_MEANING and name not in _LEVELS:
            found.without_meaning.append(name)
        elif name not in _LEVELS:
            found.options[_RENAMED.get(name, name)] = _VALUES.get(name, {}).get(value.lower(), value)
    codec = found.options.get("compression.type")
    for name, value in properties.items():
        if name in _LEVELS and _LEVELS[name] == codec:
            found.options["compression.level"] = value.strip()
    return found


def our_name(name: str) -> str:
    """What a property is called by our configs."""
    return _RENAMED.get(name, name)


def _special(name: str, value: str, label: str) -> dict[str, Any] | None:
    """Properties whose values have to be read; None for all others, and for values without a counterpart."""
    read = _SPECIAL.get(name)
    return None if read is None else read(value, label)


def _kafkas_own(value: str) -> str:
    """The short name of a class of Kafka's own; of another's, nothing."""
    return value.rpartition(".")[2] if value.startswith("org.apache.kafka.") else ""


def _partitioner(value: str, _: str) -> dict[str, Any] | None:
    name = _PARTITIONERS.get(_kafkas_own(value))
    return None if name is None else {"partitioner": name}


def _ignoring_keys(value: str, label: str) -> dict[str, Any]:
    if value.lower() not in ("true", "false"):
        raise ConfigurationError(f"{label}={value!r} must be true or false")
    return {"partitioner": "sticky"} if value.lower() == "true" else {}


def _assignors(value: str, _: str) -> dict[str, Any]:
    names = [each.strip() for each in value.split(",") if each.strip()]
    return {"partition.assignment.strategy": tuple(_ASSIGNORS.get(_kafkas_own(each), each) for each in names)}


def _nothing_if(*classes: str) -> Callable[[str, str], dict[str, Any] | None]:
    """These classes of Kafka's do what is done anyway."""
    return lambda value, _: {} if _kafkas_own(value) in classes else None


def _kilobytes(ours: str) -> Callable[[str, str], dict[str, Any]]:
    def read(value: str, label: str) -> dict[str, Any]:
        if not (value.isascii() and value.isdigit()):
            raise ConfigurationError(f"{label}={value!r} must be a number of kilobytes")
        return {ours: str(int(value) * 1024)}

    return read


def _store(value: str, label: str) -> dict[str, Any]:
    if value.upper() != "PEM":
        raise ConfigurationError(
            f"{label}={value!r} is not supported: kclient reads PEM files, not Java's key stores. Convert "
            "the store (keytool -exportcert -rfc, openssl pkcs12) and give PEM"
        )
    return {}


def jaas_options(line: str, name: str = "sasl.jaas.config") -> dict[str, Any]:
    """User and password, or an OAuth client, from a line of Java's login configuration; never shown."""
    found = _JAAS.fullmatch(line)
    if found is None:
        raise ConfigurationError(
            f'{name} is not understood: write `…LoginModule required username="…" password="…";`'
        )
    module = found[1].rpartition(".")[2]
    values = {
        name.lower(): re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _PAIR.findall(found[2])
    }
    if module in ("PlainLoginModule", "ScramLoginModule"):
        if "username" not in values or "password" not in values:
            raise ConfigurationError(f"{name}: {module} needs username and password")
        user: dict[str, Any] = {
            "sasl_plain_username": values["username"],
            "sasl_plain_password": values["password"],
        }
        return user | (
            {"sasl_delegation_token": True} if token_auth(name, values.get("tokenauth", "false")) else {}
        )
    if module == "OAuthBearerLoginModule":
        names = {"clientid": "client_id", "clientsecret": "client_secret", "scope": "scope"}
        return {
            f"sasl_oauthbearer_{ours}": values[theirs] for theirs, ours in names.items() if theirs in values
        }
    if module == "Krb5LoginModule":
        service = values.get("servicename")
        return {"sasl_kerberos_service_name": service} if service else {}
    raise ConfigurationError(
        f"{name} names {module}: known are PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule and "
        "Krb5LoginModule"
    )


_SPECIAL: Mapping[str, Callable[[str, str], dict[str, Any] | None]] = {
    "key.deserializer": _nothing_if("StringDeserializer", "ByteArrayDeserializer"),
    "key.serializer": _nothing_if("StringSerializer", "ByteArraySerializer"),
    "partition.assignment.strategy": _assignors,
    "partitioner.class": _partitioner,
    "partitioner.ignore.keys": _ignoring_keys,
    "queue.buffering.max.kbytes": _kilobytes("buffer.memory"),
    "queued.max.messages.kbytes": _kilobytes("prefetch.max.bytes"),
    "sasl.jaas.config": jaas_options,
    "sasl.oauthbearer.jwt.retriever.class": _nothing_if(
        "DefaultJwtRetriever", "ClientCredentialsJwtRetriever"
    ),
    "security.protocol": lambda value, _: {"security.protocol": value.upper()},
    "ssl.endpoint.identification.algorithm": lambda value, label: {
        "ssl_check_hostname": checks_hostname(label, value)
    },
    "ssl.keystore.type": _store,
    "ssl.truststore.type": _store,
    "value.deserializer": _nothing_if("StringDeserializer", "ByteArrayDeserializer"),
    "value.serializer": _nothing_if("StringSerializer", "ByteArraySerializer"),
}
