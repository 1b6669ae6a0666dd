"""Every block on every page that uses Spark runs, on the session of these tests.

A block gets it from `SparkSession.builder.getOrCreate()`, so it must not stop it, and its streams have to end
by themselves. Paths in blocks begin with `/data/`, which is a directory of the test here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import Block, blocks, by_name
from tests.docs.programs import cluster_for, execute

SPARK = [block for block in blocks("python") if "pyspark" in block.code and "def test_" not in block.code]


@pytest.mark.filterwarnings("ignore")  # pyspark's own
@by_name(SPARK)
def test_a_program_for_spark_runs(block: Block, spark: Any, tmp_path: Path) -> None:
    with cluster_for(block, tmp_path) as code:
        execute(block, code.replace('"/data/', f'"{tmp_path}/'))
        assert spark.streams.active == []


def test_the_first_block_runs_without_an_activated_environment(tmp_path: Path) -> None:
    """As `.venv/bin/python job.py`: the `python3` of the path is one that knows nothing of kclient."""
    others = tmp_path / "bin"
    others.mkdir()
    (others / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    settings = {
        "PATH": f"{others}:/usr/bin:/bin",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": "--master local[1] --conf spark.ui.enabled=false pyspark-shell",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "PYTHON"))}
    block = next(block for block in SPARK if block.page == "README.md")
    with cluster_for(block, tmp_path) as code:
        (tmp_path / "job.py").write_text(code)
        run = subprocess.run(
            [sys.executable, "job.py"],
            capture_output=True,
            text=True,
            timeout=200,
            cwd=tmp_path,
            env=kept | settings,
            check=False,
        )

    assert run.returncode == 0, run.stderr[-3000:]
    assert "three apples" in run.stdout
