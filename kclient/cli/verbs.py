"""The verbs of a noun, as argparse's subcommands: each with its work, its examples and the shared options."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kclient.cli.options import add_connection, add_debug

if TYPE_CHECKING:
    from kclient.cli.connection import Connection

Work: TypeAlias = Callable[[argparse.Namespace, "Connection"], Awaitable[int]]


class Verbs:
    """Adds verbs to the parser of a noun; every one of them has examples."""

    def __init__(self, parser: argparse.ArgumentParser, examples: Mapping[str, str]) -> None:
        self._examples = examples
        self._verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
        parser.epilog = epilog("\n".join(text.partition("\n")[0] for text in examples.values()))
        add_connection(parser)

    def add(self, name: str, summary: str, work: Work) -> argparse.ArgumentParser:
        verb = self._verbs.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=epilog(self._examples[name]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_connection(verb)
        add_debug(verb)
        verb.set_defaults(work=work)
        return verb


def epilog(examples: str) -> str:
    return "examples:\n" + "\n".join(f"  {line}" for line in examples.splitlines())


def asks(action: argparse.Action, what: str) -> argparse.Action:
    """Mark an argument for completion: its values are the `topics` or `groups` of the cluster."""
    action.completes = what  # type: ignore[attr-defined]
    return action
