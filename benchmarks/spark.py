"""`make bench-spark`: Spark with kclient and with its own connector, in one session, as ratios in one run."""

from __future__ import annotations

import platform
from importlib.metadata import version

from benchmarks import spark_memory, spark_read, spark_write
from benchmarks.spark_session import spark_session
from tools.kafka.cluster import KafkaCluster


def main() -> None:
    print(f"Python {platform.python_version()}, pyspark {version('pyspark')}, pyarrow {version('pyarrow')}")
    with KafkaCluster() as kafka, spark_session() as session:
        read_rows = spark_read.run(session, kafka.bootstrap(), kafka.create_topic)
        write_rows = spark_write.run(session, kafka.bootstrap(), kafka.create_topic)
        memory = spark_memory.run(session, kafka.bootstrap(), kafka.create_topic)
    print("\nReading six partitions of one broker: rows per second, medians of alternating rounds")
    print(spark_read.table(read_rows))
    print("\nWriting to six partitions of one broker: rows per second, medians of alternating rounds")
    print(spark_write.table(write_rows))
    print("\nThe most resident memory within each part of a long query")
    print(spark_memory.table(memory))
    behind = spark_read.behind(read_rows) + spark_write.behind(write_rows) + spark_memory.behind(memory)
    print("\nBehind what was promised:" if behind else "\nBehind what was promised: nowhere")
    print(*behind, sep="\n")


if __name__ == "__main__":
    main()
