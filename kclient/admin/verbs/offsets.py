"""The verb about the offsets of partitions."""

from __future__ import annotations

import asyncio
import functools
import operator
from collections.abc import Mapping

from kclient.admin.offsets import (
    ISOLATION_LEVELS,
    IsolationLevel,
    ListedOffset,
    ListOffsets,
    OffsetSpec,
    by_age,
)
from kclient.admin.outcomes import Outcomes
from kclient.admin.verbs.base import Partitions, Verbs, several_partitions
from kclient.types import TopicPartition


class OffsetVerbs(Verbs):
    """Find offsets."""

    async def list_offsets(
        self,
        partitions: Partitions | Mapping[TopicPartition, int],
        at: int = OffsetSpec.LATEST,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[TopicPartition, ListedOffset]:
        """One offset of each partition: its end, its beginning, or by time.

            first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
            end = (await admin.list_offsets(first))[first].offset
            await admin.list_offsets({first: OffsetSpec.EARLIEST, second: 1_767_225_600_000})

        `at` is an `OffsetSpec`, or a timestamp in milliseconds: then it is the first offset of a record that
        is no older. A mapping says it for each partition.
        """
        if isinstance(partitions, Mapping):
            specs = {TopicPartition(*partition): spec for partition, spec in partitions.items()}
        else:
            specs = dict.fromkeys(several_partitions(partitions), at)
        _check(specs, isolation_level)
        deadline = self._open().deadline(timeout_ms)
        timeout = self._broker_timeout_ms(deadline)
        parts = await asyncio.gather(
            *(
                self._run(ListOffsets(part, isolation_level, timeout), part, deadline)
                for part in by_age(specs)
            )
        )
        outcomes = functools.reduce(operator.or_, parts, Outcomes[TopicPartition, ListedOffset]({}))
        if raise_errors:
            outcomes.raise_errors()
        return outcomes


def _check(specs: Mapping[TopicPartition, int], isolation_level: str) -> None:
    if isolation_level not in ISOLATION_LEVELS:
        raise ValueError(f"isolation_level={isolation_level!r} is not one of {', '.join(ISOLATION_LEVELS)}")
    for partition, spec in specs.items():
        if spec < 0 and spec not in set(OffsetSpec):
            raise ValueError(f"{spec} for {partition} is neither a timestamp nor an OffsetSpec")
