"""Which partition makes an answer larger than this client takes, found by asking for fewer and fewer at once.

Pure. A broker gives at least one record batch, however large, to the first partition of a request that has
any, so one batch of one partition is to blame. Without it the others are read as before. `fetcher` asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kclient.consumer.cursor import Cursor


class Suspects:
    """The cursors one of which it is; none, most of the time."""

    def __init__(self) -> None:
        self._cursors: list[Cursor] = []

    def __repr__(self) -> str:
        return f"<Suspects {len(self._cursors)}>"

    def __bool__(self) -> bool:
        return bool(self._cursors)

    def among(self, usable: Sequence[Cursor]) -> list[Cursor]:
        """Whom to ask for now: all, or half of the suspects that can be asked for."""
        if not self._cursors:
            return list(usable)
        left = set(usable)
        self._cursors = [cursor for cursor in self._cursors if cursor in left]
        return self._cursors[: max(1, len(self._cursors) // 2)] or list(usable)

    def answered(self, asked: Sequence[Cursor]) -> None:
        """It is none of these."""
        if self._cursors:
            cleared = set(asked)
            self._cursors = [cursor for cursor in self._cursors if cursor not in cleared]

    def too_large(self, asked: Sequence[Cursor]) -> Cursor | None:
        """It is one of these; which one, if that is known now."""
        self._cursors = list(asked) if len(asked) > 1 else []
        return asked[0] if len(asked) == 1 else None
