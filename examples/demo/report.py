"""The verdict of the demo: what was sent against what arrived where, as a table, and the run as a picture."""

from __future__ import annotations

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from examples.demo.orders import CATEGORIES, REVENUE_TOPIC, Order
from examples.demo.watch import Sample
from kclient import Consumer, TopicPartition

_NUMBER_BYTES = 8


class Event(NamedTuple):
    """Something that is marked in the picture."""

    at: float
    text: str


class Verdict(NamedTuple):
    """What was counted. Money is in cents."""

    acknowledged: int
    consumed: int
    consumed_again: int
    never_consumed: int
    stored: int
    stored_again: int
    never_stored: int
    revenue_sent: int
    revenue_added: int

    @property
    def holds(self) -> bool:
        """At least once for the group, exactly once for the files, to the cent for the sums."""
        lost = self.never_consumed or self.never_stored or self.stored_again
        return not lost and self.revenue_sent == self.revenue_added

    def table(self) -> str:
        rows = [
            ("orders acknowledged", f"{self.acknowledged:,}"),
            ("  never seen by the group", f"{self.never_consumed:,}"),
            ("  seen again after the kill (at least once)", f"{self.consumed_again:,}"),
            ("  missing in Spark's files", f"{self.never_stored:,}"),
            ("  twice in Spark's files", f"{self.stored_again:,}"),
            ("revenue of all orders", f"{self.revenue_sent / 100:,.2f}"),
            ("revenue that Spark added up", f"{self.revenue_added / 100:,.2f}"),
        ]
        return "\n".join(f"{name:46}{figure:>16}" for name, figure in rows)


def judge(sent: Sequence[Order], directory: Path, windows: Iterable[dict[str, Any]]) -> Verdict:
    numbers = {order.number for order in sent}
    consumed = Counter(_worked_on(directory))
    stored = Counter(_stored(directory / "orders"))
    return Verdict(
        acknowledged=len(sent),
        consumed=len(consumed),
        consumed_again=consumed.total() - len(consumed),
        never_consumed=len(numbers - consumed.keys()),
        stored=len(stored),
        stored_again=stored.total() - len(stored),
        never_stored=len(numbers - stored.keys()),
        revenue_sent=sum(order.cents for order in sent),
        revenue_added=sum(window["cents"] for window in windows),
    )


def _worked_on(directory: Path) -> Iterable[int]:
    """What the members wrote down; of one that was killed, the last number may be cut."""
    for path in directory.glob("member-*.bin"):
        data = path.read_bytes()
        yield from array("q", data[: len(data) // _NUMBER_BYTES * _NUMBER_BYTES])


def _stored(path: Path) -> list[int]:
    from pyarrow import parquet  # noqa: PLC0415 - comes with the extra `spark`

    # Spark's list of finished files, as a task that was retried leaves files that do not count.
    added: set[str] = set()
    for log in (path / "_spark_metadata").glob("[0-9]*"):
        entries = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
        added |= {Path(entry["path"]).name for entry in entries if entry["action"] == "add"}
    tables = [parquet.read_table(path / name, columns=["number"]) for name in sorted(added)]
    return [int(number) for table in tables for number in table.column("number").to_numpy()]


def newest_windows(bootstrap: str, partitions: int) -> list[dict[str, Any]]:
    """The last word on every window and category, as the topic has it."""
    newest: dict[bytes | None, dict[str, Any]] = {}
    parts = [TopicPartition(REVENUE_TOPIC, number) for number in range(partitions)]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        while any(consumer.position(part) < ends[part] for part in parts):
            for records in consumer.poll(timeout_ms=1_000).values():
                newest |= {record.key: json.loads(record.value or b"{}") for record in records}
    return list(newest.values())


def draw(
    samples: Sequence[Sample], events: Sequence[Event], windows: Sequence[dict[str, Any]], path: Path
) -> bool:
    """Who consumed, how far behind, and what Spark made of it. False without matplotlib."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - optional
    except ImportError:
        return False
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, (rates, lag, revenue) = plt.subplots(3, 1, figsize=(10, 11))
    _draw_rates(rates, samples)
    times = [sample.at for sample in samples]
    lag.stackplot(
        times,
        *([sample.lag[partition] for sample in samples] for partition in samples[0].lag),
        labels=[f"partition {partition}" for partition in samples[0].lag],
    )
    lag.set(title="Lag of the group, records", xlabel="seconds", ylabel="records")
    for event in events:
        for axis in (rates, lag):
            axis.axvline(event.at, color="#cf222e", linestyle="--", linewidth=1)
            axis.annotate(event.text, (event.at, 1), xycoords=("data", "axes fraction"), fontsize=8, va="top")
    _draw_revenue(revenue, windows)
    for axis in (rates, lag, revenue):
        axis.legend(fontsize=7, ncols=6, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def _draw_rates(axis: Any, samples: Sequence[Sample]) -> None:
    pairs = list(pairwise(samples))
    for name in samples[0].members:
        rate = [(b.members[name] - a.members[name]) / (b.at - a.at) for a, b in pairs]
        axis.plot([b.at for _, b in pairs], rate, label=name, linewidth=1.5)
    produced = [(b.produced - a.produced) / (b.at - a.at) for a, b in pairs]
    axis.plot(
        [b.at for _, b in pairs], produced, label="produced", color="#57606a", linewidth=1, linestyle=":"
    )
    axis.set(title="Orders per second, by member of the group", xlabel="seconds", ylabel="orders/s")


def _draw_revenue(axis: Any, windows: Sequence[dict[str, Any]]) -> None:
    sums: dict[int, dict[str, float]] = defaultdict(dict)
    for window in windows:
        sums[window["from_ms"]][window["category"]] = window["cents"] / 100_000
    starts = sorted(sums)
    bottom = [0.0] * len(starts)
    for category in CATEGORIES:
        heights = [sums[start].get(category, 0.0) for start in starts]
        axis.bar(range(len(starts)), heights, bottom=bottom, label=category)
        bottom = [below + height for below, height in zip(bottom, heights, strict=True)]
    axis.set(title="Revenue per five-second window, by Spark", xlabel="window", ylabel="thousand")
