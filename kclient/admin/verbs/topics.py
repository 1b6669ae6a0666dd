"""Verbs about topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.admin.outcomes import Outcomes
from kclient.admin.topics import (
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeTopics,
    ListTopics,
    NewPartitions,
    NewTopic,
    TopicDescription,
    TopicListing,
)
from kclient.admin.verbs.base import Names, Verbs, several


class TopicVerbs(Verbs):
    """Create, delete, list, describe topics, and add partitions."""

    async def create_topics(
        self,
        topics: str | NewTopic | Iterable[str | NewTopic],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, CreatedTopic]:
        """Create topics; a name alone takes the broker's defaults. `validate_only` creates nothing.

            await admin.create_topics(["orders", NewTopic("users", 6, configs={"cleanup.policy": "compact"})])

        Brokers may need a moment until all of them know a new topic. If the answer to a request is lost, the
        topic may exist although `TopicAlreadyExistsError` is raised: by the attempt before.
        """
        given = [topics] if isinstance(topics, (str, NewTopic)) else topics
        if isinstance(given, Mapping):  # whose values, such as a number of partitions, would be dropped
            raise TypeError(f"create_topics takes names and NewTopic(name, partitions), not {given!r}")
        wanted: dict[str, NewTopic] = {}
        for each in given:
            if not isinstance(each, (str, NewTopic)):
                raise TypeError(f"create_topics takes names and NewTopic(name, partitions), not {each!r}")
            topic = NewTopic(each) if isinstance(each, str) else each
            if wanted.setdefault(topic.name, topic) != topic:
                raise ValueError(
                    f"topic {topic.name} is to be created in two ways: {wanted[topic.name]}, {topic}"
                )
        deadline = self._open().deadline(timeout_ms)
        operation = CreateTopics(wanted, self._broker_timeout_ms(deadline), validate_only)
        return await self._run_and_raise(operation, wanted, deadline, raise_errors=raise_errors)

    async def delete_topics(
        self, topics: Names, *, raise_errors: bool = True, timeout_ms: float | None = None
    ) -> Outcomes[str, None]:
        """Delete topics and all their records.

        await admin.delete_topics("orders")
        """
        cluster = self._open()
        deadline = cluster.deadline(timeout_ms)
        outcomes = await self._run(DeleteTopics(self._broker_timeout_ms(deadline)), several(topics), deadline)
        cluster.metadata.forget(outcomes.succeeded)
        if raise_errors:
            outcomes.raise_errors()
        return outcomes

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: float | None = None
    ) -> dict[str, TopicListing]:
        """The topics that this client may see, by name. Kafka's own, such as its offsets, only on request."""
        topics = await self._run_one(ListTopics(), self._open().deadline(timeout_ms))
        return {name: topic for name, topic in topics.items() if include_internal or not topic.internal}

    async def describe_topics(
        self,
        topics: Names,
        *,
        include_authorized_operations: bool = False,
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, TopicDescription]:
        """The partitions of topics, and who has them.

        leader = (await admin.describe_topics("orders"))["orders"].partitions[0].leader
        """
        return await self._run_and_raise(
            DescribeTopics(include_authorized_operations),
            several(topics),
            self._open().deadline(timeout_ms),
            raise_errors=raise_errors,
        )

    async def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, None]:
        """Give topics more partitions; the number is that of all, old and new. Keys move to other partitions.

        await admin.create_partitions({"orders": 12})
        """
        wanted = {
            name: each if isinstance(each, NewPartitions) else NewPartitions(each)
            for name, each in topics.items()
        }
        deadline = self._open().deadline(timeout_ms)
        operation = CreatePartitions(wanted, self._broker_timeout_ms(deadline), validate_only)
        return await self._run_and_raise(operation, wanted, deadline, raise_errors=raise_errors)
