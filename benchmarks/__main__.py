"""`make bench`: every benchmark in one run, ratios to the peers, and where kclient is behind."""

from __future__ import annotations

import platform
from importlib.metadata import version

from benchmarks import broker, codec, imports, requests

PEERS = ("kclient-kafka", "aiokafka", "kafka-python", "confluent-kafka", "numpy", "pyarrow")


def main() -> None:
    print(f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in PEERS))
    codec_rows = codec.run()
    print("\nRecord codec: nanoseconds per record, and how many times as fast as each peer")
    print(codec.table(codec_rows))
    request_rows = requests.run()
    print("\nSmall requests over one connection to one broker, medians of alternating rounds")
    print(requests.table(request_rows))
    broker_result = broker.run()
    print("\nThe embedded broker: confluent-kafka writes and reads records of 1 KB, medians of rounds")
    print(broker.table(broker_result))
    import_rows = imports.run()
    print("\nImport time beyond a bare interpreter")
    print(imports.table(import_rows))
    behind = (
        codec.behind(codec_rows)
        + requests.behind(request_rows)
        + broker.behind(broker_result)
        + imports.behind(import_rows)
    )
    print("\nBehind what was promised:" if behind else "\nBehind what was promised: nowhere")
    print(*behind, sep="\n")


if __name__ == "__main__":
    main()
