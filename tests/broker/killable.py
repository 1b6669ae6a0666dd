"""`kclient broker` in processes that can be killed, a hundred times in a minute.

What takes longest in a start is importing, so one process does that and forks a broker whenever it is told
the command line of one: what runs then is the command itself, in a process of its own. Run as a module, this
is that process; `Brokers` is the other end of its pipes.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.kafka.ports import free_ports
from tools.kafka.workspace import Workspace

_PATIENCE = 60.0
_HERE = Path(__file__).resolve().parents[2]


class Brokers:
    """One broker after the other, on one port and one data directory."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.port = free_ports(1)[0]
        self.starts = 0
        self._options = options
        self.pid: int | None = None
        self._unread = b""

    def __repr__(self) -> str:
        return f"<Brokers on {self.data}, {self.starts} starts, now {self.pid or 'none'}>"

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._workspace = Workspace()
        self._forker = subprocess.Popen(
            [sys.executable, "-m", "tests.broker.killable"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=_HERE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pid is not None:
            self.kill()
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.close()
        self._forker.wait(_PATIENCE)
        self._forker.stdout.close()
        self._workspace.close()

    def start(self) -> None:
        """Return when the broker says that it listens."""
        command = ["broker", "--port", str(self.port), "--data", str(self.data), *self._options]
        assert self._forker.stdin is not None
        self._forker.stdin.write(json.dumps(command).encode() + b"\n")
        self.pid = int(self._line())
        self._workspace.add(self.pid)
        said = self._line()
        assert said.startswith("Listening on"), said
        self.starts += 1

    def kill(self) -> None:
        """`kill -9`."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end in good order."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        assert self.pid is not None
        os.kill(self.pid, number)
        assert self._line() == "ended"
        self._workspace.discard(self.pid)
        self.pid = None

    def _line(self) -> str:
        assert self._forker.stdout is not None
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._forker.stdout], [], [], _PATIENCE)
            assert ready, f"{self} says nothing"
            read = os.read(self._forker.stdout.fileno(), 4096)
            assert read, f"{self} has ended"
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()


def _serve() -> None:
    from kclient.cli import main  # noqa: PLC0415 - the other end of the pipes does not need it

    importlib.import_module("kclient.cli.broker")
    for command in sys.stdin:
        child = os.fork()
        if not child:
            print(os.getpid(), flush=True)
            sys.exit(main.main(json.loads(command)))
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    _serve()
