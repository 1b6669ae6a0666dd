"""`kclient lag`: how far groups are behind, by topic or partition by partition, once or again and again."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from kclient.cli import output
from kclient.cli.connection import Connection, run_command
from kclient.cli.options import add_connection, add_debug, seconds
from kclient.cli.verbs import asks, epilog

_EXAMPLES = """\
kclient lag                                # all groups
kclient lag billing --partitions
kclient lag --watch                        # live, every 2 seconds; Ctrl-C ends
kclient lag billing --watch 10 -o jsonl    # a line per group and topic, every 10 seconds"""
_INTERVAL = 2.0
_CLEAR = "\x1b[H\x1b[2J"  # the screen, not what was on it before: that is not ours


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog(_EXAMPLES)
    asks(parser.add_argument("groups", nargs="*", metavar="GROUP", help="default: all of them"), "groups")
    parser.add_argument("--partitions", action="store_true", help="a row for each partition")
    parser.add_argument(
        "-w",
        "--watch",
        nargs="?",
        type=seconds,
        const=_INTERVAL,
        metavar="SECONDS",
        help="again and again, every so many seconds (2), with the change per second",
    )
    output.add_output(parser)
    add_connection(parser)
    add_debug(parser)
    parser.set_defaults(work=_lag)


def run(options: argparse.Namespace) -> int:
    return run_command(options)


async def _lag(options: argparse.Namespace, connection: Connection) -> int:
    import asyncio

    async with connection.admin() as admin:
        watch = _Watch(options)
        while True:
            watch.show(await _rows(options, admin, connection.isolation_level))
            if options.watch is None:
                return 0
            sys.stdout.flush()
            await asyncio.sleep(options.watch)


async def _rows(options: argparse.Namespace, admin: Any, isolation_level: Any) -> list[dict[str, Any]]:
    from kclient.cli import group_lag

    names = options.groups or await group_lag.consumer_groups(admin)
    groups = await group_lag.described_groups(admin, names, missing_ok=not options.groups)
    found = await group_lag.offset_rows(admin, groups, isolation_level)
    return found if options.partitions else list(group_lag.by_topic(found))


class _Watch:
    """Shows rows, and from the second time on how fast they change."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._before: dict[tuple[Any, ...], int] = {}
        self._at = 0.0
        self._columns: tuple[str, ...] = ("group", "topic", "partitions", "members", "lag", "largest")
        if options.partitions:
            offsets = ("current_offset", "log_end_offset", "lag")
            self._columns = ("group", "topic", "partition", *offsets, "client_id")

    def show(self, found: list[dict[str, Any]]) -> None:
        options = self._options
        columns = self._columns
        if options.watch is not None:
            self._add_rates(found)
            columns += ("change",)
        if options.output != output.TABLE:
            output.rows(options, columns, found)
            return
        if options.watch is not None:
            groups = output.counted(len({row["group"] for row in found}), "group")
            title = f"{time.strftime('%H:%M:%S')}  lag of {groups}"
            sys.stdout.write(_CLEAR if output.is_terminal(sys.stdout) else "")
            print(f"{title}, every {options.watch:g} s, Ctrl-C ends")
        if found:
            output.table(columns, found)
        else:
            output.note("No group that you may see has committed anything yet.")

    def _add_rates(self, found: list[dict[str, Any]]) -> None:
        now = time.monotonic()
        lags = {}
        for row in found:
            row["time"] = int(time.time() * 1000)
            row["change"] = None
            if row["lag"] is None:
                continue
            key = row["group"], row["topic"], row.get("partition")
            lags[key] = row["lag"]
            if key in self._before:
                row["change"] = round((row["lag"] - self._before[key]) / max(now - self._at, 1e-9), 1)
        self._before, self._at = lags, now
