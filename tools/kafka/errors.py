"""What can go wrong when real brokers are fetched, started and used."""

from __future__ import annotations

from pathlib import Path

_COMPLAINTS = (" ERROR ", " FATAL ", "Exception")


class KafkaToolError(Exception):
    """Base of everything this package raises on purpose."""


class MissingSoftwareError(KafkaToolError):
    """Java or Maven is not there, or too old."""


class FetchError(KafkaToolError):
    """Maven could not bring the jars."""


class BrokerError(KafkaToolError):
    """A broker (or its ZooKeeper) died or never answered; the message carries the end of its log."""


class PortTakenError(BrokerError):
    """Another process took a port between our choosing it and the broker binding it: choose again."""


class CommandError(KafkaToolError):
    """A Java command failed or did not end in time; the message carries the end of its output."""


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log, indented to stand under an error message.

    A broker says why it fails first and then logs its whole way out, so the first complaint is shown as well.
    """
    try:
        every = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        every = []
    kept = every[-lines:]
    earlier = every[:-lines]
    for at, line in enumerate(earlier):
        if any(word in line for word in _COMPLAINTS):
            kept = [*earlier[at : at + 6], "…", *kept]
            break
    return "\n".join(f"    {line}" for line in kept) or "    (no output)"
