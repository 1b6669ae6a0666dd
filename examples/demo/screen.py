"""What the demo shows while it runs: bars and live lag on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from examples.demo.watch import Sample

EVERY = 3.0  # seconds between lines where there is no terminal


class Screen(Protocol):
    """Somewhere to show how it goes."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def say(self, text: str) -> None: ...
    def show(self, sample: Sample) -> None: ...


class Lines:
    """Plain text, for logs and pipes."""

    def __init__(self) -> None:
        self._shown = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, text: str) -> None:
        print(text, flush=True)

    def show(self, sample: Sample) -> None:
        if time.monotonic() - self._shown < EVERY:
            return
        self._shown = time.monotonic()
        members = ", ".join(f"{name} {done:,}" for name, done in sample.members.items())
        print(
            f"  {sample.at:5.1f} s  produced {sample.produced:,}  lag {sum(sample.lag.values()):,}  "
            f"consumed by {members}  Spark {sample.spark:,}",
            flush=True,
        )


class Terminal:
    """Bars for what is produced, consumed and in Spark, and the lag of every partition with its owner."""

    def __init__(self, total: int) -> None:
        from rich.console import Console  # noqa: PLC0415 - optional, and slow to import
        from rich.live import Live  # noqa: PLC0415
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

        self._console = Console()
        self._progress = Progress(TextColumn("{task.description:10}"), BarColumn(40), MofNCompleteColumn())
        self._bars = {
            name: self._progress.add_task(name, total=total) for name in ("produced", "consumed", "Spark")
        }
        self._live = Live(console=self._console, refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._live.console.print(text, highlight=False)

    def show(self, sample: Sample) -> None:
        from rich.console import Group  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415

        self._progress.update(self._bars["produced"], completed=sample.produced)
        self._progress.update(self._bars["consumed"], completed=sample.produced - sum(sample.lag.values()))
        self._progress.update(self._bars["Spark"], completed=sample.spark)
        lag = Table("partition", "owner", "lag", title="group billing", title_justify="left")
        for partition, behind in sample.lag.items():
            owner = sample.owners.get(partition)
            bar = "█" * min(40, behind // 250)
            lag.add_row(str(partition), owner or "[red]nobody[/red]", f"{behind:>7,} {bar}")
        self._live.update(Group(self._progress, lag))


def screen_for(total: int) -> Screen:
    """Bars where there is a terminal and `rich`, lines elsewhere."""
    if sys.stdout.isatty():
        try:
            return Terminal(total)
        except ImportError:
            return Lines()
    return Lines()
