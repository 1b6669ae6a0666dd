"""Watches how long partitions of a group have no owner, in virtual time.

An owner is a member that is alive, in reach of the brokers, and whose application gets the records. How long
a group may leave a partition alone is decided by its protocol, and counted from the last time that something
happened to it (`touched`), as every fault may start it all again:

- The coordinator misses a member one session timeout after it was heard of last. The others hear of that with
  their next heartbeat, and a cooperative group needs another round of heartbeats to hand partitions on. There
  is no way around this for any client.
- In a classic group nobody is missed who waits for the answer to its join: its session begins with that. The
  answer comes when all others have joined or were missed, so somebody lost between its join and its
  assignment costs a second session. An id that was handed out and not used costs one as a member does.

A group without any member in reach can own nothing, and is not watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from kclient.types import TopicPartition

_EVERY = 0.25


class Ownership:
    """`owned` tells what the members in reach own together, None if there are none; classic groups join."""

    def __init__(
        self,
        partitions: Iterable[TopicPartition],
        owned: Callable[[], Collection[TopicPartition] | None],
        session: float,
        heartbeat: float,
        *,
        joins: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._owned = owned
        self._partitions = list(partitions)
        self._session = session
        self._heartbeats = 2 * heartbeat + 2 * _EVERY
        self._lone_since: dict[TopicPartition, float] = {}
        self._touched = self._loop.time()
        self._joins = joins
        self._lost_in_join = False
        self.longest = 0.0
        self.too_long: list[str] = []

    @property
    def limit(self) -> float:
        """The longest, in seconds, that a partition may have no owner after the last fault."""
        return self._session * (2 if self._lost_in_join else 1) + self._heartbeats

    def touched(self, *, lost_in_join: bool = False) -> None:
        """Something happened to the group, or to the brokers."""
        self._touched = self._loop.time()
        self._lost_in_join |= lost_in_join and self._joins

    async def watch(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(_EVERY)

    def _look(self) -> None:
        owned, now = self._owned(), self._loop.time()
        for partition in self._partitions:
            if owned is None or partition in owned:
                self._lone_since.pop(partition, None)
                continue
            alone = now - max(self._lone_since.setdefault(partition, now), self._touched)
            self.longest = max(self.longest, alone)
            if alone > self.limit:
                self.too_long.append(f"{partition} at {now:.1f} s: {alone:.1f} of {self.limit:.1f} s")
