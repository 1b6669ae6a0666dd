"""kcat's command line as ours: `-C -t orders -o beginning -c 10` is `consume orders --from beginning -n 10`.

Only words, no work; called by `habits`. What kclient does not have is refused with what to do instead.
"""

from __future__ import annotations

import getopt
from collections.abc import Callable, Iterable, Sequence

from kclient.cli.errors import UsageError

_MODES = {"-C": "consume", "-P": "produce", "-L": "topics", "-Q": "", "-G": "consume"}
_OPTIONS = "CPLQG:t:p:b:D:K:k:H:c:X:F:d:qvEz:o:ef:JuVhs:r:Zlm:T"
_LONG = ["timeout=", "debug", "help"]
# Letters that take a value in kcat or in our own commands: the word behind is none that counts.
_VALUED = frozenset("GtpbcdoDKkHXFzfsrmngiw")
# The same everywhere; a value follows where there is a word for it.
_COMMON: dict[str, tuple[str, ...]] = {
    "-b": ("-b", "{}"),
    "-X": ("-X", "{}"),
    "-F": ("-c", "{}"),
    "-m": ("--timeout", "{}"),
    "-d": ("--debug",),
    "-v": ("--debug",),
    "-h": ("--help",),
    "--timeout": ("--timeout", "{}"),
    "--debug": ("--debug",),
    "--help": ("--help",),
    **dict.fromkeys(("-q", "-u", "-E"), ()),
}
_CONSUME: dict[str, tuple[str, ...]] = {
    "-t": ("{}",),
    "-p": ("-p", "{}"),
    "-c": ("-n", "{}"),
    "-e": ("-e",),
    "-f": ("-f", "{}"),
    "-J": ("-o", "jsonl"),
    "-Z": ("--null", "NULL"),
    "-G": ("-g", "{}"),
}
_PRODUCE: dict[str, tuple[str, ...]] = {
    "-t": ("{}",),
    "-p": ("-p", "{}"),
    "-k": ("-k", "{}"),
    "-K": ("-K", "{}"),
    "-D": ("-D", "{}"),
    "-H": ("-H", "{}"),
    "-z": ("-z", "{}"),
    "-Z": ("--null", ""),
    "-l": (),
}
_LIST: dict[str, tuple[str, ...]] = {"-t": ("{}",), "-J": ("-o", "json")}
_REFUSED = {
    "-s": "values are decoded with --decode and --decode-key: string, json, msgpack, hex or base64",
    "-r": "Avro values cannot be decoded yet",
    "-T": "pipe the input through `tee`",
    "-c": "`head -N` in front of it sends so many",
}


def is_meant(words: Sequence[str]) -> bool:
    """Whether one of kcat's modes is among the options."""
    skip = False
    for word in words:
        if word == "--":
            return False
        if skip or not word.startswith("-") or word.startswith("--"):
            skip = False
        elif word[:2] in _MODES:
            return True
        else:
            skip = len(word) == 2 and word[1] in _VALUED
    return False


def our_words(words: Sequence[str]) -> list[str]:
    """The same command in our words."""
    first = words[0] in (*_MODES.values(), "kcat", "kafkacat")
    try:
        given, rest = getopt.gnu_getopt(list(words[1:] if first else words), _OPTIONS, _LONG)
    except getopt.GetoptError as error:
        raise UsageError(f"kcat's way of writing is not understood: {error}") from error
    mode = next((name for name, _ in given if name in _MODES), None)
    if mode is None:  # what looked like one was a value
        return list(words)
    if mode == "-Q":
        raise UsageError(
            "kcat's -Q has no counterpart, but "
            "`kclient consume TOPIC --from WHEN -n 1 -f '%o\\n'` prints an offset"
        )
    if mode == "-L":
        return ["topics", "describe", *_translated(given, _LIST, mode), *rest]
    if mode == "-P":
        return ["produce", *_translated(given, _PRODUCE, mode), *rest]
    return ["consume", *_layout(given), *_translated(given, _CONSUME, mode, _start), *rest]


def _nothing(_: str) -> list[str]:
    return []


def _translated(
    given: Iterable[tuple[str, str]],
    table: dict[str, tuple[str, ...]],
    mode: str,
    start: Callable[[str], list[str]] = _nothing,
) -> list[str]:
    found: list[str] = []
    for name, value in given:
        if name == "-o":
            found += start(value)
        elif name in table or name in _COMMON:
            found += [word.format(value) for word in table.get(name, _COMMON.get(name, ()))]
        elif name not in _MODES and not (mode in "-C -G" and name in ("-D", "-K")):  # those are in the layout
            hint = _REFUSED.get(name, "see `kclient COMMAND --help`")
            raise UsageError(f"kcat's {name} has no counterpart with {mode}: {hint}")
    return found


def _start(value: str) -> list[str]:
    found = start_words(value)
    if found is None:
        raise UsageError(f"kcat's -o {value!r} is not understood: {HOW_TO_START}")
    return found


HOW_TO_START = "--from takes beginning, end or a time, --offset a number; -g GROUP begins where the group is"


def start_words(value: str) -> list[str] | None:
    """kcat's `-o` in our words; None where it is not of kcat's kinds."""
    if value in ("beginning", "end"):
        return ["--from", value]
    if value.removeprefix("-").isascii() and value.removeprefix("-").isdigit():
        return [f"--offset={value}"]
    if value.startswith(("s@", "e@")):
        return ["--from" if value[0] == "s" else "--until", value[2:]]
    return None


def _layout(given: Iterable[tuple[str, str]]) -> list[str]:
    """`-K` and `-D` of a consumer say what stands between key, value and the next record."""
    said = {name: value for name, value in given if name in ("-K", "-D", "-f")}
    if "-f" in said or not said:
        return []
    key = f"%k{said['-K'].replace('%', '%%')}" if "-K" in said else ""
    return ["-f", f"{key}%s{said.get('-D', chr(92) + 'n').replace('%', '%%')}"]
