"""Every block on every page that uses Spark runs, on the session of these tests.

A block gets it from `SparkSession.builder.getOrCreate()`, so it must not stop it, and its streams have to end
by themselves. Paths in blocks begin with `/data/`, which is a directory of the test here.
"""

from __future__ import annotations

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
