"""Between the accumulator and the senders: cuts chunks, knows who leads what, and decides about batches.

All on the loop. A record's way: `drain` takes the chunks, `Spread` cuts them into parts, a part goes to the
`Outbox` of its partition, the outbox to the `Sender` of its leader. The way back: the sender reports an
answer, `judge` says what it means, the `Ledger` settles the records or the outbox takes the batch back.

Chunks of topics of which nothing is known wait in `_homeless`; an outbox without a leader waits with no
sender. Both are looked at when metadata comes, and fail when their time is over, like everything else. Parts
for a partition that metadata does not name wait in `Sought`.
"""

from __future__ import annotations

import asyncio
from copy import copy
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.cluster.metadata import Broker, Metadata
from kclient.cluster.rights import lacking
from kclient.config import Endpoint
from kclient.errors import (
    BrokerError,
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
    error_for,
)
from kclient.producer.accumulator import Accumulator, Urgency
from kclient.producer.batch import Batch, Identity
from kclient.producer.delivery import Chunk
from kclient.producer.identities import Identities
from kclient.producer.ledger import Ledger
from kclient.producer.metrics import Counters
from kclient.producer.outbox import Outbox, Rules
from kclient.producer.part import Part
from kclient.producer.partitioner import StickyChoice, make_partitioner
from kclient.producer.routing import Routing
from kclient.producer.sender import Answer, Sender, Shipped
from kclient.producer.sought import Sought
from kclient.producer.spread import Spread, whole
from kclient.producer.verdicts import Verdict, judge
from kclient.records.sizes import RECORD_OVERHEAD
from kclient.types import TopicPartition
from kclient.wire.messages.produce import ProduceRequest, ProduceResponse
from kclient.wire.schema import NO_UUID

if TYPE_CHECKING:
    from kclient.producer.config import ProducerConfig

_NOWHERE = -1


class Dispatcher:
    """The loop side of one producer."""

    def __init__(self, config: ProducerConfig, cluster: Cluster, accumulator: Accumulator) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._loop = asyncio.get_running_loop()
        self._linger = config.linger_ms / 1000
        rules = Rules(
            config.largest_batch,
            self._linger,
            config.max_in_flight_requests_per_connection,
            config.idempotent,
        )
        patience = config.partitioner_availability_timeout_ms / 1000
        self._routing = Routing(cluster, rules, patience, self._make_sender)
        self.ledger: Ledger = Ledger(accumulator.release)
        self.last_failure: KafkaError | None = None  # why records failed last
        self.counters: Counters = Counters(self._loop.time())
        self._partitioner = make_partitioner(config.partitioner)
        self._spreads: dict[str, Spread] = {}
        self._homeless: list[Chunk] = []
        self._sought = Sought(cluster, config.delivery_timeout_ms / 1000, self._queue, self._fail)
        self._identity: Identity | None = None
        self._identities = Identities(cluster, self._got_identity, self._got_no_identity)
        self._flushing = 0
        self._draining: asyncio.Handle | None = None
        self._expiring: asyncio.Handle | None = None
        self._expiring_at = 0.0  # kept here: what uvloop gives for a moment that has come does not know it

    def start(self) -> None:
        self._cluster.metadata.listen(self._follow)
        self._cluster.metadata.listen_for_failure(self._fail_homeless)
        if self._config.idempotent:
            self._identities.ask()

    # Records in

    def wake(self, urgency: Urgency) -> None:
        """There are records to drain, at once or after the linger. On the loop."""
        if self._draining is not None:
            self._draining.cancel()
        if urgency is Urgency.NOW or not self._linger:
            self._draining = self._loop.call_soon(self.drain)
        else:
            self._draining = self._loop.call_later(self._linger, self.drain)

    def wake_now(self, urgency: Urgency) -> None:
        """The same where the loop was woken for it, and another turn would help nobody."""
        if urgency is Urgency.NOW or not self._linger:
            self.drain()
        else:
            self.wake(urgency)

    def drain_if_idle(self) -> None:
        """Drain in this turn of the loop for a caller that waits, where nothing is under way to wait for."""
        if self._draining is not None and not self._linger and self.ledger.empty:
            self.drain()

    def drain(self) -> None:
        """Bring what callers have appended to the senders."""
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None
        for chunk in self._accumulator.drain():
            chunk.left = chunk.flat_records()
            self.ledger.enter(chunk)
            # Chunks of several topics come in the order in which they were closed, not opened.
            if self._expiring is None or chunk.deadline < self._expiring_at:
                self._expire_at(chunk.deadline)
            self._settle_in(chunk)
        if self.hurry:
            self._routing.pump_all()  # also what was drained before, and lingers
        self._routing.pump()

    def _settle_in(self, chunk: Chunk) -> None:
        """Spread a chunk over its topic's outboxes; where that topic is not known, keep it until it is."""
        metadata = self._cluster.metadata
        metadata.look_up(chunk.topic)
        topic = metadata.snapshot.topics.get(chunk.topic)
        if topic is None or not topic.partitions:
            refusal = self._refusal(chunk.topic)
            if refusal is None or refusal.retriable:
                self._homeless.append(chunk)
                metadata.ask(chunk.topic)
            else:
                metadata.ask(chunk.topic)  # for those that come later: what is refused may be allowed by then
                self._fail_whole(chunk, refusal)
            return
        view = self._routing.view(topic)
        for part, error in self._spread(chunk.topic).cut(chunk, view):
            if error is not None:
                self._fail([part], error)
            elif part.partition < view.count:
                self._queue(part)
            else:
                self._sought.add(part)

    def _queue(self, part: Part) -> None:
        outbox = self._routing.outbox(part.topic, part.partition)
        if outbox.identity is None:
            self.unknown(outbox)
        outbox.add(part)
        self._routing.place(outbox)

    def _spread(self, topic: str) -> Spread:
        spread = self._spreads.get(topic)
        if spread is None:
            adaptive = self._config.partitioner_adaptive_partitioning_enable
            random = Random(self._cluster.random.getrandbits(64))  # noqa: S311 - which partition is next
            sticky = StickyChoice(self._config.batch_size, random, adaptive=adaptive)
            spread = self._spreads[topic] = Spread(self._partitioner, sticky)
        return spread

    def _make_sender(self, node_id: int) -> Sender:
        return Sender(node_id, self._cluster, self._config, self)

    # Leaders and identities

    def _follow(self, snapshot: Metadata) -> None:
        self._accumulator.topics = {name: len(topic.partitions) for name, topic in snapshot.topics.items()}
        self._routing.follow(snapshot)
        self._sought.follow(snapshot)
        homeless, self._homeless = self._homeless, []
        for chunk in homeless:
            self._settle_in(chunk)

    def unknown(self, outbox: Outbox) -> None:
        if self._identity is not None and outbox.new:
            outbox.give_identity(self._identity)
        else:
            self._identities.ask()

    def _got_identity(self, identity: Identity) -> None:
        self._identity = identity
        for outbox in self._routing:
            if outbox.identity is None:
                outbox.give_identity(identity)
                self._routing.place(outbox)

    def _got_no_identity(self, error: KafkaError) -> None:
        for outbox in self._routing:
            if outbox.identity is None:
                self._give_up(outbox, error)

    # What senders report

    @property
    def hurry(self) -> bool:
        return self._flushing > 0 or self._accumulator.pressed

    def topic_id(self, topic: str) -> UUID:
        known = self._cluster.metadata.snapshot.topics.get(topic)
        return NO_UUID if known is None else known.topic_id

    def shipped(self, batches: list[Shipped]) -> None:
        now = self._loop.time()
        self.counters.requests.add(now, 1)
        self.counters.sent.add(now, len(batches))
        for outbox, batch in batches:
            self.counters.queued.add(now, now - batch.created)
            if not outbox.waiting and outbox.topic in self._spreads:
                self._spreads[outbox.topic].sent(outbox.partition)

    def hinted(self, response: ProduceResponse) -> None:
        """Believe new leaders that an answer names (KIP-951)."""
        if not response.node_endpoints:
            return
        brokers = [
            Broker(node.node_id, Endpoint(node.host, node.port), node.rack)
            for node in response.node_endpoints
        ]
        snapshot = self._cluster.metadata.snapshot
        for topic in response.responses:
            found = snapshot.topic_by_id(topic.topic_id) if not topic.name else None
            name = found.name if found else topic.name
            for answer in topic.partition_responses:
                leader = answer.current_leader
                if leader.leader_id >= 0:
                    partition = TopicPartition(name, answer.index)
                    self._cluster.metadata.take_hint(
                        partition, leader.leader_id, leader.leader_epoch, brokers
                    )

    def unreachable(self, sender: Sender, error: KafkaError) -> None:
        self._cluster.metadata.ask()
        final = not error.retriable and not isinstance(error, KafkaTimeoutError)
        for outbox in list(sender.busy):
            outbox.last_error = error
            if final:
                self._give_up(outbox, error)

    def failed(self, outbox: Outbox, batch: Batch, error: KafkaError) -> None:
        self._conclude(outbox, batch, error, None)

    def answered(self, outbox: Outbox, batch: Batch, answer: Answer) -> None:
        about = f"topic {outbox.topic}, partition {outbox.partition}"
        if answer.error_code == MessageTooLargeError.code and batch.count == 1:
            about = f"{about}, a record of {len(batch.records):,} bytes as it is sent"
        error = error_for(answer.error_code, answer.error_message, about=about)
        self._conclude(outbox, batch, error, answer)

    def _conclude(
        self, outbox: Outbox, batch: Batch, error: KafkaError | None, answer: Answer | None
    ) -> None:
        lacking(error, ProduceRequest, self._cluster.config)
        verdict = judge(error, batch, self._config.retries)
        if verdict is Verdict.WRITTEN:
            self._written(outbox, batch, answer)
        elif batch.over or verdict is Verdict.FATAL:
            outbox.given_up(batch)
            if not batch.over:
                assert error is not None
                self._fail(batch.parts, error, _of_single_records(answer, outbox))
        else:
            assert error is not None
            self._again(outbox, batch, verdict, error)
        self._routing.place(outbox)

    def _written(self, outbox: Outbox, batch: Batch, answer: Answer | None) -> None:
        outbox.written(batch)
        if not batch.over:
            if answer is None or answer.error_code:
                self.ledger.deliver(batch.parts, -1)
            else:
                self.ledger.deliver(
                    batch.parts, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset
                )
        now = self._loop.time()
        counters = self.counters
        counters.answered.add(now, now - batch.sent_at)
        counters.batches.add(now, 1)
        counters.records.add(now, batch.count)
        counters.bytes.add(now, batch.size - RECORD_OVERHEAD * batch.count)
        counters.plain_bytes.add(now, batch.plain_size)
        counters.encoded_bytes.add(now, len(batch.records))

    def _again(self, outbox: Outbox, batch: Batch, verdict: Verdict, error: KafkaError) -> None:
        now = self._loop.time()
        batch.last_error = error
        self.counters.retries.add(now, 1)
        if verdict is Verdict.SPLIT:
            outbox.back_in_halves(batch)
            return
        outbox.back(batch, refused=verdict is not Verdict.AGAIN)
        if isinstance(error, UnknownTopicOrPartitionError):
            # Deleted, and perhaps made anew by the time it is there again: without ids nobody says so.
            outbox.new_log()
        if verdict is Verdict.BEHIND:
            return
        # Also before it is numbered anew: a broker that is never content must not be asked in a tight loop.
        outbox.pause(now, error)
        if verdict is not Verdict.AGAIN:
            outbox.lost_count(stranger=verdict is Verdict.STRANGER)
        elif error.refresh_metadata:
            self._cluster.metadata.ask()

    # Giving up

    def _fail(
        self, parts: list[Part], error: KafkaError, errors: dict[int, KafkaError] | None = None
    ) -> None:
        if not parts:
            return
        self.counters.errors.add(self._loop.time(), sum(map(len, parts)))
        self.last_failure = error
        self.ledger.fail(parts, error, errors)

    def _fail_whole(self, chunk: Chunk, error: KafkaError) -> None:
        """Fail a chunk that was never spread."""
        part = whole(chunk, _NOWHERE)
        chunk.cut([part], len(part))
        self._fail([part], error)

    def _fail_homeless(self, error: KafkaError) -> None:
        """Fail what waits for a topic of which nothing will be known."""
        homeless, self._homeless = self._homeless, []
        for chunk in homeless:
            self._fail_whole(chunk, error)

    def _give_up(self, outbox: Outbox, error: KafkaError) -> None:
        """Fail everything that waits for a partition."""
        batches, parts = outbox.clear()
        for batch in batches:
            self._fail(batch.parts, _because(error, batch.last_error))
        self._fail(parts, error)

    def _expire(self) -> None:
        """Fail what has run out of time, and come again when the next records do."""
        now = self._loop.time()
        self._expiring = None
        due = []
        for outbox in self._routing:
            batches, parts = outbox.expire(now)
            for batch in batches:
                self._fail(batch.parts, self._too_late(outbox, batch.last_error))
            if parts:
                self._fail(parts, self._too_late(outbox, None))
            due.append(outbox.next_deadline())
        homeless, self._homeless = self._homeless, []
        for chunk in homeless:
            if chunk.deadline <= now:
                self._fail_whole(chunk, self._never_placed(chunk.topic))
            else:
                self._homeless.append(chunk)
                due.append(chunk.deadline)
        if due and min(due) != float("inf"):
            self._expire_at(min(due))

    def _expire_at(self, deadline: float) -> None:
        if self._expiring is not None:
            self._expiring.cancel()
        self._expiring, self._expiring_at = self._loop.call_at(deadline, self._expire), deadline

    def _refusal(self, topic: str) -> BrokerError | None:
        """Why nothing is known of a topic, as far as metadata says."""
        error = error_for(self._cluster.metadata.snapshot.errors.get(topic, 0), about=f"topic {topic}")
        return lacking(error, ProduceRequest, self._cluster.config)

    def _too_late(self, outbox: Outbox, reason: KafkaError | None) -> KafkaTimeoutError:
        sender = self._routing.senders.get(outbox.leader) if outbox.leader is not None else None
        metadata = self._cluster.metadata
        refusal = self._refusal(outbox.topic)
        if sender is None:  # then why there is no leader says more than what the last one answered
            reason = refusal or metadata.last_error or reason
        reason = reason or outbox.last_error or (sender and sender.last_error) or metadata.last_error
        if reason is None and outbox.identity is None:
            reason = self._identities.last_error
        why = f": {reason}" if reason else ": its turn did not come" if sender else ": it has no leader"
        return self._timed_out(f"records for topic {outbox.topic}, partition {outbox.partition}", why, reason)

    def _never_placed(self, topic: str) -> KafkaTimeoutError:
        metadata = self._cluster.metadata
        reason = self._refusal(topic) or metadata.last_error
        return self._timed_out(
            f"records for topic {topic}", f": {reason or 'nothing is known of it'}", reason
        )

    def _timed_out(self, what: str, why: str, reason: KafkaError | None) -> KafkaTimeoutError:
        seconds = self._config.delivery_timeout_ms / 1000
        error = KafkaTimeoutError(
            f"{what} were not delivered within {seconds:g} s (delivery_timeout_ms){why}"
        )
        error.__cause__ = reason
        return error

    # Waiting and closing

    async def flush(self, deadline: Deadline) -> bool:
        """Send everything that was appended before, without linger; False when that takes too long."""
        self._flushing += 1
        try:
            self.drain()
            return await self.ledger.settled(deadline) and await self._gone_out(deadline)
        finally:
            self._flushing -= 1

    async def _gone_out(self, deadline: Deadline) -> bool:
        """With acks=0 nothing says that a record has left this process; False when that takes too long."""
        if self._config.required_acks == 0:
            try:
                for sender in list(self._routing.senders.values()):
                    await sender.written(deadline)
            except KafkaError:
                return False
        return True

    def close(self, error: KafkaError) -> list[asyncio.Task[None]]:
        """Fail what is left and end every task; those that are returned are being cancelled."""
        self.drain()
        for handle in (self._draining, self._expiring):
            if handle is not None:
                handle.cancel()
        tasks = [sender.close() for sender in self._routing.senders.values()]
        tasks.append(self._identities.stop())
        for outbox in self._routing:
            self._give_up(outbox, error)
        self._fail_homeless(error)
        tasks += self._sought.close(error)
        return [task for task in tasks if task is not None]

    @property
    def in_flight(self) -> int:
        return sum(sender.in_flight for sender in self._routing.senders.values())


def _because(error: KafkaError, reason: KafkaError | None) -> KafkaError:
    """An error with what came before it as its cause, unless it has a cause of its own."""
    if reason is None or error.__cause__ is not None:
        return error
    explained = copy(error)
    explained.__cause__ = reason
    return explained


def _of_single_records(answer: Answer | None, outbox: Outbox) -> dict[int, KafkaError] | None:
    """The records that a broker names as the reason for refusing a whole batch, by their rank in it."""
    if answer is None or not answer.record_errors:
        return None
    about = f"topic {outbox.topic}, partition {outbox.partition}"
    return {
        entry.batch_index: error_for(answer.error_code, entry.batch_index_error_message, about=about)
        or InvalidRecordError(entry.batch_index_error_message, about=about)
        for entry in answer.record_errors
    }
