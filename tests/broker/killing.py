"""Groups whose members are processes, for tests that kill one: what each holds and has read so far.

Members print events as Kafka's `VerifiableConsumer` does; a thread per member listens.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tools.kafka.workspace import Workspace

TOPIC = "shared"
ROOT = Path(__file__).parents[2]
_PATIENCE = 45.0


class Member:
    """One process. `held` are the partitions it has, `values` what it has read."""

    def __init__(self, command: Sequence[str], log: Path, changed: threading.Condition) -> None:
        self.held: set[int] = set()
        self.values: set[str] = set()
        self._log = log
        self._changed = changed
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, cwd=ROOT
            )
        self._listener = threading.Thread(target=self._listen, name="listener", daemon=True)
        self._listener.start()

    def __repr__(self) -> str:
        code = self.process.poll()
        ended = "" if code is None else f", ended with {code}: {self._log.read_text()[-1000:]}"
        return f"<holds {sorted(self.held)}, has read {len(self.values)}{ended}>"

    def kill(self) -> None:
        """As `kill -9`: it leaves no message. What it printed before is still heard."""
        self.process.kill()
        self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(b"{") and line.endswith(b"\n"):
                with self._changed:
                    self._hear(json.loads(line))
                    self._changed.notify_all()

    def _hear(self, event: dict[str, Any]) -> None:
        partitions = {part["partition"] for part in event.get("partitions", ())}
        if event["name"] == "partitions_assigned":
            self.held |= partitions
        elif event["name"] == "partitions_revoked":
            self.held -= partitions
        elif event["name"] == "record_data":
            self.values.add(event["value"])


class Members:
    """The members of one group; all that still live are killed at the end of the `with` block."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stack = ExitStack()
        self._workspace = self._stack.enter_context(Workspace())
        self.directory = self._workspace.directory
        self.all: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, command: Sequence[str]) -> None:
        member = Member(command, self.directory / f"member-{len(self.all)}.log", self._changed)
        self._workspace.add(member.process.pid)
        self._stack.callback(self._workspace.discard, member.process.pid)
        self._stack.callback(member.kill)
        self.all.append(member)

    def until(self, done: Callable[[], bool]) -> None:
        """Wait for something about the members, which is looked at whenever one says something."""
        with self._changed:
            assert self._changed.wait_for(done, _PATIENCE), self.all

    def share(self, members: Sequence[Member], partitions: int) -> bool:
        """Whether these members hold all partitions, none twice, as many each."""
        held = [part for member in members for part in member.held]
        return sorted(held) == list(range(partitions)) and len({len(member.held) for member in members}) == 1

    def values(self) -> set[str]:
        """What any of them has read, those included that live no more."""
        return set().union(*(member.values for member in self.all))
