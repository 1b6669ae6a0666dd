"""Java's consumers beside ours: groups of their own on the same topic, in one process of `JavaReaders.java`.

Shows for how long they went without records, so that ours can be compared under the same faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tools.kafka.jars import JarSet
from tools.kafka.jvm import COMMAND_FLAGS, require_java
from tools.kafka.versions import CLIENTS_VERSION

_PROGRAM = Path(__file__).parents[1] / "integration" / "JavaReaders.java"


class JavaReaders:
    """`arrived(protocol, partition, count)` is called for what each poll brought."""

    def __init__(
        self, process: asyncio.subprocess.Process, arrived: Callable[[str, int, int], object]
    ) -> None:
        self._process = process
        self._task = asyncio.create_task(self._listen(arrived))

    @classmethod
    async def start(
        cls,
        servers: str,
        topic: str,
        groups: Mapping[str, str],
        arrived: Callable[[str, int, int], object],
        members: int = 2,
    ) -> JavaReaders:
        """So many members in each group; `groups` names them by protocol."""
        java = require_java(11, "run a Java source file")
        jars = JarSet.clients(CLIENTS_VERSION)
        jars.fetch()
        process = await asyncio.create_subprocess_exec(
            java.program,
            *COMMAND_FLAGS,
            "-cp",
            jars.class_path,
            str(_PROGRAM),
            servers,
            topic,
            str(members),
            *(f"{protocol}={group}" for protocol, group in groups.items()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return cls(process, arrived)

    async def _listen(self, arrived: Callable[[str, int, int], object]) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            protocol, partition, count = line.decode().split()
            arrived(protocol, int(partition), int(count))

    async def close(self) -> None:
        """Have them leave, or be killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(20):
                await self._process.wait()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._task
