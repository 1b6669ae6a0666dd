"""Verbs about the offsets that groups have committed."""

from __future__ import annotations

from collections.abc import Mapping

from kclient.admin.group_offsets import AlterGroupOffsets, DeleteGroupOffsets, ListGroupOffsets
from kclient.admin.outcomes import Outcomes
from kclient.admin.verbs.base import Partitions, Verbs, several_partitions
from kclient.types import OffsetAndMetadata, TopicPartition


class GroupOffsetVerbs(Verbs):
    """List, alter and delete committed offsets."""

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Partitions | None = None,
        *,
        require_stable: bool = False,
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[TopicPartition, OffsetAndMetadata | None]:
        """What a group has committed: for all its partitions, or the given ones (None where it has nothing).

            committed = await admin.list_consumer_group_offsets("billing")

        `require_stable` (Kafka 2.5) waits until no transaction is about to change the answer.
        """
        wanted = None if partitions is None else several_partitions(partitions)
        if wanted == []:
            return Outcomes({})
        deadline = self._open().deadline(timeout_ms)
        outcomes = await self._run(ListGroupOffsets(wanted, require_stable), [group_id], deadline)
        committed = Outcomes(outcomes[group_id])
        if raise_errors:
            committed.raise_errors()
        return committed

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets in the name of a group, which must have no members; a new group is made.

        await admin.alter_consumer_group_offsets("billing", {TopicPartition("orders", 0): 1_000})
        """
        wanted = {
            TopicPartition(*partition): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }
        for partition, committed in wanted.items():
            if committed.offset < 0:  # brokers store it, and consumers then fail
                raise ValueError(f"{committed.offset} for {partition} is no offset: they begin at 0")
        deadline = self._open().deadline(timeout_ms)
        operation = AlterGroupOffsets(group_id, wanted)
        return await self._run_and_raise(operation, wanted, deadline, raise_errors=raise_errors)

    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Partitions,
        *,
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Delete what a group has committed, for partitions of topics that no member subscribes to.

            await admin.delete_consumer_group_offsets("billing", TopicPartition("orders", 0))

        Needs Kafka 2.4.
        """
        deadline = self._open().deadline(timeout_ms)
        return await self._run_and_raise(
            DeleteGroupOffsets(group_id), several_partitions(partitions), deadline, raise_errors=raise_errors
        )
