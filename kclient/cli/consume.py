"""`kclient consume`: records from topics to stdout. Which ones is for `reading`, their look for `formats`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kclient.cli import formats, output
from kclient.cli.connection import Connection, run_command
from kclient.cli.decoding import KINDS, Decoder
from kclient.cli.errors import UsageError
from kclient.cli.options import add_connection, add_debug, positive
from kclient.cli.verbs import asks, epilog

if TYPE_CHECKING:
    from kclient.cli.formats import BytesRecord

_EXAMPLES = """\
kclient consume orders                                  # all there is, then what comes; Ctrl-C ends
kclient consume orders -e                               # all there is, then exit
kclient consume orders -n 10 --offset -10 -e            # the last ten of each partition, at most ten
kclient consume orders --from -1h --until now           # the last hour
kclient consume orders --from 2026-11-18T10:00 -o jsonl | jq .value
kclient consume orders -f '%t[%p]@%o %k: %s\\n'
kclient consume orders -g billing                       # as a member of a group, which remembers its place
kclient consume events --decode json -X isolation.level=read_committed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{epilog(_EXAMPLES)}\n\n{formats.LETTERS}"
    asks(parser.add_argument("topics", nargs="+", metavar="TOPIC", help="what to read"), "topics")
    _add_what(parser)
    _add_how(parser)
    add_connection(parser)
    add_debug(parser)
    parser.set_defaults(work=_consume)


def _add_what(parser: argparse.ArgumentParser) -> None:
    which = parser.add_argument_group("which records")
    start = which.add_mutually_exclusive_group()
    start.add_argument(
        "--from",
        dest="start",
        metavar="WHEN",
        help="beginning (the default), end, or a time: 2026-11-18T10:00, milliseconds since 1970, -1h",
    )
    start.add_argument(
        "--from-beginning",
        dest="start",
        action="store_const",
        const="beginning",
        help="the same, as Kafka says it",
    )
    start.add_argument(
        "--offset", type=int, metavar="N", help="from this offset on; -N: the last N of each partition"
    )
    stop = which.add_mutually_exclusive_group()
    stop.add_argument("--until", metavar="WHEN", help="end (as it is now), or a time; default: Ctrl-C")
    stop.add_argument(
        "-e", "--exit-at-end", dest="until", action="store_const", const="end", help="the same as --until end"
    )
    which.add_argument("-n", "--count", type=positive, metavar="N", help="stop after so many records")
    which.add_argument(
        "-p", "--partition", type=int, action="append", metavar="N", help="only this one; may be repeated"
    )
    group = which.add_argument(
        "-g",
        "--group",
        metavar="GROUP",
        help="read as a member of this group: from what it has committed, and --from where it has nothing",
    )
    asks(group, "groups")


def _add_how(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how they are shown")
    how.add_argument("-f", "--format", metavar="FORMAT", help=r"letters as below (default: '%%s\n')")
    how.add_argument(
        "-o", "--output", choices=("text", "json", "jsonl"), default="text", help="default: text, by -f"
    )
    how.add_argument("-d", "--decode", choices=KINDS, default="string", help="what values are")
    how.add_argument("--decode-key", choices=KINDS, default="string", help="what keys are")
    how.add_argument(
        "--null", default="", metavar="TEXT", help="what stands for null in text (default: nothing)"
    )


def run(options: argparse.Namespace) -> int:
    return run_command(options)


async def _consume(options: argparse.Namespace, connection: Connection) -> int:
    import asyncio

    from kclient.cli import reading

    if options.format is not None and options.output != "text":
        raise UsageError(f"-f and -o {options.output} contradict each other: give one of them")
    writer = Writer(options)
    wish = reading.Wish.of(options)
    try:
        await reading.read(wish, connection, writer.write)
    except asyncio.CancelledError:  # Ctrl-C: what stands there so far shall be a whole document
        writer.end()
        raise
    writer.end()
    return 0


class Writer:
    """Writes records to stdout, whole batches at a time."""

    def __init__(self, options: argparse.Namespace) -> None:
        terminal = output.is_terminal(sys.stdout)
        decoder = Decoder(options.decode_key, options.decode)
        self._format: formats.TextFormat | formats.JsonFormat
        if options.output == "text":
            text = "%s\\n" if options.format is None else options.format
            self._format = formats.TextFormat(text, decoder, terminal=terminal, null=options.null)
            self._before, self._between, self._after = b"", b"", b""
        elif options.output == "jsonl":
            # A line is ended with its record, not when the next one comes: whoever reads lines waits for it.
            self._format = formats.JsonFormat(decoder, terminal=terminal, end=b"\n")
            self._before, self._between, self._after = b"", b"", b""
        else:
            self._format = formats.JsonFormat(decoder, terminal=terminal)
            self._before, self._between, self._after = b"[\n", b",\n", b"\n]\n"
        self._written = 0

    def write(self, records: Iterable[BytesRecord]) -> None:
        """All of them, and out of our hands: what follows may be a commit."""
        write = sys.stdout.buffer.write
        for record in records:
            write(self._between if self._written else self._before)
            write(self._format.render(record))
            self._written += 1
        sys.stdout.buffer.flush()

    def end(self) -> None:
        if self._written:
            sys.stdout.buffer.write(self._after)
        elif self._before:
            sys.stdout.buffer.write(b"[]\n")
        sys.stdout.buffer.flush()
