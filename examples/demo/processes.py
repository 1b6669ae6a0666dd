"""Child processes that talk in lines of JSON. They end with their standard input: none outlives the demo."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class ChildError(Exception):
    """A process ended, or stayed silent, where it should not have."""


class Child:
    """One running module. `state` is the newest of what it said, all together."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self.state: dict[str, Any] = {}
        self.heard = asyncio.Event()
        self.log = log
        self._process = process
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, name: str, module: str, *arguments: str, log: Path) -> Child:
        # A session of its own: Ctrl-C is for the demo, which then ends its children. They are killed, so what
        # they would have removed has to lie where the demo removes it.
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-W", "ignore", "-m", module, *arguments),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(log.parent)},
                start_new_session=True,
            )
        return cls(name, process, log)

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if line.startswith(b"{"):
                self.state |= json.loads(line)
                self.heard.set()
        self.heard.set()

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def hear(self, key: str, seconds: float) -> Any:
        """Wait until it has said something."""
        try:
            async with asyncio.timeout(seconds):
                while key not in self.state:
                    if self._listening.done():
                        raise ChildError(f"{self.name} ended early: {self.last_words()}")
                    self.heard.clear()
                    await self.heard.wait()
        except TimeoutError:
            raise ChildError(f"{self.name} was not heard of for {seconds:g} s: {self.last_words()}") from None
        return self.state[key]

    def last_words(self) -> str:
        return self.log.read_text(errors="replace").strip()[-2_000:] or "it said nothing"

    def let_go(self) -> None:
        """Tell it to end; it does what it has begun."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def end(self, seconds: float = 20) -> None:
        """Have it end in good order, or else be ended."""
        self.let_go()
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
                await self._listening
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """SIGKILL to it and to whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._listening
