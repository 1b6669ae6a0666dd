"""What can be the name of a topic: for clients, which ask for no others, and for the embedded broker."""

from __future__ import annotations

import re
from typing import Any

from kclient.errors import InvalidTopicError

_LONGEST = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_ALLOWED = f"allowed are 1 to {_LONGEST} of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' and '..'"
_SHOWN = 300  # of a name that is too long


def check_topic(topic: Any) -> None:
    """Refuse what can be no topic's name: asked for, it would spoil every question about topics."""
    if not isinstance(topic, str):
        raise TypeError(f"topic {topic!r} is {type(topic).__name__}, not text")
    if illegal(topic) is not None:
        shown = topic if len(topic) <= _SHOWN else f"{topic[:_SHOWN]}…"
        length = f", which has {len(topic)} characters" if len(topic) > _LONGEST else ""
        raise InvalidTopicError(about=f"topic {shown!r}{length} ({_ALLOWED})")


def illegal(topic: str) -> str | None:
    """Why no topic can have this name, in Kafka's words; None for one that can."""
    if not topic:
        return "the empty string is not allowed"
    if topic in (".", ".."):
        return f"'{topic}' is not allowed"
    if len(topic) > _LONGEST:
        return f"the length of '{topic}' is longer than the max allowed length {_LONGEST}"
    if not _LEGAL.fullmatch(topic):
        return f"'{topic}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
