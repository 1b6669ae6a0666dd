"""Partitioners for topics in which a few keys have most of the records.

Ready to use, and short enough to be read as examples of `Partitioner`. They can be nested: what one does not
decide it asks `rest`, by default the hash of the key.

>>> apart = OwnPartition({b"big-customer": 0}, rest=Salted([b"busy-customer"], ways=4))
>>> by_tenant = KeyPart(lambda key: key.partition(b"/")[0])
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kclient.errors import ConfigurationError
from kclient.producer.partitioner import KeyedPartitioner, KeyHash, PartitionView, StickyChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class OwnPartition:
    """Keys that have a partition to themselves. All other records, those without a key too, never go there.

    Order by key is kept. The hash of the other keys runs over the other partitions: their records are not
    where the Java client would put them.
    """

    def __init__(
        self,
        own: Mapping[bytes, int],
        rest: KeyedPartitioner | None = None,
        *,
        batch_size: int = 16384,
        random: Random | None = None,
    ) -> None:
        self._own = dict(own)
        self._rest = rest or KeyHash()
        self._batch_size = batch_size
        self._random = random or Random()  # noqa: S311 - spreads load, guards nothing
        self._topics: dict[str, _Others] = {}

    def __repr__(self) -> str:
        return f"OwnPartition({self._own}, rest={self._rest!r})"

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """The key's own partition, or one that belongs to nobody."""
        if key is not None and key in self._own:
            return self._own[key]
        others = self._topics.get(topic)
        if others is None or others.whole is not view:
            sticky = others.sticky if others else StickyChoice(self._batch_size, self._random)
            others = self._topics[topic] = _Others(view, self._shared(view.count), sticky)
        place = self._rest.partition(topic, key, value, others.view)
        if place is None:
            # Left to the producer it could be a partition that belongs to a key.
            place = others.sticky.partition(len(key or b"") + len(value or b""), others.view)
        return others.shared[place]

    def partition_many(self, keys: Sequence[bytes], count: int) -> Sequence[int]:
        """All at once."""
        own, shared = self._own, self._shared(count)
        places = self._rest.partition_many(keys, len(shared))
        return [own[key] if key in own else shared[place] for key, place in zip(keys, places, strict=True)]

    def _shared(self, count: int) -> list[int]:
        taken = set(self._own.values())
        shared = [partition for partition in range(count) if partition not in taken]
        if not shared:
            raise ConfigurationError(
                f"{self!r} leaves no partition to other records in a topic of {count}: give the topic more"
            )
        return shared


class _Others:
    """The partitions of a topic that belong to no key, numbered anew from 0, and the sticky one of them."""

    def __init__(self, whole: PartitionView, shared: list[int], sticky: StickyChoice) -> None:
        self.whole = whole
        self.shared = shared
        self.sticky = sticky
        available, stalled = set(whole.available), set(whole.stalled)
        self.view = PartitionView(
            len(shared),
            tuple(place for place, partition in enumerate(shared) if partition in available),
            lambda place: whole.queued(shared[place]),
            frozenset(place for place, partition in enumerate(shared) if partition in stalled),
        )


class Salted:
    """Keys whose records are dealt out over several partitions: the key's own one and those that follow it.

    Such a key loses its order, and who reads all of it reads `ways` partitions. They are neighbours, not
    hashes of the key with a salt: those may meet in one partition.
    """

    def __init__(self, keys: Iterable[bytes], ways: int = 4, rest: KeyedPartitioner | None = None) -> None:
        if ways < 2:
            raise ConfigurationError(f"Salted(ways={ways}) spreads nothing: use 2 or more")
        self._turns = dict.fromkeys(keys, 0)
        self._ways = ways
        self._rest = rest or KeyHash()

    def __repr__(self) -> str:
        return f"Salted({list(self._turns)}, ways={self._ways}, rest={self._rest!r})"

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """The next partition of a salted key, or what `rest` says."""
        first = self._rest.partition(topic, key, value, view)
        return first if first is None or key is None else self._salt(key, first, view.count)

    def partition_many(self, keys: Sequence[bytes], count: int) -> Sequence[int]:
        """All at once."""
        firsts, salted = self._rest.partition_many(keys, count), self._turns
        return [
            self._salt(key, first, count) if key in salted else first
            for key, first in zip(keys, firsts, strict=True)
        ]

    def _salt(self, key: bytes, first: int, count: int) -> int:
        turn = self._turns.get(key)
        if turn is None:
            return first
        self._turns[key] = turn + 1
        return (first + turn % min(self._ways, count)) % count


class KeyPart:
    """Only a part of a compound key decides: `tenant/order` by tenant, so that a tenant keeps its order.

    The other way round it parts what is hot: by order, where the tenant alone would be one partition.
    """

    def __init__(self, part: Callable[[bytes], bytes], rest: KeyedPartitioner | None = None) -> None:
        self._part = part
        self._rest = rest or KeyHash()

    def __repr__(self) -> str:
        return f"KeyPart({self._part!r}, rest={self._rest!r})"

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
    ) -> int | None:
        """What `rest` says of the part."""
        return self._rest.partition(topic, None if key is None else self._part(key), value, view)

    def partition_many(self, keys: Sequence[bytes], count: int) -> Sequence[int]:
        """All at once."""
        return self._rest.partition_many([self._part(key) for key in keys], count)
