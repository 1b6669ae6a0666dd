"""Why a consumer gets nothing of topics and partitions that it is to read: what is the matter, in words.

Pure: from what metadata says and from what brokers answered about partitions. `Complaints` tells it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kclient.cluster.metadata import Metadata
from kclient.errors import (
    AuthorizationError,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    error_for,
)
from kclient.types import TopicPartition

_SHOWN = 5  # numbers of partitions, before the rest is a count


class Key(NamedTuple):
    """What a complaint is about: as long as this stays the same, it is the same cause."""

    kind: str
    about: str


class Complaint(NamedTuple):
    """What is the matter. `error` is raised from the application's calls; without one it is for the log.

    `topic` is the one that it is about, None for what is about the whole consumer.
    """

    text: str
    topic: str | None = None
    error: KafkaError | None = None

    @property
    def final(self) -> bool:
        """Whether no later attempt can succeed."""
        return isinstance(self.error, InvalidTopicError)


Found = dict[Key, Complaint]


def about_topics(
    followed: Collection[str], before: Mapping[Key, Complaint], snapshot: Metadata, user: str | None = None
) -> Found:
    """What is wrong with topics, as far as metadata says; where it says nothing, it is as `before`."""
    found: Found = {
        key: complaint
        for key, complaint in before.items()
        if complaint.topic in followed
        and complaint.topic not in snapshot.topics
        and complaint.topic not in snapshot.errors
    }
    for topic in sorted(snapshot.errors.keys() & followed):
        code = snapshot.errors[topic]
        error = error_for(code, about=f"topic {topic}")
        if error is None:
            continue
        if isinstance(error, AuthorizationError):
            error.explain("Read", user)
        if not error.retriable:
            found[key_of(error, topic)] = Complaint(str(error), topic, error)
        elif topic not in snapshot.topics:  # else what is known serves as well
            missing = isinstance(error, UnknownTopicOrPartitionError)
            found[key_of(error, topic)] = Complaint(
                f"topic {topic!r} does not exist: check the name, or create it. Reading begins by itself then"
                if missing
                else f"topic {topic!r} cannot be read now: {error}",
                topic,
            )
    return found


def about_partitions(leaderless: Iterable[TopicPartition], snapshot: Metadata) -> Found:
    """Which partitions of topics that are there do not exist, or have no leader."""
    missing: dict[str, list[int]] = defaultdict(list)
    orphaned: dict[str, list[int]] = defaultdict(list)
    for name, number in leaderless:
        topic = snapshot.topics.get(name)
        if topic is not None:
            (orphaned if number in topic.partitions else missing)[name].append(number)
    found: Found = {}
    for name, numbers in missing.items():
        has = _numbers(snapshot.topics[name].partitions)
        found[Key("no partition", name)] = Complaint(
            f"topic {name!r} has no {_numbers(numbers)}, which this consumer is to read: it has {has}. "
            "Reading begins by itself once there are more",
            name,
        )
    for name, numbers in orphaned.items():
        found[Key(LeaderNotAvailableError.name, name)] = Complaint(
            f"{_numbers(numbers)} of topic {name!r} cannot be read now, for lack of a leader: "
            "the brokers that have its records are down, or an election is under way. "
            "Reading goes on by itself once there is one",
            name,
        )
    return found


def about_pattern(pattern: str) -> Found:
    """That nothing matches."""
    return {
        Key("no match", pattern): Complaint(
            f"no topic that this client may see matches the pattern {pattern!r}, which has to fit the whole "
            "name. Reading begins by itself once there is one"
        )
    }


def answered(error: KafkaError, topic: str) -> Found:
    """What a broker answered about a partition: one complaint for all partitions of a topic."""
    if error.retriable:  # it passes, or somebody has to look at the brokers
        text = f"topic {topic!r} cannot be read now, it is tried again: {error}"
        return {key_of(error, topic): Complaint(text, topic)}
    return {key_of(error, topic): Complaint(str(error), topic, error)}


def failed(error: KafkaError, work: str) -> Found:
    """What keeps one of the workers from its work."""
    text = str(error) if work in str(error) else f"{work}: {error}"
    return {key_of(error, work): Complaint(text, None, None if error.retriable else error)}


def key_of(error: KafkaError, about: str) -> Key:
    return Key(getattr(error, "name", type(error).__name__), about)


def _numbers(partitions: Iterable[int]) -> str:
    numbers = sorted(partitions)
    if not numbers:
        return "no partitions"
    if len(numbers) == 1:
        return f"partition {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"partitions {numbers[0]} to {numbers[-1]}"
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"partitions {', '.join(map(str, numbers[:_SHOWN]))}{more}"
