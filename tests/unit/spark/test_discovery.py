"""PySpark finds kclient by itself: it looks at the names of top-level packages, and imports what fits."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from pyspark.sql.datasource import DataSource

ROOT = Path(__file__).parents[3]


def test_the_package_is_where_pyspark_looks() -> None:
    assert "pyspark_kclient" in {found.name for found in iter_modules([str(ROOT)])}
    source = import_module("pyspark_kclient").DefaultSource
    assert issubclass(source, DataSource)
    assert source.name() == "kclient"
    assert pickle.loads(pickle.dumps(source)) is source


def test_importing_it_starts_nothing() -> None:
    """Spark forks its workers from a process that has imported it: a thread or a socket would not survive."""
    program = (
        "import threading, sys, pyspark_kclient; "
        "print(threading.active_count(), 'kclient.spark.sink' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.stdout.split() == ["1", "False"], run.stderr
