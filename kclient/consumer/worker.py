"""A task that works while there is work, and sleeps until it is woken or a time has come.

`Fetcher`, `Positioner` and `Lookup` are such tasks. A worker never ends by itself: what goes wrong in a way
that nobody foresaw is reported, and tried again after a while.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kclient.errors import KafkaError

if TYPE_CHECKING:
    from kclient.consumer.reader import Reader

FOREVER = float("inf")


class Worker(ABC):
    """Calls `_step` again and again."""

    def __init__(self, reader: Reader, name: str) -> None:
        self.name = name
        self.trouble: KafkaError | None = None  # why the last attempt failed
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._backoff = reader.cluster.backoff()
        self._task = reader.cluster.tasks.start(self._run(), name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {'ended' if self._task.done() else 'at work'}>"

    def wake(self) -> None:
        """There may be something to do."""
        self._event.set()

    def retire(self) -> None:
        """End soon; nobody waits for it."""
        self._reader.cluster.tasks.end(self._task)

    async def stop(self) -> None:
        self.retire()
        await asyncio.wait([self._task])

    @abstractmethod
    async def _step(self) -> float:
        """Do what there is to do; returns for how many seconds to sleep unless woken, 0 to go on at once."""

    async def _run(self) -> None:
        while True:
            self._event.clear()
            try:
                wait = await self._step()
                self._recover()
            except KafkaError as error:
                wait = self._failed(error)
            except Exception as error:  # noqa: BLE001 - were this task to end, the application would wait in vain
                wait = self._failed(_unexpected(self.name, error))
            if wait > 0:
                await self._sleep(wait)

    def _recover(self) -> None:
        self._backoff.reset()
        if self.trouble is not None:
            self.trouble = None
            self._reader.look_soon()

    def _failed(self, error: KafkaError) -> float:
        self.trouble = error
        self._reader.report(error, self.name)
        if error.refresh_metadata:
            self._reader.cluster.metadata.ask()
        return self._backoff.next()

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(None if seconds == FOREVER else seconds):
                await self._event.wait()
        except TimeoutError:
            return


def _unexpected(name: str, error: Exception) -> KafkaError:
    failure = KafkaError(f"{name} failed in a way that kclient does not know: {error!r}")
    failure.__cause__ = error
    return failure
