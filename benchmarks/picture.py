"""What `overview` found as one picture: a small bar chart per discipline, kclient in colour.

Written by `make bench` to docs/benchmark.png, which the README shows. Needs matplotlib (group `bench`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.overview import Discipline

PATH = Path(__file__).parents[1] / "docs" / "benchmark.png"
COLUMNS = 3
OURS, THEIRS, TEXT = "#1f6feb", "#c3c9d1", "#24292f"


def draw(found: Sequence[Discipline], method: str, path: Path = PATH) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only this needs

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    rows = -(-len(found) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(15, 2.6 * rows + 0.8), squeeze=False)
    for axis, each in zip(axes.flat, found, strict=False):
        _bars(axis, each)
    for axis in list(axes.flat)[len(found) :]:
        axis.set_visible(False)
    figure.suptitle("kclient and its peers", fontsize=16, fontweight="bold", color=TEXT, x=0.02, ha="left")
    figure.text(0.02, 0.01, method, fontsize=8, color="#57606a", va="bottom")
    figure.tight_layout(rect=(0, 0.05, 1, 0.98))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, facecolor="white")
    plt.close(figure)


def _bars(axis: Any, each: Discipline) -> None:
    names = sorted(each.figures, key=each.figures.__getitem__, reverse=not each.more_is_better)
    figures = [each.figures[name] for name in names]
    colours = [OURS if name.startswith("kclient") else THEIRS for name in names]
    bars = axis.barh(names, figures, color=colours, height=0.72)
    axis.bar_label(bars, labels=[_short(figure) for figure in figures], padding=3, fontsize=8, color=TEXT)
    better = "more is better" if each.more_is_better else "less is better"
    axis.set_title(f"{each.name}, {each.unit} ({better})", fontsize=9.5, loc="left", color=TEXT)
    axis.set_xlim(0, max(figures) * 1.18)
    axis.tick_params(axis="y", labelsize=8, length=0, colors=TEXT)
    axis.xaxis.set_visible(False)
    for side in ("top", "right", "bottom", "left"):
        axis.spines[side].set_visible(False)


def _short(figure: float) -> str:
    if figure >= 1e6:
        return f"{figure / 1e6:.2f} M"
    if figure >= 10_000:
        return f"{figure / 1e3:.0f} k"
    return f"{figure:,.0f}"
