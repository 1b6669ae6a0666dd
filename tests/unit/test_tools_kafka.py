"""The parts of `tools.kafka` that need no broker: versions, configuration, fetching, sources of brokers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kclient.config import ClientConfig
from tools.kafka import commands, probe
from tools.kafka.cli import kclient_options
from tools.kafka.config import Layout, Listener, port_names, render, server_properties
from tools.kafka.container import KafkaContainer
from tools.kafka.errors import BrokerError, FetchError, MissingSoftwareError, tail
from tools.kafka.fixtures import BrokerPool, summary_line
from tools.kafka.jars import JarSet
from tools.kafka.jvm import require_java
from tools.kafka.leftovers import DIRECTORY_PREFIX, ProcessName, RunningRecord, sweep
from tools.kafka.probe import Metadata
from tools.kafka.provider import Machine, PlainKafka, Source, choose
from tools.kafka.versions import SUPPORTED_VERSIONS, KafkaVersion, parse_versions
from tools.kafka.waiting import poll

ROOT = Path(__file__).resolve().parents[2]
NEW, OLD = KafkaVersion.parse("4.3.1"), KafkaVersion.parse("2.8.2")
NO_DOCKER: Callable[[], bool] = lambda: False  # noqa: E731 - a fact, next to its opposite
DOCKER: Callable[[], bool] = lambda: True  # noqa: E731


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "cache"
    monkeypatch.setenv("KCLIENT_KAFKA_CACHE", str(directory))
    return directory


# Versions


def test_versions_are_listed_by_name_or_all_at_once() -> None:
    assert parse_versions("all") == SUPPORTED_VERSIONS
    assert parse_versions("4.3.1, 2.8.2") == ("4.3.1", "2.8.2")


@pytest.mark.parametrize(
    ("text", "words"), [("", "write `all`"), ("4.3", "is not a Kafka version"), ("0.11.0", "oldest")]
)
def test_a_version_that_cannot_be_started_is_refused_with_what_can(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_versions(text)


# Configuration


def layout(version: KafkaVersion, listeners: list[Listener], nodes: int = 1) -> Layout:
    names = port_names(version, listeners)
    ports = [{name: 1000 * node + i for i, name in enumerate(names)} for node in range(1, nodes + 1)]
    zookeeper = 2181 if version.uses_zookeeper else None
    return Layout(version, Path("dir"), listeners, ports, zookeeper, {"num.io.threads": "7"})


def test_kraft_nodes_vote_for_each_other_and_replicate_three_times() -> None:
    properties = server_properties(layout(NEW, [Listener("PLAINTEXT")], nodes=3), 2)
    assert properties["node.id"] == "2"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:1001,2@127.0.0.1:2001,3@127.0.0.1:3001"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:2000,CONTROLLER://127.0.0.1:2001"
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:2000"
    assert properties["transaction.state.log.min.isr"] == "2"
    assert properties["share.coordinator.state.topic.replication.factor"] == "3"


def test_zookeeper_brokers_know_nothing_of_kraft() -> None:
    properties = server_properties(layout(OLD, [Listener("PLAINTEXT")]), 1)
    assert properties["zookeeper.connect"] == "127.0.0.1:2181"
    assert not [key for key in properties if key.startswith(("controller.", "process.", "share."))]


def test_a_listener_has_its_own_properties_and_may_advertise_another_port() -> None:
    proxied = Listener("PROXIED", "SSL", {"ssl.client.auth": "none"}, advertised_ports=[9, 8])
    properties = server_properties(layout(NEW, [Listener("PLAINTEXT"), proxied], nodes=2), 2)
    assert properties["listener.name.proxied.ssl.client.auth"] == "none"
    assert properties["listeners"].split(",")[1] == "PROXIED://127.0.0.1:2001"
    assert properties["advertised.listeners"].split(",")[1] == "PROXIED://127.0.0.1:8"
    assert "PROXIED:SSL" in properties["listener.security.protocol.map"]


def test_the_callers_configuration_wins_and_survives_the_file_format() -> None:
    assert server_properties(layout(NEW, [Listener("PLAINTEXT")]), 1)["num.io.threads"] == "7"
    assert render({"a.b": "back\\slash"}) == "a.b=back\\\\slash\n"


# Tools


def jar_with(path: Path, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"")


def test_a_tool_is_found_in_whichever_package_the_jars_have_it(tmp_path: Path) -> None:
    jar_with(
        tmp_path / "kafka_2.13-2.8.2.jar",
        "kafka/tools/ConsoleConsumer.class",
        "kafka/admin/TopicCommand.class",
    )
    jar_with(tmp_path / "kafka-tools-2.8.2.jar", "org/apache/kafka/tools/consumer/ConsoleConsumer.class")
    assert commands.resolve("console-consumer", tmp_path) == "org.apache.kafka.tools.consumer.ConsoleConsumer"
    assert commands.resolve("topics", tmp_path) == "kafka.admin.TopicCommand"
    assert commands.resolve("my.own.Main", tmp_path) == "my.own.Main"
    with pytest.raises(ValueError, match=r"no Kafka tool is called 'tropics'; there are .*topics"):
        commands.resolve("tropics", tmp_path)


def test_tools_get_the_address_in_the_words_of_their_version() -> None:
    oldest = KafkaVersion.parse("2.4.1")
    assert commands.with_bootstrap("topics", ["--list"], "a:1", NEW) == [
        "--bootstrap-server",
        "a:1",
        "--list",
    ]
    for renamed in ("console-producer", "verifiable-producer", "verifiable-consumer"):
        assert commands.with_bootstrap(renamed, [], "a:1", oldest) == ["--broker-list", "a:1"]
    assert commands.with_bootstrap("topics", ["--bootstrap-server", "b:2"], "a:1", NEW)[1] == "b:2"
    assert commands.with_bootstrap("dump-log", ["--files", "x"], "a:1", NEW) == ["--files", "x"]
    assert commands.with_bootstrap("my.own.Main", ["x"], "a:1", NEW) == ["x"]


# Fetching


FAKE_MAVEN = """#!{python}
import pathlib, sys, zipfile
out = next(pathlib.Path(a.partition("=")[2]) for a in sys.argv if a.startswith("-DoutputDirectory="))
out.mkdir()
def jar(name):
    with zipfile.ZipFile(out / name, "w") as archive:
        archive.writestr("x", b"x")
jar("kafka_2.13-4.3.1.jar")
{rest}
"""


def install_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str) -> None:
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir(exist_ok=True)
    program.write_text(FAKE_MAVEN.format(python=sys.executable, rest=rest))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("print('no network'); sys.exit(1)", "(?s)exit code 1.*no network"),
        ("", "missing: .'kafka-tools-4.3.1.jar'"),
        ("(out / 'kafka-tools-4.3.1.jar').write_bytes(b'half')", "broken: .'kafka-tools-4.3.1.jar'"),
    ],
)
def test_a_broken_download_is_never_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str, words: str
) -> None:
    install_maven(tmp_path, monkeypatch, rest)
    said: list[str] = []
    with pytest.raises(FetchError, match=words):
        JarSet.broker("4.3.1").fetch(said.append)
    assert said == ["fetching Kafka 4.3.1 …"]
    assert not JarSet.broker("4.3.1").is_cached()
    assert [path.name for path in cache.iterdir()] == [".lock"]


def test_jars_are_fetched_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_maven(tmp_path, monkeypatch, "jar('kafka-tools-4.3.1.jar')")
    jars = JarSet.broker("4.3.1")
    assert jars.jar("kafka-tools") == cache.resolve() / "4.3.1" / "kafka-tools-4.3.1.jar"
    monkeypatch.setenv("PATH", "")
    assert jars.fetch() == cache.resolve() / "4.3.1"
    with pytest.raises(FileNotFoundError, match=r"no jar kafka-streams-4\.3\.1\.jar; it has kafka-tools"):
        jars.jar("kafka-streams")


def test_two_processes_that_want_the_same_jars_fetch_them_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = tmp_path / "tally"
    slow = "jar('kafka-tools-4.3.1.jar'); import time; time.sleep(0.5); "  # long enough for both to be there
    install_maven(tmp_path, monkeypatch, slow + f"pathlib.Path({str(tally)!r}).open('a').write('x')")
    code = "from tools.kafka.jars import JarSet; JarSet.broker('4.3.1').fetch()"
    both = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL) for _ in "ab"]
    assert [process.wait(60) for process in both] == [0, 0]
    assert tally.read_text() == "x"
    assert (cache / "4.3.1").is_dir()


def test_missing_software_is_named_with_what_it_is_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        MissingSoftwareError, match=r"Java 17 or newer is needed to run Kafka 4\.3\.1: `java` was not"
    ):
        require_java(NEW.minimum_java, f"run Kafka {NEW}")
    with pytest.raises(MissingSoftwareError, match=r"(?s)`mvn` was not found.*KCLIENT_KAFKA_CACHE"):
        JarSet.broker("4.3.1").fetch(lambda _: None)
    assert not (cache / "4.3.1").exists()


# Where a broker comes from


@pytest.mark.parametrize(
    ("version", "machine", "source", "reason"),
    [
        (NEW, Machine(java=17, maven=True, docker=NO_DOCKER), Source.JARS, "Java 17 runs Kafka 4.3.1"),
        (NEW, Machine(java=17, maven=True, docker=DOCKER), Source.JARS, "Java 17"),
        (NEW, Machine(java=17, maven=False, cached=frozenset({"4.3.1"})), Source.JARS, "Java 17"),
        (
            NEW,
            Machine(java=17, maven=False, cached=frozenset({"2.8.2"})),
            Source.NOWHERE,
            "`mvn` was not found",
        ),
        (NEW, Machine(java=11, maven=True, docker=NO_DOCKER), Source.NOWHERE, "Java 17 or newer is needed"),
        (OLD, Machine(java=11, maven=True, docker=NO_DOCKER), Source.JARS, "Java 11 runs Kafka 2.8.2"),
        (NEW, Machine(java=None, maven=True, docker=DOCKER), Source.CONTAINER, "`java` was not found"),
        (NEW, Machine(java=17, maven=False, docker=DOCKER), Source.CONTAINER, "`mvn` was not found"),
        (OLD, Machine(java=None, maven=False, docker=DOCKER), Source.NOWHERE, "no container image"),
        (NEW, Machine(java=None, maven=False, docker=NO_DOCKER), Source.NOWHERE, "no Docker engine answers"),
    ],
)
def test_the_source_of_a_broker_follows_from_what_is_installed(
    version: KafkaVersion, machine: Machine, source: Source, reason: str
) -> None:
    choice = choose(version, machine)
    assert choice.source is source
    assert reason in choice.reason


class FakeBroker:
    def __init__(self, version: KafkaVersion) -> None:
        self.version = version
        self.stopped = False

    def bootstrap(self) -> str:
        return "fake:1"

    def create_topic(self, name: str, partitions: int = 1) -> None:
        raise AssertionError(f"nobody asked for {name} with {partitions}")

    def stop(self) -> None:
        self.stopped = True


def test_a_session_starts_one_broker_per_version_and_stops_it() -> None:
    opened: list[tuple[FakeBroker, Source]] = []

    def open_fake(version: KafkaVersion, source: Source) -> PlainKafka:
        opened.append((FakeBroker(version), source))
        return opened[-1][0]

    machine = Machine(java=None, maven=False, docker=DOCKER)
    pool = BrokerPool(lambda: machine, required=False, open_broker=open_fake)
    assert pool.broker("4.3.1") is pool.broker("4.3.1")
    assert [source for _, source in opened] == [Source.CONTAINER]
    with pytest.raises(pytest.skip.Exception, match="needs Java and Maven"):
        pool.require_jars("4.3.1")
    pool.close()
    assert opened[0][0].stopped


@pytest.mark.parametrize(
    ("required", "outcome"), [(False, pytest.skip.Exception), (True, pytest.fail.Exception)]
)
def test_without_any_source_a_test_is_skipped_or_fails_when_kafka_is_required(
    required: bool, outcome: type[BaseException]
) -> None:
    pool = BrokerPool(lambda: Machine(java=None, maven=False), required=required)
    with pytest.raises(outcome, match="`java` was not found"):
        pool.broker("4.3.1")
    assert len(pool.refusals) == 1


def test_the_summary_has_one_line_that_counts_the_tests_without_kafka() -> None:
    assert summary_line([], ["some other skip"]) is None
    line = summary_line(["no java"], ["Skipped: no java", "some other skip", "Skipped: no java"])
    assert line is not None
    assert line.startswith("NO KAFKA: 2 test(s)")
    assert "\n" not in line


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["one process", "two processes"])
@pytest.mark.parametrize(("required", "words"), [("0", "2 skipped"), ("1", "2 errors")])
def test_a_machine_without_java_maven_and_docker_says_so_once(
    tmp_path: Path, required: str, words: str, processes: list[str]
) -> None:
    (tmp_path / "test_two.py").write_text("def test_a(kafka): pass\ndef test_b(kafka): pass\n")
    environment = {
        "PATH": "",
        "DOCKER_HOST": "tcp://127.0.0.1:1",
        "KCLIENT_KAFKA_CACHE": str(tmp_path),
        "KCLIENT_REQUIRE_KAFKA": required,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "pytest", "-p", "tools.kafka.fixtures", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, *processes, "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert words in ran.stdout
    assert ran.stdout.count("NO KAFKA: 2 test(s)") == 1
    assert ran.returncode == int(required)


# The container


class FakeDocker:
    def host(self) -> str:
        return "docker.example"


class FakeContainer:
    """The part of testcontainers' DockerContainer that is used."""

    def __init__(self, image: str) -> None:
        self.image = image
        self.env: dict[str, str] = {}
        self.ports: dict[int, int] = {}
        self.events: list[str] = []

    def with_env(self, key: str, value: str) -> None:
        self.env[key] = value

    def with_bind_ports(self, inside: int, outside: int) -> None:
        self.ports[inside] = outside

    def get_docker_client(self) -> FakeDocker:
        return FakeDocker()

    def start(self) -> None:
        self.events.append("start")

    def stop(self) -> None:
        self.events.append("stop")


def container_of(version: KafkaVersion, timeout: float = 5) -> tuple[KafkaContainer, FakeContainer]:
    made: list[FakeContainer] = []

    def new(image: str) -> FakeContainer:
        made.append(FakeContainer(image))
        return made[0]

    return KafkaContainer(version, new, timeout), made[0]


def test_a_container_advertises_the_port_it_is_reached_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "metadata", lambda _: Metadata("id", frozenset({1}), 1, {}))
    broker, fake = container_of(NEW)
    broker.start()
    assert fake.image == "apache/kafka:4.3.1"
    assert broker.bootstrap() == f"docker.example:{fake.ports[9092]}"
    assert fake.env["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{broker.bootstrap()}"
    assert fake.env["KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"] == "1"
    broker.stop()
    assert fake.events == ["start", "stop"]


def test_a_container_that_never_answers_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "metadata", lambda _: None)
    broker, fake = container_of(NEW, timeout=0)
    with pytest.raises(BrokerError, match=r"does not answer at docker\.example"):
        broker.start()
    assert fake.events == ["start", "stop"]


def test_testcontainers_still_has_what_the_fake_stands_for() -> None:
    real = pytest.importorskip("testcontainers.core.container").DockerContainer
    used = [name for name in vars(FakeContainer) if not name.startswith("_")]
    assert [name for name in used if not callable(getattr(real, name, None))] == []


# Leftovers


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([shutil.which("sleep") or "sleep", "600"], start_new_session=True)


def test_the_processes_of_a_dead_owner_are_ended_and_those_of_a_living_one_are_not(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, orphan = sleeper(), sleeper()
    try:
        kept, lost = tmp_path / f"{DIRECTORY_PREFIX}kept", tmp_path / f"{DIRECTORY_PREFIX}lost"
        kept.mkdir()
        lost.mkdir()
        RunningRecord(kept).add(ours.pid)
        me = ProcessName.of(os.getpid())
        assert me is not None
        monkeypatch.setattr(ProcessName, "of", lambda pid: ProcessName(pid, "long ago"))
        record = RunningRecord(lost)
        monkeypatch.undo()
        monkeypatch.setenv("KCLIENT_KAFKA_CACHE", str(cache))
        record.add(orphan.pid)
        assert sweep() == [orphan.pid]
        assert orphan.wait(30) != 0
        assert ours.poll() is None
        assert kept.exists()
        assert not lost.exists()
        assert sweep() == []
    finally:
        for process in (ours, orphan):
            process.kill()
            process.wait()


def test_a_sweep_survives_a_damaged_record_and_spares_a_reused_process_id(
    cache: Path, tmp_path: Path
) -> None:
    other = sleeper()
    try:
        records = cache / "running"
        records.mkdir(parents=True)
        (records / "damaged.json").write_text("{")
        directory = tmp_path / "not ours"
        directory.mkdir()
        reused = {"pid": other.pid, "started": "before"}
        content = {"owner": reused, "directory": str(directory), "processes": [reused]}
        (records / "reused.json").write_text(json.dumps(content))
        assert sweep() == []
        assert other.poll() is None
        assert directory.exists(), "only directories with our prefix are removed"
        assert list(records.iterdir()) == []
    finally:
        other.kill()
        other.wait()


# Small things


def test_the_end_of_a_log_keeps_the_first_complaint(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    lines = ["starting", "main ERROR no such class", *(f"shutting down {number}" for number in range(50))]
    log.write_text("\n".join(lines))
    shown = tail(log)
    assert "no such class" in shown
    assert "shutting down 49" in shown
    assert "shutting down 20" not in shown
    assert "no output" in tail(tmp_path / "missing.log")


@pytest.mark.parametrize(
    ("properties", "option", "value"),
    [
        ({"security.protocol": "SSL", "ssl.ca.location": "ca.pem"}, "ssl_cafile", "ca.pem"),
        ({"ssl.certificate.location": "me.pem", "ssl.key.location": "me.key"}, "ssl_keyfile", "me.key"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "alice"}, "sasl_plain_username", "alice"),
        (
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "alice",
                "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
            },
            "sasl_oauthbearer_allow_http",
            True,
        ),
    ],
)
def test_the_options_that_are_printed_are_those_of_our_clients(
    properties: dict[str, str], option: str, value: object
) -> None:
    assert getattr(ClientConfig.from_options(kclient_options(properties)), option) == value


def test_waiting_ends_with_the_callers_words() -> None:
    with pytest.raises(TimeoutError, match=r"nothing came \(waited 0 s\)"):
        poll(lambda: None, timeout=0, failure=lambda: "nothing came")
    assert poll(lambda: 0, timeout=0, failure=lambda: "") == 0
