"""`kclient NOUN …`: finds the module of the noun, hands over, and says in one sentence what went wrong.

A noun's module has `add_arguments(parser)` and `run(options) -> int`. It is imported only when it is used,
and imports its client only when it runs, so that help and completion answer at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import NoReturn

from kclient import __version__
from kclient.cli.errors import INTERRUPTED, TERMINATED, USAGE, Terminated, exit_code, sentence
from kclient.cli.grammar import in_order
from kclient.cli.habits import our_command, our_words
from kclient.cli.options import add_connection, add_debug
from kclient.cli.output import fail, is_terminal
from kclient.cli.parser import Parser
from kclient.errors import KafkaError

NOUNS = {
    "broker": "run an embedded broker, for development",
    "topics": "list, describe, create, alter and delete topics",
    "produce": "write records: from the keyboard, a pipe or files",
    "consume": "read records: as text, by a format or as JSON",
    "groups": "list, describe, reset and delete consumer groups",
    "lag": "how far consumer groups are behind, once or live",
    "configs": "describe and change settings of topics, brokers and groups",
    "completion": "completion for bash, zsh and fish",
}
_WITH_VERBS = ("topics", "groups", "configs")
_EPILOG = """\
first steps, without any Kafka installed:
  kclient broker                                  # in one terminal; Ctrl-C ends it
  kclient topics create orders -p 3               # in another
  echo '17:three apples' | kclient produce orders -K :
  kclient consume orders -f '%k bought %s\\n' -e

`kclient COMMAND --help` has examples. What you know from Kafka's scripts and kcat is understood:
  kclient topics --create --topic orders          kclient -C -t orders -o beginning -c 10
Exit codes: 0 done, 1 failed, 2 called wrongly, 130 ended by Ctrl-C, 143 by SIGTERM.
"""
CLOSED_PIPE = 0


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed()
    try:
        return _run(given)
    except SystemExit as ended:  # argparse: --help, or a mistake that it has explained
        return ended.code if isinstance(ended.code, int) else 1


def _run(given: list[str]) -> int:
    if not given or (len(given) == 1 and given[0] in _WITH_VERBS):  # somebody who asks what there is
        with redirect_stdout(sys.stderr), suppress(SystemExit):
            parser_for(given).parse_args([*given, "--help"])
        return USAGE
    debug = False
    try:
        words = our_command(given)
        parser = parser_for(words)
        options = parser.parse_args(in_order(parser, our_words(parser, words)))
        debug = getattr(options, "debug", False)
        from kclient.cli.logs import logging_to_stderr

        module = importlib.import_module(f"kclient.cli.{options.noun}")
        with logging_to_stderr(debug), _orderly_termination():
            code: int = module.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (`| head`). What is buffered has nowhere to go, at exit neither.
        _forget_stdout()
        return CLOSED_PIPE
    except KeyboardInterrupt as ended:
        if isinstance(ended, Terminated):
            return TERMINATED
        if is_terminal(sys.stderr):  # which has shown ^C: the shell's prompt shall not stand behind it
            print(file=sys.stderr)
        return INTERRUPTED
    except (KafkaError, OSError, ValueError) as error:
        if debug:
            raise
        fail(sentence(error))
        return exit_code(error)
    return code


@contextmanager
def _orderly_termination() -> Iterator[None]:
    """Have SIGTERM (`timeout 10 kclient …`) end a command as Ctrl-C does: records written, groups left."""

    def end(*_: object) -> NoReturn:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread, which alone hears signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def parser_for(given: Sequence[str]) -> argparse.ArgumentParser:
    """The parser, with the options of those nouns that are among the words."""
    parser = Parser(
        prog="kclient",
        description="A Kafka client in pure Python.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kclient {__version__}")
    add_connection(parser)
    add_debug(parser)
    nouns = parser.add_subparsers(dest="noun", required=True, metavar="COMMAND", title="commands")
    for noun, summary in NOUNS.items():
        sub = nouns.add_parser(
            noun,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if noun in given:
            importlib.import_module(f"kclient.cli.{noun}").add_arguments(sub)
    return parser


def _open_what_is_closed() -> None:
    """A command may be started with `>&-` or `<&-`: it then writes to and reads from nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _forget_stdout() -> None:
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file: a test has put something in its place
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


if __name__ == "__main__":
    sys.exit(main())
