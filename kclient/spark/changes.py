"""What changed between two offsets of a stream: partitions that came, that went, that are others now.

Pure, but for the question where new partitions begin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kclient.spark.loss import Policy
from kclient.spark.offsets import Mark, Offsets
from kclient.types import TopicPartition


def begins(before: Mark, after: Mark, earliest: Callable[[Collection[TopicPartition]], Offsets]) -> Offsets:
    """Where reading begins in every partition of `after`: in new ones, and in new topics, at the start."""
    new = [key for key in after.offsets if key not in before.offsets or recreated(key.topic, before, after)]
    found = earliest(new) if new else {}
    return {key: found[key] if key in found else before.offsets[key] for key in after.offsets}


def recreated(topic: str, before: Mark, after: Mark) -> bool:
    """Whether a topic is another one of the same name."""
    old, new = before.ids.get(topic), after.ids.get(topic)
    return bool(old and new and old != new)


def report_losses(before: Mark, after: Mark, first: Offsets, policy: Policy) -> None:
    """Tell of everything that a query will not see."""
    for key in sorted(before.offsets.keys() - after.offsets.keys()):
        policy.meet(key, before.offsets[key], "the topic, or the partition, was deleted")
    for key, end in sorted(after.offsets.items()):
        if key not in before.offsets:
            if first[key] > 0:
                cause = (
                    f"the partition is new and begins at {first[key]}: earlier records are deleted already"
                )
                policy.meet(key, 0, cause)
        elif recreated(key.topic, before, after):
            policy.meet(key, before.offsets[key], "the topic was deleted and made again, under the same name")
        elif first[key] > end:
            policy.meet(
                key, first[key], f"the log ends at offset {end} now: it was cut, or its records deleted"
            )
