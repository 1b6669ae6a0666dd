"""What a newcomer does right after `pip install`; run by `test_wheel` with the Python of a new environment.

Prints what there is and what came back, as JSON. Imports nothing of this repository.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from importlib.metadata import distributions

import kclient
from kclient import Consumer, Producer
from kclient.cli.main import main as command
from kclient.testing import RunningBroker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def main() -> None:
    with RunningBroker() as kafka:
        for codec in CODECS:
            with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type=codec) as producer:
                producer.send("orders", f"compressed with {codec}".encode() * 10, key=codec.encode())
        consumer = Consumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="newcomer",
            auto_offset_reset="earliest",
        )
        with consumer:
            read: dict[str, str] = {}
            while len(read) < len(CODECS):
                record = next(consumer)
                assert record.key is not None
                assert record.value is not None
                read[record.key.decode()] = record.value.decode()
            hint = _without_arrow(consumer)
        with redirect_stdout(io.StringIO()) as listed:
            code = command(["topics", "list", "--bootstrap-servers", kafka.bootstrap_servers])
    found = {
        "packages": sorted(each.metadata["Name"] for each in distributions()),
        "version": kclient.__version__,
        "file": kclient.__file__,
        "read": read,
        "hint": hint,
        "command": [code, listed.getvalue()],
    }
    print(json.dumps(found))


def _without_arrow(consumer: Consumer[bytes | None, bytes | None]) -> str:
    """What someone is told who wants Arrow and has not installed it."""
    try:
        consumer.poll_arrow(timeout_ms=1)
    except ImportError as error:
        return str(error)
    return "no error"


if __name__ == "__main__":
    main()
