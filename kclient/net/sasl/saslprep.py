"""SASLprep (RFC 4013): one spelling for user names and passwords that look the same. Used by `scram`.

Code points that Unicode 3.2 did not assign pass unchanged: a client sends queries, which may hold them.
"""

from __future__ import annotations

import stringprep
from unicodedata import ucd_3_2_0 as unicode

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str | None:
    """The prepared text, or None if it has characters that RFC 4013 prohibits.

    No exception: it would carry the text, which may be a password, into tracebacks.

    >>> saslprep("I\u00adX"), saslprep("\u2168"), saslprep("a\u00a0b"), saslprep("\u0007")
    ('IX', 'IX', 'a b', None)
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in text if not stringprep.in_table_b1(char)
    )
    prepared = unicode.normalize("NFKC", mapped)
    if any(table(char) for char in prepared for table in _PROHIBITED) or not _reads_one_way(prepared):
        return None
    return prepared


def _reads_one_way(text: str) -> bool:
    """RFC 3454, section 6: text that runs right to left does so from its first character to its last."""
    right_to_left = [stringprep.in_table_d1(char) for char in text]
    if not any(right_to_left):
        return True
    return right_to_left[0] and right_to_left[-1] and not any(stringprep.in_table_d2(char) for char in text)
