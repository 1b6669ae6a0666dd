"""Thousands of real SIGINTs at random moments of blocking calls, against a real broker, in child processes.

What counts: no call hangs, a record whose `send` returned is written once, no record is skipped or given
twice, what is committed is what was given, no memory is lost, and a second `close` leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kclient import Consumer, Producer, TopicPartition
from tests.support.interrupted import LONGEST
from tools.kafka.provider import PlainKafka

ROOT = Path(__file__).parents[2]
INTERRUPTS = 700
# Between two signals, in seconds at most. Where each of them costs a fetch, or a client, more would let
# nothing else happen.
OFTEN, FOR_FETCHES, FOR_CLIENTS = 0.003, 0.012, 0.02
RECORDS = 60_000


@pytest.fixture(scope="module")
def servers(kafka: PlainKafka) -> str:
    return kafka.bootstrap()


def interrupted(
    story: str, servers: str, topic: str, *, most: float = OFTEN, wanted: int = INTERRUPTS
) -> dict[str, Any]:
    """Run a story of `tests.support.interrupted`, and interrupt it until it is content."""
    random, over = Random(story), threading.Event()
    command = [sys.executable, "-m", "tests.support.interrupted", story, servers, topic, str(wanted)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"

        def interrupt() -> None:
            while child.poll() is None and not over.wait(random.uniform(0, most)):
                os.kill(child.pid, signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        watchdog = threading.Timer(3 * LONGEST, child.kill)
        watchdog.start()
        try:
            said = child.stdout.readline()
        finally:
            over.set()
            interrupting.join()
            child.wait()  # until the watchdog ends it
            watchdog.cancel()
    assert said, f"{story} hung, or ended with {child.returncode}"
    found: dict[str, Any] = json.loads(said)
    assert found["interrupts"] > wanted // 4  # a slow machine has fewer chances in its time
    return found


def values_of(servers: str, topic: str) -> Counter[bytes]:
    with Consumer[bytes | None, bytes | None](
        bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    ) as consumer:
        here = TopicPartition(topic, 0)
        consumer.assign([here])
        end = consumer.end_offsets([here])[here]
        found: Counter[bytes] = Counter()
        while consumer.position(here) < end:
            for records in consumer.poll(timeout_ms=5_000).values():
                found.update(record.value for record in records if record.value is not None)
        return found


@pytest.mark.parametrize(
    "kind", ["plain", "headers", "lingering", "many", "plain on 3.14", "headers on 3.14", "many on 3.14"]
)
def test_a_record_whose_send_returned_is_written_once_and_no_memory_is_lost(servers: str, kind: str) -> None:
    topic = f"interrupted-{kind}".replace(" ", "-")
    found = interrupted(f"sending-{kind}", servers, topic)
    written = values_of(servers, topic)
    assert len(found["kept"]) > INTERRUPTS
    assert [mine for mine in found["kept"] if written[b"%d" % mine] != 1] == []
    assert max(written.values()) == 1  # also those whose `send` was interrupted
    assert found["unsettled"] == found["memory"] == 0


@pytest.mark.parametrize("kind", ["hooks", "hooks on 3.14"])
def test_hooks_are_told_the_truth_of_a_record_and_once(servers: str, kind: str) -> None:
    topic = f"interrupted-{kind}".replace(" ", "-")
    found = interrupted(f"sending-{kind}", servers, topic)
    told, written = found["told of"], values_of(servers, topic)
    assert max(Counter(told["written"] + told["refused"]).values()) == 1
    assert {b"%d" % mine for mine in told["written"]} == set(written)
    assert set(told["written"]) >= set(found["kept"])
    assert max(written.values()) == 1
    assert found["unsettled"] == found["memory"] == 0


@pytest.fixture(scope="module")
def filled(servers: str) -> str:
    """A topic of many small batches."""
    with Producer(bootstrap_servers=servers, batch_size=3_000) as producer:
        for start in range(0, RECORDS, 1_000):
            producer.send_many("filled", [b"%d" % number for number in range(start, start + 1_000)])
    return "filled"


@pytest.mark.parametrize("kind", ["polling", "iterating", "group polling", "group iterating"])
def test_no_record_is_skipped_or_given_twice_and_what_was_given_is_committed(
    servers: str, filled: str, kind: str
) -> None:
    found = interrupted(f"reading-{kind}", servers, filled, most=FOR_FETCHES)
    records = found["records"]
    assert len(records) > 1_000
    assert records == list(range(len(records)))
    assert found["position"] == found["committed"] == len(records)


@pytest.mark.parametrize("kind", ["producers", "consumers"])
def test_a_client_that_is_closed_once_more_leaves_nothing_behind(
    servers: str, filled: str, kind: str
) -> None:
    found = interrupted(f"closing-{kind}", servers, filled, most=FOR_CLIENTS, wanted=INTERRUPTS // 4)
    assert found["made"] > INTERRUPTS // 16
    assert found["threads"] == []
    assert found["files"] < 20
