"""Sends `journey` on its way with an interpreter, and looks at what it brings back.

`python -m tests.spark.journeys 4.0 4.1` does so for versions of PySpark: it makes an environment for each, in
a temporary directory, and installs this checkout with its extra `spark` as a user would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from kclient.testing.running import RunningBroker
from tests.spark.test_reading import fill

ROOT = Path(__file__).parents[2]
_LONGEST = 260


def travel(
    python: str | Path, kind: str, broker: RunningBroker, directory: Path, path: str
) -> dict[str, Any]:
    """What `journey` found, `classic` or through `connect`; `path` is where its workers look for modules."""
    fill(broker, range(300))
    settings = {"PYSPARK_PYTHON": str(python), "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    script = Path(__file__).with_name("journey.py")
    run = subprocess.run(
        [python, "-W", "ignore", script, kind, broker.bootstrap_servers, directory],
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        env={**os.environ, **settings},
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def look(found: dict[str, Any]) -> None:
    """All that is true of every journey."""
    assert found["read"] == {"0": 100, "1": 10, "2": 100}
    assert found["pruned"] == [["offset"], 3 * sum(range(100))]
    assert found["written"] == 210
    assert found["filtered"] == [100, 300, 300, 30, 300, 100, 300]
    assert "did you mean 'startingOffsets'?" in found["refused"]
    assert found["streamed"] == sorted(f"value {number}" for number in range(300))


def main(versions: list[str]) -> None:
    for version in versions:
        with tempfile.TemporaryDirectory(prefix="kclient-pyspark-") as place, RunningBroker() as broker:
            directory = Path(place)
            venv.create(directory / "venv", with_pip=True)
            python = directory / "venv" / "bin" / "python"
            wanted = [f"{ROOT}[spark]", f"pyspark=={version}.*"]
            subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True, timeout=900)
            found = travel(python, "classic", broker, directory, "")
            look(found)
            print(f"PySpark {found['pyspark']}: batches and streams, read and written")


if __name__ == "__main__":
    main(sys.argv[1:] or ["4.0", "4.1"])
