"""Regular expressions of subscriptions: Kafka compiles them with RE2, this with Python's `re`.

What RE2 has not (looking around, back references, atomic groups, possessive repetition) is refused here as it
is there; the rest of the two languages is close enough for names of topics (Unicode classes as `\\pL` are
missing here). `modern_service` checks, `modern` matches.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache

from kclient.errors import InvalidRegularExpressionError

_UNSUPPORTED = re.compile(
    r"\\(?:\\|[^1-9gk]|(?P<reference>[1-9gk]))|\[(?:\\.|[^\]\\])+\]|(?P<behind>\(\?<[=!])|(?P<group>\(\?(?:[=!]|>|P=|\())"
    r"|(?P<repeat>[*+?}]\+)|."
)
_POSIX = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:word:]": r"\w",
    "[:space:]": r"\s",
    "[:xdigit:]": "0-9a-fA-F",
}
# Beginnings of Python's complaints, and what RE2 says instead.
_WORDS = {
    "missing )": "missing closing )",
    "unterminated subpattern": "missing closing )",
    "unbalanced parenthesis": "regexp/syntax: internal error",
    "min repeat greater than max repeat": "invalid repeat count",
    "missing >": "invalid named capture",
    "bad escape (end of pattern)": "trailing backslash at end of expression",
    "unterminated character set": "missing closing ]",
    "nothing to repeat": "missing argument to repetition operator",
    "multiple repeat": "invalid nested repetition operator",
    "bad character range": "invalid character class range",
    "bad escape": "invalid escape sequence",
    "unknown extension": "invalid or unsupported Perl syntax",
}


@lru_cache(maxsize=1_000)
def compile_regex(pattern: str) -> re.Pattern[str]:
    """The compiled pattern, or the error that Kafka answers with."""
    for part in _UNSUPPORTED.finditer(pattern):
        if part["group"]:
            raise _invalid(pattern, "invalid or unsupported Perl syntax")
        if part["behind"]:
            raise _invalid(pattern, "invalid named capture")
        if part["reference"]:
            raise _invalid(pattern, "invalid escape sequence")
        if part["repeat"]:
            raise _invalid(pattern, "invalid nested repetition operator")
    translated = pattern
    for name, members in _POSIX.items():
        translated = translated.replace(name, members)
    try:
        with warnings.catch_warnings():
            # "Possible nested set": Python may read such patterns otherwise one day, RE2 will not.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(translated, re.ASCII)
    except re.error as error:
        known = (words for start, words in _WORDS.items() if error.msg.startswith(start))
        raise _invalid(pattern, next(known, error.msg)) from error


def matching(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    """The topics whose whole name matches."""
    match = compile_regex(pattern).fullmatch
    return frozenset(topic for topic in topics if match(topic))


def _invalid(pattern: str, why: str) -> InvalidRegularExpressionError:
    return InvalidRegularExpressionError(
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {why}."
    )
