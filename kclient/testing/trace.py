"""What happened in a simulation, as a hash of everything and the last few events in words.

Every packet with its bytes, every connection made or lost, every fault and every jump of time goes in, so two
runs with the same hash have done the same.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kclient.clock import LoopTime

_KEPT = 30


class Trace:
    """The record of one simulation."""

    def __init__(self, time: LoopTime) -> None:
        self.last: deque[str] = deque(maxlen=_KEPT)
        self._time = time
        self._hash = hashlib.blake2b(digest_size=16)

    def __repr__(self) -> str:
        return f"<Trace {self.digest()}>"

    def event(self, what: str, data: bytes = b"") -> None:
        """Something that a person may want to read about."""
        line = f"{self._time.time():.6f} {what}"
        self.last.append(line)
        self._hash.update(f"{self._time.time()!r} {what}\n".encode())
        self._hash.update(data)

    def jump(self, now: float) -> None:
        """Time has moved: of interest to the hash alone."""
        self._hash.update(b"%r\n" % now)

    def digest(self) -> str:
        """The hash of all events so far."""
        return self._hash.hexdigest()
