"""Runs many damaged inputs through decoders and holds each against the rules for hostile bytes.

The rules: nothing but ProtocolError comes out, no input takes longer than a second, and the memory of the run
does not grow. A failure says everything needed to repeat it. KCLIENT_FUZZ_CASES sets how many inputs all
fuzzers try together, KCLIENT_FUZZ_SEED which ones.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kclient.errors import ProtocolError
from tests.fuzz.mutate import mutate, random_bytes

# Half of them are messages and frames, half record batches.
DEFAULT_CASES = 220_000
DEFAULT_SEED = 1
SLOWEST_CASE = 1.0
RSS_GROWTH = 64 << 20
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
_RANDOM_SHARE = 0.06


def cases(share: float) -> int:
    """How many inputs a fuzzer tries that has this share of the total."""
    return max(1, round(int(os.environ.get("KCLIENT_FUZZ_CASES", DEFAULT_CASES)) * share))


def seed() -> int:
    return int(os.environ.get("KCLIENT_FUZZ_SEED", DEFAULT_SEED))


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder with valid inputs for it; `check` looks further at what an undamaged enough input gave."""

    name: str
    decode: Callable[[bytes], Any]
    samples: Sequence[bytes]
    check: Callable[[Any], object] | None = None


@dataclass(slots=True)
class Tally:
    """What happened to the inputs of a run."""

    decoded: int = 0
    refused: int = 0
    slowest: float = 0.0
    rss_growth: int = 0
    names: set[str] = field(default_factory=set)


def make_case(target: Target, number: int) -> bytes:
    """The input of this number: the same for the same seed, whatever ran before."""
    rng = Random(seed() << 40 | number)
    if rng.random() < _RANDOM_SHARE:
        return random_bytes(rng)
    return mutate(rng, rng.choice(target.samples), rng.choice(target.samples))


def fuzz(targets: Sequence[Target], count: int) -> Tally:
    """Try `count` inputs, target by target in turn; AssertionError for the first that breaks a rule."""
    tally = Tally()
    warm_up(targets)
    before = _peak_rss()
    for number in range(count):
        target = targets[number % len(targets)]
        data = make_case(target, number)
        started = time.process_time()
        try:
            result = target.decode(data)
            if target.check is not None:
                target.check(result)
            tally.decoded += 1
        except ProtocolError:
            tally.refused += 1
        except Exception as error:
            raise AssertionError(f"{error!r} came out; {_where(target, number, data)}") from error
        seconds = time.process_time() - started
        assert seconds <= SLOWEST_CASE, f"{seconds:.1f} s for one input; {_where(target, number, data)}"
        tally.slowest = max(tally.slowest, seconds)
        tally.names.add(target.name)
    tally.rss_growth = _peak_rss() - before
    assert tally.rss_growth <= RSS_GROWTH, f"the process grew by {tally.rss_growth >> 20} MB, seed {seed()}"
    return tally


def warm_up(targets: Sequence[Target]) -> None:
    """Undamaged inputs pass; after them, what is imported and compiled once does not count as growth."""
    for target in targets:
        for sample in target.samples:
            target.decode(sample)
    gc.collect()


def peak_allocation(target: Target, number: int) -> int:
    """The most Python memory that decoding the input of this number took; several times slower."""
    data = make_case(target, number)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    with suppress(ProtocolError):
        target.decode(data)
    return tracemalloc.get_traced_memory()[1] - before


def _where(target: Target, number: int, data: bytes) -> str:
    return f"seed {seed()}, case {number}, {target.name}, input {data.hex()}"


def _peak_rss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
