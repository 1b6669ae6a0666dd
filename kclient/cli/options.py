"""The options that commands share, in argparse's words; what they mean is for `connection` and `output`."""

from __future__ import annotations

import argparse
from pathlib import Path

TIMEOUT = 30.0
_PROPERTY = "property_"


def add_connection(parser: argparse.ArgumentParser) -> None:
    """The options of every command that talks to a cluster; they may stand before the command too."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-b",
        "--bootstrap-servers",
        metavar="HOST:PORT",
        default=argparse.SUPPRESS,
        help="brokers to ask first, with commas (default: KCLIENT_BOOTSTRAP_SERVERS or localhost:9092)",
    )
    group.add_argument(
        "-c",
        "--command-config",
        metavar="FILE",
        type=Path,
        default=argparse.SUPPRESS,
        help="a .properties file as Kafka's tools take it: security.protocol, sasl.jaas.config … "
        "(default: KCLIENT_COMMAND_CONFIG)",
    )
    group.add_argument(
        "-X",
        "--property",
        metavar="NAME=VALUE",
        action="append",
        # A parser of a verb begins with nothing, and would put its own in the place of the ones before it.
        dest=f"{_PROPERTY}{parser.prog}",
        default=argparse.SUPPRESS,
        help="one property under Kafka's name, such as -X client.id=me; may be repeated; no passwords",
    )
    group.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        default=argparse.SUPPRESS,
        help=f"how long a call may take, with all its retries (default: {TIMEOUT:g})",
    )


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="log what is done, and show the traceback of a failure",
    )


def every_property(options: argparse.Namespace) -> list[str]:
    """What was given with -X, before the command and after it."""
    names = sorted(name for name in vars(options) if name.startswith(_PROPERTY))
    return [text for name in names for text in getattr(options, name)]


def positive(text: str) -> int:
    """A number above 0, as an argument says it."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)
