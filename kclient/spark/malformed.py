"""The one error between formats, which know rows, and the reader, which knows where a row comes from."""

from __future__ import annotations

from kclient.errors import KafkaError


class MalformedRecordError(KafkaError):
    """A record is not what its format says. `row` is its place in the batch; `reason` says what is wrong."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row = row
        self.reason = reason
