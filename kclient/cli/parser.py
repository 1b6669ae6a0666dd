"""argparse's parser with our manners: a mistake is one sentence that names what is nearest, no usage text."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from kclient.cli.errors import UsageError, close_to

# Other tools have them in front of the noun.
_VERBS = ("list", "describe", "create", "alter", "delete")


class Parser(argparse.ArgumentParser):
    """Raises `UsageError` for what cannot be understood; its subparsers do too."""

    def error(self, message: str) -> NoReturn:
        help_has = "" if message.endswith("?") else f"; `{self.prog} --help` has examples"
        raise UsageError(message + help_has)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(each) for each in action.choices]
        close = close_to(str(value), choices)
        if not isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(action, f"{value!r} is not one of {', '.join(choices)}{close}")
        if value in _VERBS and not close:
            close = f"; what it is about comes first: kclient topics {value}"
        known = f"; it has {', '.join(choices)}"
        raise UsageError(f"{self.prog} has no command {value!r}{close or known}")
