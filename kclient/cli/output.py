"""What commands print: tables for people, JSON for programs; and what a terminal must be protected from.

Text from a cluster (keys, values, client ids, settings) may hold control characters that a terminal would
obey. On a terminal they are shown as escapes; a pipe or a file gets every byte as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, NamedTuple

TABLE, JSON, JSONL = "table", "json", "jsonl"
# C0 but for tab and newline, DEL, C1, and what turns the direction of writing around.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_IN_A_CELL = re.compile(f"[\t\n]|{_CONTROLS.pattern}")
_NOTHING, _GAP = "-", "  "
_BOLD, _RED, _YELLOW, _OFF = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


def add_output(parser: argparse.ArgumentParser) -> None:
    """`-o`, for commands that print rows."""
    parser.add_argument(
        "-o",
        "--output",
        choices=(TABLE, JSON, JSONL),
        default=TABLE,
        help="table for people (default), json (one document) or jsonl (an object a line) for programs",
    )


def is_terminal(stream: IO[Any]) -> bool:
    return stream.isatty()


def check_reader() -> None:
    """Raise BrokenPipeError if whoever reads our output is gone: while nothing is written, nobody says so."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except (AttributeError, OSError, ValueError):  # a system that has no poll, a stream that is no file
        return
    if any(flags & (select.POLLERR | select.POLLHUP) for _, flags in poll.poll(0)):
        raise BrokenPipeError


def colours(stream: IO[Any]) -> bool:
    """Whether to use colours: on a terminal that can, unless NO_COLOR is set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str, stream: IO[Any]) -> str:
    return f"{_BOLD}{text}{_OFF}" if colours(stream) else text


def neutral(text: str) -> str:
    """The text without what a terminal obeys; lines and tabs stay."""
    return _CONTROLS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def rows(options: argparse.Namespace, columns: Sequence[str], found: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as `-o` says: a column is a key of the rows; a table shows it in capitals with dashes."""
    if options.output == TABLE:
        table(columns, found)
    elif options.output == JSONL:
        for row in found:
            document(row, indent=None)
    else:
        document(list(found))


def document(value: Any, indent: int | None = 2) -> None:
    """Print one JSON document."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    if is_terminal(sys.stdout):
        # Still JSON: what is special to a terminal and left over by JSON can be written in its own escapes.
        text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(text + "\n")


class _Column(NamedTuple):
    """One column of a table: its title and its cells, and how they are aligned."""

    cells: list[str]
    width: int
    right: bool


def table(columns: Sequence[str], found: Iterable[Mapping[str, Any]]) -> None:
    """Print aligned columns: numbers to the right, nothing as `-`; columns with nothing in them are left out.

    On a terminal that is too narrow, a row goes on in further lines, with its columns below their titles.
    """
    rows = list(found)
    laid_out = [_column(name, [row.get(name) for row in rows]) for name in columns]
    shown = [column for column in laid_out if not rows or set(column.cells[1:]) != {_NOTHING}]
    lines = _across(shown or laid_out[:1], _room())
    titles, *body = ["\n".join(each) for each in zip(*lines, strict=True)]
    sys.stdout.write("\n".join([bold(titles, sys.stdout), *body]) + "\n")


def _column(name: str, values: Sequence[Any]) -> _Column:
    numbers = [isinstance(value, (int, float)) for value in values if value is not None]
    cells = [name.upper().replace("_", "-"), *map(cell, values)]
    return _Column(cells, max(map(_width, cells)), bool(numbers) and all(numbers))


def _room() -> int | None:
    """How wide a line may be; None where nobody looks at it."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None


def _across(columns: Sequence[_Column], room: int | None) -> list[list[str]]:
    """The columns side by side: the first line of every row, the second ones, and so on as far as needed."""
    lines: list[list[_Column]] = [[]]
    taken = 0
    for column in columns:
        if lines[-1] and room is not None and taken + len(_GAP) + column.width > room:
            lines.append([])
            taken = 0
        # The lines that a row goes on in are set in by as much as columns are apart.
        taken += column.width + (len(_GAP) if lines[-1] or len(lines) > 1 else 0)
        lines[-1].append(column)
    return [_joined(line, _GAP if number else "") for number, line in enumerate(lines)]


def _joined(columns: Sequence[_Column], indent: str) -> list[str]:
    padded = [[_padded(text, each.width, each.right) for text in each.cells] for each in columns]
    return [indent + _GAP.join(row).rstrip() for row in zip(*padded, strict=True)]


def _padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - _width(text))
    return f"{blanks}{text}" if right else f"{text}{blanks}"


def _width(text: str) -> int:
    """How many columns of a terminal it takes: wide characters are two, and what is put onto them none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def cell(value: Any) -> str:
    """A value in one line of a table."""
    if value is None:
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, (list, tuple)):
        return ",".join(map(cell, value)) or _NOTHING
    return _IN_A_CELL.sub(_escaped, str(value))


def counted(number: int, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "partition"), counted(1200, "record")
    ('1 partition', '1,200 records')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def note(text: str) -> None:
    """Tell people something that is no part of the output."""
    print(neutral(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Tell people something that they should look at."""
    print(f"{_marked('warning:', _YELLOW)} {neutral(text)}", file=sys.stderr, flush=True)


def fail(text: str) -> None:
    """Say why the command failed."""
    print(f"{_marked('kclient:', _RED)} {neutral(text)}", file=sys.stderr, flush=True)


def _marked(text: str, colour: str) -> str:
    return f"{colour}{text}{_OFF}" if colours(sys.stderr) else text
