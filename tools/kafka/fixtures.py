"""The pytest side: real brokers as fixtures, loaded by `tests/conftest.py` as a plugin.

| fixture | scope | gives |
|---|---|---|
| `kafka` | session | one node of the newest version, PLAINTEXT |
| `old_kafka` | session | one node of an old version |
| `matrix_kafka` | session | the same, once for every version of `--kafka-versions` (mark the test `matrix`) |
| `kafka_cluster` | test | a function that starts a `KafkaCluster` of the test's own, from jars |

Brokers of one version are shared by the whole session, so tests make topics with names of their own. Where no
broker can be had the test is skipped and the summary says so once; `KCLIENT_REQUIRE_KAFKA=1` makes it fail.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import pytest

from tools.kafka.cluster import KafkaCluster
from tools.kafka.config import Listener
from tools.kafka.errors import KafkaToolError
from tools.kafka.jars import JarSet
from tools.kafka.provider import Choice, Machine, PlainKafka, Source, choose, look, open_broker
from tools.kafka.versions import DEFAULT_VERSION, OLD_VERSION, KafkaVersion, parse_versions

if TYPE_CHECKING:
    from tools.kafka.security import Security

_REFUSALS = "kclient_kafka_refusals"
_BROKER_FIXTURES = frozenset({"kafka", "old_kafka", "matrix_kafka", "kafka_cluster"})


class StartCluster(Protocol):
    """The type of the `kafka_cluster` fixture; the arguments are those of `KafkaCluster`."""

    def __call__(
        self,
        version: str = DEFAULT_VERSION,
        *,
        nodes: int = 1,
        security: Security | None = None,
        listeners: Sequence[Listener] = (),
        config: Mapping[str, str | None] | None = None,
    ) -> KafkaCluster: ...


class BrokerPool:
    """The brokers of one test session, one per version, and why some tests had to do without."""

    def __init__(
        self,
        look: Callable[[], Machine],
        *,
        required: bool,
        open_broker: Callable[[KafkaVersion, Source], PlainKafka] = open_broker,
    ) -> None:
        self._look = functools.cache(look)  # not before a test asks: it runs programs
        self._required = required
        self._open = open_broker
        self._brokers: dict[str, PlainKafka] = {}
        self.refusals: set[str] = set()

    def broker(self, version: str) -> PlainKafka:
        """The session's broker of a version, started when first asked for; skips or fails without one."""
        if version not in self._brokers:
            choice = choose(KafkaVersion.parse(version), self._look())
            if choice.source is Source.NOWHERE:
                self._refuse(choice.reason)
            self._brokers[version] = self._open(KafkaVersion.parse(version), choice.source)
        return self._brokers[version]

    def require_jars(self, version: str) -> None:
        """Skip (or fail) a test that needs more than a container gives."""
        choice = choose(KafkaVersion.parse(version), self._look())
        if choice.source is not Source.JARS:
            self._refuse(_why_no_cluster(choice))

    def fetch(self, jars: JarSet) -> Path:
        """The directory of other jars that a test needs; skips (or fails) it where they cannot be had."""
        self.require_jars(DEFAULT_VERSION)
        try:
            return jars.fetch()
        except KafkaToolError as error:
            self._refuse(str(error))

    def close(self) -> None:
        while self._brokers:
            self._brokers.popitem()[1].stop()

    def _refuse(self, reason: str) -> NoReturn:
        self.refusals.add(reason)
        if self._required:
            pytest.fail(f"{reason} (KCLIENT_REQUIRE_KAFKA is set)", pytrace=False)
        pytest.skip(reason)


def _why_no_cluster(choice: Choice) -> str:
    if choice.source is Source.CONTAINER:
        return f"a cluster of the test's own needs Java and Maven: {choice.reason}"
    return choice.reason


def summary_line(reasons: Collection[str], outcomes: Sequence[str]) -> str | None:
    """The one loud line about tests that had no Kafka. `outcomes` are what all skipped and failed tests said.

    They are counted by outcome because pytest asks for a session's fixture once and repeats its refusal
    itself.
    """
    if not reasons:
        return None
    count = sum(any(reason in outcome for reason in reasons) for outcome in outcomes)
    return (
        f"NO KAFKA: {count} test(s) that need a real broker did not run. {'; '.join(sorted(reasons))}. "
        "Install Java 17 and Maven, or start Docker."
    )


_pool_key = pytest.StashKey[BrokerPool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kafka-versions",
        default=f"{DEFAULT_VERSION},{OLD_VERSION}",
        help="broker versions for tests marked `matrix`: a list such as 4.3.1,2.8.2 (the default), or `all`",
    )


def pytest_configure(config: pytest.Config) -> None:
    try:
        parse_versions(config.getoption("--kafka-versions"))
    except ValueError as error:
        raise pytest.UsageError(f"--kafka-versions: {error}") from error
    config.stash[_pool_key] = BrokerPool(look, required=os.environ.get("KCLIENT_REQUIRE_KAFKA") == "1")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "matrix_kafka" in metafunc.fixturenames:
        versions = parse_versions(metafunc.config.getoption("--kafka-versions"))
        metafunc.parametrize("matrix_kafka", versions, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _BROKER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of pytest-xdist hands its refusals to the one that sums up."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_REFUSALS] = sorted(session.config.stash[_pool_key].refusals)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended; one that crashed hands over nothing."""
    refusals = getattr(node, "workeroutput", {}).get(_REFUSALS, ())
    node.config.stash[_pool_key].refusals.update(refusals)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    reports = [report for kind in ("skipped", "error", "failed") for report in stats.get(kind, ())]
    line = summary_line(config.stash[_pool_key].refusals, [str(report.longrepr) for report in reports])
    if line is not None:
        terminalreporter.write_line(line, red=True, bold=True)


@pytest.fixture(scope="session")
def broker_pool(pytestconfig: pytest.Config) -> Iterator[BrokerPool]:
    pool = pytestconfig.stash[_pool_key]
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def kafka(broker_pool: BrokerPool) -> PlainKafka:
    return broker_pool.broker(DEFAULT_VERSION)


@pytest.fixture(scope="session")
def old_kafka(broker_pool: BrokerPool) -> PlainKafka:
    return broker_pool.broker(OLD_VERSION)


@pytest.fixture(scope="session")
def matrix_kafka(broker_pool: BrokerPool, request: pytest.FixtureRequest) -> PlainKafka:
    return broker_pool.broker(request.param)


@pytest.fixture
def kafka_cluster(broker_pool: BrokerPool) -> Iterator[StartCluster]:
    started: list[KafkaCluster] = []

    def start(
        version: str = DEFAULT_VERSION,
        *,
        nodes: int = 1,
        security: Security | None = None,
        listeners: Sequence[Listener] = (),
        config: Mapping[str, str | None] | None = None,
    ) -> KafkaCluster:
        broker_pool.require_jars(version)
        cluster = KafkaCluster(version, nodes=nodes, security=security, listeners=listeners, config=config)
        started.append(cluster.start())
        return cluster

    yield start
    for cluster in started:
        cluster.stop()
