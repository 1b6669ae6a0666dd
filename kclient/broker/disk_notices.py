"""What the log says of a disk that refuses to be written to: a line when it begins, and one when it is over.

Clients only see an error code, and producers try again for minutes without a word. Whatever writes calls it.
"""

from __future__ import annotations

import logging

from kclient.errors import KafkaStorageError

log: logging.Logger = logging.getLogger(__name__)


class DiskNotices:
    """The state of one broker's disk, as far as writing has shown."""

    def __init__(self) -> None:
        self.refusing: bool = False

    def __repr__(self) -> str:
        return f"<DiskNotices {'of a disk that refuses' if self.refusing else 'with nothing to say'}>"

    def refused(self, error: KafkaStorageError) -> None:
        """Something could not be written or read."""
        if not self.refusing:
            self.refusing = True
            log.warning(
                "%s. Until it can be written to again, clients are answered with KAFKA_STORAGE_ERROR and may "
                "repeat their requests; nothing that was acknowledged is lost",
                error.message or error,
            )

    def wrote(self) -> None:
        """Records were written, after a refusal."""
        self.refusing = False
        log.warning("the disk can be written to again")
