"""Spark Connect reads, streams and writes through kclient, which it finds by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kclient.testing.running import RunningBroker
from tests.spark.journeys import ROOT, look, travel


@pytest.mark.timeout(280)
def test_connect_reads_streams_and_writes(broker: RunningBroker, tmp_path: Path) -> None:
    found = travel(sys.executable, "connect", broker, tmp_path, str(ROOT))

    look(found)
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["batches"] == 3, "maxOffsetsPerTrigger has to split the stream"
