"""What a user wants to read, from `assign`, `subscribe` or `subscribePattern`. Pure; both readers call it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kclient.errors import ConfigurationError
from kclient.spark.offsets import assigned
from kclient.spark.options import Options
from kclient.types import TopicPartition

_CHOICES = ("assign", "subscribe", "subscribePattern")


@dataclass(frozen=True)
class Subscription:
    """What a user wants to read: exactly one of the three ways."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    def names(self) -> list[str] | None:
        """The topics to ask about; None is all."""
        if self.pattern is not None:
            return None
        return sorted({*self.topics, *(partition.topic for partition in self.partitions)})


def subscription(options: Options) -> Subscription:
    """Read the options; raises `ConfigurationError` unless exactly one of the three names something."""
    given = [name for name in _CHOICES if options[name] is not None]
    if len(given) != 1:
        what = f"{' and '.join(given)} are given" if given else "none is given"
        raise ConfigurationError(f"exactly one of {', '.join(_CHOICES)} says what to read: {what}")
    if options["assign"] is not None:
        return Subscription(partitions=tuple(assigned(options["assign"])))
    if options["subscribe"] is not None:
        topics = [name.strip() for name in options["subscribe"].split(",") if name.strip()]
        if not topics:
            raise ConfigurationError(f"subscribe={options['subscribe']!r} names no topic")
        return Subscription(topics=tuple(topics))
    return Subscription(pattern=_pattern(options["subscribePattern"]))


def _pattern(given: str) -> re.Pattern[str]:
    if not given.strip():  # found in every name, so it would read the whole cluster
        raise ConfigurationError(
            f"subscribePattern={given!r} is blank: give a regular expression, .* for every topic"
        )
    try:
        return re.compile(given.strip())
    except re.error as error:
        raise ConfigurationError(f"subscribePattern={given!r} is no regular expression: {error}") from error
