"""Which leader epoch began at which offset, for OffsetForLeaderEpoch; kept in `leader-epoch-checkpoint`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from kclient.broker.log.storage import read_table, write_file

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "leader-epoch-checkpoint"


class LeaderEpochs:
    """Epochs and their first offsets, both rising."""

    def __init__(self, directory: Path | None) -> None:
        self.path: Path | None = None if directory is None else directory / FILE_NAME
        self._epochs: list[int] = []
        self._starts: list[int] = []
        if self.path is not None:
            rows = read_table(self.path, "ii")
            self._epochs, self._starts = [int(row[0]) for row in rows], [int(row[1]) for row in rows]

    def __repr__(self) -> str:
        return f"LeaderEpochs({dict(zip(self._epochs, self._starts, strict=True))})"

    @property
    def latest(self) -> int:
        """The newest epoch, -1 before any."""
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: int, start: int) -> None:
        """Note that `epoch` begins at `start`, unless it or a later one has begun already."""
        if epoch < 0 or (self._epochs and epoch <= self._epochs[-1]):
            return
        self._cut(start)
        self._epochs.append(epoch)
        self._starts.append(start)
        self._save()

    def at(self, offset: int) -> int:
        """The epoch that `offset` was written in, -1 if unknown."""
        found = bisect_right(self._starts, offset) - 1
        return self._epochs[found] if found >= 0 else -1

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch not after `epoch` and where it ended; (-1, -1) if that cannot be known."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return -1, -1
        if epoch == self._epochs[-1]:
            return epoch, log_end
        higher = bisect_right(self._epochs, epoch)
        if higher == 0:
            return epoch, self._starts[0]
        return self._epochs[higher - 1], self._starts[higher]

    def truncate_to(self, offset: int) -> None:
        """Forget epochs that began at `offset` or later."""
        if self._cut(offset):
            self._save()

    def advance_to(self, offset: int) -> None:
        """Forget epochs that ended before `offset`; the one it lies in begins there now."""
        passed = bisect_right(self._starts, offset)
        if passed and self._starts[passed - 1] != offset:
            self._starts[passed - 1] = offset
            del self._epochs[: passed - 1], self._starts[: passed - 1]
            self._save()
        elif passed > 1:
            del self._epochs[: passed - 1], self._starts[: passed - 1]
            self._save()

    def _cut(self, offset: int) -> bool:
        keep = bisect_left(self._starts, offset)
        changed = keep < len(self._starts)
        del self._epochs[keep:], self._starts[keep:]
        return changed

    def _save(self) -> None:
        if self.path is not None:
            lines = [f"{epoch} {start}\n" for epoch, start in zip(self._epochs, self._starts, strict=True)]
            write_file(self.path, f"0\n{len(lines)}\n{''.join(lines)}".encode())
