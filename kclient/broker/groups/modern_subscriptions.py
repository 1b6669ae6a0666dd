"""What the members of a consumer group are subscribed to, by name and by regular expression.

Regular expressions are resolved apart from the heartbeat that brings them, as in Kafka: until then they match
nothing. `modern` asks; whoever owns the topics is behind `TopicView`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from kclient.broker.groups.modern_assignors import Partitions, TopicPartition, by_topic
from kclient.broker.groups.modern_member import Member
from kclient.broker.groups.modern_regex import matching


class TopicView(Protocol):
    """The topics there are now."""

    def topics(self) -> Mapping[str, tuple[UUID, int]]:
        """Topic ids and numbers of partitions, by name."""
        ...


class Subscriptions:
    """The topics of one group's members."""

    def __init__(self, view: TopicView) -> None:
        self.resolved: dict[str, frozenset[str]] = {}
        self.seen: int = 0
        self._view = view

    def names(self, member: Member) -> frozenset[str]:
        """Every topic the member wants, whether it exists or not."""
        return member.topic_names | self.resolved.get(member.topic_regex, frozenset())

    def ids(self, member: Member) -> frozenset[UUID]:
        """The ids of the topics that the member wants and that exist."""
        topics = self._view.topics()
        return frozenset(topics[name][0] for name in self.names(member) if name in topics)

    def counts(self) -> dict[UUID, int]:
        return dict(self._view.topics().values())

    def topic_names(self) -> dict[UUID, str]:
        return {topic_id: name for name, (topic_id, _) in self._view.topics().items()}

    def by_name(self, partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
        """Partitions by the names of topics that exist."""
        names = self.topic_names()
        return {names[topic]: numbers for topic, numbers in by_topic(partitions).items() if topic in names}

    def by_id(self, partitions: Mapping[str, Iterable[int]]) -> Partitions:
        """Partitions by the ids of topics that exist."""
        topics = self._view.topics()
        known = {name: numbers for name, numbers in partitions.items() if name in topics}
        return frozenset((topics[name][0], number) for name, numbers in known.items() for number in numbers)

    def is_resolved(self, regex: str) -> bool:
        return not regex or regex in self.resolved

    def resolve(self, members: Iterable[Member]) -> dict[str, frozenset[str] | None]:
        """Match every regular expression in use again; returns what changed, None for those not in use."""
        used = {member.topic_regex for member in members if member.topic_regex}
        topics = self._view.topics()
        changed: dict[str, frozenset[str] | None] = dict.fromkeys(self.resolved.keys() - used)
        for regex in used:
            found = matching(regex, topics)
            if self.resolved.get(regex) != found:
                changed[regex] = found
        for regex, names in changed.items():
            if names is None:
                del self.resolved[regex]
            else:
                self.resolved[regex] = names
        return changed

    def look_again(self, members: Iterable[Member]) -> bool:
        """Note the subscribed topics as they are now; True where one came, went, grew or was made anew."""
        topics = self._view.topics()
        wanted = {name for member in members for name in self.names(member)}
        before, self.seen = self.seen, _fingerprint({name: topics[name] for name in wanted if name in topics})
        return before != self.seen


def _fingerprint(topics: Mapping[str, tuple[UUID, int]]) -> int:
    """Kept with the group, so that a change while the broker was down is noticed; 0 for no topics.

    Kafka keeps one in the same place but computes it otherwise: whoever reads the other's assigns once more.
    """
    if not topics:
        return 0
    text = repr(sorted((name, topic_id.hex, count) for name, (topic_id, count) in topics.items()))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
