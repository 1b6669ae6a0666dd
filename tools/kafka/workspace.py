"""A temporary directory and the processes that work in it; both vanish with the process that made them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tools.kafka.leftovers import DIRECTORY_PREFIX, RunningRecord, sweep
from tools.kafka.watchdog import ensure_watchdog


class Workspace:
    """Opened by whoever starts processes; a context manager.

    Processes are told to it when they start and when they have ended. Those that its owner leaves behind,
    because it was killed, are ended by the watchdog, or at the latest when the next workspace opens.
    """

    def __init__(self) -> None:
        sweep()
        ensure_watchdog()
        self.directory = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX)).resolve()
        self._record = RunningRecord(self.directory)

    def add(self, pid: int) -> None:
        self._record.add(pid)

    def discard(self, pid: int) -> None:
        self._record.discard(pid)

    def close(self) -> None:
        """Remove the directory. Every process must have ended."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self._record.remove()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
