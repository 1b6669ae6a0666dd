"""The way to one broker: takes batches out of outboxes, sends them, reports what was answered.

`pump` may be called at any time, by whoever thinks that there is something to do: records were added, an
answer came, a pause is over, the connection is there. It takes what is due, as long as the broker may have
more requests in flight.

A request waits until all its batches are encoded, which for long compression happens on other threads;
requests are written in the order in which their batches were taken, because that is the order of the records.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.errors import EncodeError, KafkaConnectionError, KafkaError, KafkaTimeoutError
from kclient.producer.batch import Batch
from kclient.producer.outbox import Outbox
from kclient.records.compression import LZ4_THOROUGH_FROM, Codec
from kclient.records.sizes import BATCH_OVERHEAD
from kclient.threads import COMPRESSION
from kclient.wire.messages.produce import ProduceRequest, ProduceResponse
from kclient.wire.schema import NO_UUID

if TYPE_CHECKING:
    from kclient.net.connection import Connection
    from kclient.producer.config import ProducerConfig

Answer = ProduceResponse.TopicProduceResponse.PartitionProduceResponse
Shipped = tuple[Outbox, Batch]

_LAST_VERSION_WITH_NAMES = 12
# From so many bytes on, compressing takes longer than getting the result back from another thread, which a
# busy one lets wait for milliseconds. The fast codecs need less than that for any usual request.
_LONG_COMPRESSION = {Codec.GZIP: 8_192, Codec.SNAPPY: 4_194_304, Codec.LZ4: 4_194_304, Codec.ZSTD: 32_768}
_LONG_THOROUGH_LZ4 = 65_536


class Reports(Protocol):
    """Whoever is told what became of batches."""

    @property
    def hurry(self) -> bool:
        """Whether nothing should linger."""

    def answered(self, outbox: Outbox, batch: Batch, answer: Answer) -> None:
        """The broker has said something about a batch."""

    def failed(self, outbox: Outbox, batch: Batch, error: KafkaError) -> None:
        """There was no answer, or there will be none."""

    def hinted(self, response: ProduceResponse) -> None:
        """An answer to a whole request, which may name new leaders."""

    def shipped(self, batches: list[Shipped]) -> None:
        """A request is on its way."""

    def topic_id(self, topic: str) -> UUID:
        """The id of a topic, as far as it is known."""

    def unknown(self, outbox: Outbox) -> None:
        """An outbox needs an identity before anything can be taken out of it."""

    def unreachable(self, sender: Sender, error: KafkaError) -> None:
        """The broker could not be reached."""


class _Shipment(NamedTuple):
    """A request in the making."""

    batches: list[Shipped]
    encoding: asyncio.Future[object] | None


class Sender:
    """The outgoing side of one broker. `busy` are the outboxes it leads that have something to take."""

    def __init__(self, node_id: int, cluster: Cluster, config: ProducerConfig, reports: Reports) -> None:
        self.node_id = node_id
        self.busy: dict[Outbox, None] = {}
        self.in_flight: int = 0
        self.last_error: KafkaError | None = None
        self._cluster = cluster
        self._reports = reports
        self._loop = asyncio.get_running_loop()
        self._codec = config.codec
        self._level = config.compression_level
        thorough = self._codec is Codec.LZ4 and (self._level or 0) >= LZ4_THOROUGH_FROM
        self._long_compression = (
            _LONG_THOROUGH_LZ4 if thorough else _LONG_COMPRESSION.get(self._codec, float("inf"))
        )
        self._acks = config.required_acks
        self._most = config.max_in_flight_requests_per_connection
        self._largest = config.max_request_size
        self._timeout = config.request_timeout_ms / 1000
        self._timeout_ms = config.request_timeout_ms
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._outgoing: deque[_Shipment] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._backoff = cluster.backoff()
        self._closed = False

    def __repr__(self) -> str:
        return (
            f"<Sender to {self.node_id}: {len(self.busy)} outboxes busy, {self.in_flight} requests in flight>"
        )

    def pump(self) -> None:
        """Send what is due."""
        while self.busy and self.in_flight < self._most and not self._closed:
            batches, due = self._collect()
            if not batches:
                self._arm(due)
                return
            self._ship(batches)

    async def written(self, deadline: Deadline) -> None:
        """Wait until nothing that was sent is still in this process."""
        if self._connection is not None:
            await self._connection.written(deadline)

    def close(self) -> asyncio.Task[None] | None:
        """Send nothing more; the task, if there is one, is being cancelled."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._cluster.tasks.end(self._task)
        return self._task

    def _collect(self) -> tuple[list[Shipped], float]:
        """A batch of every outbox that is due, as far as one request goes; else when the first one is."""
        now = self._loop.time()
        hurry = self._reports.hurry
        due = [(outbox, outbox.due(now, hurry)) for outbox in self.busy]
        ready = [outbox for outbox, when in due if when <= now]
        if not ready:
            for outbox, _ in due:
                if not outbox:  # emptied by its deadline
                    del self.busy[outbox]
            return [], min(when for _, when in due)
        if not self._connected():
            return [], float("inf")
        batches: list[Shipped] = []
        room = self._largest
        for outbox in ready:
            if batches and outbox.next_size() + BATCH_OVERHEAD > room:
                continue  # there may be smaller ones; this one is further up the next time
            batch = outbox.take()
            if batch is None:
                self._reports.unknown(outbox)
                continue
            batches.append((outbox, batch))
            room -= batch.size + BATCH_OVERHEAD
            # Last in line the next time: a request that is full must not always be full of the same ones.
            del self.busy[outbox]
            if outbox:
                self.busy[outbox] = None
        return batches, float("inf")

    def _ship(self, batches: list[Shipped]) -> None:
        self.in_flight += 1
        size = sum(batch.size for _, batch in batches if not batch.records)
        encoding: asyncio.Future[object] | None = None
        if size >= self._long_compression:
            try:
                encoding = self._loop.run_in_executor(COMPRESSION, self._encode, batches)
                encoding.add_done_callback(self._encoded)
            except NotImplementedError:
                encoding = None  # a loop without threads, as in a simulation
        if encoding is None:
            self._encode(batches)
        self._outgoing.append(_Shipment(batches, encoding))
        self._write_encoded()

    def _encode(self, batches: list[Shipped]) -> None:
        for _, batch in batches:
            try:
                batch.encode(self._codec, self._level)
            except KafkaError as error:
                batch.last_error = error
            except Exception as error:  # noqa: BLE001 - a batch that stayed in flight would keep others from it
                batch.last_error = EncodeError(f"{batch!r} cannot be encoded: {error!r}")
                batch.last_error.__cause__ = error

    def _encoded(self, encoding: asyncio.Future[object]) -> None:
        if not encoding.cancelled():
            encoding.result()
        self._write_encoded()
        self.pump()

    def _write_encoded(self) -> None:
        """Write what is ready, up to the first request that is not."""
        while self._outgoing and (self._outgoing[0].encoding is None or self._outgoing[0].encoding.done()):
            self._write(self._outgoing.popleft().batches)

    def _write(self, batches: list[Shipped]) -> None:
        ready: list[Shipped] = []
        for outbox, batch in batches:
            if batch.records and not batch.over:
                ready.append((outbox, batch))
            else:
                self._reports.failed(
                    outbox, batch, batch.last_error or KafkaError("given up before it was sent")
                )
        connection = self._connection
        if not ready or connection is None or connection.closed or self._closed:
            self._done(ready, {}, KafkaConnectionError(f"the connection to broker {self.node_id} was lost"))
            return
        now = self._loop.time()
        for _, batch in ready:
            batch.attempts += 1
            batch.sent_at = now
        ids = {outbox.topic: self._reports.topic_id(outbox.topic) for outbox, _ in ready}
        newest = _LAST_VERSION_WITH_NAMES if NO_UUID in ids.values() else None
        try:
            version = connection.version_for(ProduceRequest, newest)
        except KafkaError as error:
            self._done(ready, {}, error)
            return
        if version <= _LAST_VERSION_WITH_NAMES:
            ids = dict.fromkeys(ids, NO_UUID)
        request = self._request(ready, ids)
        if self._acks == 0:
            self._write_unanswered(connection, request, version, ready)
        else:
            deadline = Deadline(now + self._timeout, self._timeout)
            done = partial(self._done, ready, ids)
            connection.send(request, deadline, done, version=version)
        self._reports.shipped(ready)

    def _request(self, batches: list[Shipped], ids: dict[str, UUID]) -> ProduceRequest:
        by_topic: dict[str, list[ProduceRequest.TopicProduceData.PartitionProduceData]] = {}
        for outbox, batch in batches:
            data = ProduceRequest.TopicProduceData.PartitionProduceData(
                index=outbox.partition, records=batch.records
            )
            by_topic.setdefault(outbox.topic, []).append(data)
        topics = [
            ProduceRequest.TopicProduceData(name=topic, topic_id=ids[topic], partition_data=data)
            for topic, data in by_topic.items()
        ]
        return ProduceRequest(acks=self._acks, timeout_ms=self._timeout_ms, topic_data=topics)

    def _write_unanswered(
        self, connection: Connection, request: ProduceRequest, version: int, batches: list[Shipped]
    ) -> None:
        """With acks=0 a record is delivered when it is written to the socket, wherever it may get."""
        try:
            connection.send_unanswered(request, version)
        except KafkaError as error:
            self._done(batches, {}, error)
            return
        for outbox, batch in batches:
            self._reports.answered(outbox, batch, Answer(index=outbox.partition, base_offset=-1))
        self.in_flight -= 1

    def _done(
        self, batches: list[Shipped], ids: dict[str, UUID], outcome: ProduceResponse | KafkaError
    ) -> None:
        self.in_flight -= 1
        if isinstance(outcome, KafkaError):
            for outbox, batch in batches:
                self._reports.failed(outbox, batch, outcome)
        else:
            answers = _by_partition(outcome)
            for outbox, batch in batches:
                topic_id = ids[outbox.topic]
                answer = answers.get((outbox.topic if topic_id == NO_UUID else topic_id, outbox.partition))
                if answer is None:
                    what = f"{outbox.topic}-{outbox.partition}"
                    unsaid = KafkaConnectionError(f"broker {self.node_id} left {what} out of its answer")
                    self._reports.failed(outbox, batch, unsaid)
                else:
                    self._reports.answered(outbox, batch, answer)
            # Last: a leader that is known ends the pause which its predecessor's refusal began.
            self._reports.hinted(outcome)
        self.pump()

    # The connection

    def _connected(self) -> bool:
        """Whether requests can be written now; if not, it is seen to, and `pump` called when they can."""
        if self._task is not None:
            return False
        connection = self._connection
        if connection is not None and not connection.closed:
            # What is answered is bounded by what may be in flight; what is not, by what the socket takes.
            if self._acks != 0 or connection.has_room:
                return True
            work, name = self._wait_for_room(connection), f"room to {self.node_id}"
        else:
            work, name = self._connect(), f"connect to {self.node_id}"
        self._task = self._cluster.tasks.start(work, name, returns=True)
        self._task.add_done_callback(self._tried)
        return False

    async def _connect(self) -> None:
        deadline = Deadline.after(self._loop, self._timeout)
        try:
            self._connection = await self._cluster.connection(self.node_id, deadline)
        except KafkaError as error:
            self.last_error = error
            self._reports.unreachable(self, error)
            if error.retriable or isinstance(error, KafkaTimeoutError):
                await asyncio.sleep(self._backoff.next())
        else:
            self.last_error = None
            self._backoff.reset()

    async def _wait_for_room(self, connection: Connection) -> None:
        try:
            await connection.ungated()
            await connection.writable(Deadline.after(self._loop, self._timeout))
        except KafkaError as error:
            self.last_error = error
            connection.close(error)

    def _tried(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is None:
            self.pump()

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due != float("inf"):
            self._timer = self._loop.call_at(due, self.pump)


def _by_partition(response: ProduceResponse) -> dict[tuple[str | UUID, int], Answer]:
    return {
        (topic.name or topic.topic_id, answer.index): answer
        for topic in response.responses
        for answer in topic.partition_responses
    }
