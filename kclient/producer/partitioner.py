"""Who decides the partition of a record: by its key, in turn, or as the user says.

A partitioner knows keys, not batches. For a record about which it has no opinion it answers None, and the
`StickyChoice` of the topic decides. The accumulator asks, on the event loop; a `KeyedPartitioner` it may ask
about all keys of a drained list at once. `make_partitioner` turns the option `partitioner` into one of these.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from kclient.errors import ConfigurationError
from kclient.producer.hashing.murmur2 import MURMUR2
from kclient.producer.hashing.others import CRC32, FNV1A, murmur3

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from random import Random

    from kclient.producer.hashing import Hash


@dataclass(frozen=True, slots=True, eq=False)
class PartitionView:
    """What is known of a topic's partitions at one moment.

    Partitions are numbered 0 … `count` - 1; `available` are those with a leader. `queued` tells how many
    bytes wait for a partition. `stalled` are those whose leader has taken none of them for longer than
    `partitioner_availability_timeout_ms`. A view that has not changed is best handed in as the same object.
    """

    count: int
    available: tuple[int, ...]
    queued: Callable[[int], int]
    stalled: Collection[int] = ()


class Partitioner(Protocol):
    """Says where a record goes."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """A number below `view.count`, or None to leave the choice to the sticky partition of the topic."""


@runtime_checkable
class KeyedPartitioner(Partitioner, Protocol):
    """A partitioner for which all that counts is the key, where there is one."""

    def partition_many(self, keys: Sequence[bytes], count: int) -> Sequence[int]:
        """What `partition` says for each of these keys, in a topic of `count` partitions; never None.

        If it raises, `partition` tells which of the records is at fault.
        """


class KeyHash:
    """The same key, the same partition: with the default hash, the one that the Java client chooses.

    A key's partition is chosen among all partitions, whether they have a leader or not. Records without a key
    go to the sticky partition; an empty key is a key.
    """

    def __init__(self, hashing: Hash = MURMUR2) -> None:
        self.hashing = hashing
        self._one = hashing.one

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hashing.name})"

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """The hash of the key, modulo the count."""
        return None if key is None else self._one(key) % view.count

    def partition_many(self, keys: Sequence[bytes], count: int) -> Sequence[int]:
        """All at once."""
        partitions: list[int] = self.hashing.partitions(keys, count).tolist()
        return partitions


class Consistent(KeyHash):
    """librdkafka's `consistent`: crc32, and no key counts as an empty one.

    So all records without a key share partition 0; `consistent_random` spreads them.
    """

    def __init__(self) -> None:
        super().__init__(CRC32)

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """Never None."""
        return super().partition(topic, key or b"", value, view)


class ConsistentRandom:
    """librdkafka's default, `consistent_random`: crc32, and an empty key counts as none."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """The hash of the key, modulo the count; None without a key."""
        return CRC32.one(key) % view.count if key else None


class RoundRobin:
    """Each record of a topic goes to the next partition that has a leader, whatever its key.

    Spreads evenly, and makes the smallest batches: records without a key are better left to the default.
    """

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """The next one."""
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return view.available[turn % len(view.available)] if view.available else turn % view.count


class Sticky:
    """Every record goes to the sticky partition of its topic, whatever its key."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView) -> None:
        """No opinion, ever."""
        return


class StickyChoice:
    """The partition of one topic for records that have neither a partition nor a key (KIP-794).

    Stays with a partition until that has taken `batch_size` bytes, so that batches fill, or until all of them
    have been sent, so that records which travel alone spread; then draws the next. When `adaptive`, the more
    batches wait for a partition, the less likely it is drawn: a slow broker gets less. It leaves a partition
    early if that has lost its leader or stalled and there is a better one.
    """

    __slots__ = ("_adaptive", "_batch_size", "_partition", "_random", "_taken", "_view")

    def __init__(self, batch_size: int, random: Random, *, adaptive: bool = True) -> None:
        self._batch_size = max(batch_size, 1)
        self._random = random
        self._adaptive = adaptive
        self._view: PartitionView | None = None
        self._partition = -1
        self._taken = 0

    def __repr__(self) -> str:
        return f"StickyChoice(partition={self._partition}, taken={self._taken} of {self._batch_size})"

    def partition(self, size: int, view: PartitionView) -> int:
        """Where a record of `size` bytes goes."""
        if self._taken >= self._batch_size or view is not self._view:
            self._reconsider(view)
        self._taken += size
        return self._partition

    def sent(self, partition: int) -> None:
        """All that waited for a partition is on its way: there is no batch to fill any more."""
        if partition == self._partition:
            self._taken = self._batch_size

    def partition_many(self, sizes: Sequence[int], view: PartitionView) -> list[int]:
        """Where records of these sizes go, as `partition` would say one after the other."""
        sums = list(accumulate(sizes))
        partitions: list[int] = []
        begin = before = 0
        while begin < len(sums):
            if self._taken >= self._batch_size or view is not self._view:
                self._reconsider(view)
            # The record that fills the batch is the last one of its partition.
            end = min(bisect_left(sums, before + self._batch_size - self._taken, begin) + 1, len(sums))
            partitions += [self._partition] * (end - begin)
            self._taken += sums[end - 1] - before
            begin, before = end, sums[end - 1]
        return partitions

    def _reconsider(self, view: PartitionView) -> None:
        """Draw another partition if this one has had its share, or is none to stay with."""
        self._view = view
        best = [partition for partition in view.available if partition not in view.stalled]
        candidates: Sequence[int] = best or view.available or range(view.count)
        if self._taken >= self._batch_size or self._partition not in candidates:
            self._partition, self._taken = self._draw(candidates, view), 0

    def _draw(self, candidates: Sequence[int], view: PartitionView) -> int:
        if not self._adaptive:
            return self._random.choice(candidates)
        # As in Java: full and begun batches count, and a queue weighs what it lacks to the longest one, plus
        # one, so that every partition has a chance. Queues of 0, 3 and 1 batches weigh 4, 1 and 3.
        waiting = [-(-view.queued(partition) // self._batch_size) for partition in candidates]
        longest = max(waiting)
        table = list(accumulate(longest + 1 - batches for batches in waiting))
        return candidates[bisect_right(table, self._random.randrange(table[-1]))]


class Custom:
    """A user's object with `partition(topic, key, value, view)`, its answers checked."""

    def __init__(self, inner: Partitioner) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return f"Custom({self._inner!r})"

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """What the object says."""
        answer = self._inner.partition(topic, key, value, view)
        return None if answer is None else existing(answer, topic, view.count, self._inner)


class CustomKeyed(Custom):
    """A user's `KeyedPartitioner`, its answers checked."""

    def __init__(self, inner: KeyedPartitioner) -> None:
        super().__init__(inner)
        self._many = inner.partition_many

    def partition_many(self, keys: Sequence[bytes], count: int) -> Sequence[int]:
        """What the object says."""
        if not keys:
            return []
        answers = np.asarray(self._many(keys, count))
        whole = answers.shape == (len(keys),) and answers.dtype.kind in "iu"
        if not whole or answers.min() < 0 or answers.max() >= count:
            raise ConfigurationError(
                f"the partitioner {self._inner!r} answered {answers} for {len(keys)} records of a topic "
                f"which has the partitions 0 to {count - 1}: return a list with one of these numbers for each"
            )
        partitions: list[int] = answers.tolist()
        return partitions


class CustomFunction:
    """A user's function with aiokafka's signature, its answers checked."""

    def __init__(self, function: PartitionFunction) -> None:
        self._function = function

    def __repr__(self) -> str:
        return f"CustomFunction({self._function!r})"

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """What the function says. It gets lists of its own, as it may change them."""
        answer = self._function(key, list(range(view.count)), list(view.available))
        return existing(answer, topic, view.count, self._function)


def existing(answer: Any, topic: str, count: int, source: object) -> int:
    """The partition that a user's code answered; raises if the topic has none such: no record gets lost."""
    try:
        partition = -1 if isinstance(answer, bool) else index(answer)
    except TypeError:
        partition = -1
    if not 0 <= partition < count:
        raise ConfigurationError(
            f"the partitioner {source!r} answered {answer!r} for a record of topic {topic!r}, which has the "
            f"partitions 0 to {count - 1}: return one of these numbers"
        )
    return partition


PartitionFunction: TypeAlias = "Callable[[bytes | None, list[int], list[int]], int]"
PartitionerSpec: TypeAlias = "str | PartitionFunction | Partitioner | None"

_BY_NAME: dict[str, Callable[[], Partitioner]] = {
    "default": KeyHash,
    "murmur2": KeyHash,
    # librdkafka's name for what Java does. Its random partition for records without a key is sticky, too.
    "murmur2_random": KeyHash,
    "crc32": Consistent,
    "consistent": Consistent,
    "consistent_random": ConsistentRandom,
    "fnv1a": lambda: KeyHash(FNV1A),
    "fnv1a_random": lambda: KeyHash(FNV1A),
    "murmur3": lambda: KeyHash(murmur3()),
    "round_robin": RoundRobin,
    "sticky": Sticky,
}


def make_partitioner(spec: PartitionerSpec) -> Partitioner:
    """What the option `partitioner` means: a name, a function, an object, or None for the default.

    A function has aiokafka's signature, `(key_bytes, all_partitions, available_partitions) -> int`; an object
    has `partition(topic, key, value, view)`, see `Partitioner`.

    >>> six = PartitionView(count=6, available=(0, 1, 2, 3, 4, 5), queued=lambda partition: 0)
    >>> make_partitioner("murmur2").partition("orders", b"customer-17", b"3 apples", six)
    4
    """
    if spec is None:
        return KeyHash()
    if isinstance(spec, str):
        return _named(spec)
    if isinstance(spec, type):
        raise ConfigurationError(f"partitioner={spec.__name__} is a class: make an object of it")
    if type(spec) in _TRUSTED:
        return cast("Partitioner", spec)
    if hasattr(spec, "partition"):
        return CustomKeyed(cast("KeyedPartitioner", spec)) if _is_keyed(spec) else Custom(spec)
    if callable(spec):
        return CustomFunction(spec)
    raise ConfigurationError(
        f"partitioner={spec!r} is neither a name nor a function nor an object with a method 'partition'"
    )


_TRUSTED = (KeyHash, Consistent, ConsistentRandom, RoundRobin, Sticky)


def _is_keyed(spec: object) -> bool:
    """Whether `partition_many` speaks for `partition`: not if a subclass has redefined only the latter."""
    kinds = type(spec).__mro__
    one, many = (
        next((depth for depth, kind in enumerate(kinds) if name in vars(kind)), len(kinds))
        for name in ("partition", "partition_many")
    )
    return many <= one and many < len(kinds)


def _named(name: str) -> Partitioner:
    make = _BY_NAME.get(name)
    if make is None:
        near = difflib.get_close_matches(name, _BY_NAME, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(_BY_NAME)}"
        raise ConfigurationError(f"there is no partitioner {name!r}: {hint}")
    return make()
