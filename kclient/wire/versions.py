"""Version ranges in the notation of Kafka's message definitions: "3", "0-4", "12+", "none"."""

from __future__ import annotations

from typing import NamedTuple

_OPEN_END = 0x7FFF


class VersionRange(NamedTuple):
    """An inclusive range of message versions; empty when `last` is below `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read the notation.

        >>> VersionRange.parse("12+")
        VersionRange(first=12, last=32767)
        """
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _OPEN_END)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def covers(self, other: VersionRange) -> bool:
        """Whether every version of `other` lies in this range."""
        return other.last < other.first or (self.first <= other.first and other.last <= self.last)

    def overlap(self, other: VersionRange) -> VersionRange:
        """The versions in both ranges."""
        return VersionRange(max(self.first, other.first), min(self.last, other.last))

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == _OPEN_END:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


EVERY_VERSION = VersionRange(0, _OPEN_END)
NO_VERSION = VersionRange(0, -1)
