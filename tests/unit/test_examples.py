"""Every example runs as a reader would run it, in a process of its own, and says what it promises to.

Its first sentence says what it does, and `examples/README.md` repeats it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from kclient import Admin
from kclient.testing import RunningBroker

ROOT = Path(__file__).parents[2]
UVLOOP = find_spec("uvloop") is not None  # there is none for Windows
EXAMPLES = ROOT / "examples"
# `demo` has its own target; `cluster` is what the others start.
NOT_HERE = {"__init__", "cluster", "demo"}
# Files of tests, and how many there are in each.
TESTS = {"test_invoicing": 9}

SAID = {
    "producer_three_ways": """\
wait: orders-3 at offset 1
callback: delivered, orders
later: 100 of 100 delivered
""",
    "producer_threads": """\
8000 records of 8 threads delivered to partitions [0, 1, 2, 3, 4, 5]
they shared batches: yes
""",
    "custom_partitioner": """\
by country: {0: 30, 1: 30, 2: 30}
express: [0]
others avoid 0: True
""",
    "hot_keys": """\
hash of the key: 1 partition, shared: True
own partition: {0}, shared: False
salted: 4 partitions, no order between them
compound key, by till: 6 partitions, in order for each till
""",
    "back_pressure": """\
send_nowait: 63 taken, 437 refused
send: 500 taken, never more than the buffer: True
max_block_ms: buffer_memory=65536 bytes stayed full for 1 s (max_block_ms): records are sent faster than \
they are delivered
""",
    "fastapi_service": f"""\
on {"uvloop" if UVLOOP else "asyncio"}
20 of 20 orders were taken
all of them were read
stopped: 20 written, 20 read
""",
    "web_service": """\
20 x HTTP/1.1 201 Created
20 x HTTP/1.1 202 Accepted
1 x HTTP/1.1 400 Bad Request
stopped: 40 records delivered, 0 failed
""",
    "send_tables": """\
send_many: 10000 rows, the last one in partition 5
send_arrow: partitions [3, 4]
send_pandas: ['2026-01-01T12:00:00', '2026-01-01T12:00:00']
""",
    "at_most_once": """\
power cut after 3 records
twice: 0
never: order 3, order 4
""",
    "at_least_once": """\
power cut after 3 records
twice: order 0, order 1, order 2
never: 0
""",
    "exactly_once_sqlite": """\
power cut in the middle of a transaction
100 results, 100 different ones
""",
    "rebalance_listener": """\
first gets [0, 1, 2, 3]
first gives up [2, 3]
second gets [2, 3]
second gives up [2, 3]
first gets [2, 3]
first gives up [0, 1, 2, 3]
100 records were written, 100 were read
""",
    "subscribe_pattern": """\
10 records of orders-eu
10 records of orders-us
subscribed to ['orders-eu', 'orders-us']
""",
    "seek_by_time": """\
partition 0: 45 to 50
partition 1: 45 to 50
10 records, the first are ['order 90', 'order 91']
found: 45 and None
""",
    "pause_resume": """\
all of the fast partition is done, the slow one goes on: True
the slow one was paused: True
fewer than 75 records waited: True
""",
    "consumer_per_thread": """\
600 records in 3 threads: [200, 200, 200]
""",
    "event_sourcing": """\
now: {'order-1': 'shipped', 'order-2': 'cancelled', 'order-3': 'paid'}
before 10:00: {'order-1': 'paid', 'order-2': 'placed'}
before 11:15: {'order-1': 'shipped', 'order-2': 'cancelled', 'order-3': 'placed'}
paid, in cents: {'cup': 1400, 'teapot': 2500}
""",
    "gps_positions": """\
producer: never more than 65536 bytes on their way: True
consumer: a lane was paused: True, none grew: True
all taxis were drawn while tram-1 was not: True
tram-1 has {0}, taxis have {1, 2, 3, 4, 5}
2400 positions, each vehicle's in order: True
""",
    "search_index": """\
200 messages, some read twice: True
40 documents, 40 different ones
bank AND timed: ['payment 0 timed out at the bank', 'payment 30 timed out at the bank', \
'payment 60 timed out at the bank']
disk NOT node: []
"node 95": ['disk of node 95 is full']
""",
    "outbox": """\
no order, no message: CHECK constraint failed: cents > 0
power cut: 5 messages are sent and not ticked off
25 messages in the topic
20 parcels for 20 orders
""",
    "invoicing": """\
invoices: {"order": 1, "cents": 1000, "vat": 159}
invoices: {"order": 2, "cents": 119, "vat": 19}
rejected-orders: three apples
""",
    "worker_pool": """\
199 records done, committed: 42
200 records done, committed: 200
""",
}


def run(name: str, *arguments: str, **environment: str) -> str:
    """What an example prints; warnings, such as those of clients that were not closed, fail it."""
    return _run("-W", "error", "-m", f"examples.{name}", *arguments, **environment)


def _run(*arguments: str, **environment: str) -> str:
    inherited = {key: value for key, value in os.environ.items() if key != "KCLIENT_BOOTSTRAP"}
    outcome = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=inherited | environment,
        timeout=120,
        check=False,
    )
    assert (outcome.returncode, outcome.stderr) == (0, ""), outcome.stdout + outcome.stderr
    return outcome.stdout


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} - NOT_HERE == SAID.keys() | TESTS.keys()


def first_sentence(path: Path) -> str:
    if path.suffix == ".ipynb":
        first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
        text = first.partition("\n")[2].strip()
    else:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=\.)\s", text.replace("\n", " "))[0]


def test_the_page_names_every_example_and_repeats_what_it_says_of_itself() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(.*?)\]\((.*?)\) \| (.*?) \|$", page, re.MULTILINE)
    files = [path for path in EXAMPLES.iterdir() if path.suffix in {".py", ".ipynb"}]
    expected = {(path.name, path.name, first_sentence(path)) for path in files if path.stem not in NOT_HERE}
    assert {row for row in rows if (EXAMPLES / row[1]).is_file()} == expected
    directories = {path.parent.name for path in EXAMPLES.glob("*/*.py")} - NOT_HERE
    assert {link for _, link, _ in rows if not (EXAMPLES / link).is_file()} == directories


@pytest.mark.parametrize("name", TESTS)
def test_the_tests_of_an_example_pass(name: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "--no-header"]
    said = _run("-m", "pytest", *options, f"examples/{name}.py")
    assert re.search(rf"^{TESTS[name]} passed in ", said, re.MULTILINE)


@pytest.mark.parametrize("name", SAID)
def test_an_example_says_what_it_shows(name: str) -> None:
    assert run(name) == SAID[name]


@pytest.mark.parametrize("way", ["argument", "environment"])
def test_an_example_runs_on_the_cluster_that_is_named(way: str, kafka_broker: RunningBroker) -> None:
    address = kafka_broker.bootstrap_servers
    if way == "argument":
        said = run("producer_three_ways", address)
    else:
        said = run("producer_three_ways", KCLIENT_BOOTSTRAP=address)
    assert said == SAID["producer_three_ways"]
    with Admin(bootstrap_servers=address) as admin:
        assert "orders" in admin.list_topics()


def test_the_fastapi_service_runs_under_uvicorn_s_own_command_and_ends_in_order(
    kafka_broker: RunningBroker,
) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "uvicorn",
        "--factory",
        "examples.fastapi_service:service",
    ]
    environment = os.environ | {"KCLIENT_BOOTSTRAP": kafka_broker.bootstrap_servers}
    with subprocess.Popen(
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    ) as server:
        assert server.stderr is not None
        try:
            address = next(found for line in server.stderr if (found := re.search(r"http://[\d.:]+", line)))
            answer = httpx.post(f"{address[0]}/orders/cup", content=b"two", timeout=60)
            assert (answer.status_code, answer.json()["offset"]) == (201, 0)
            server.terminate()
            said, complaints = server.communicate(timeout=60)
        finally:
            server.kill()
    assert re.search(r"^stopped: 1 written, [01] read$", said, re.MULTILINE), complaints
    assert "Finished server process" in complaints
    assert "Traceback" not in complaints
