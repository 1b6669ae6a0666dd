"""Where callers put records: one open chunk per topic, and the memory that all records together may take.

Hot. `append` runs on the caller's thread, for asyncio clients on the loop, and does the least there is: look
up the chunk, add the size, extend a flat list, make a handle. It hands out nothing where something has to be
decided (a new topic, a full chunk, no memory left); `append_slowly` decides and says what to wait for. The
clients have it once more in their `send`, for records of key and value only: see `plain_chunks`.

On the loop, `drain` takes all chunks away at once; cutting them into partitions is `spread`'s work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from enum import Enum, IntEnum
from time import sleep, time_ns
from typing import TYPE_CHECKING

from kclient.errors import KafkaError, RecordTooLargeError
from kclient.producer.delivery import Chunk, Delivery
from kclient.producer.part import Odd
from kclient.producer.records import check_topic
from kclient.records.sizes import BATCH_OVERHEAD, RECORD_OVERHEAD, headers_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import RLock

    from kclient.producer.config import ProducerConfig
    from kclient.types import Header

# A chunk is closed at this size, which is when a caller lets the loop run: large enough for work per chunk to
# be small per record, small enough for answers to be read in time, and for all of it to fit into one request,
# headers of batches included.
CHUNK_BYTES = 1_015_808
# Memory is claimed for an open chunk in such steps, so that a record needs one comparison for all limits.
STEP = 32_768


def _wall_ms() -> int:
    return time_ns() // 1_000_000


class Urgency(IntEnum):
    """How soon the loop should drain."""

    NONE = 0
    LINGER = 1
    NOW = 2


class Wait(Enum):
    """What a record waits for before it can be appended."""

    TOPIC = "the topic's metadata"
    ROOM = "room in the buffer"


class Accumulator:
    """The open chunks of one producer.

    `wake` is called when the loop has to drain, and how soon; from any thread, and once for many records.
    """

    def __init__(
        self,
        config: ProducerConfig,
        lock: RLock,
        wake: Callable[[Urgency], None],
        now: Callable[[], float],
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._lock = lock
        self.acquire, self.release_lock = lock.acquire, lock.release
        self.is_ours: Callable[[], bool] = lock._is_owned  # type: ignore[attr-defined]
        self._wake = wake
        self._now = now
        self._wall_ms = now_ms or _wall_ms
        # Without linger a chunk lives for one turn of the loop, and a step of memory for less: one look at
        # the clock is enough for all records of a step.
        self._coarse = not config.linger_ms
        self._open: dict[str, Chunk] = {}
        # The open chunks for callers that append by themselves, in the way of `append`, what needs neither a
        # partition nor headers nor a timestamp of its own; always empty where there can be no such record.
        plain = self._coarse and not (config.key_serializer or config.value_serializer or config.hooks)
        self.plain_chunks: Mapping[str, Chunk] = self._open if plain else {}
        self._closed: list[Chunk] = []
        self._woken = Urgency.NONE
        # Topics that are known, with the number of their partitions.
        self.topics: Mapping[str, int] = {}
        self._memory = config.buffer_memory
        self._claimed = 0
        self._waiting: list[Callable[[], None]] = []
        self._batch_size = config.largest_batch
        self._largest = config.max_request_size
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._refusal: KafkaError | None = None
        # The most that is claimed at once. A caller on the loop lowers it, to be asked again in time.
        self.step = STEP
        # How often memory was given back, or a reason to wait for it went away.
        self.given_back = 0
        # A chunk was full since this was last looked at: a caller on the loop should give it a turn.
        self.crowded = False

    def __repr__(self) -> str:
        claimed = f"{self._claimed} of {self._memory} bytes claimed"
        return f"<Accumulator {claimed}, {len(self._open)} chunks open, {len(self._waiting)} waiting>"

    @property
    def memory_used(self) -> int:
        """Bytes claimed by records that are not settled, and by open chunks."""
        return self._claimed

    @property
    def pressed(self) -> bool:
        """Whether callers wait for room, so that nothing should linger."""
        return bool(self._waiting)

    def append(  # noqa: PLR0913, PLR0917 - called per record: no object around its fields
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header],
    ) -> Delivery | None:
        """Take a record in; None where `append_slowly` has to decide. The hottest path there is.

        On the loop, or with the lock held.
        """
        chunk = self._open.get(topic)
        if chunk is None:
            return None
        size = chunk.size + RECORD_OVERHEAD
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            size += headers_size(headers)
        if size > chunk.limit:
            return None
        if not self._coarse:
            chunk.tick(self._wall_ms())
        chunk.size = size
        delivery = Delivery()
        delivery._chunk = chunk
        flat = chunk.flat
        delivery._place = len(flat)
        if partition is None and timestamp_ms is None and not headers:
            flat += (key, value)
        else:
            chunk.odd = True
            flat += (key, Odd(value, timestamp_ms, headers, partition))
        return delivery

    def append_shared(  # noqa: PLR0913, PLR0917
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header],
    ) -> Delivery | None:
        """The same for threads that share the producer, and are not the loop's.

        It does not queue for the lock. A thread that queues is given the lock before its turn with the
        interpreter comes; the one that runs then finds it taken at its next record, queues as well, and from
        then on every record costs a change of threads. Giving up the turn instead lets the holder go on.
        """
        try:
            while not self.acquire(False):
                sleep(0)
            return self.append(topic, value, key, partition, timestamp_ms, headers)
        finally:
            # An interrupt may come before the lock is ours, or right after: only the lock itself knows.
            if self.is_ours():
                self.release_lock()

    def append_slowly(  # noqa: PLR0913, PLR0917
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header],
        *,
        known: bool = True,
    ) -> Delivery | Wait:
        """Take a record in after making room for it, or say what it has to wait for.

        `known` False takes records for topics of which nothing is known yet.
        """
        size = RECORD_OVERHEAD + len(value or b"") + len(key or b"")
        if headers:
            size += headers_size(headers)
        self.check_size(topic, size)
        with self._lock:
            if self._refusal is not None:
                raise copy(self._refusal)
            if topic not in self.topics:
                check_topic(topic)
                if known:
                    return Wait.TOPIC
            if not self._make_room(topic, size):
                return Wait.ROOM
            delivery = self.append(topic, value, key, partition, timestamp_ms, headers)
            assert delivery is not None
            return delivery

    @property
    def drained(self) -> bool:
        """Whether nothing was appended since the loop drained."""
        return not self._open

    def appended(self, topic: str) -> int:
        """Bytes of records since the chunk of a topic claimed memory last; 0 if it was drained."""
        chunk = self._open.get(topic)
        return 0 if chunk is None else chunk.size - chunk.claimed_at

    def overfills(self, topic: str, size: int) -> bool:
        """Whether a record would close the chunk of its topic: on the loop, it is rather drained before."""
        chunk = self._open.get(topic)
        return chunk is not None and chunk.size > 0 and chunk.size + size > CHUNK_BYTES

    def put(self, chunk: Chunk) -> bool:
        """Take in a chunk that was filled elsewhere; False when there is no room for it."""
        with self._lock:
            if self._refusal is not None:
                raise copy(self._refusal)
            if self._claimed + chunk.size > self._memory:
                return False
            self._claimed += chunk.size
            # Its time begins now: it may have waited long for room, which is not its delivery.
            chunk.opened = self._now()
            chunk.deadline = chunk.opened + self._delivery_timeout
            # Behind what was appended to the topic before it.
            before = self._open.pop(chunk.topic, None)
            if before is not None:
                self._close(before)
            self._closed.append(chunk)
            self._call_loop(Urgency.NOW)
            return True

    def lacks(self, topic: str, partition: int | None) -> bool:
        """Whether a topic is known and a partition of it is not; it may have been added since."""
        return partition is not None and partition >= self.topics.get(topic, partition + 1)

    def new_chunk(self, topic: str) -> Chunk:
        """An empty chunk whose time begins now."""
        now = self._now()
        return Chunk(topic, self._lock, now, now + self._delivery_timeout)

    def drain(self) -> list[Chunk]:
        """Take all chunks away, those appended to first in front."""
        with self._lock:
            self._woken = Urgency.NOW  # which keeps `_close` from asking for what is being done
            claimed = self._claimed
            self._close_all()
            chunks, self._closed = self._closed, []
            self._woken = Urgency.NONE
            waiting = self._take_waiting() if self._claimed < claimed else []
        for callback in waiting:
            callback()
        return chunks

    def release(self, size: int) -> None:
        """Give memory back; called when records are settled."""
        with self._lock:
            self._claimed -= size
            waiting = self._take_waiting()
        for callback in waiting:
            callback()

    def when_room(self, callback: Callable[[], None], given_back: int) -> None:
        """Have `callback` called when memory is given back next; from then on nothing lingers.

        `given_back` is as it was before the caller found no room: if memory was given back between that and
        this, perhaps the last there was to give back, `callback` is called at once.
        """
        with self._lock:
            missed = self.given_back != given_back
            if not missed:
                self._waiting.append(callback)
                self._call_loop(Urgency.NOW)
        if missed:
            callback()

    def no_longer_waiting(self, callback: Callable[[], None]) -> None:
        """For those who gave up."""
        with self._lock:
            if callback in self._waiting:
                self._waiting.remove(callback)

    def refuse(self, error: KafkaError | None) -> None:
        """From now on take no more records, or, with None, take them again."""
        with self._lock:
            self._refusal = error
            self._close_all()
            self._call_loop(Urgency.NOW)
            waiting = self._take_waiting()
        for callback in waiting:
            callback()

    def check_size(self, topic: str, size: int) -> None:
        """Refuse a record that could never be sent."""
        if size + BATCH_OVERHEAD > self._largest:
            raise RecordTooLargeError(
                f"a record for topic {topic} takes {size} bytes, more than max_request_size={self._largest} "
                "allows: raise it, and the topic's max.message.bytes with it"
            )
        if size > self._memory:
            raise RecordTooLargeError(
                f"a record for topic {topic} takes {size} bytes, more than buffer_memory={self._memory} has"
            )

    # Below, the lock is held.

    def _close_all(self) -> None:
        for chunk in self._open.values():
            self._close(chunk)
        self._open.clear()

    def _take_waiting(self) -> list[Callable[[], None]]:
        self.given_back += 1
        waiting, self._waiting = self._waiting, []
        return waiting

    def _make_room(self, topic: str, size: int) -> bool:
        chunk = self._open.get(topic)
        if chunk is not None and self.overfills(topic, size):
            self._close(self._open.pop(topic))
            self.crowded = True
            chunk = None
        if chunk is None:
            chunk = self.new_chunk(topic)
        needed = chunk.size + size - chunk.limit
        if needed > 0:
            # Up to just below a full batch: the record that fills it comes here, and wakes the loop.
            lacking = self._batch_size - 1 - chunk.limit
            step = self.step - (chunk.limit - chunk.size)
            step = min(step, lacking if lacking > 0 else CHUNK_BYTES - chunk.limit)
            claim = max(needed, min(step, self._memory - self._claimed))
            if self._claimed + claim > self._memory:
                return False
            self._claimed += claim
            chunk.limit += claim
            chunk.claimed_at = chunk.size
            if self._coarse:
                chunk.tick(self._wall_ms())
        self._open[topic] = chunk
        self._call_loop(Urgency.NOW if chunk.size + size >= self._batch_size else Urgency.LINGER)
        return True

    def _close(self, chunk: Chunk) -> None:
        self._claimed -= chunk.limit - chunk.size
        chunk.limit = chunk.size
        if chunk.size:
            self._closed.append(chunk)
            self._call_loop(Urgency.NOW)

    def _call_loop(self, urgency: Urgency) -> None:
        if urgency > self._woken:
            self._woken = urgency
            self._wake(urgency)
