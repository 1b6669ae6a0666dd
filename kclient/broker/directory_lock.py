"""The lock on a data directory, so that one broker at a time writes there: `.lock`, as Kafka has it.

The kernel holds the lock and gives it back when the process dies, however it dies; the file itself stays.
Kafka's brokers lock the same file: they are kept out, and keep us out. `DataDirectory` takes the lock before
it changes anything.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from pathlib import Path
from typing import Self
from weakref import WeakSet

from kclient.broker.log.storage import storage_errors
from kclient.errors import DataDirectoryError

NAME = ".lock"
# What a lock that somebody else has is refused with, on one system or another.
_HELD = {errno.EAGAIN, errno.EACCES}
_held: WeakSet[DirectoryLock] = WeakSet()


class DirectoryLock:
    """Take it with `DirectoryLock.take`, give it back with `release`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def __repr__(self) -> str:
        return f"<DirectoryLock {self.path}, {'released' if self._descriptor is None else 'held'}>"

    @classmethod
    def take(cls, directory: Path) -> Self:
        """Lock a directory; `DataDirectoryError` says who has it already."""
        path = directory / NAME
        with storage_errors("opening", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            _lock(descriptor)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError as error:
            message = f"locking {path} failed: {error}; check the disk and its rights"
            if error.errno in _HELD:
                message = (
                    f"{directory} is in use by {_holder(descriptor)}, and serves one broker at a time: "
                    "stop that one, or choose another directory"
                )
            os.close(descriptor)
            raise DataDirectoryError(message) from error
        taken = cls(path, descriptor)
        _held.add(taken)
        return taken

    def release(self) -> None:
        """Let others in, also where a forked child has not yet come to close its copy of the file."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            _unlock(self._descriptor)
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _close_in_children() -> None:
    """A forked child shares the open file, and would keep the lock for as long as it lives."""
    for lock in list(_held):
        lock._close()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_close_in_children)


def _holder(descriptor: int) -> str:
    """Who has the lock: a Kafka broker, whose process the kernel knows, or one of ours, which says."""
    known = _holding_process(descriptor)
    written = os.read(descriptor, 32).strip()
    number = known or (int(written) if written.isdigit() else 0)
    if number == os.getpid():
        return f"another broker in this process ({number})"
    return f"process {number}" if number else "another process (Kafka's brokers do not leave their number)"


if sys.platform == "win32":
    import msvcrt

    # Others cannot read locked bytes. One far behind the process id is as good, and within Kafka's range.
    _FAR = 1 << 30

    def _lock(descriptor: int) -> None:
        _locking(descriptor, msvcrt.LK_NBLCK)

    def _unlock(descriptor: int) -> None:
        _locking(descriptor, msvcrt.LK_UNLCK)

    def _locking(descriptor: int, mode: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, mode, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

    def _holding_process(_: int) -> int:
        return 0

else:
    import fcntl

    # Kafka's is a POSIX lock. Ours must conflict with it, but cannot be one: those do not conflict within a
    # process, and are gone as soon as anybody there closes the file, as happens when the directory is copied.
    # Linux has locks of an open file description for this; elsewhere `flock` conflicts with POSIX locks.
    # Where Linux has none (an old kernel, a sandbox) there are two: `flock` keeps out other brokers of ours,
    # and a POSIX lock keeps out Kafka's for as long as nobody in this process closes the file.
    _LINUX = sys.platform == "linux"
    _TAKE = getattr(fcntl, "F_OFD_SETLK", None) if _LINUX else None
    _FLOCK = "hhqqi"  # struct flock: type, whence, start, length, process

    def _lock(descriptor: int) -> None:
        _change(descriptor, fcntl.F_WRLCK, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        _change(descriptor, fcntl.F_UNLCK, fcntl.LOCK_UN)

    def _change(descriptor: int, kind: int, operation: int) -> None:
        if _changed_of_file(descriptor, kind):
            return
        fcntl.flock(descriptor, operation)
        if _LINUX:
            fcntl.fcntl(descriptor, fcntl.F_SETLK, _whole_file(kind))

    def _changed_of_file(descriptor: int, kind: int) -> bool:
        """Take or release the lock of the open file, unless there is no such thing here."""
        if _TAKE is None:
            return False
        try:
            fcntl.fcntl(descriptor, _TAKE, _whole_file(kind))
        except OSError as error:
            if error.errno == errno.EINVAL:
                return False
            raise
        return True

    def _whole_file(kind: int) -> bytes:
        return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)

    def _holding_process(descriptor: int) -> int:
        if not _LINUX:
            return 0
        found = fcntl.fcntl(descriptor, fcntl.F_GETLK, _whole_file(fcntl.F_WRLCK))
        kind, *_, process = struct.unpack(_FLOCK, found)
        return int(process) if kind != fcntl.F_UNLCK and process > 0 else 0
