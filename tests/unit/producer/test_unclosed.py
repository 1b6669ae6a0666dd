"""Programs that end without closing their producers, each as a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kclient.testing import RunningBroker
from tests.support.producing import values
from tools.kafka.ports import free_ports

BLOCKING = "from kclient import Producer\nproducer = Producer(bootstrap_servers=ADDRESS, linger_ms=60_000)\n"
ENDS = {
    "at the end of the script": "",
    "dropped before": "del producer",
    "sys.exit": "import sys; sys.exit(3)",
    "an exception": "raise ValueError('of the application')",
    "in a function": "def run(): global producer; held = producer; del producer\nrun()",
    "in a circle": "class Holder: pass\nholder = Holder(); holder.me, holder.it = holder, producer",
    "after a fork": "import os, sys\nif os.fork() == 0: sys.exit(0)\nos.wait()",
    "a thread that sends on": (
        "import threading\n"
        "def on():\n"
        "    for _ in range(50): producer.send('t', b'more')\n"
        "threading.Thread(target=on).start()"
    ),
}
ASYNCIO = """
import asyncio
from kclient import AsyncProducer

async def send():
    global producer
    producer = AsyncProducer(bootstrap_servers=ADDRESS)
    for _ in range(3):
        producer.send_nowait("t", b"v")
"""
INTERRUPTED = """
import os, signal
wait = unclosed.LoopThread.ended_within

def ended_within(self, seconds):
    os.kill(os.getpid(), signal.SIGINT)
    return wait(self, seconds)

unclosed.LoopThread.ended_within = ended_within
"""
UNREACHABLE = """
import time
while producer.health().last_error is None:
    time.sleep(0.01)
"""
LOST = "was never closed, and 3 records of it were"


PATIENT, IMPATIENT = 60.0, 0.3


def run(
    program: str, address: str, *options: str, within: float = PATIENT
) -> subprocess.CompletedProcess[str]:
    """Run a program whose exit may take so many seconds because of its producers."""
    patience = f"import kclient.producer.unclosed as unclosed\nunclosed.EXIT_SECONDS = {within}\n"
    program = patience + program.replace("ADDRESS", repr(address))
    return subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )


def sending(count: int, end: str = "") -> str:
    return f"{BLOCKING}for _ in range({count}): producer.send_nowait('t', b'v')\n{end}\n"


@pytest.mark.parametrize("end", ENDS)
def test_what_a_blocking_producer_has_is_delivered(kafka_broker: RunningBroker, end: str) -> None:
    kafka_broker.broker.create_topic("t")
    ended = run(sending(3, ENDS[end]), kafka_broker.bootstrap_servers)
    assert values(kafka_broker.broker)[:3] == [b"v"] * 3
    assert "kclient" not in ended.stderr
    assert ended.returncode == {"sys.exit": 3, "an exception": 1}.get(end, 0)
    if "thread" in end:
        assert values(kafka_broker.broker)[3:] == [b"more"] * 50


@pytest.mark.parametrize("end", ["at the end of the script", "dropped before", "an exception"])
def test_what_a_blocking_producer_cannot_deliver_is_said(end: str) -> None:
    (port,) = free_ports(1)
    program = sending(3, f"{UNREACHABLE}\n{ENDS[end]}").replace(", linger_ms=60_000", "")
    ended = run(program, f"127.0.0.1:{port}", within=IMPATIENT)
    assert ended.stderr.count(LOST) == 1
    assert f"cannot connect to 127.0.0.1:{port}" in ended.stderr
    assert "Traceback" not in ended.stderr or end == "an exception"
    assert ended.returncode == (end == "an exception")


def test_records_that_the_cluster_refuses_are_said(kafka_broker: RunningBroker) -> None:
    kafka_broker.broker.create_topic("t", configs={"max.message.bytes": "100"})
    program = f"{BLOCKING}for _ in range(3): producer.send_nowait('t', bytes(500))"
    ended = run(program, kafka_broker.bootstrap_servers)
    assert f"{LOST} lost: " in ended.stderr
    assert "MESSAGE_TOO_LARGE" in ended.stderr


@pytest.mark.parametrize("end", ["", "producer.flush()", "producer.close()"])
def test_nothing_is_said_where_nothing_is_lost(kafka_broker: RunningBroker, end: str) -> None:
    kafka_broker.broker.create_topic("t")
    ended = run(sending(0 if not end else 3, end), kafka_broker.bootstrap_servers)
    assert (ended.stderr, ended.returncode) == ("", 0)


@pytest.mark.parametrize("count", [0, 3])
def test_a_blocking_producer_that_is_open_at_the_end_warns(kafka_broker: RunningBroker, count: int) -> None:
    kafka_broker.broker.create_topic("t")
    ended = run(sending(count), kafka_broker.bootstrap_servers, "-X", "dev")
    assert ended.stderr.count("ResourceWarning: <Producer kclient open> was never closed") == 1


@pytest.mark.parametrize(
    "end",
    [
        "asyncio.run(send())",
        "async def main():\n    global producer\n    await send()\n    del producer\nasyncio.run(main())",
        "async def main():\n    await send()\n    raise SystemExit\nasyncio.run(main())",
    ],
    ids=["at the end of the script", "dropped before", "sys.exit"],
)
def test_what_an_asyncio_producer_has_is_said_to_be_lost(kafka_broker: RunningBroker, end: str) -> None:
    ended = run(ASYNCIO + end, kafka_broker.bootstrap_servers)
    assert ended.stderr.count(LOST) == 1
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 0


def test_an_asyncio_producer_without_records_is_quiet(kafka_broker: RunningBroker) -> None:
    kafka_broker.broker.create_topic("t")
    main = "async def main():\n    await send()\n    await producer.flush()\nasyncio.run(main())"
    ended = run(ASYNCIO + main, kafka_broker.bootstrap_servers)
    assert (ended.stderr, ended.returncode) == ("", 0)


def test_an_end_that_is_interrupted_says_what_is_lost() -> None:
    (port,) = free_ports(1)
    ended = run(sending(3, INTERRUPTED), f"127.0.0.1:{port}")
    assert LOST in ended.stderr
    assert "Traceback" not in ended.stderr
