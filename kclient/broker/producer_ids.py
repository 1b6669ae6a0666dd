"""Producer ids: handed out once and never again, also after a restart."""

from __future__ import annotations

import re
from pathlib import Path

from kclient.broker.log.storage import read_text, write_file
from kclient.errors import KafkaStorageError

_BLOCK = 1000
_ID = re.compile(r"[0-9]{1,19}\s*")


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
                self._next = max(self._next, _read(self._file))
            write_file(self._file, str(self._next + _BLOCK).encode(), sync=self._sync)
        self._reserved = self._next + _BLOCK


def _read(path: Path) -> int:
    text = read_text(path) or ""
    if not _ID.fullmatch(text):
        raise KafkaStorageError(
            f"{path} holds no producer id: restore it, or write a number there that is above all producer ids"
        )
    return int(text)
