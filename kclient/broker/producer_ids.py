"""Producer ids: handed out once and never again, also after a restart."""

from __future__ import annotations

from pathlib import Path

from kclient.broker.log.storage import write_file

_BLOCK = 1000


class ProducerIds:
    """Ids in blocks, as Kafka's controller: a restart skips the rest of a block instead of repeating it."""

    def __init__(self, data: Path | None, *, sync: bool) -> None:
        self._sync = sync
        self._file = None if data is None else data / "kclient-producer-ids"
        self._next = 0
        self._reserved = 0

    def take(self) -> int:
        if self._next == self._reserved:
            self._reserve()
        self._next += 1
        return self._next - 1

    def _reserve(self) -> None:
        if self._file is not None:
            if self._file.exists():
                self._next = max(self._next, int(self._file.read_text()))
            write_file(self._file, str(self._next + _BLOCK).encode(), sync=self._sync)
        self._reserved = self._next + _BLOCK
