"""Every option of the connector in one table, and how the texts that Spark hands over are read by it.

Names, meanings and defaults are those of Spark's own Kafka connector; the rows below the line of each table
are ours. Spark lower-cases the names, so they are compared that way and shown as they are documented.
`kafka.*` properties are for the client and go to `properties`.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, NamedTuple

from kclient.errors import ConfigurationError

log: logging.Logger = logging.getLogger(__name__)

KAFKA = "kafka."
_LISTENERS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
# What Spark itself adds to the options of a table or of `load(path)`, or takes among those of a stream.
_OF_SPARK = ("path", "paths", "__python_data_source_path__", "checkpointlocation", "queryname")


class Use(Flag):
    """Where an option means something."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE
    ALL = READ | WRITE


def text(given: str) -> str:
    return given


def topic_name(given: str) -> str:
    if not given.strip():
        raise ValueError("the name of a topic")
    return given


def flag(given: str) -> bool:
    lowered = given.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("true or false")
    return lowered == "true"


def whole(least: int) -> Callable[[str], int]:
    """A number that is at least so much."""

    def read(given: str) -> int:
        try:
            number = int(given.strip())
        except ValueError:
            number = least - 1
        if number < least:
            raise ValueError(f"a whole number, {least} or more")
        return number

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    def read(given: str) -> str:
        if given.strip().lower() not in choices:
            raise ValueError(" or ".join(choices))
        return given.strip().lower()

    return read


_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
}


def duration_ms(given: str) -> int:
    """Spark's way of writing times: `15m`, `500ms`, and milliseconds where no unit is named."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]*)\s*", given)
    if found is None or (found[2].lower() or "ms") not in _UNITS:
        raise ValueError("a duration: 500ms, 30s, 15m, 1h")
    return int(found[1]) * _UNITS[found[2].lower() or "ms"]


def size_bytes(given: str) -> int:
    """Spark's way of writing sizes: `4m`, `512k`, and bytes where no unit is named."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]*)\s*", given)
    if found is None or found[2].lower() not in _SIZES or not int(found[1]):
        raise ValueError("a size above zero: 4m, 512k, 1048576")
    return int(found[1]) * _SIZES[found[2].lower()]


def size_bytes_or_0(given: str) -> int:
    """A size as above, or 0."""
    if given.strip() == "0":
        return 0
    try:
        return size_bytes(given)
    except ValueError:
        raise ValueError("a size: 4m, 512k, 1048576, or 0") from None


class Row(NamedTuple):
    """One option: its documented name, how its text is read, its default, and where it means something."""

    name: str
    read: Callable[[str], Any]
    default: Any
    use: Use


TABLE: tuple[Row, ...] = (
    Row("assign", text, None, Use.READ),
    Row("subscribe", text, None, Use.READ),
    Row("subscribePattern", text, None, Use.READ),
    Row("startingOffsets", text, None, Use.READ),
    Row("startingOffsetsByTimestamp", text, None, Use.READ),
    Row("startingTimestamp", whole(0), None, Use.READ),
    Row("startingOffsetsByTimestampStrategy", one_of("error", "latest"), "error", Use.READ),
    Row("endingOffsets", text, None, Use.BATCH_READ),
    Row("endingOffsetsByTimestamp", text, None, Use.BATCH_READ),
    Row("endingTimestamp", whole(0), None, Use.BATCH_READ),
    Row("failOnDataLoss", flag, True, Use.READ),
    Row("kafkaConsumer.pollTimeoutMs", whole(1), 120_000, Use.READ),
    Row("fetchOffset.numRetries", whole(0), 3, Use.READ),
    Row("fetchOffset.retryIntervalMs", whole(0), 10, Use.READ),
    Row("partition.metadata.cache.ttl.ms", whole(-1), -1, Use.READ),
    Row("maxOffsetsPerTrigger", whole(1), None, Use.STREAM_READ),
    Row("minOffsetsPerTrigger", whole(1), None, Use.STREAM_READ),
    Row("maxTriggerDelay", duration_ms, 900_000, Use.STREAM_READ),
    Row("minPartitions", whole(1), None, Use.READ),
    Row("maxRecordsPerPartition", whole(1), None, Use.READ),
    Row("groupIdPrefix", text, None, Use.READ),
    Row("includeHeaders", flag, False, Use.ALL),
    Row("topic", topic_name, None, Use.WRITE),
    # Ours.
    Row("keyFormat", text, None, Use.ALL),
    Row("valueFormat", text, None, Use.ALL),
    Row("keySchema", text, None, Use.ALL),
    Row("valueSchema", text, None, Use.ALL),
    Row("formatMode", one_of("failfast", "permissive"), "failfast", Use.READ),
    Row("kclient.commitOffsets", flag, False, Use.STREAM_READ),
    Row("kclient.durableInitialOffsets", flag, False, Use.STREAM_READ),
    Row("kclient.topicIds", flag, True, Use.STREAM_READ),
    Row("kclient.recordsPerTask", whole(0), 65_536, Use.READ),
    Row("kclient.bytesPerTask", size_bytes_or_0, 32 << 20, Use.READ),
    Row("kclient.maxTasks", whole(1), None, Use.READ),
    Row("kclient.batchBytes", size_bytes, 4 << 20, Use.READ),
)
_BY_NAME = {row.name.lower(): row for row in TABLE}

# Jobs share options between a stream and its backfill, and Spark's own source lets them.
_OF_TRIGGERS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")

_REFUSED = {
    "kafka.auto.offset.reset": "say where to begin with startingOffsets",
    "kafka.key.deserializer": "keys are read as bytes; keyFormat decodes them",
    "kafka.value.deserializer": "values are read as bytes; valueFormat decodes them",
    "kafka.key.serializer": "keys are written as bytes or text; keyFormat encodes them",
    "kafka.value.serializer": "values are written as bytes or text; valueFormat encodes them",
    "kafka.enable.auto.commit": "offsets live in Spark's checkpoint; kclient.commitOffsets commits them too",
    "kafka.interceptor.classes": "interceptors are Java classes",
    # What Spark adds for CREATE TABLE.
    "provider": "Spark keeps a table's options from Python sources; CREATE TEMPORARY VIEW … USING works",
}


@dataclass(frozen=True)
class Options:
    """Options as they were understood: `values` by documented name, `kafka` by Kafka's property names.

    Not shown by `repr`: properties may be passwords.
    """

    values: Mapping[str, Any]
    kafka: Mapping[str, str]
    given: frozenset[str]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __repr__(self) -> str:
        return f"<Options {', '.join(sorted(self.given))}>"


def parse(options: Mapping[str, str], use: Use) -> Options:
    """Read what a user gave for one use. Raises `ConfigurationError` for what cannot be meant.

    >>> parse({"kafka.bootstrap.servers": "localhost:9092", "failondataloss": "false"}, Use.READ)[
    ...     "failOnDataLoss"
    ... ]
    False
    """
    values = {row.name: row.default for row in TABLE if row.use & use}
    kafka: dict[str, str] = {}
    given: set[str] = set()
    for original, value in options.items():
        name = original.lower()
        if name in _REFUSED:
            raise ConfigurationError(f"the option {original!r} is not supported: {_REFUSED[name]}")
        if name.startswith(KAFKA):
            kafka[name.removeprefix(KAFKA)] = value
            given.add(name)
        elif name in _BY_NAME:
            row = _BY_NAME[name]
            values[row.name] = _read(row, value, use)
            given.add(row.name)
        elif name not in _OF_SPARK:
            raise ConfigurationError(_unknown(original, use))
    _check_servers(kafka.get("bootstrap.servers", ""))
    return Options(values, kafka, frozenset(given))


def _check_servers(given: str) -> None:
    if not given.strip():
        raise ConfigurationError("the option 'kafka.bootstrap.servers' is missing: give host:port,host:port")
    for address in given.split(","):
        # A listener's name may stand in front, as in Java: in capitals, unlike what browsers show.
        scheme, found, _ = address.strip().partition("://")
        if found and not scheme.isupper() and scheme.lower() not in _LISTENERS:
            raise ConfigurationError(
                f"kafka.bootstrap.servers={given!r} has an address of the web, {address.strip()!r}: "
                "give host:port of Kafka's brokers, without ://"
            )


def _read(row: Row, value: str, use: Use) -> Any:
    if row.name in _OF_TRIGGERS and use is Use.BATCH_READ:
        log.warning("%s has no meaning in a batch read, which takes everything", row.name)
    elif not row.use & use:
        raise ConfigurationError(f"the option {row.name!r} is for {_words(row.use)}, not for {_words(use)}")
    try:
        return row.read(value)
    except ValueError as error:
        raise ConfigurationError(f"{row.name}={value!r} must be {error}") from None


def _unknown(given: str, use: Use) -> str:
    known = [row.name for row in TABLE if row.use & use]
    named = {name.lower(): name for name in [*known, f"{KAFKA}bootstrap.servers"]}
    close = difflib.get_close_matches(given.lower(), named, 1, 0.6)
    if close:
        hint = f"did you mean {named[close[0]]!r}?"
    else:
        hint = f"known are {', '.join(known)}, and the client's own properties behind {KAFKA}"
    return f"there is no option {given!r} for {_words(use)}: {hint}"


def _words(use: Use) -> str:
    names = {
        Use.BATCH_READ: "a batch read",
        Use.STREAM_READ: "a streaming read",
        Use.BATCH_WRITE: "a batch write",
        Use.STREAM_WRITE: "a streaming write",
        Use.READ: "reading",
        Use.WRITE: "writing",
    }
    return names.get(use) or " and ".join(names[part] for part in use)
