"""`make bench-all`: every benchmark in one run, ratios to the peers, and where kclient is behind."""

from __future__ import annotations

import platform
from importlib.metadata import version

from benchmarks import (
    broker,
    codec,
    consume,
    consume_memory,
    consume_start,
    imports,
    produce,
    produce_latency,
    produce_memory,
    requests,
    takeover,
)

PEERS = ("kclient-kafka", "aiokafka", "kafka-python", "confluent-kafka", "numpy", "pyarrow")


def main() -> None:
    print(f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in PEERS))
    codec_rows = codec.run()
    print("\nRecord codec: nanoseconds per record, and how many times as fast as each peer")
    print(codec.table(codec_rows))
    request_rows = requests.run()
    print("\nSmall requests over one connection to one broker, medians of alternating rounds")
    print(requests.table(request_rows))
    produce_rows = produce.run()
    print("\nProducing to one broker: records per second, and ratios to confluent-kafka")
    print(produce.table(produce_rows))
    latency_rows = produce_latency.run()
    print("\nOne record at a time: from the send to its acknowledgement, medians of alternating rounds")
    print(produce_latency.table(latency_rows))
    memory_result = produce_memory.run()
    print("\nA producer in front of a slow broker: the most resident memory within each million records")
    print(produce_memory.table(memory_result))
    broker_result = broker.run()
    print("\nThe embedded broker: confluent-kafka writes and reads records of 1 KB, medians of rounds")
    print(broker.table(broker_result))
    consume_rows = consume.run()
    print("\nReading six partitions of one broker, records per second, medians of alternating rounds")
    print(consume.table(consume_rows))
    takeover_rows = takeover.run()
    print("\nFrom a killed member to full assignment of the others, seconds, medians of rounds")
    print(takeover.table(takeover_rows))
    start_result = consume_start.run()
    print("\nFrom a consumer's construction to its first record, each in a new process")
    print(consume_start.table(start_result))
    backlog_results = consume_memory.run()
    print("\nA consumer in front of a backlog of 5 GB: resident memory")
    print(consume_memory.table(backlog_results))
    import_rows = imports.run()
    print("\nImport time beyond a bare interpreter")
    print(imports.table(import_rows))
    behind = (
        codec.behind(codec_rows)
        + requests.behind(request_rows)
        + produce.behind(produce_rows)
        + produce_latency.behind(latency_rows)
        + produce_memory.behind(memory_result)
        + broker.behind(broker_result)
        + consume.behind(consume_rows)
        + takeover.behind(takeover_rows)
        + consume_start.behind(start_result)
        + consume_memory.behind(backlog_results)
        + imports.behind(import_rows)
    )
    print("\nBehind what was promised:" if behind else "\nBehind what was promised: nowhere")
    print(*behind, sep="\n")


if __name__ == "__main__":
    main()
