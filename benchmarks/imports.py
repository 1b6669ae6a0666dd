"""How long `import kclient` takes, against its peers: fresh interpreters taking turns, the median counts."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import NamedTuple

ROUNDS = 11
# What a user imports first: the package, and the client that exists.
IMPORTS = {
    "(nothing)": "pass",
    "asyncio": "import asyncio",
    "kclient": "import kclient",
    "kclient.AsyncAdmin": "from kclient import AsyncAdmin",
    "kclient.AsyncProducer": "from kclient import AsyncProducer",
    "kclient.records": "import kclient.records",
    "aiokafka": "import aiokafka",
    "kafka-python": "import kafka",
    "confluent-kafka": "import confluent_kafka",
}


class Row(NamedTuple):
    """Milliseconds beyond an interpreter that imports nothing."""

    name: str
    milliseconds: float


def _seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def run() -> list[Row]:
    times: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(ROUNDS):
        for name, code in IMPORTS.items():
            times[name].append(_seconds(code))
    bare = statistics.median(times.pop("(nothing)"))
    return [Row(name, 1000 * (statistics.median(seconds) - bare)) for name, seconds in times.items()]


def table(rows: list[Row]) -> str:
    lines = [f"{'import':22}{'ms':>8}"] + [f"{row.name:22}{row.milliseconds:>8.1f}" for row in rows]
    return "\n".join(lines)


def behind(rows: list[Row]) -> list[str]:
    """Where the promise (not above aiokafka) is not kept, in words."""
    times = {row.name: row.milliseconds for row in rows}
    return [
        f"import {name} takes {times[name]:.0f} ms, aiokafka {times['aiokafka']:.0f}"
        for name in ("kclient", "kclient.AsyncAdmin", "kclient.records")
        if times[name] > times["aiokafka"]
    ]


if __name__ == "__main__":
    found = run()
    print(table(found))
    print(*behind(found), sep="\n")
