"""Offsets as texts: what a user wrote in startingOffsets and its siblings, and what a checkpoint holds.

Pure. A checkpoint's offsets look as those of Spark's own source, `{"orders": {"0": 17}}`, so a query can go
on from its checkpoint; under `IDS`, which no topic can be called, are the topics' ids: a topic that was
deleted and made again is another one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kclient.errors import ConfigurationError
from kclient.spark.options import Options
from kclient.types import TopicPartition

EARLIEST = -2
LATEST = -1
IDS = "@ids"

Offsets = dict[TopicPartition, int]


class Place(NamedTuple):
    """Where in a partition: an offset (`EARLIEST` and `LATEST` included), or the first record of a time."""

    value: int
    by_time: bool = False

    @property
    def asked(self) -> bool:
        """Whether a broker knows the offset, and not the user."""
        return self.by_time or self.value < 0


@dataclass(frozen=True)
class Spec:
    """Where to begin, or to end, in every partition. `option` is what the user set, for messages."""

    option: str
    rest: Place
    named: Mapping[TopicPartition, Place]
    missing_is_latest: bool = False

    def place(self, partition: TopicPartition) -> Place:
        return self.named.get(partition, self.rest)

    def check(self, partitions: Collection[TopicPartition]) -> None:
        """Raise where a partition is named that is not read."""
        strange = sorted(set(self.named) - set(partitions))
        if strange:
            topic, number = strange[0]
            raise ConfigurationError(
                f"{self.option} names partition {number} of topic {topic}, which is not among what is read: "
                "correct it, or the subscription"
            )

    def questions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What a broker has to be asked: the start (-2), the end (-1) or a time, by partition."""
        places = ((partition, self.place(partition)) for partition in partitions)
        return {partition: place.value for partition, place in places if place.asked}

    def settle(
        self, partitions: Iterable[TopicPartition], found: Mapping[TopicPartition, int], ends: Offsets
    ) -> Offsets:
        """The offsets, from the answers to `questions`; `ends` has the ends where no record was found."""
        settled: Offsets = {}
        for partition in partitions:
            place = self.place(partition)
            offset = found.get(partition, place.value)
            if offset < 0:
                if not self.missing_is_latest:
                    raise ConfigurationError(
                        f"{self.option}: topic {partition.topic}, partition {partition.partition} has no "
                        f"record at {place.value} ms or later: give an earlier time, or "
                        "startingOffsetsByTimestampStrategy=latest"
                    )
                offset = ends[partition]
            settled[partition] = offset
        return settled


def starting(options: Options, *, streaming: bool) -> Spec:
    """Where to begin; a time goes before times by partition, these before offsets."""
    rest = Place(LATEST if streaming else EARLIEST)
    late = options["startingOffsetsByTimestampStrategy"] == "latest"
    if options["startingTimestamp"] is not None:
        return Spec("startingTimestamp", Place(options["startingTimestamp"], True), {}, late)
    if options["startingOffsetsByTimestamp"] is not None:
        name = "startingOffsetsByTimestamp"
        return Spec(name, rest, _places(name, options[name], by_time=True), late)
    return _by_offset("startingOffsets", options, rest, refused=None if streaming else LATEST)


def ending(options: Options) -> Spec:
    """Where a batch ends. A time without a record is the end."""
    rest = Place(LATEST)
    if options["endingTimestamp"] is not None:
        return Spec("endingTimestamp", Place(options["endingTimestamp"], True), {}, True)
    if options["endingOffsetsByTimestamp"] is not None:
        name = "endingOffsetsByTimestamp"
        return Spec(name, rest, _places(name, options[name], by_time=True), True)
    return _by_offset("endingOffsets", options, rest, refused=EARLIEST)


_WORDS = {"earliest": EARLIEST, "latest": LATEST}


def _by_offset(name: str, options: Options, rest: Place, refused: int | None) -> Spec:
    given = options[name]
    if given is None:
        return Spec(name, rest, {})
    word = given.strip().lower()
    if word in _WORDS:
        spec = Spec(name, Place(_WORDS[word]), {})
    else:
        spec = Spec(name, rest, _places(name, given, by_time=False))
    if refused is not None and refused in {place.value for place in (spec.rest, *spec.named.values())}:
        word = next(word for word, value in _WORDS.items() if value == refused)
        raise ConfigurationError(
            f"{name} cannot be {word} ({refused}) in a batch query, which would be empty: give other offsets"
        )
    return spec


def _places(name: str, given: str, *, by_time: bool) -> dict[TopicPartition, Place]:
    places: dict[TopicPartition, Place] = {}
    least = 0 if by_time else EARLIEST
    for topic, numbers in _object(name, given).items():
        if not isinstance(numbers, dict):
            raise _not_offsets(name, given)
        for number, value in numbers.items():
            if not number.isdecimal() or isinstance(value, bool) or not isinstance(value, int):
                raise _not_offsets(name, given)
            if value < least:
                raise ConfigurationError(f"{name} names {value} for {topic}, partition {number}: too small")
            places[TopicPartition(topic, int(number))] = Place(value, by_time)
    return places


def assigned(given: str) -> list[TopicPartition]:
    """The partitions of an `assign` option: `{"orders": [0, 1]}`."""
    found: list[TopicPartition] = []
    for topic, numbers in _object("assign", given).items():
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise ConfigurationError(f'assign={given!r} must be JSON as in {{"orders": [0, 1]}}')
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise ConfigurationError(f"assign={given!r} names no partition")
    return sorted(set(found))


def _object(name: str, given: str) -> dict[str, Any]:
    try:
        read = json.loads(given)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise _not_offsets(name, given)
    return read


def _not_offsets(name: str, given: str) -> ConfigurationError:
    words = "" if "Timestamp" in name or name == "assign" else "earliest, latest or "
    example = '{"orders": [0, 1]}' if name == "assign" else '{"orders": {"0": 17, "1": -2}}'
    return ConfigurationError(f"{name}={given!r} must be {words}JSON as in {example}")


class Mark(NamedTuple):
    """The offsets of a checkpoint, and which topics they are of: ids by name, where they are known."""

    offsets: Offsets
    ids: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it. Spark compares marks as text, so equal ones are written equally."""
        topics: dict[str, Any] = {}
        for (topic, number), offset in sorted(self.offsets.items()):
            topics.setdefault(topic, {})[str(number)] = offset
        known = {topic: self.ids[topic] for topic in topics if self.ids.get(topic)}
        return topics | {IDS: known} if known else topics


def from_json(given: Mapping[str, Any]) -> Mark:
    """A mark from a checkpoint, ours or one of Spark's own source."""
    offsets = {
        TopicPartition(topic, int(number)): int(offset)
        for topic, numbers in given.items()
        if topic != IDS
        for number, offset in numbers.items()
    }
    return Mark(offsets, dict(given.get(IDS, {})))
