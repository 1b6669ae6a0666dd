"""Records that a query was to read and that are gone: what became of them, and where reading can go on.

Pure. `fetch` and `stream` ask brokers for the facts; `explain` finds the cause, `Policy` does what
failOnDataLoss says about it.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from kclient.errors import PositionError
from kclient.types import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

ADVICE = "set failOnDataLoss=false to go on with what is there, or begin anew with another checkpoint"


class DataLossError(PositionError):
    """Records of the range that Spark decided on are not in Kafka any more."""


class Facts(NamedTuple):
    """What brokers say of a partition now; a topic id is empty where it is not known."""

    exists: bool
    topic_id: str = ""
    earliest: int = -1
    latest: int = -1


class Loss(NamedTuple):
    """What happened, and the next offset that can be read; None where there is none."""

    cause: str
    goes_on_at: int | None


def explain(expected_id: str, position: int, end: int, facts: Facts) -> Loss | None:
    """Why the records from `position` to `end` cannot be read; None if they can."""
    if not facts.exists:
        return Loss("the topic, or the partition, was deleted", None)
    if expected_id and facts.topic_id and expected_id != facts.topic_id:
        return Loss("the topic was deleted and made again, under the same name", None)
    if position < facts.earliest:
        return Loss(
            f"records before offset {facts.earliest} were deleted, by retention or by request",
            facts.earliest if facts.earliest < end else None,
        )
    if end > facts.latest:
        return Loss(
            f"the log ends at offset {facts.latest}, where it had reached {end} before: it was cut, by an "
            "election of a leader that had less",
            position if position < facts.latest else None,
        )
    return None


class Policy:
    """Fails, or warns and goes on."""

    def __init__(self, fail: bool) -> None:
        self._fail = fail

    def meet(self, partition: TopicPartition, position: int, cause: str) -> None:
        """Something is lost at a position."""
        if self._fail:
            raise DataLossError(f"{cause}; {ADVICE}", *partition, position)
        log.warning(
            "skipped what is lost: %s (topic %s, partition %d, offset %d)", cause, *partition, position
        )
