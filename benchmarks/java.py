"""Java's own performance tools, and programs of ours, on a running cluster, compiled as in production.

Not through `KafkaCluster.run_tool`, whose JVM starts quickly and stays slow. Rates are records per second:
that of the whole run for the producer, which has no keys, and without the joining of the group for the
consumer.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

from tools.kafka.cluster import KafkaCluster
from tools.kafka.jars import JarSet
from tools.kafka.jvm import require_java

PATIENCE = 300.0
_FETCHED_PER_SECOND = 9  # the column fetch.nMsg.sec of ConsumerPerformance


def produce(kafka: KafkaCluster, topic: str, size: int, number: int) -> float:
    settings = f"bootstrap.servers={kafka.bootstrap()} acks=all enable.idempotence=true linger.ms=5"
    said = run(
        kafka,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(number), "--record-size", str(size), "--throughput", "-1"),
        *("--producer-props", *settings.split()),
    )
    found = re.findall(r"records sent, ([\d.,]+) records/sec", said)
    return float(found[-1].replace(",", ""))


def consume(kafka: KafkaCluster, topic: str, number: int) -> float:
    said = run(
        kafka,
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", kafka.bootstrap(), "--topic", topic, "--timeout", "30000"),
        *("--num-records", str(number), "--hide-header"),
    )
    rows = [line.split(", ") for line in said.splitlines() if line.count(", ") >= _FETCHED_PER_SECOND]
    return float(rows[-1][_FETCHED_PER_SECOND])


def run(kafka: KafkaCluster, tool: str, *arguments: str) -> str:
    """What a main class, or a `.java` file, prints."""
    java = require_java(17, "run Kafka's performance tools")
    jars = JarSet.broker(kafka.version.text)
    command: Sequence[str] = (java.program, "-Xmx1g", "-cp", jars.class_path, tool, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise RuntimeError(f"{tool} failed: {(done.stderr or done.stdout).strip()[-2_000:]}")
    return done.stdout
