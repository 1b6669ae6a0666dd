"""What "all that are assigned" means to a call: in a group it may be too early to know, then it waits.

Used by the engine: its seeks may come right after `start`, and its complaints say why nothing is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from kclient.consumer.arguments import topic_partition
from kclient.consumer.group.membership import STABLE
from kclient.errors import IllegalStateError, KafkaTimeoutError
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.consumer.engine import Engine

# How often it looks whether a group gives this member nothing, which no change tells of, in seconds.
_LOOK = 0.1


async def chosen(
    engine: Engine, partitions: Iterable[TopicPartition], *, waits: bool
) -> list[TopicPartition]:
    """These, or all that are assigned: waits until some are, or the group has none for this member.

    A rebalance listener cannot wait (`waits`): the group waits for it.
    """
    given = [topic_partition(each) for each in partitions]
    if given:
        return given
    deadline = engine.opened().deadline()
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline.at):
            while True:
                found = sorted(engine.subscription.assigned())
                if found or not waits or _has_none(engine):
                    return found
                await _something(engine)
    assert engine.reader is not None
    reasons = [*engine.reader.complaints.texts(), *engine.opened().complaints()] or [standby(engine) or ""]
    raise KafkaTimeoutError(f"no partition was assigned within {deadline.seconds:g} s: {'; '.join(reasons)}")


def _has_none(engine: Engine) -> bool:
    if not engine.subscription.subscribing:
        if engine.subscription.by_hand:
            return True
        raise IllegalStateError("nothing is assigned to this consumer: subscribe or assign partitions first")
    return engine.membership is not None and engine.membership.has_nothing


async def _something(engine: Engine) -> None:
    """Wait until something has changed, or for a moment; raises what keeps partitions from being assigned."""
    assert engine.reader is not None
    engine.check_failures()
    engine.reader.complaints.check(engine.subscription.topics)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LOOK):
            await engine.reader.progress()


def standby(engine: Engine) -> str | None:
    """That this member of a group has nothing to read, if that is so."""
    subscription, membership = engine.subscription, engine.membership
    if membership is None or not subscription.subscribing:
        return None
    state = membership.health().state
    pattern = subscription.server_pattern
    reason = f"the group has not given it any yet (its membership: {state})"
    if state == STABLE:
        reason = "the group has more members than these topics have partitions"
        if pattern is not None:  # only the coordinator knows which topics these are
            reason = f"no topic matches the pattern {pattern!r}, or {reason}"
    return f"no partition is assigned to this member of group {engine.config.group_id!r}: {reason}"
