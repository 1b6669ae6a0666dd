"""The broker of the demo, embedded or real, in a process of its own; it ends when its standard input does."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack

from kclient.testing import RunningBroker


def main(kind: str) -> None:
    with ExitStack() as stack:
        if kind == "real":
            from tools.kafka.cluster import KafkaCluster  # noqa: PLC0415 - only of a checkout, and needs Java

            servers = stack.enter_context(KafkaCluster()).bootstrap()
        else:
            servers = stack.enter_context(RunningBroker()).bootstrap_servers
        print(json.dumps({"bootstrap_servers": servers}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
