"""Settings of the embedded broker: what Kafka knows is taken or refused with a reason, nothing is misread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kclient.broker.broker import Broker
from kclient.broker.known_settings import KNOWN
from kclient.broker.log.config import LogConfig
from kclient.broker.refusals import reason_against
from kclient.broker.settings import FILE, TOPIC_DEFAULTS, BrokerSettings
from kclient.broker.topic_settings import check_topic_configs
from kclient.errors import ConfigurationError, InvalidConfigError, KafkaStorageError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto.create.topics.enable", "ture"),
        ("default.replication.factor", "0"),
        ("num.partitions", "0"),
        ("offsets.topic.num.partitions", "-1"),
        ("log.cleanup.policy", "compress"),
        ("log.retention.hours", "a week"),
        ("replica.selector.class", "RackAwareReplicaSelecter"),
    ],
)
def test_a_value_that_is_none_of_the_choices_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}='{value}' must be"):
        BrokerSettings({name: value})


def test_flags_may_be_written_in_capitals() -> None:
    assert BrokerSettings({"auto.create.topics.enable": "True"}).flag("auto.create.topics.enable")


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_setting_of_kafka_is_taken_with_its_default_or_refused_with_a_reason(name: str) -> None:
    default = KNOWN[name].default
    if default is not None and name not in ("listeners", "log.dir"):
        assert BrokerSettings({name: default})[name] == default
    reason = reason_against(name, "something else")
    assert reason is None or "no such setting" not in reason


def test_what_quick_start_and_container_images_configure_is_taken() -> None:
    settings = BrokerSettings({
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "num.recovery.threads.per.data.dir": "1",
        "offsets.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "log.retention.check.interval.ms": "300000",
        "log.cleaner.backoff.ms": "500",
        "broker.rack": "b",
        "group.initial.rebalance.delay.ms": "0",
    })  # fmt: skip
    assert settings["broker.rack"] == "b"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "no ACLs yet"),
        ("create.topic.policy.class.name", "com.example.Policy", "a Java class"),
        ("inter.broker.protocol.version", "3.9", "not had it since 4.0"),
        ("listeners", "PLAINTEXT://:9092", "use Broker"),
        ("log.dirs", "/var/lib/kafka", "data"),
        ("max.connections", "5", "connections are not limited"),
        ("node.id", "7", "numbered from 1"),
        ("remote.log.storage.system.enable", "true", "no tiered storage"),
        ("ssl.keystore.location", "server.jks", "ListenerSpec"),
        ("zookeeper.connect", "localhost:2181", "not had it since 4.0"),
        ("log.retention.hour", "1", r"is it log\.retention\.hours"),
        ("my.own", "1", "Kafka has no such setting"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_reason(name: str, value: str, reason: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"{name}='.*' is refused by the embedded broker: .*{reason}"
    ):
        BrokerSettings({name: value})


@pytest.mark.parametrize(
    ("given", "topic_setting", "expected"),
    [
        ({}, "retention.ms", "604800000"),
        ({"log.retention.hours": "2"}, "retention.ms", "7200000"),
        ({"log.retention.hours": "-1"}, "retention.ms", "-1"),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "retention.ms", "180000"),
        ({"log.retention.minutes": "3", "log.retention.ms": "5"}, "retention.ms", "5"),
        ({"log.roll.hours": "1"}, "segment.ms", "3600000"),
        ({"log.roll.jitter.hours": "1"}, "segment.jitter.ms", "3600000"),
        ({"log.segment.delete.delay.ms": "7"}, "file.delete.delay.ms", "7"),
        ({"unclean.leader.election.enable": "true"}, "unclean.leader.election.enable", "true"),
    ],
)
def test_topics_have_the_brokers_settings_in_whatever_unit_they_were_given(
    given: dict[str, str], topic_setting: str, expected: str
) -> None:
    assert BrokerSettings(given).topic_defaults()[topic_setting] == expected


def test_every_topic_setting_of_kafka_may_be_set_to_its_default() -> None:
    assert len(TOPIC_DEFAULTS) == 33
    check_topic_configs({name: default for name, (default, _) in TOPIC_DEFAULTS.items()})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("remote.storage.enable", "true", "no tiered storage"),
        ("preallocate", "maybe", "true or false"),
        ("file.delete.delay.ms", "-1", "at least 0"),
        ("message.format.version", "2.8", "gone in Kafka 4"),
        ("retention.hours", "1", "Unknown topic config name: retention.hours"),
    ],
)
def test_a_topic_setting_that_cannot_be_meant_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(InvalidConfigError, match=reason):
        check_topic_configs({name: value})


def test_ids_of_producers_are_forgotten_when_the_settings_say() -> None:
    config = LogConfig.from_topic_config(BrokerSettings({"producer.id.expiration.ms": "5"}).topic_defaults())
    assert config.producer_expiration_ms == 5


@pytest.mark.parametrize(
    "address", ["somewhere", "PLAINTEXT://:9092", "PLAINTEXT://host", "PLAINTEXT:host:1"]
)
def test_an_advertised_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write PLAINTEXT://host:port"):
        Broker(config={"advertised.listeners": address})


def test_settings_on_disk_that_are_none_are_named(tmp_path: Path) -> None:
    for text in ("[]", "{", '{"": {"num.partitions": "3"}}', '{"": {"log.retention.ms": "x"}}'):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(KafkaStorageError, match=f"{FILE} does not hold settings of brokers: restore it"):
            BrokerSettings().load(tmp_path, sync=False)
    (tmp_path / FILE).write_text(json.dumps({"": {"log.retention.ms": "7"}}))
    settings = BrokerSettings()
    settings.load(tmp_path, sync=False)
    assert settings.topic_defaults()["retention.ms"] == "7"
