"""The bytes of one segment: in a file or in memory, behind the same few verbs.

No knowledge of batches. Files are opened on first use and the least recently used one is closed when many are
open: a broker with a thousand partitions must live with the few descriptors that a desktop allows.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kclient.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MOST_OPEN = 200
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_open_files: OrderedDict[FileStore, int] = OrderedDict()


@contextmanager
def storage_errors(what: str, path: Path) -> Iterator[None]:
    """What the operating system refuses becomes the error that Kafka answers with."""
    try:
        yield
    except OSError as error:
        raise KafkaStorageError(f"{what} {path} failed: {error}; check the disk and its rights") from error


class Store(ABC):
    """Bytes that grow at their end. `size` is always what has been appended whole."""

    size: int

    @abstractmethod
    def append(self, data: bytes) -> None: ...

    @abstractmethod
    def read(self, position: int, size: int) -> bytes | memoryview:
        """At most `size` bytes; fewer at the end."""

    @abstractmethod
    def truncate(self, size: int) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Give resources back; using the store again takes them again."""

    @abstractmethod
    def delete(self) -> None: ...


class MemoryStore(Store):
    """Keeps what was appended as it came. Reads are views, and copies only where they span appends."""

    def __init__(self) -> None:
        self.size: int = 0
        self._starts: list[int] = []
        self._pieces: list[bytes] = []

    def append(self, data: bytes) -> None:
        self._starts.append(self.size)
        self._pieces.append(data)
        self.size += len(data)

    def read(self, position: int, size: int) -> bytes | memoryview:
        end = min(position + size, self.size)
        if position >= end:
            return b""
        first = bisect_right(self._starts, position) - 1
        last = bisect_right(self._starts, end - 1) - 1
        views = [memoryview(piece) for piece in self._pieces[first : last + 1]]
        views[-1] = views[-1][: end - self._starts[last]]
        views[0] = views[0][position - self._starts[first] :]
        return views[0] if first == last else b"".join(views)

    def truncate(self, size: int) -> None:
        while self._starts and self._starts[-1] >= size:
            self._starts.pop()
            self._pieces.pop()
        if self._starts:
            self._pieces[-1] = self._pieces[-1][: size - self._starts[-1]]
        self.size = size

    def close(self) -> None:
        """Holds nothing that must be given back."""

    def delete(self) -> None:
        self.truncate(0)


class FileStore(Store):
    """A file. `path` may change under it: see `rename`. A caller that knows its size spares looking at it."""

    def __init__(self, path: Path, size: int | None = None) -> None:
        self.path: Path = path
        if size is not None:
            self.size: int = size
            return
        with storage_errors("looking at", path):
            self.size = path.stat().st_size if path.exists() else 0
            if self.size == 0:
                path.touch()

    def append(self, data: bytes) -> None:
        descriptor = self._descriptor()
        with storage_errors("writing to", self.path):
            try:
                _write_at(descriptor, data, self.size)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, self.size)
                raise
        self.size += len(data)

    def read(self, position: int, size: int) -> bytes | memoryview:
        size = min(size, self.size - position)
        if size <= 0:
            return b""
        descriptor = self._descriptor()
        with storage_errors("reading", self.path):
            return _read_at(descriptor, size, position)

    def truncate(self, size: int) -> None:
        descriptor = self._descriptor()
        with storage_errors("truncating", self.path):
            os.ftruncate(descriptor, size)
        self.size = size

    def close(self) -> None:
        descriptor = _open_files.pop(self, None)
        if descriptor is not None:
            os.close(descriptor)

    def delete(self) -> None:
        self.close()
        with storage_errors("deleting", self.path):
            self.path.unlink(missing_ok=True)

    def rename(self, path: Path) -> None:
        """Give the file another name, replacing what has it."""
        self.close()
        with storage_errors("renaming", self.path):
            self.path = self.path.replace(path)

    def _descriptor(self) -> int:
        descriptor = _open_files.get(self)
        if descriptor is not None:
            _open_files.move_to_end(self)
            return descriptor
        while len(_open_files) >= _MOST_OPEN:
            os.close(_open_files.popitem(last=False)[1])
        with storage_errors("opening", self.path):
            descriptor = os.open(self.path, _FLAGS, 0o644)
        _open_files[self] = descriptor
        return descriptor


def _write_at(descriptor: int, data: bytes, position: int) -> None:
    if not hasattr(os, "pwrite"):  # Windows
        os.lseek(descriptor, position, os.SEEK_SET)
    view = memoryview(data)
    while view:
        if hasattr(os, "pwrite"):
            written = os.pwrite(descriptor, view, position)
        else:
            written = os.write(descriptor, view)
        view = view[written:]
        position += written


def _read_at(descriptor: int, size: int, position: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, position)
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.read(descriptor, size)


def write_file(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Put a small file in place as a whole: after a crash there is the old one or the new one.

    Once `sync` returns, it is the new one after a power cut too.
    """
    part = path.with_name(path.name + ".tmp")
    with storage_errors("writing", path), part.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    with storage_errors("renaming to", path):
        part.replace(path)
    if sync:
        sync_directory(path.parent)


def sync_files(paths: Iterable[Path], directory: Path) -> None:
    """Return when files and their names in a directory would survive a power cut.

    May run beside appends, on a thread: it has descriptors of its own. A file that retention or compaction
    removed meanwhile needs no syncing.
    """
    for path in paths:
        with storage_errors("syncing", path), suppress(FileNotFoundError):
            _sync(path, _FLAGS & ~os.O_CREAT)
    sync_directory(directory)


def sync_directory(path: Path) -> None:
    """Make new names in a directory survive a power cut."""
    if os.name == "nt":  # directories cannot be opened there, and need not be
        return
    with storage_errors("syncing", path), suppress(FileNotFoundError):
        _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_text(path: Path) -> str | None:
    """A small file; None for what is no text, and so not the file that it should be."""
    with storage_errors("reading", path):
        data = path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def read_table(path: Path, columns: str) -> list[list[str]]:
    """The rows of a checkpoint file, none if there is no file; `i` columns hold whole numbers."""
    if not path.exists():
        return []
    lines = (read_text(path) or "").splitlines()
    rows = [line.split() for line in lines[2:] if line]
    if lines[:2] != ["0", str(len(rows))] or not all(_fits(row, columns) for row in rows):
        raise KafkaStorageError(f"{path} is not a checkpoint of Kafka's: restore it, or remove it")
    return rows


def _fits(row: list[str], columns: str) -> bool:
    if len(row) != len(columns):
        return False
    return all(kind == "s" or _NUMBER.fullmatch(cell) for kind, cell in zip(columns, row, strict=True))
