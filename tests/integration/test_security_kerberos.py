"""GSSAPI against a real broker and a real KDC. Runs where a KDC is installed and is skipped elsewhere.

Clients run in processes of their own: the Kerberos library reads its environment once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.secured import prepare
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import BrokerPool
from tools.kafka.kerberos import Kdc, why_unavailable
from tools.kafka.leftovers import ProcessName
from tools.kafka.security import Security
from tools.kafka.versions import DEFAULT_VERSION
from tools.kafka.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
MISSING = why_unavailable()

pytestmark = [pytest.mark.kafka, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]

# Prints the class of what it raised and its text, or the users that the broker may take it for.
CLIENT = """
import asyncio, json, sys
from kclient.admin import AsyncAdmin
from kclient.errors import KafkaError

async def main() -> None:
    async with AsyncAdmin(**json.loads(sys.argv[1])) as admin:
        outcomes = await admin.describe_topics(["for-alice", "for-bob", "for-client"], raise_errors=False)
        print(json.dumps(["", " ".join(outcomes.succeeded)]))

try:
    asyncio.run(main())
except KafkaError as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


@pytest.fixture(scope="module")
def kerberized(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster(security=Security("KRB", "SASL_PLAINTEXT", acls=True)) as cluster:
        prepare(cluster)
        yield cluster


@pytest.fixture
def kdc(kerberized: KafkaCluster) -> Kdc:
    assert kerberized.security is not None
    return kerberized.security.kdc


def attempt(kafka: KafkaCluster, environment: dict[str, str], **more: object) -> tuple[str, str]:
    """The class of the error and its text, or nothing and the topics that the client may see."""
    options = {
        "bootstrap_servers": f"localhost:{kafka.node(1).port('KRB')}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        **more,
    }
    command = [sys.executable, "-W", "error", "-c", CLIENT, json.dumps(options)]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    kind, text = json.loads(ran.stdout)
    return kind, text


def test_a_keytab_or_a_ticket_from_kinit_lets_in(kerberized: KafkaCluster, kdc: Kdc) -> None:
    assert attempt(kerberized, kdc.client_environment(keytab=kdc.user_keytab)) == ("", "for-alice")
    assert attempt(kerberized, kdc.client_environment(tickets=kdc.user_tickets)) == ("", "for-alice")


def test_without_a_ticket_the_error_says_how_to_get_one(kerberized: KafkaCluster, kdc: Kdc) -> None:
    kind, text = attempt(kerberized, kdc.client_environment())
    assert kind == "AuthenticationError"
    assert "no ticket for kafka/localhost (run kinit, or name a keytab" in text
    assert "No Kerberos credentials available" in text


def test_a_principal_that_the_kdc_does_not_know_is_refused(kerberized: KafkaCluster, kdc: Kdc) -> None:
    kind, text = attempt(kerberized, kdc.client_environment(keytab=kdc.stranger_keytab))
    assert kind == "AuthenticationError"
    assert "Client 'mallory@TEST.LOCAL' not found in Kerberos database" in text


def test_a_broker_is_asked_for_by_its_host_unless_told_otherwise(kerberized: KafkaCluster, kdc: Kdc) -> None:
    by_address = {"bootstrap_servers": kerberized.bootstrap("KRB")}
    environment = kdc.client_environment(keytab=kdc.user_keytab)
    kind, text = attempt(kerberized, environment, **by_address)
    assert kind == "AuthenticationError"
    assert "Server kafka/127.0.0.1@TEST.LOCAL not found" in text
    assert "sasl_kerberos_domain_name" in text
    named = attempt(kerberized, environment, **by_address, sasl_kerberos_domain_name="localhost")
    assert named == ("", "for-alice")


def test_a_kdc_that_cannot_be_reached_is_worth_another_try(kerberized: KafkaCluster, kdc: Kdc) -> None:
    environment = kdc.client_environment(keytab=kdc.user_keytab, config=kdc.unreachable())
    kind, text = attempt(kerberized, environment, default_api_timeout_ms=500)
    assert kind == "KafkaTimeoutError"
    assert "Cannot contact any KDC for realm 'TEST.LOCAL'" in text


def test_nothing_is_left_of_a_kdc_that_was_closed() -> None:
    with Workspace() as workspace:
        kdc = Kdc(workspace.directory / "kerberos", workspace)
        process = ProcessName.of(kdc.pid)
        assert process is not None
        assert process.is_alive()
        kdc.close()
        assert not process.is_alive()
    assert not workspace.directory.exists()
