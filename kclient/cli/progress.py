"""A progress bar on stderr, where that is a terminal; elsewhere nothing is written at all."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from kclient.cli.output import is_terminal

_EVERY = 0.1
_WIDTH = 24


class Progress:
    """Counts up to `total`, which may be unknown; `advance` is cheap enough to be called per batch."""

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done: int = 0
        self._label, self._total = label, total
        self._clock = clock
        self._began = self._drawn = clock()
        self._shown = shown and is_terminal(sys.stderr)
        self._on_screen = False

    def advance(self, count: int = 1) -> None:
        self.done += count
        now = self._clock()
        if self._shown and now - self._drawn >= _EVERY:
            self._drawn = now
            self._draw(now)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Take the bar away: what is left on the screen is the output."""
        if self._on_screen:
            self._on_screen = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _draw(self, now: float) -> None:
        rate = self.done / max(now - self._began, 1e-9)
        text = f"{self._label} {self.done:,}"
        if self._total:
            share = min(1.0, self.done / self._total)
            filled = round(share * _WIDTH)
            left = max(0, self._total - self.done) / max(rate, 1e-9)
            bar = "#" * filled + "." * (_WIDTH - filled)
            text += f" of {self._total:,} [{bar}] {share:4.0%}, {_clock(left)} left"
        text += f", {rate:,.0f}/s"
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{text[:width]}")
        sys.stderr.flush()
        self._on_screen = True


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
