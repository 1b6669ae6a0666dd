"""Where in the grammar of the command words lead: for completion, and to put them into argparse's order.

argparse has handed out all positional words when an option stands between two of them, and takes what begins
with a dash for an option. People write `produce TOPIC -K : FILE` and `--from -1h`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from enum import Enum, auto

_DISTANCE = re.compile(r"-\d[\w.]*")
_NUMBER = re.compile(r"\d+(\.\d*)?")


class Role(Enum):
    """What a word is."""

    OPTION = auto()
    VALUE = auto()
    COMMAND = auto()
    POSITIONAL = auto()


class Place:
    """Where the words so far have led: which parser, and what the next word will be."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._enter(parser)

    def _enter(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser
        self.options: dict[str, argparse.Action] = {
            name: action for action in parser._actions for name in action.option_strings
        }
        self.positionals: list[argparse.Action] = [
            action for action in parser._actions if not action.option_strings
        ]
        self.awaited: argparse.Action | None = None

    def step(self, word: str) -> Role:
        """Go on by a word, and say what it is."""
        if self.awaited is not None:
            self.awaited = None
            return Role.VALUE
        if word.startswith("-") and word != "-":
            action = self.options.get(word)
            if action is not None and action.nargs is None:
                self.awaited = action
            return Role.OPTION
        action = self.positionals[0] if self.positionals else None
        if isinstance(action, argparse._SubParsersAction):
            if word in action.choices:
                self._enter(action.choices[word])
            return Role.COMMAND
        if action is not None and action.nargs not in ("*", "+"):
            self.positionals.pop(0)
        return Role.POSITIONAL


def in_order(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """The same words, positional ones at the end, and values that begin with a dash tied to their option."""
    place = Place(parser)
    ordered: list[str] = []
    positional: list[str] = []
    for number, word in enumerate(words):
        if word == "--":
            return [*ordered, "--", *positional, *words[number + 1 :]]
        behind = ordered[-1:] == [*words[number - 1 : number]]
        optional = behind and _optional(place, ordered) and _NUMBER.fullmatch(word)
        role = place.step(word)
        distance = role is Role.VALUE and _DISTANCE.fullmatch(word)
        if distance or (optional and role is Role.POSITIONAL):
            ordered[-1] += f"={word}" if ordered[-1].startswith("--") else word
        elif role is Role.POSITIONAL:
            positional.append(word)
        else:
            ordered.append(word)
    return [*(_complete(place, word) for word in ordered), *positional]


def _optional(place: Place, ordered: list[str]) -> bool:
    """Whether the last word is an option that may have a value, but need not."""
    return bool(ordered) and getattr(place.options.get(ordered[-1]), "nargs", None) == "?"


def _complete(place: Place, word: str) -> str:
    """`--watch` as `--watch=2`, lest argparse takes the word behind it for the value."""
    action = place.options.get(word)
    if action is None or action.nargs != "?":
        return word
    return f"{action.option_strings[-1]}={action.const:g}"
