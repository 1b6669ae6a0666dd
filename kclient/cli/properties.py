"""Kafka's `.properties` files, as they are written; what their names mean is for `kclient.properties`.

The format is Java's: `#` and `!` comments, `=`, `:` or a blank between name and value, `\\` escapes and lines
that go on.
"""

from __future__ import annotations

import re
from pathlib import Path

from kclient.cli.errors import UsageError

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_SPLIT = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*(?:[=:][ \t\f]*|[ \t\f]|$)(.*)", re.DOTALL)


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file, as they are written."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no .properties file: byte {error.start} is not UTF-8") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    return parse_properties(text, str(path))


def parse_properties(text: str, source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _SPLIT.fullmatch(line)
        name = _unescape(match[1]) if match else ""
        if match is None or not name:
            raise UsageError(f"{source}, line {number}: there is no name before the value")
        if not match[2] and not line.rstrip().endswith(("=", ":")):
            raise UsageError(f"{source}, line {number}: {name!r} has no value; write name=value")
        found[name] = _unescape(match[2])
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """The lines that say something, with their numbers; one that ends in a backslash goes on in the next."""
    lines: list[tuple[int, str]] = []
    going_on = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip(" \t\f")
        if not going_on and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        content = line[:-1] if goes_on else line
        if going_on:
            lines[-1] = (lines[-1][0], lines[-1][1] + content)
        else:
            lines.append((number, content))
        going_on = goes_on
    return lines


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", plain, text, flags=re.DOTALL)
