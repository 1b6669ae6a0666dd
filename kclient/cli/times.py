"""Points in time and spans as people write them: 2026-11-18T10:00, 1763460000000, -1h, PT15M, now."""

from __future__ import annotations

import re
import time
from datetime import datetime

from kclient.cli.errors import UsageError

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")
_ISO_SPAN = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)


def moment(text: str, now_ms: int | None = None) -> int:
    """A point in time in milliseconds since the epoch. Without a zone it is the local time's.

    >>> moment("-1h", now_ms=3_600_000), moment("2026-01-01T00:00:00Z")
    (0, 1767225600000)
    """
    now = int(time.time() * 1000) if now_ms is None else now_ms
    if text == "now":
        return now
    if text.isascii() and text.isdigit():
        return int(text)
    if text.startswith(("-", "+")) and (distance := _distance(text[1:])) is not None:
        found = now - distance if text.startswith("-") else now + distance
    else:
        try:
            found = round(datetime.fromisoformat(text).timestamp() * 1000)
        except (ValueError, OverflowError, OSError) as error:
            raise UsageError(
                f"{text!r} is no point in time: write 2026-11-18T10:00:00 (local time, or with a zone as "
                "+01:00 or Z), milliseconds since 1970, or a distance from now such as -1h or -30m"
            ) from error
    if found < 0:
        raise UsageError(f"{text!r} is before 1970, where Kafka's time begins")
    return found


def is_moment(text: str) -> bool:
    """Whether it can be read as a point in time."""
    try:
        moment(text)
    except UsageError:
        return False
    return True


def span(text: str) -> int:
    """A span in milliseconds: `90s`, `1h30m`, `7d`, or ISO 8601 as Kafka's tools have it, `PT1H30M`.

    >>> span("1h30m"), span("PT1H30M")
    (5400000, 5400000)
    """
    found = _distance(text)
    if found is None:
        raise UsageError(f"{text!r} is no span of time: write 90s, 1h30m, 7d or PT1H30M")
    return found


def _distance(text: str) -> int | None:
    if _SPAN.fullmatch(text):
        return round(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    iso = _ISO_SPAN.fullmatch(text)
    if iso is not None and any(iso.groups()):
        return round(sum(float(number or 0) * _UNITS[unit] for unit, number in iso.groupdict().items()))
    return None
