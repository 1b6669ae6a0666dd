"""Records of what is running, so that nothing survives the process that started it.

Each workspace keeps one small file in the cache: who owns it, which processes belong to it, its temporary
directory. `sweep` ends whatever belongs to an owner that is gone. It is called when a workspace opens
(leftovers of earlier sessions) and by `watchdog`, which waits for the owner's death. A process is named by
its id *and* its start time, because ids are used again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.kafka.jars import cache_directory

DIRECTORY_PREFIX = "kclient-kafka-"


@dataclass(frozen=True)
class ProcessName:
    """A process that cannot be mistaken for a later one with the same id."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessName | None:
        started = _start_time(pid)
        return None if started is None else cls(pid, started)

    def is_alive(self) -> bool:
        return _start_time(self.pid) == self.started


class RunningRecord:
    """The file that tells later sweeps what one workspace runs."""

    def __init__(self, directory: Path) -> None:
        owner = ProcessName.of(os.getpid())
        assert owner is not None, "the running process has a start time"
        self._owner = owner
        self._directory = directory
        self._processes: dict[int, ProcessName] = {}
        self._lock = threading.Lock()
        self._path = _records() / f"{owner.pid}-{directory.name}.json"
        self._write()

    def add(self, pid: int) -> None:
        with self._lock:
            name = ProcessName.of(pid)
            if name is not None:
                self._processes[pid] = name
                self._write()

    def discard(self, pid: int) -> None:
        with self._lock:
            if self._processes.pop(pid, None) is not None:
                self._write()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        """The file is replaced whole: a sweep never sees half of it."""
        content = {
            "owner": asdict(self._owner),
            "directory": str(self._directory),
            "processes": [asdict(name) for name in self._processes.values()],
        }
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(content))
        fresh.replace(self._path)


def sweep() -> list[int]:
    """End the processes and remove the directories of owners that are gone; returns the ids that were
    ended.
    """
    ended: list[int] = []
    for path in _records().glob("*.json"):
        try:
            content = json.loads(path.read_text())
            owner = ProcessName(**content["owner"])
            processes = [ProcessName(**name) for name in content["processes"]]
            directory = Path(content["directory"])
        except FileNotFoundError:
            continue  # another process is sweeping too
        except (ValueError, KeyError, TypeError):
            path.unlink(missing_ok=True)
            continue
        if owner.is_alive():
            continue
        for process in processes:
            if process.is_alive():
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                    ended.append(process.pid)
        if directory.name.startswith(DIRECTORY_PREFIX):
            shutil.rmtree(directory, ignore_errors=True)
        path.unlink(missing_ok=True)
    return ended


def _records() -> Path:
    directory = cache_directory() / "running"
    directory.mkdir(exist_ok=True)
    return directory


def _start_time(pid: int) -> str | None:
    """When a process started, in whatever words the system has; None when it is gone or only waits to be
    reaped.
    """
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = stat.rpartition(")")[2].split()  # the command name before it may hold spaces
        return None if fields[0] in "ZX" else fields[19]
    listed = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = listed.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()
