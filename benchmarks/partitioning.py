"""Which partition a key belongs to: kclient's murmur2, key by key and all keys at once, against its peers'.

`python -m benchmarks.partitioning` prints nanoseconds per key. Contestants take turns within one run; the
best of many short rounds counts, because a hash waits for nobody.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from aiokafka.partitioner import murmur2 as aiokafka_murmur2

from kclient.producer.hashing.murmur2 import MURMUR2

with warnings.catch_warnings():
    # kafka-python reads its definitions with a function of the standard library that is deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2

PARTITIONS = 6
# So many keys are hashed by each contestant, in rounds, of which there are not more than so many.
HASHED, MOST_ROUNDS = 250_000, 200
# What kclient promises for a thousand keys: nanoseconds each.
CEILING = 200
PROMISED_FROM = 1000

Contestant = Callable[[Sequence[bytes]], object]


class Row(NamedTuple):
    """Nanoseconds per key."""

    keys: str
    number: int
    together: float
    one_by_one: float
    aiokafka: float
    kafka_python: float


def _shapes() -> dict[str, Callable[[Random], bytes]]:
    return {
        "8 bytes": lambda rng: rng.randbytes(8),
        "16 bytes": lambda rng: rng.randbytes(16),
        "customer-N": lambda rng: b"customer-%d" % rng.randrange(10**6),
        "4 to 40 bytes": lambda rng: rng.randbytes(rng.randint(4, 40)),
    }


def _one_by_one(keys: Sequence[bytes]) -> object:
    one = MURMUR2.one
    return [one(key) % PARTITIONS for key in keys]


def _together(keys: Sequence[bytes]) -> object:
    return MURMUR2.partitions(keys, PARTITIONS).tolist()


def _aiokafka(keys: Sequence[bytes]) -> object:
    return [(aiokafka_murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in keys]


def _kafka_python(keys: Sequence[bytes]) -> object:
    return [(kafka_python_murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in keys]


CONTESTANTS: tuple[Contestant, ...] = (_together, _one_by_one, _aiokafka, _kafka_python)


def _race(keys: Sequence[bytes]) -> list[float]:
    answers = [contestant(keys) for contestant in CONTESTANTS]
    assert all(answer == answers[0] for answer in answers), "contestants disagree"
    best = [float("inf")] * len(CONTESTANTS)
    for _ in range(min(MOST_ROUNDS, HASHED // len(keys))):
        for number, contestant in enumerate(CONTESTANTS):
            began = time.perf_counter_ns()
            contestant(keys)
            best[number] = min(best[number], (time.perf_counter_ns() - began) / len(keys))
    return best


def run() -> list[Row]:
    rng = Random(1)
    return [
        Row(name, count, *_race([make(rng) for _ in range(count)]))
        for name, make in _shapes().items()
        for count in (10, 100, 1000, 10_000)
    ]


def table(rows: list[Row]) -> str:
    lines = [f"{'keys':16}{'count':>8}{'at once':>10}{'by one':>9}{'aiokafka':>10}{'kafka-python':>14}"]
    lines += [
        f"{row.keys:16}{row.number:>8}{row.together:>10.0f}{row.one_by_one:>9.0f}{row.aiokafka:>10.0f}"
        f"{row.kafka_python:>14.0f}"
        for row in rows
    ]
    return "\n".join(lines)


def behind(rows: list[Row]) -> list[str]:
    """Where the promise is not kept, in words."""
    return [
        f"{row.number} keys ({row.keys}) at once take {row.together:.0f} ns each, promised are {CEILING}"
        for row in rows
        if row.number >= PROMISED_FROM and row.together > CEILING
    ]


if __name__ == "__main__":
    found = run()
    print(table(found))
    print(*behind(found), sep="\n")
