"""`make demo` with fewer orders: it counts that nothing is lost, draws the run, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo import report
from examples.demo.orders import HOT_CUSTOMERS, HOT_SHARE, make_orders

ROOT = Path(__file__).parents[2]
PATIENCE = 280


def start(scratch: Path, *arguments: str) -> subprocess.Popen[str]:
    """The demo in a process of its own, everything it writes below a directory."""
    return subprocess.Popen(
        [sys.executable, "-m", "examples.demo", "--picture", str(scratch / "demo.png"), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch)},
    )


def named_in_processes(text: str) -> list[int]:
    """Processes whose command line has a text, which is a directory that only one test has."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.timeout(PATIENCE + 15)
def test_the_demo_loses_nothing_and_draws_what_happened(tmp_path: Path) -> None:
    with start(tmp_path, "--orders", "4000", "--seconds", "8") as demo:
        said, _ = demo.communicate(timeout=PATIENCE)
    assert "nothing was lost, and every cent is there" in said, said
    assert "bert was killed" in said
    assert demo.returncode == 0
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_leaves_neither_processes_nor_files(tmp_path: Path) -> None:
    with start(tmp_path) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "  produced " in line and not line.endswith("Spark 0\n"):
                break  # everything runs, and Spark has files of its own
        assert len(named_in_processes(str(tmp_path))) > 3
        demo.send_signal(signal.SIGINT)
        said, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "nothing is left behind" in said
    assert named_in_processes(str(tmp_path)) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_order_that_never_arrived_or_came_twice_in_files_is_found_out() -> None:
    verdict = report.Verdict(2, 2, 0, 0, 2, 0, 0, revenue_sent=100, revenue_added=100)
    assert verdict.holds
    assert verdict._replace(consumed_again=5).holds
    for wrong in ({"never_consumed": 1}, {"never_stored": 1}, {"stored_again": 1}, {"revenue_added": 99}):
        assert not verdict._replace(**wrong).holds


def test_a_few_customers_order_most_of_the_time() -> None:
    orders = list(make_orders(10_000))
    hot = [order for order in orders if int(order.customer.partition("-")[2]) < HOT_CUSTOMERS]
    assert abs(len(hot) / len(orders) - HOT_SHARE) < 0.02
    assert list(make_orders(10_000)) == orders
