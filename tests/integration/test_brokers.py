"""The brokers that other integration tests stand on: they start, carry records, fail and recover on request.

Clients here are not ours (librdkafka, Kafka's own tools): what is tested is `tools.kafka`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tools.kafka import BrokerError, CommandError, KafkaCluster, Listener, probe, run_java
from tools.kafka import cluster as cluster_module
from tools.kafka.archive import record_classes
from tools.kafka.fixtures import BrokerPool, StartCluster
from tools.kafka.leftovers import ProcessName
from tools.kafka.ports import HOST, free_ports
from tools.kafka.provider import PlainKafka
from tools.kafka.security import Security
from tools.kafka.versions import CLIENTS_VERSION, DEFAULT_VERSION, OLD_VERSION
from tools.kafka.waiting import poll

TEN = [f"record {number}".encode() for number in range(10)]
ROOT = Path(__file__).resolve().parents[2]


def produce(bootstrap: str, topic: str, values: list[bytes], **settings: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    refused: list[KafkaError] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: refused.append(error) if error else None)
    assert producer.flush(60) == 0
    assert refused == []


def consume(bootstrap: str, topic: str, count: int, *, as_group: bool = False) -> list[bytes]:
    """The first records of partition 0, read alone or as the member of a group (which takes longer)."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"readers of {topic}", "auto.offset.reset": "earliest"}
    )
    values: list[bytes] = []

    def attempt() -> bool:
        for message in consumer.consume(count - len(values), timeout=0.5):
            value = message.value()
            if message.error() is None and value is not None:
                values.append(value)
        return len(values) >= count

    try:
        if as_group:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        poll(attempt, timeout=60, failure=lambda: f"only {len(values)} of {count} records of {topic} came")
    finally:
        consumer.close()
    return values


def first_error(settings: dict[str, str], passing: Collection[int] = ()) -> int | None:
    """What librdkafka says when it connects: None if it got in, else the code of the first error.

    `passing` are errors that a busy machine causes too, such as a slow connection, and do not count.
    """
    errors: list[int] = []
    listen: Any = {"error_cb": lambda error: errors.append(error.code())}
    client = AdminClient({**settings, **listen, "log_level": "0"})

    def attempt() -> bool:
        client.poll(0.1)
        errors[:] = [code for code in errors if code not in passing]
        if errors:
            return True
        try:
            return bool(client.list_topics(timeout=0.5).brokers)
        except KafkaException:  # not yet; why not comes through error_cb
            return False

    poll(attempt, timeout=30, failure=lambda: "neither let in nor refused")
    return errors[0] if errors else None


@pytest.mark.matrix
def test_every_version_of_the_matrix_starts_and_carries_ten_records(matrix_kafka: PlainKafka) -> None:
    topic = f"ten-{matrix_kafka.version}"
    matrix_kafka.create_topic(topic)
    produce(matrix_kafka.bootstrap(), topic, TEN)
    assert consume(matrix_kafka.bootstrap(), topic, len(TEN), as_group=True) == TEN


def test_a_session_has_one_broker_per_version(
    kafka: PlainKafka, old_kafka: PlainKafka, broker_pool: BrokerPool
) -> None:
    assert kafka.version.text == DEFAULT_VERSION
    assert old_kafka.version.text == OLD_VERSION
    assert kafka is broker_pool.broker(DEFAULT_VERSION)
    assert old_kafka is broker_pool.broker(OLD_VERSION)


@pytest.mark.parametrize("version", [DEFAULT_VERSION, OLD_VERSION])
def test_kafkas_own_tools_run_under_the_same_names_on_old_and_new(
    broker_pool: BrokerPool, version: str
) -> None:
    broker_pool.require_jars(version)
    cluster = broker_pool.broker(version)
    assert isinstance(cluster, KafkaCluster)
    lines = b"\n".join(TEN).decode() + "\n"
    cluster.run_tool("topics", ["--create", "--topic", "lines", "--partitions", "1"])
    cluster.run_tool("console-producer", ["--topic", "lines"], stdin=lines)
    read = cluster.run_tool(
        "console-consumer", ["--topic", "lines", "--from-beginning", "--max-messages", "10"]
    )
    assert read.stdout == lines
    produced = cluster.run_tool("verifiable-producer", ["--topic", "counted", "--max-messages", "3"])
    assert '"acked":3' in produced.stdout
    segment = cluster.segment("lines")
    assert "lastOffset: 9" in cluster.run_tool("dump-log", ["--files", str(segment)]).stdout


def test_a_failing_tool_is_reported_with_what_it_printed(secured: KafkaCluster) -> None:
    with pytest.raises(CommandError, match=r"(?s)exit code 1.*no-such-option"):
        secured.run_tool("topics", ["--no-such-option"])
    with pytest.raises(CommandError, match=r"did not end within 0\.1 s"):
        secured.run_tool("console-consumer", ["--topic", "nothing"], timeout=0.1)


def test_java_source_runs_with_the_jars_of_any_client_version() -> None:
    code = """
        class Main {
            public static void main(String[] args) throws Exception {
                var facts = new java.util.Properties();
                facts.load(ClassLoader.getSystemResourceAsStream("kafka/kafka-version.properties"));
                var line = new java.io.BufferedReader(new java.io.InputStreamReader(System.in)).readLine();
                System.out.print(facts.get("version") + " " + args[0] + " " + line);
            }
        }
    """
    ran = run_java(code, CLIENTS_VERSION, ["argument"], stdin="input\n")
    assert ran.stdout == f"{CLIENTS_VERSION} argument input"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks at a process through /proc")
@pytest.mark.parametrize("version", [DEFAULT_VERSION, OLD_VERSION])
def test_a_broker_maps_the_classes_that_an_earlier_one_has_recorded(
    broker_pool: BrokerPool, kafka_cluster: StartCluster, version: str
) -> None:
    broker_pool.require_jars(version)
    recorded = record_classes(version)
    assert recorded is not None
    process = kafka_cluster(version).node(1).process
    assert process is not None
    assert str(recorded) in Path(f"/proc/{process.pid}/maps").read_text()


def test_a_partition_survives_kill_9_of_its_leader_and_the_leader_comes_back(
    kafka_cluster: StartCluster,
) -> None:
    cluster = kafka_cluster(nodes=3)
    cluster.create_topic("survivor")
    produce(cluster.bootstrap(), "survivor", TEN[:5])
    leader = cluster.leader("survivor")
    cluster.kill(leader)
    assert not leader.is_running()
    assert cluster.leader("survivor") is not leader
    produce(cluster.bootstrap(), "survivor", TEN[5:])
    cluster.restart(leader)
    poll(
        lambda: leader.id in cluster.in_sync("survivor"),
        timeout=60,
        failure=lambda: f"{leader!r} never caught up: {cluster.in_sync('survivor')}",
    )
    assert consume(cluster.bootstrap(), "survivor", len(TEN)) == TEN


def test_a_killed_broker_starts_again_at_once_under_zookeeper(kafka_cluster: StartCluster) -> None:
    cluster = kafka_cluster(OLD_VERSION)
    cluster.create_topic("kept")
    produce(cluster.bootstrap(), "kept", TEN)
    cluster.kill(1)
    cluster.restart(1)
    assert consume(cluster.bootstrap(), "kept", len(TEN)) == TEN


def test_a_frozen_broker_takes_connections_but_answers_only_when_thawed(secured: KafkaCluster) -> None:
    node = secured.node(1)
    secured.freeze(node)
    try:
        assert probe.accepts(node.address)
        assert probe.metadata(node.address, timeout=0.5) is None
        assert "frozen" in repr(node)
    finally:
        secured.thaw(node)
    poll(lambda: probe.metadata(node.address), timeout=30, failure=lambda: f"{node!r} stays silent")


def test_a_broker_that_dies_at_start_is_reported_with_its_reason(kafka_cluster: StartCluster) -> None:
    with pytest.raises(BrokerError, match=r"(?s)broker 1 of Kafka .* exit code 1.*no\.such\.Authorizer"):
        kafka_cluster(config={"authorizer.class.name": "no.such.Authorizer"})


def test_the_start_is_repeated_with_other_ports_when_one_was_taken(
    kafka_cluster: StartCluster, kafka: PlainKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = int(kafka.bootstrap().rpartition(":")[2])
    offers: list[list[int]] = []

    def offer(count: int) -> list[int]:
        offers.append(free_ports(count) if offers else [taken, *free_ports(count - 1)])
        return offers[-1]

    monkeypatch.setattr(cluster_module, "free_ports", offer)
    assert kafka_cluster().node(1).port() != taken


@pytest.fixture(scope="module")
def secured(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    """One broker with every listener there is, among them one that sends clients to a proxy's port."""
    broker_pool.require_jars(DEFAULT_VERSION)
    proxied = Listener("PROXIED", advertised_ports=free_ports(1))
    with KafkaCluster(security=Security.everything(acls=True), listeners=[proxied]) as cluster:
        yield cluster


def test_clients_of_a_proxied_listener_are_sent_to_the_proxy(secured: KafkaCluster) -> None:
    client = AdminClient({"bootstrap.servers": secured.bootstrap("PROXIED"), "log_level": "0"})
    [sent_to] = [broker.port for broker in client.list_topics(timeout=30).brokers.values()]
    assert sent_to not in [secured.node(1).port(), secured.node(1).port("PROXIED")]


def settings(cluster: KafkaCluster, listener: str, **chosen: str) -> dict[str, str]:
    assert cluster.security is not None
    known = cluster.security.client_properties(listener, **chosen)
    return {"bootstrap.servers": cluster.bootstrap(listener), **known}


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("TLS", ""),
        ("MTLS", ""),
        ("OIDC", ""),
        *(
            (listener, mechanism)
            for listener in ("SASL_PLAINTEXT", "SASL_SSL", "REAUTH")
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
        ),
    ],
)
def test_a_secured_listener_lets_in_who_has_the_right_credentials(
    secured: KafkaCluster, listener: str, mechanism: str
) -> None:
    assert first_error(settings(secured, listener, mechanism=mechanism)) is None


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL", "REAUTH"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(secured: KafkaCluster, listener: str, mechanism: str) -> None:
    wrong = settings(secured, listener, mechanism=mechanism, password="wrong")
    assert first_error(wrong) == KafkaError._AUTHENTICATION


def test_an_oidc_client_with_a_wrong_secret_gets_no_token(secured: KafkaCluster) -> None:
    assert first_error(settings(secured, "OIDC", password="wrong")) == KafkaError._AUTHENTICATION


def test_tls_refuses_a_foreign_authority_a_wrong_host_and_a_missing_client_certificate(
    secured: KafkaCluster,
) -> None:
    assert secured.security is not None
    foreign = {"ssl.ca.location": str(secured.security.certificates.other_ca)}
    lost = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    assert first_error(settings(secured, "TLS") | foreign, lost) == KafkaError._SSL
    assert first_error(settings(secured, "BADHOST"), lost) == KafkaError._SSL
    assert (
        first_error(settings(secured, "BADHOST") | {"ssl.endpoint.identification.algorithm": "none"}) is None
    )
    without_certificate = settings(secured, "TLS") | {"bootstrap.servers": secured.bootstrap("MTLS")}
    assert first_error(without_certificate) is not None


def test_an_encrypted_client_key_opens_with_its_password(secured: KafkaCluster) -> None:
    assert secured.security is not None
    files = secured.security.certificates
    encrypted = {"ssl.key.location": str(files.client_key_encrypted), "ssl.key.password": files.password}
    assert first_error(settings(secured, "MTLS") | encrypted) is None


def test_acls_forbid_until_they_allow(secured: KafkaCluster) -> None:
    secured.create_topic("guarded")
    alice = settings(secured, "SASL_SSL", user="alice", mechanism="SCRAM-SHA-512")

    def topic_error() -> int | None:
        described = AdminClient({**alice}).list_topics("guarded", timeout=30).topics["guarded"].error
        return None if described is None else int(described.code())

    assert topic_error() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    grant = ["--add", "--allow-principal", "User:alice", "--operation", "All", "--topic", "guarded"]
    secured.run_tool("acls", grant)
    poll(lambda: topic_error() is None, timeout=30, failure=lambda: "the ACL never took effect")
    bootstrap = alice.pop("bootstrap.servers")
    produce(bootstrap, "guarded", TEN, **alice)


START_AND_WAIT = """
import signal, sys
from tools.kafka import KafkaCluster

cluster = KafkaCluster(sys.argv[1]).start()
print(cluster.directory, *cluster.process_ids(), flush=True)
signal.pause()
"""


def test_nothing_is_left_when_the_owner_is_killed_with_sigkill(broker_pool: BrokerPool) -> None:
    broker_pool.require_jars(OLD_VERSION)
    owner = subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, OLD_VERSION], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        directory, *pids = owner.stdout.readline().split()
        processes = [ProcessName.of(int(pid)) for pid in pids]
        assert len(processes) == 2, "a broker and its ZooKeeper"
        os.kill(owner.pid, signal.SIGKILL)
    poll(
        lambda: not any(process is not None and process.is_alive() for process in processes),
        timeout=30,
        failure=lambda: f"still running: {processes}",
    )
    poll(lambda: not Path(directory).exists(), timeout=30, failure=lambda: f"{directory} is still there")


def test_the_command_line_prints_the_listeners_and_stops_on_sigterm(broker_pool: BrokerPool) -> None:
    broker_pool.require_jars(DEFAULT_VERSION)
    command = [sys.executable, "-m", "tools.kafka", "up", "--tls", "--sasl"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as up:
        lines = _lines_until(up, "logs and data")
        up.terminate()
        assert up.wait(60) == 0
    listeners = {line.split()[0]: line.split()[1] for line in lines if f"{HOST}:" in line}
    assert {"PLAINTEXT", "TLS", "MTLS", "SASL_PLAINTEXT", "SASL_SSL"} <= set(listeners)
    host, _, port = listeners["PLAINTEXT"].partition(":")
    assert not probe.accepts((host, int(port)))


def _lines_until(process: subprocess.Popen[str], start: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(start):
            break
    return lines
