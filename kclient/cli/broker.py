"""`kclient broker`: an embedded broker in the foreground, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from kclient.cli.connection import name_and_value
from kclient.cli.errors import CommandError
from kclient.cli.options import add_debug
from kclient.cli.verbs import epilog

if TYPE_CHECKING:
    from kclient.broker import Broker

NOTICE = "This broker is for development and tests, not for production."
_EXAMPLES = """\
kclient broker                             # on localhost:9092, records in memory; Ctrl-C ends
kclient broker --port 0 --data ./data      # any free port, records on disk
kclient broker --nodes 3 --config num.partitions=6"""
FSYNC = {
    "always": {"log.flush.interval.messages": "1"},
    "interval": {"log.flush.interval.ms": "1000"},
    "never": {},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog(_EXAMPLES)
    add_debug(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=9092, help="port of the first node (default: 9092)")
    parser.add_argument("--nodes", type=int, default=1, help="nodes, on consecutive ports (default: 1)")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where to keep records; without it they are in memory. A directory serves one broker at a time; "
        "one that a Kafka broker wrote is refused and left as it is",
    )
    parser.add_argument(
        "--fsync",
        choices=list(FSYNC),
        default="never",
        help="when records are forced to the disk: always (before they are acknowledged), interval (within a "
        "second) or never (the operating system decides: a killed broker loses nothing, a power cut may take "
        "the last seconds); default: %(default)s, as Kafka",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker setting under Kafka's name, such as num.partitions=6; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    from kclient.broker import Broker

    broker = Broker(
        nodes=options.nodes,
        host=options.host,
        port=options.port,
        data=options.data,
        config=FSYNC[options.fsync] | dict(name_and_value(text, "--config") for text in options.config),
    )
    asyncio.run(_serve(broker))
    return 0


async def _serve(broker: Broker) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    try:
        await broker.start()
    except OSError as error:
        raise CommandError(
            f"cannot listen: {error.strerror or error}. Choose another --port (0 picks a free one)"
        ) from error
    try:
        print(f"Listening on {broker.bootstrap_servers}, records are {broker.where}. {NOTICE}", flush=True)
        await ended.wait()
    finally:
        await broker.stop()
