"""`kclient broker`: an embedded broker in the foreground, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kclient.cli import broker_control, broker_listeners
from kclient.cli.connection import name_and_value
from kclient.cli.errors import CommandError, Terminated, UsageError
from kclient.cli.options import add_debug
from kclient.cli.output import counted, is_terminal, note
from kclient.cli.progress import Progress
from kclient.cli.verbs import epilog

if TYPE_CHECKING:
    from kclient.broker import Broker
    from kclient.broker.api import RequestContext
    from kclient.wire.message import Request

log: logging.Logger = logging.getLogger(__name__)

NOTICE = "This broker is for development and tests, not for production."
_EXAMPLES = """\
kclient broker                             # on localhost:9092, records in memory; Ctrl-C ends
kclient broker --port 0 --data ./data      # any free port, records on disk
kclient broker --nodes 3 --config num.partitions=6
kclient broker --nodes 3 --control         # then type: stop 2, leader orders 0 3
kclient broker --listener SASL_SSL --cert cert.pem --key key.pem --users users.properties"""
# From so many partitions on, opening them takes long enough to say something.
_MANY = 200
_A_LINE_EACH = 1_000
FSYNC: dict[str, dict[str, str]] = {
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

    parser.add_argument(
        "--control",
        action="store_true",
        help=f"take orders on standard input, a line each: {broker_control.HELP}",
    )
    broker_listeners.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from kclient.broker import Broker

    if options.data is not None and options.data.exists() and not options.data.is_dir():
        raise UsageError(f"--data {options.data} is a file: give a directory; one that is not there is made")
    broker = Broker(
        nodes=options.nodes,
        host=options.host,
        data=options.data,
        config=FSYNC[options.fsync] | dict(name_and_value(text, "--config") for text in options.config),
        listeners=broker_listeners.listeners_of(options),
    )
    if getattr(options, "debug", False):
        broker.faults.hook = _log_request
    with _Signals() as signals:
        asyncio.run(_serve(broker, signals, control=options.control))
    raise signals.ended()


def _log_request(context: RequestContext, request: Request[Any]) -> None:
    log.debug(
        "node %d is asked for %s v%d by %s at %s (%s, %s)",
        context.node.node_id,
        request.api_key.name,
        context.version,
        context.client_id,
        context.client_host,
        context.listener,
        context.principal,
    )


class _Signals:
    """Ctrl-C and SIGTERM: the first ends the broker in order, or its start at once; another ends at once.

    Python's own handlers, as the event loop hears nothing while partitions are opened or closed.
    """

    def __init__(self) -> None:
        self._heard: int | None = None
        self._told: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        self._before = {
            number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def tell(self, told: Callable[[], object]) -> None:
        """From now on a signal ends nothing by itself, but is told."""
        self._told = told

    def ended(self) -> KeyboardInterrupt:
        """What the command ends with, so that its code says which signal it was."""
        return Terminated() if self._heard == signal.SIGTERM else KeyboardInterrupt()

    def _hear(self, number: int, _: object) -> None:
        if self._heard is not None:
            note("Ended without closing: the next start checks the logs.")
            os._exit(128 + number)
        self._heard = number
        if self._told is None:
            raise self.ended()
        self._told()


class _Opening:
    """Says how far a start is that takes a while: a bar on a terminal, elsewhere now and then a line."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._progress: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        if total < _MANY:
            return
        if self._progress is None:
            self._progress = Progress("opening partitions", total)
            if not is_terminal(sys.stderr):
                note(f"Opening {counted(total, 'partition')} {self._where} …")
        elif not is_terminal(sys.stderr) and not done % _A_LINE_EACH and done < total:
            note(f"Opened {done:,} of {total:,}.")
        self._progress.advance()
        if done == total:
            self._progress.end()


async def _serve(broker: Broker, signals: _Signals, *, control: bool) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        await broker.start(_Opening(broker.where))
    except OSError as error:
        if error.filename is not None:
            raise
        raise CommandError(
            f"cannot listen: {error.strerror or error}. Choose another --port (0 picks a free one)"
        ) from error
    try:
        signals.tell(lambda: loop.call_soon_threadsafe(ended.set))
        print(f"Listening on {_addresses(broker)}, records are {broker.where}. {NOTICE}", flush=True)
        obeying = asyncio.create_task(broker_control.control(broker)) if control else None
        await ended.wait()
        if obeying is not None:
            obeying.cancel()
    finally:
        await broker.stop()


def _addresses(broker: Broker) -> str:
    """Of all listeners; the protocol is said where it is not plain."""
    names = list(next(iter(broker.nodes.values())).listeners)
    if names == ["PLAINTEXT"]:
        return broker.bootstrap_servers
    return ", ".join(f"{broker.bootstrap(name)} ({name})" for name in names)
