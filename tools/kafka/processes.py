"""One long-running process (a broker, its ZooKeeper, a KDC): start, signals, log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tools.kafka.errors import tail
from tools.kafka.workspace import Workspace

# How often a process is looked at that has been told to stop, every 10 ms.
_LOOKS = 500


class ServerProcess:
    """A process in its own process group whose output goes to a file.

    `repr` shows the state: `<broker 1: pid 4711, frozen>`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        workspace: Workspace,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._workspace = workspace
        self.log = log
        self._frozen = False
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as sink:
            self._popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=env, start_new_session=True
            )
        workspace.add(self._popen.pid)

    def __repr__(self) -> str:
        code = self._popen.poll()
        state = f"exit code {code}" if code is not None else "frozen" if self._frozen else "running"
        return f"<{self.name}: pid {self.pid}, {state}>"

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        return self._popen.poll()

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def is_answering(self) -> bool:
        """Whether it can be expected to answer: running and not frozen."""
        return self.is_running() and not self._frozen

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM), thawing it first: a frozen process cannot hear."""
        self.thaw()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._popen.wait()
        self._workspace.discard(self.pid)

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        self._signal(signal.SIGSTOP)
        self._frozen = True
        # On a busy machine threads go on for a moment, and may answer: until then it is not frozen.
        with suppress(ChildProcessError):  # it has ended meanwhile
            for _ in range(_LOOKS):
                if os.waitid(os.P_PID, self._popen.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT):
                    return
                time.sleep(0.01)

    def thaw(self) -> None:
        if self._frozen:
            self._signal(signal.SIGCONT)
            self._frozen = False

    def wait(self, timeout: float) -> bool:
        """Whether it ended within `timeout` seconds."""
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        self._workspace.discard(self.pid)
        return True

    def output(self) -> str:
        """What this process (not an earlier one with the same log file) has printed so far."""
        with self.log.open("rb") as stream:
            stream.seek(self._log_start)
            return stream.read().decode(errors="replace")

    def log_tail(self) -> str:
        return f"end of {self.log.name}:\n{tail(self.log)}"

    def _signal(self, number: signal.Signals) -> None:
        if self._popen.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
