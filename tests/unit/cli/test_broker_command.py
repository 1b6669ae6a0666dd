"""`kclient broker`: how it ends, what its listeners ask of clients, and what it does when it is told to."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kclient import Admin
from kclient.broker import Broker
from kclient.cli import broker
from kclient.cli.broker_control import HELP, obey
from kclient.cli.broker_listeners import listeners_of
from kclient.cli.errors import Terminated
from kclient.cli.main import parser_for
from kclient.testing import RunningBroker, Simulation, simulate
from tests.unit.cli.calling import call, ok
from tools.kafka.certificates import Certificates

COMMAND = [sys.executable, "-m", "kclient.cli.main", "broker", "--port", "0"]


def parsed(*words: str) -> argparse.Namespace:
    return parser_for(["broker"]).parse_args(["broker", *words])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_in_order_and_its_code_says_which(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with subprocess.Popen(
        [*COMMAND, "--data", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"Listening on 127.0.0.1:")
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (code, b"")
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_second_signal_ends_it_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[None] = []
    monkeypatch.setattr(os, "_exit", sys.exit)
    with broker._Signals() as signals:
        signals.tell(lambda: told.append(None))
        signal.raise_signal(signal.SIGINT)
        assert told == [None]
        with pytest.raises(SystemExit, match="143"):
            signal.raise_signal(signal.SIGTERM)
    assert "the next start checks the logs" in capsys.readouterr().err
    assert type(signals.ended()) is KeyboardInterrupt


def test_a_signal_while_it_starts_ends_the_start() -> None:
    with broker._Signals(), pytest.raises(Terminated):
        signal.raise_signal(signal.SIGTERM)


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    refused = call("broker", "--data", str(file))
    assert refused.code == 2
    assert (
        refused.err == f"kclient: --data {file} is a file: give a directory; one that is not there is made\n"
    )


def test_opening_many_partitions_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int]] = []

    async def main(sim: Simulation) -> None:
        async with Broker(data=tmp_path, clock=sim.clock) as first:
            first.create_topic("orders", 3)
            first.create_topic("customers", 2)
        second = Broker(data=tmp_path, clock=sim.clock)
        await second.start(lambda done, total: told.append((done, total)))
        await second.stop()

    simulate(main)
    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    opening = broker._Opening("in DIR")
    for done in range(1, 6):
        opening(done, 5)
    assert capsys.readouterr().err == ""
    for done in range(1, 3_001):
        opening(done, 3_000)
    said = "Opening 3,000 partitions in DIR …\nOpened 1,000 of 3,000.\nOpened 2,000 of 3,000.\n"
    assert capsys.readouterr().err == said


def test_orders_are_obeyed_and_answered_in_one_line() -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(nodes=3, clock=sim.clock) as cluster:
            partition = cluster.create_topic("orders", 1, 3).partitions[0]
            assert await obey(cluster, "leader orders 0 3") == "node 3 leads orders:0"
            assert partition.leader == 3
            assert await obey(cluster, " stop  3 ") == "node 3 is stopped"
            assert partition.leader == 1
            assert await obey(cluster, "nodes") == "node 1 runs, node 2 runs, node 3 is stopped"
            assert await obey(cluster, "start 3") == "node 3 runs"
            assert await obey(cluster, "coordinator billing 2") == "node 2 coordinates billing"
            assert cluster.coordinator_of("billing") == 2
            assert await obey(cluster, "help") == HELP
            assert await obey(cluster, "") is None
            for line, told in (
                ("stpo 1", "did you mean 'stop'"),
                ("stop", "write: stop NODE"),
                ("stop all", "'all' is no number"),
                ("stop 99", "no node 99"),
                ("leader nosuch 0 1", "topic nosuch"),
                ("leader orders 7 1", "partition 7"),
                ("dance", "write stop NODE"),
            ):
                answer = await obey(cluster, line)
                assert answer is not None
                assert answer.startswith("error: ")
                assert told in answer
                assert "\n" not in answer

    simulate(main)


def test_orders_come_on_standard_input_and_its_end_ends_nothing() -> None:
    with subprocess.Popen(
        [*COMMAND, "--nodes", "2", "--control"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().split()[2].split(",")[0]
        process.stdin.write("stop 2\nnodes")
        process.stdin.close()
        assert process.stdout.readline() == "node 2 is stopped\n"
        assert process.stdout.readline() == "node 1 runs, node 2 is stopped\n"
        with Admin(bootstrap_servers=address) as admin:
            assert [node.node_id for node in admin.describe_cluster().brokers] == [1]
        process.terminate()
        assert process.wait(60) == 143
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_listeners_ask_for_what_their_options_say(tmp_path: Path) -> None:
    pem = Certificates(tmp_path / "pem")
    users = tmp_path / "users"
    users.write_text("alice=hers and more\n")
    words = ["--listener", "plaintext", "--listener", "SASL_SSL:0", "--listener", "SASL_PLAINTEXT"]
    given = parsed("--port", "0", *words, "--cert", str(pem.broker_keystore_pem), "--users", str(users))

    with RunningBroker(listeners=listeners_of(given)) as kafka:
        for name, mechanism in (("SASL_SSL", "SCRAM-SHA-512"), ("SASL_PLAINTEXT", "PLAIN")):
            file = tmp_path / "client.properties"
            tls = f"ssl.ca.location={pem.ca}\n" if name == "SASL_SSL" else ""
            file.write_text(
                f"bootstrap.servers={kafka.broker.bootstrap(name)}\nsecurity.protocol={name}\n{tls}"
                f"sasl.mechanism={mechanism}\nsasl.username=alice\nsasl.password=hers and more\n"
            )
            ok("topics", "list", "-c", str(file))
            file.write_text(file.read_text().replace("hers", "his"))
            assert call("topics", "list", "-c", str(file)).code == 1
        ok("topics", "list", "-b", kafka.bootstrap_servers)


def test_the_first_listener_is_on_the_port_and_names_are_told_apart(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    found = listeners_of(
        parsed(
            "--port",
            "7",
            "--listener",
            "SSL",
            "--listener",
            "SSL:9",
            "--listener",
            "PLAINTEXT",
            "--cert",
            str(cert),
        )
    )
    assert [(each.name, each.port) for each in found] == [("SSL", 7), ("SSL_2", 9), ("PLAINTEXT", 0)]
    (mutual,) = listeners_of(parsed("--listener", "SSL", "--cert", str(cert), "--client-ca", str(cert)))
    assert (mutual.client_auth, mutual.cafile) == ("required", cert)
    assert [(each.name, each.port) for each in listeners_of(parsed())] == [("PLAINTEXT", 9092)]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--listener SSLL", "did you mean 'SSL'"),
        ("--listener SSL", "needs --cert"),
        ("--listener SASL_PLAINTEXT", "needs --users"),
        ("--listener SSL:x --cert c", "'x' is no port"),
        ("--cert c", "--listener SSL"),
        ("--users u", "--listener SASL_PLAINTEXT"),
        ("--mechanism PLAIN", "--listener SASL_PLAINTEXT"),
        ("--listener SSL --cert nosuch --port 0", "there is no file 'nosuch'"),
        ("--listener SASL_PLAINTEXT --users nosuch", "cannot read nosuch"),
        ("--listener SASL_PLAINTEXT --users u --mechanism SCRAM-SHA", "or 'SCRAM-SHA-256'?"),
    ],
)
def test_listeners_that_make_no_sense_are_refused(line: str, told: str) -> None:
    refused = call("broker", *line.split())
    assert (refused.code, refused.out) == (2, b"")
    assert told in refused.err
    assert refused.err.count("\n") == 1
