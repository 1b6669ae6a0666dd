"""Producers of a worker process: one per configuration, kept over tasks and micro-batches, closed when idle.

Spark reuses its workers, and forks them: a producer does not survive a fork, so each process has its own
(`os.register_at_fork` forgets the parent's). Tasks of a process run one after the other, but threads may
share a producer too, as counting them costs nothing.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from kclient.errors import ConfigurationError
from kclient.producer import Producer, ProducerConfig
from kclient.spark import properties

Key = tuple[tuple[str, str], ...]

# As long as Spark's own connector keeps one.
IDLE_SECONDS = 600.0
# Rows come in batches of thousands, so a batch of Kafka's default size would be one of many per request. What
# does not fill one waits a little for the next rows from Spark; the end of a task does not wait. And a worker
# that is new while no broker is there waits for its topic as long as its rows would for their delivery.
_DEFAULTS = {"batch.size": "1000000", "linger.ms": "5", "max.block.ms": "120000"}
_CLOSE_MS = 5_000
_LEVELLED = ("gzip", "lz4", "zstd")
_PARTITIONERS = {
    "DefaultPartitioner": "murmur2",
    "RoundRobinPartitioner": "round_robin",
    "UniformStickyPartitioner": "sticky",
}


@dataclass
class _Kept:
    producer: Producer
    users: int = 0
    timer: threading.Timer | None = None


_kept: dict[Key, _Kept] = {}
_lock = threading.Lock()


@contextmanager
def borrowed(kafka: Mapping[str, str]) -> Iterator[Producer]:
    """The producer of this process for these properties. What was sent must be settled by the end."""
    key = tuple(sorted(kafka.items()))
    kept = _taken(key, kafka)
    try:
        yield kept.producer
    except BaseException:
        # Whatever it still holds belongs to a task that has failed: the next one begins with an empty buffer.
        _forget(key, kept)
        kept.producer.close(0)
        raise
    _give_back(key, kept)


def config(kafka: Mapping[str, str]) -> ProducerConfig:
    """The configuration that properties mean, with the sink's own defaults."""
    given = _DEFAULTS | dict(kafka)
    java = given.pop("partitioner.class", None)
    if java is not None:
        name = java.strip().rpartition(".")[2]
        if name not in _PARTITIONERS:
            raise ConfigurationError(
                f"kafka.partitioner.class={java!r} is a class of Java: known are {', '.join(_PARTITIONERS)}; "
                "others can be computed in the query, as the column 'partition'"
            )
        given["partitioner"] = _PARTITIONERS[name]
    # Kafka has a level for each codec, of which the one of the chosen codec counts.
    levels = {codec: given.pop(f"compression.{codec}.level", None) for codec in _LEVELLED}
    level = levels.get(given.get("compression.type", "").strip().lower())
    if level is not None:
        given["compression.level"] = level
    return properties.config(ProducerConfig, given)


def close_all() -> None:
    """Close every producer of this process."""
    with _lock:
        every = list(_kept.items())
    for key, kept in every:
        _forget(key, kept)
        kept.producer.close(_CLOSE_MS)


def _taken(key: Key, kafka: Mapping[str, str]) -> _Kept:
    with _lock:
        kept = _kept.get(key)
        if kept is None or kept.producer.closed:
            made: Any = config(kafka)
            kept = _kept[key] = _Kept(
                Producer(**{each.name: getattr(made, each.name) for each in fields(made)})
            )
        kept.users += 1
        if kept.timer is not None:
            kept.timer.cancel()
            kept.timer = None
    return kept


def _give_back(key: Key, kept: _Kept) -> None:
    with _lock:
        kept.users -= 1
        if kept.users == 0 and _kept.get(key) is kept:
            kept.timer = threading.Timer(IDLE_SECONDS, _close_idle, (key, kept))
            kept.timer.daemon = True
            kept.timer.start()


def _close_idle(key: Key, kept: _Kept) -> None:
    with _lock:
        # A task may have come between the timer and the lock.
        if kept.users:
            return
        _drop(key, kept)
    kept.producer.close(_CLOSE_MS)


def _forget(key: Key, kept: _Kept) -> None:
    with _lock:
        _drop(key, kept)


def _drop(key: Key, kept: _Kept) -> None:
    if kept.timer is not None:
        kept.timer.cancel()
        kept.timer = None
    if _kept.get(key) is kept:
        del _kept[key]


def _forked() -> None:
    global _lock  # noqa: PLW0603 - a lock that another thread of the parent held stays held for ever
    _lock = threading.Lock()
    _kept.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)
atexit.register(close_all)
