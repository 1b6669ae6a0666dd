"""Properties of Java's clients and of librdkafka: options here, without meaning, or refused with advice."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from kclient.config import ClientConfig
from kclient.consumer.config import ConsumerConfig
from kclient.errors import ConfigurationError
from kclient.producer.config import ProducerConfig
from kclient.properties import translated

# Of producers, consumers and admin clients of Kafka 4.4, and of librdkafka 2.
NAMES = [
    "acks",
    "allow.auto.create.topics",
    "api.version.fallback.ms",
    "api.version.request",
    "api.version.request.timeout.ms",
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "background_event_cb",
    "batch.num.messages",
    "batch.size",
    "bootstrap.controllers",
    "bootstrap.resolve.timeout.ms",
    "bootstrap.servers",
    "broker.address.family",
    "broker.address.ttl",
    "broker.version.fallback",
    "buffer.memory",
    "buffer.memory.allocation.strategy",
    "builtin.features",
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "closesocket_cb",
    "compression.codec",
    "compression.gzip.level",
    "compression.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "config.providers",
    "connect_cb",
    "connections.max.idle.ms",
    "consume.callback.max.messages",
    "consume_cb",
    "coordinator.query.interval.ms",
    "debug",
    "default.api.timeout.ms",
    "default_topic_conf",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "dr_cb",
    "dr_msg_cb",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.metrics.push",
    "enable.partition.eof",
    "enable.random.seed",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "enable.ssl.certificate.verification",
    "enabled_events",
    "error_cb",
    "exclude.internal.topics",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "https.ca.location",
    "https.ca.pem",
    "interceptor.classes",
    "interceptors",
    "internal.termination.signal",
    "internal.throw.on.fetch.stable.offset.unsupported",
    "isolation.level",
    "key.deserializer",
    "key.serializer",
    "linger.ms",
    "log.connection.close",
    "log.queue",
    "log.thread.name",
    "log_cb",
    "log_level",
    "max.block.ms",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "message.copy.max.bytes",
    "message.max.bytes",
    "message.send.max.retries",
    "message.timeout.ms",
    "metadata.broker.list",
    "metadata.cluster.check.enable",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "msg_order_cmp",
    "oauthbearer_token_refresh_cb",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
    "offset_commit_cb",
    "opaque",
    "open_cb",
    "partition.assignment.strategy",
    "partitioner",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "partitioner.rack.aware",
    "partitioner_cb",
    "plugin.library.paths",
    "produce.offset.report",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "queuing.strategy",
    "rebalance_cb",
    "receive.buffer.bytes",
    "receive.message.max.bytes",
    "reconnect.backoff.jitter.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.required.acks",
    "request.timeout.ms",
    "resolve_cb",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.keytab",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
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
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.allow.unverified.audience",
    "sasl.oauthbearer.allow.unverified.issuer",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.grant.type",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.metadata.authentication.type",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "socket.blocking.max.ms",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.max.fails",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "socket_cb",
    "ssl.ca.certificate.stores",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.certificate.verify_cb",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.curves.list",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.engine.id",
    "ssl.engine.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.providers",
    "ssl.secure.random.implementation",
    "ssl.sigalgs.list",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl_ca",
    "ssl_certificate",
    "ssl_engine_callback_data",
    "ssl_key",
    "statistics.interval.ms",
    "stats_cb",
    "sticky.partitioning.linger.ms",
    "throttle_cb",
    "topic.blacklist",
    "topic.metadata.propagation.max.ms",
    "topic.metadata.refresh.fast.cnt",
    "topic.metadata.refresh.fast.interval.ms",
    "topic.metadata.refresh.interval.ms",
    "topic.metadata.refresh.sparse",
    "transaction.timeout.ms",
    "transaction.two.phase.commit.enable",
    "transactional.id",
    "value.deserializer",
    "value.serializer",
]
KAFKAS = "org.apache.kafka.clients"
OPTIONS = {
    spelling
    for config in (ProducerConfig, ConsumerConfig)
    for field in dataclasses.fields(config)
    for spelling in (field.name, field.name.replace("_", "."), field.metadata["row"].kafka)
}
# Passing these over would be less secure than was asked for.
REFUSED_AT_ONCE = (
    *(
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.curves.list",
        "ssl.engine.factory.class",
        "ssl.sigalgs.list",
    ),
    *("ssl.engine.id", "ssl.engine.location", "ssl.providers", "ssl.certificate.verify_cb"),
    *("ssl.keystore.password", "ssl.truststore.password"),
)
VALUES = {
    "partitioner.ignore.keys": "true",
    "partition.assignment.strategy": "range",
    "queue.buffering.max.kbytes": "1",
    "queued.max.messages.kbytes": "1",
    "sasl.jaas.config": "PlainLoginModule required username=u password=p;",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}


@pytest.mark.parametrize("name", NAMES)
def test_every_property_of_java_and_librdkafka_has_an_answer(name: str) -> None:
    if name in REFUSED_AT_ONCE:
        with pytest.raises(ConfigurationError, match=f"^{re.escape(name)}: "):
            translated({name: "x"})
        return
    found = translated({name: VALUES.get(name, "x")})
    assert set(found.options) <= OPTIONS
    told = (*found.options, *found.without_meaning, *found.refused)
    assert told or name in VALUES or name.startswith("compression.")


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (
            {"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
            {"partitioner": "round_robin"},
        ),
        ({"partitioner.ignore.keys": "true"}, {"partitioner": "sticky"}),
        ({"partitioner.ignore.keys": "false"}, {}),
        ({"allow.auto.create.topics": "false"}, {}),
        ({"interceptor.classes": ""}, {}),
        ({"key.serializer": "org.apache.kafka.common.serialization.StringSerializer"}, {}),
        (
            {"partition.assignment.strategy": f"{KAFKAS}.consumer.CooperativeStickyAssignor,range"},
            {"partition.assignment.strategy": ("cooperative-sticky", "range")},
        ),
        ({"auto.offset.reset": "smallest"}, {"auto.offset.reset": "earliest"}),
        ({"metadata.broker.list": "kafka:9092"}, {"bootstrap.servers": "kafka:9092"}),
        ({"security.protocol": "sasl_ssl"}, {"security.protocol": "SASL_SSL"}),
        ({"queue.buffering.max.kbytes": "64"}, {"buffer.memory": "65536"}),
        ({"socket.send.buffer.bytes": "0"}, {}),
        ({"enable.ssl.certificate.verification": "true"}, {}),
        (
            {"compression.zstd.level": "9", "compression.type": "zstd", "compression.gzip.level": "1"},
            {"compression.type": "zstd", "compression.level": "9"},
        ),
        ({"compression.zstd.level": "9"}, {}),
        ({"sasl.password": " blanks count "}, {"sasl.password": " blanks count "}),
        ({"ssl.endpoint.identification.algorithm": " "}, {"ssl_check_hostname": False}),
        ({"ssl.endpoint.identification.algorithm": "HTTPS "}, {"ssl_check_hostname": True}),
        (
            {"sasl.jaas.config": "OAuthBearerLoginModule required clientId=me clientSecret='x y' scope='a'"},
            {
                "sasl_oauthbearer_client_id": "me",
                "sasl_oauthbearer_client_secret": "x y",
                "sasl_oauthbearer_scope": "a",
            },
        ),
        (
            {"sasl.jaas.config": "a.b.PlainLoginModule required username='a b' password='it\\'s; \"x\"';"},
            {"sasl_plain_username": "a b", "sasl_plain_password": 'it\'s; "x"'},
        ),
    ],
)
def test_what_is_called_otherwise_is_translated(given: dict[str, str], options: dict[str, Any]) -> None:
    assert translated(given) == (options, [], {})


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("partitioner.class", "com.example.Mine", "a function in Python"),
        ("interceptor.classes", "com.example.Mine", "hooks"),
        ("transactional.id", "t", "no transactions yet"),
        ("value.serializer", "io.confluent.Avro", "a function in Python"),
        ("enable.auto.offset.store", "false", "enable.auto.commit=false"),
        ("sasl.kerberos.keytab", "/etc/k", "kinit"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_what_to_use(name: str, value: str, advice: str) -> None:
    found = translated({name: value})
    assert (found.options, found.without_meaning, list(found.refused)) == ({}, [], [name])
    assert advice in found.refused[name]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ssl.keystore.type", "JKS", "reads PEM files"),
        ("ssl.truststore.password", "s3cr3t", "give PEM files"),
        ("ssl.crl.location", "s3cr3t", "ssl.SSLContext"),
        ("sasl.jaas.config", "user=s3cr3t", "is not understood"),
        (
            "sasl.jaas.config",
            "ScramLoginModule required username=u password=s3cr3t tokenauth=ture;",
            "tokenauth",
        ),
        ("sasl.jaas.config", "PlainLoginModule required username=s3cr3t;", "needs username and password"),
        ("sasl.jaas.config", "com.example.MyLoginModule required a=s3cr3t;", "MyLoginModule"),
        ("queue.buffering.max.kbytes", "many", "kilobytes"),
    ],
)
def test_what_would_be_less_secure_or_makes_no_sense_is_an_error_without_secrets(
    name: str, value: str, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told) as refused:
        translated({name: value}, "kafka.{}".format)
    assert str(refused.value).startswith(f"kafka.{name}")
    assert "s3cr3t" not in str(refused.value)


def test_what_is_translated_makes_a_config() -> None:
    given = {
        "bootstrap.servers": "kafka:9092",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.jaas.config": "a.PlainLoginModule required username='a b' password=p;",
        "request.required.acks": "all",
        "queue.buffering.max.ms": "5",
        "max.in.flight": "1",
        "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
    }
    config = ProducerConfig.from_options(translated(given).options)
    assert (config.linger_ms, config.sasl_plain_username, config.partitioner) == (5, "a b", "round_robin")
    strategy = {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor"}
    options = translated(strategy | {"group.id": "g"}).options
    group = ConsumerConfig.from_options(options).group_settings()
    assert group is not None
    assert tuple(group.partition_assignment_strategy) == ("sticky",)
    assert issubclass(ProducerConfig, ClientConfig)
