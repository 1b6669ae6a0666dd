"""Processes that a test started, and what those did: each has the test's mark in its environment.

`KCLIENT_MARK` is set before anything starts and is inherited, also by processes whose parent has been killed.
"""

from __future__ import annotations

from pathlib import Path

VARIABLE = "KCLIENT_MARK"


def marked(mark: str) -> dict[int, str]:
    """The command lines of all that run, by process id."""
    wanted = f"{VARIABLE}={mark}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(process.name)] = command
        except OSError:  # it has ended, or is not ours to look at
            continue
    return found
