"""The pipelines of examples/spark run as a reader would run them, and say what they promise to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.spark import backfill, orders, positions
from examples.spark.support import Stage
from kclient.testing import RunningBroker
from tests.support.marked import VARIABLE, marked

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark's own

ROOT = Path(__file__).parents[2]
_LONGEST = 280

ORDERS = """\
1000 orders more: 6 results
1001 orders more: 18 results
Parquet has each hour once: True
it is what Python finds: True
Kafka has as many: True
plot: revenue.png
"""
POSITIONS = """\
the busiest partition has 89% of the positions, no task more than 11%
20 vehicles, truck-0 has 80% of the reports
none is lost: True
"""
BACKFILL = """\
first time: hours 2 to 4, all of their orders and no others: True
second time: hours 2 to 4, all of their orders and no others: True
"""


@pytest.mark.timeout(_LONGEST + 20)
@pytest.mark.parametrize("where", ["--cluster", "--connect"])
def test_orders_run_in_a_process_of_their_own_and_leave_nothing_behind(where: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "examples.spark.orders", where, "--output", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        cwd=ROOT,
        env={**os.environ, VARIABLE: str(tmp_path)},
        check=False,
    )
    assert run.stdout == ORDERS, run.stderr[-3000:]
    assert (tmp_path / "revenue.png").stat().st_size > 1_000
    assert marked(str(tmp_path)) == {}


@pytest.mark.parametrize(
    "pipeline", [(positions, POSITIONS), (backfill, BACKFILL)], ids=["positions", "backfill"]
)
def test_a_pipeline_says_what_it_promises(
    pipeline: tuple[Any, str],
    spark: Any,
    broker: RunningBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module, said = pipeline
    module.main(Stage(spark, broker.bootstrap_servers, tmp_path))
    assert capsys.readouterr().out == said


def test_the_plot_is_left_out_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert orders.draw([], tmp_path / "x.png") == "not drawn, as matplotlib is not installed"
