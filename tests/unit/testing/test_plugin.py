"""The fixtures `kafka_broker` and `kafka_cluster`, in projects as users have them."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kclient import Admin
from kclient.errors import ConfigurationError
from kclient.testing import RunningBroker
from tests.unit.testing.pytest_runs import ROOT, run_pytest

USES_BOTH = """
from kclient import Admin
from kclient.admin import NewTopic

def test_a_broker_of_one_node(kafka_broker):
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        admin.create_topics(NewTopic("orders", num_partitions=2))
        assert list(admin.list_topics()) == ["orders"]

def test_every_test_has_a_fresh_one(kafka_broker):
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        assert list(admin.list_topics()) == []

def test_a_cluster_of_three(kafka_cluster):
    assert len(kafka_cluster.bootstrap_servers.split(",")) == 3
    with Admin(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
        assert len(admin.describe_cluster().brokers) == 3
"""
USES_ASYNCIO = """
import pytest
import pytest_asyncio
from kclient import AsyncConsumer, AsyncProducer

@pytest_asyncio.fixture
async def producer(kafka_broker):
    async with AsyncProducer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
        yield producer

@pytest.mark.asyncio
async def test_an_order_arrives(kafka_broker, producer):
    await producer.send_and_wait("orders", b"three apples")
    options = {"bootstrap_servers": kafka_broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    async with AsyncConsumer("orders", **options) as consumer:
        assert (await consumer.getone()).value == b"three apples"

@pytest.mark.asyncio
async def test_a_producer_goes_on_without_a_node(kafka_cluster):
    kafka_cluster.create_topic("orders", 3, 3)
    async with AsyncProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        kafka_cluster.stop_node(1)
        for partition in range(3):
            await producer.send_and_wait("orders", b"order", partition=partition)
"""
OWN_FIXTURE = """
import pytest

@pytest.fixture
def kafka_cluster():
    return "mine"
"""
USES_OWN = """
def test_it_is_mine(kafka_cluster):
    assert kafka_cluster == "mine"
"""


def broker_threads() -> int:
    return sum(thread.name == "embedded broker" for thread in threading.enumerate())


def test_the_fixtures_give_brokers_that_clients_can_use(tmp_path: Path) -> None:
    outcome = run_pytest(tmp_path, {"test_users.py": USES_BOTH})
    assert "3 passed" in outcome.stdout, outcome.stdout


def test_tests_and_fixtures_of_pytest_asyncio_use_them(tmp_path: Path) -> None:
    outcome = run_pytest(tmp_path, {"test_users.py": USES_ASYNCIO})
    assert "2 passed" in outcome.stdout, outcome.stdout
    outcome = run_pytest(
        tmp_path,
        {"test_users.py": USES_ASYNCIO.replace("@pytest.mark.asyncio\n", "")},
        "-o",
        "asyncio_mode=auto",
    )
    assert "2 passed" in outcome.stdout, outcome.stdout


@pytest.mark.parametrize(
    "files",
    [
        {"conftest.py": OWN_FIXTURE},
        {"conftest.py": "pytest_plugins = ['brokers']", "brokers.py": OWN_FIXTURE},
    ],
    ids=["in conftest", "in a plugin that conftest loads"],
)
def test_a_fixture_of_the_same_name_takes_precedence(tmp_path: Path, files: dict[str, str]) -> None:
    outcome = run_pytest(tmp_path, files | {"test_users.py": USES_OWN})
    assert "1 passed" in outcome.stdout, outcome.stdout


def test_importing_the_plugin_imports_nothing_else() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import kclient.testing.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ran.stdout.split() == ["kclient", "kclient.testing", "kclient.testing.plugin"]


def test_a_running_broker_leaves_no_thread_behind() -> None:
    before = broker_threads()  # of brokers that a whole session shares
    with RunningBroker(nodes=2) as running:
        assert broker_threads() == before + 1
        running.call(running.broker.stop_node(2))
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            assert [node.node_id for node in admin.describe_cluster().brokers] == [1]
    assert broker_threads() == before


def test_a_broker_that_cannot_start_says_so_and_leaves_no_thread_behind() -> None:
    before = broker_threads()
    with pytest.raises(ConfigurationError, match="nodes=0"), RunningBroker(nodes=0):
        pass
    assert broker_threads() == before
