"""A small process that outlives the one that started it, and then ends the brokers left behind.

`atexit` and fixtures do not run when a test process is killed with SIGKILL. The kernel's parent-death
signal is not used because it fires when the *thread* that started the broker ends. Instead the owner holds
one end of a pipe: when it dies, however it dies, the other end reads end-of-file. A forked child of the
owner may hold the pipe open longer, so the parent's id is looked at as well.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from tools.kafka.leftovers import sweep

_ROOT = Path(__file__).resolve().parents[2]
_started_by: int | None = None


def ensure_watchdog() -> None:
    """Start the watchdog of this process, once."""
    global _started_by  # noqa: PLW0603 - one watchdog per process is exactly one module-level fact
    if _started_by == os.getpid():
        return
    read_end, _ = os.pipe()  # the write end stays open, unused, until this process is gone
    subprocess.Popen(
        [sys.executable, "-c", f"from tools.kafka.watchdog import watch; watch({os.getpid()})"],
        stdin=read_end,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=_ROOT,
        start_new_session=True,  # a signal to the owner's process group must not reach it
    ).returncode = 0  # it is never waited for: tell Popen so, or it warns when it is collected
    os.close(read_end)
    _started_by = os.getpid()


def watch(owner: int) -> None:
    """What the watchdog process does: wait for the death of its parent, `owner`, then clean up."""
    pipe = sys.stdin.fileno()
    while os.getppid() == owner:
        readable, _, _ = select.select([pipe], [], [], 0.5)
        if readable and not os.read(pipe, 1):
            # End-of-file comes while the kernel still takes the owner down; the sweep must find it dead.
            while os.getppid() == owner:
                select.select([], [], [], 0.01)
    sweep()
