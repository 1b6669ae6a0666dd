"""The TLS context of a client's next connection: made again when a file that it came from has changed.

Certificates live for weeks and clients for months. Whoever renews a certificate, or the authorities that are
trusted, replaces files; a client looks at them before each new connection, which costs a `stat` each.
Connections that are open stay as they are. How a context is made is said in `tls`; `settings` and `oidc` use
this.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kclient.errors import ConfigurationError
from kclient.net.tls import Location

log: logging.Logger = logging.getLogger(__name__)


class _Stamp(NamedTuple):
    """What tells one content of a file from the next; a link, or a file, that is moved has another i-node."""

    inode: int
    size: int
    modified: int
    changed: int


class TlsFiles:
    """The context that `make` makes of `files`, as they are now; of None, the system's authorities."""

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[Location | None]) -> None:
        self._make = make
        self._paths = [Path(file) for file in files if file is not None]
        # Before they are read: what changes meanwhile is read again the next time.
        self._read = self._stamps()
        self._complained: list[_Stamp | None] = []
        self._context = make()

    def __repr__(self) -> str:
        return f"<TlsFiles {', '.join(map(str, self._paths))}>"

    def context(self) -> ssl.SSLContext:
        """The context for a connection that is made now.

        Files are replaced one after another, so what cannot be used may be half of something: until it can,
        the context of before goes on.
        """
        stamps = self._stamps()
        if stamps == self._read:
            return self._context
        try:
            self._context = self._make()
        except ConfigurationError as error:
            if stamps != self._complained:
                self._complained = stamps
                log.warning("certificates have changed and cannot be used, those of before are: %s", error)
            return self._context
        log.info("certificates have changed: new connections use them")
        self._read = stamps
        return self._context

    def _stamps(self) -> list[_Stamp | None]:
        return [_stamp(path) for path in self._paths]


def trusted_by_default() -> list[Location | None]:
    """Where the system keeps the authorities that are trusted when none are named."""
    paths = ssl.get_default_verify_paths()
    return [paths.cafile, paths.capath]


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:  # on the way of being replaced
        return None
    return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
