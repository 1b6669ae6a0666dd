"""What kclient logs while a command runs, on stderr: warnings once each, with --debug everything."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logging_to_stderr(debug: bool) -> Iterator[None]:
    handler = logging.StreamHandler(sys.stderr)
    if debug:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    else:
        handler.setFormatter(logging.Formatter("warning: %(message)s"))
        handler.addFilter(_Once())
    logger = logging.getLogger("kclient")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _Once(logging.Filter):
    """Lets a message through once, as a command may have two clients that say the same.

    That a broker cannot be reached is not said here: if it matters, the command fails and says so.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.name.startswith("kclient.broker"):  # runs for days, and what comes again is news
            return True
        if text in self._said or record.name.startswith("kclient.cluster"):
            return False
        self._said.add(text)
        return True
