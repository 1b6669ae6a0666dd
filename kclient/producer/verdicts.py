"""What an answer means for the batch it is about. A table in the form of a function; does nothing.

| verdict | when | then |
|---|---|---|
| WRITTEN | no error; or the broker has it already and no longer knows where | the records are delivered |
| AGAIN | an error that may pass; whether it was written is unknown | sent again after a pause, in its place |
| BEHIND | out of order, because a batch before it failed | sent again behind that one |
| ANEW | out of order although everything before it is written: the broker lost count | numbered anew |
| STRANGER | the broker does not take us for who we were | a new producer id, then numbered anew |
| SPLIT | too large, and more than one record | sent again in halves |
| FATAL | anything else | the records fail |
"""

from __future__ import annotations

from enum import Enum, auto

from kclient.errors import (
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    KafkaError,
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
    RecordListTooLargeError,
    UnknownProducerIdError,
)
from kclient.producer.batch import NO_SEQUENCE, Batch

_TOO_LARGE = (MessageTooLargeError, RecordListTooLargeError)
_LOST_COUNT = (OutOfOrderSequenceNumberError, UnknownProducerIdError)
_STRANGER = (InvalidProducerEpochError, InvalidProducerIdMappingError)


class Verdict(Enum):
    """What becomes of a batch."""

    WRITTEN = auto()
    AGAIN = auto()
    BEHIND = auto()
    ANEW = auto()
    STRANGER = auto()
    SPLIT = auto()
    FATAL = auto()


def judge(error: KafkaError | None, batch: Batch, retries: int) -> Verdict:
    """The verdict on a batch whose last attempt ended with `error`."""
    if error is None or isinstance(error, DuplicateSequenceNumberError):
        return Verdict.WRITTEN
    if isinstance(error, _TOO_LARGE) and batch.count > 1:
        return Verdict.SPLIT
    if batch.sequence != NO_SEQUENCE:
        if isinstance(error, _LOST_COUNT):
            return Verdict.ANEW if batch.first else Verdict.BEHIND
        if isinstance(error, _STRANGER):
            return Verdict.STRANGER
    return Verdict.AGAIN if error.retriable and batch.attempts <= retries else Verdict.FATAL
