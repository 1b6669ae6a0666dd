"""Keeps the metadata snapshot fresh: one task, whoever asks.

It fetches when the snapshot is too old and when somebody asks. What no fetch was about yet, such as a topic
that is used for the first time, is fetched at once, and alone. The same question again waits for a pause,
which is short at first, because a topic that was just created is there in a moment, and which grows, so that
a thousand failing partitions make one request. While the cluster does not answer, everything waits for the
back-off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from copy import copy

from kclient.background import BackgroundTasks
from kclient.clock import Deadline
from kclient.cluster.metadata import Broker, Metadata
from kclient.cluster.retry import Backoff
from kclient.errors import ClientClosedError, KafkaError
from kclient.reminders import IN_LOG, Reminders
from kclient.types import TopicPartition
from kclient.wire.messages.metadata import MetadataResponse

log: logging.Logger = logging.getLogger(__name__)

Fetch = Callable[[list[str] | None], Awaitable[MetadataResponse]]
Listener = Callable[[Metadata], None]


# Seconds for which a topic that was looked up is kept: its fetch may have to wait for the back-off, and with
# a shorter age the topic would be forgotten before it was asked for.
_LEAST_KEPT = 10.0
_OUTAGE = "an outage"
# Seconds between attempts after a refusal: 1, 2, 4, and then this.
_AFTER_REFUSAL = 5.0
# And for how many seconds after somebody has asked: who goes on without metadata asks again and again.
_NEEDED_FOR = 60.0


class Refresher:
    """Owns the snapshot. `fetch` asks any broker about the given topics, or about all where that is None.

    `backoff` has the waits after fetches that failed, `pauses` those between fetches that succeeded.
    """

    def __init__(
        self, fetch: Fetch, backoff: Backoff, pauses: Backoff, max_age: float, tasks: BackgroundTasks
    ) -> None:
        self.snapshot: Metadata = Metadata()
        self.last_error: KafkaError | None = None
        self.last_success: float | None = None
        self._fetch = fetch
        self._backoff = backoff
        self._pauses = pauses
        self._max_age = max_age
        self._loop = asyncio.get_running_loop()
        self._topics: set[str] = set()
        self._looked_up: dict[str, float] = {}  # topic: when it was last asked for
        self._all_topics = False
        self._whole = False  # everything is to be fetched again, not only `_wanted`
        self._needed_until = 0.0  # by somebody who asked and does not wait
        self._again: asyncio.TimerHandle | None = None
        self._wanted: set[str] = set()
        self._asked = asyncio.Event()
        self._asked_anew = asyncio.Event()  # about something that no fetch was about yet
        self._not_before = 0.0
        self._expires = self._loop.time() + max_age
        self._waiters: list[asyncio.Future[None]] = []
        self._listeners: list[Listener] = []
        self._failure_listeners: list[Callable[[KafkaError], object]] = []
        self._task: asyncio.Task[None] | None = None
        self._tasks = tasks
        tasks.when_failed(self._release)
        self._stopped = False
        self._reminders = Reminders(IN_LOG)

    def start(self) -> None:
        self._task = self._tasks.start(self._run(), "kclient metadata")

    def retire(self) -> None:
        """End soon; nobody waits for it."""
        if self._stopped:
            return
        self._stopped = True
        if self._again is not None:
            self._again.cancel()
        if self._task is None:
            self._end()
            return
        self._task.add_done_callback(self._end)
        self._tasks.end(self._task)

    async def stop(self) -> None:
        """End, and wait for it."""
        self.retire()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _end(self, *_: object) -> None:
        self._release(ClientClosedError("the client was closed"))

    def listen(self, listener: Listener) -> None:
        """Have `listener` called with every new snapshot."""
        self._listeners.append(listener)

    def listen_for_failure(self, listener: Callable[[KafkaError], object]) -> None:
        """Have `listener` called when there will be no snapshot until somebody asks again."""
        self._failure_listeners.append(listener)

    def ask(self, topic: str | None = None) -> None:
        """Wish for a fresh snapshot soon, or for news of one topic; does not wait."""
        self._needed_until = self._loop.time() + _NEEDED_FOR
        self._wish(topic)

    def _wish(self, topic: str | None) -> None:
        if topic is None:
            self._whole = True
        else:
            self._wanted.add(topic)
        self._asked.set()

    def follow(self, topics: Iterable[str]) -> None:
        """Keep these topics in the snapshot from now on."""
        new = set(topics) - self._topics
        if new:
            self._topics |= new
            self._ask_anew(new)

    def look_up(self, topic: str) -> None:
        """Keep a topic in the snapshot for as long as somebody looks it up now and then."""
        if topic not in self._topics and topic not in self._looked_up:
            self._ask_anew([topic])
        self._looked_up[topic] = self._loop.time()

    def follow_all(self, wanted: bool = True) -> None:
        """Keep every topic of the cluster in the snapshot: for subscriptions by pattern."""
        if wanted and not self._all_topics:
            self._asked_anew.set()
        self._all_topics = wanted
        self.ask()

    def forget(self, topics: Iterable[str]) -> None:
        """No longer keep these topics."""
        gone = set(topics)
        self._topics -= gone
        self.snapshot = self.snapshot.without(gone)

    def update(self, snapshot: Metadata) -> None:
        """Take over a snapshot that was changed by something else than a fetch."""
        self._publish(snapshot)

    def take_hint(
        self, partition: TopicPartition, leader: int, leader_epoch: int, brokers: Iterable[Broker] = ()
    ) -> None:
        """Believe a broker that names the new leader in the answer to another request (KIP-951)."""
        snapshot = self.snapshot.with_leader(partition, leader, leader_epoch)
        if snapshot is not self.snapshot:
            self._publish(snapshot.with_brokers(brokers))

    def introduce(self, broker: Broker) -> None:
        """Add a broker that another answer named and that metadata has not shown yet."""
        if broker.node_id not in self.snapshot.brokers:
            self._publish(self.snapshot.with_brokers([broker]))

    async def refreshed(self, deadline: Deadline, topic: str | None = None) -> Metadata:
        """The snapshot of a fetch that began after this call and was about everything, or about one topic."""
        if self._stopped:
            raise ClientClosedError("the client was closed")
        self._tasks.check()
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        self._wish(topic)
        try:
            async with asyncio.timeout_at(deadline.at):
                await waiter
        except KafkaError:
            raise
        except TimeoutError:
            reason = f" (last failure: {self.last_error})" if self.last_error else ""
            raise deadline.expired(f"fetching metadata{reason}") from self.last_error
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return self.snapshot

    def _ask_anew(self, topics: Iterable[str]) -> None:
        self._needed_until = self._loop.time() + _NEEDED_FOR
        self._wanted |= set(topics)
        self._asked_anew.set()
        self._asked.set()

    async def _run(self) -> None:
        while True:
            await self._wait_for_reason()
            await self._wait_for_turn()
            waiting, self._waiters = self._waiters, []
            self._let_go_of_the_unused()
            topics, whole = self._question()
            try:
                response = await self._fetch(topics)
            except asyncio.CancelledError:
                self._waiters += waiting  # for `stop` to release
                raise
            except KafkaError as error:
                self._failed(error, waiting)
            except Exception as error:  # noqa: BLE001 - were this task to end, every caller would wait in vain
                self._failed(_unexpected(error), waiting)
            else:
                self._succeeded(response, topics, waiting)
            if self.last_error is not None:
                self._wanted |= set(topics or ())
                self._whole = self._whole or whole
                self._not_before = self._loop.time() + self._backoff.next()
            else:
                self._not_before = self._loop.time() + self._pauses.next()

    def _question(self) -> tuple[list[str] | None, bool]:
        """What to fetch now, and whether that is everything that is to be kept."""
        kept = {*self._topics, *self._looked_up}
        wanted, self._wanted = self._wanted & kept, set()
        whole = self._whole or self._loop.time() >= self._expires
        if whole:
            self._expires = self._loop.time() + self._max_age
        self._whole = False
        self._asked.clear()
        self._asked_anew.clear()
        if self._all_topics:
            return None, whole
        return sorted(kept if whole else wanted), whole

    def _let_go_of_the_unused(self) -> None:
        since = self._loop.time() - max(self._max_age, _LEAST_KEPT)
        unused = {topic for topic, used in self._looked_up.items() if used < since}
        for topic in unused:
            del self._looked_up[topic]
        self.snapshot = self.snapshot.without(unused - self._topics)

    async def _wait_for_reason(self) -> None:
        try:
            async with asyncio.timeout_at(self._expires):
                await self._asked.wait()
        except TimeoutError:
            log.debug("metadata is %.0f s old: fetching it again", self._max_age)

    async def _wait_for_turn(self) -> None:
        """Sit out the pause after the last fetch; a new question does so only after a failure."""
        wait = self._not_before - self._loop.time()
        if self.last_error is not None:
            await asyncio.sleep(wait)
            return
        if wait + self._pauses.longest <= 0:
            self._pauses.reset()
        if wait > 0:
            try:
                async with asyncio.timeout(wait):
                    await self._asked_anew.wait()
            except TimeoutError:
                return
        if self._asked_anew.is_set():
            self._pauses.reset()

    def _failed(self, error: KafkaError, waiting: list[asyncio.Future[None]]) -> None:
        due = self._reminders.due(_OUTAGE, self._loop.time())
        log.log(logging.WARNING if due else logging.DEBUG, "cannot fetch metadata: %s", error)
        self.last_error = error
        self._waiters += waiting
        if error.retriable:
            self._asked.set()
        else:
            self._release(error)
            for listener in self._failure_listeners:
                listener(error)
            # What is refused now may be allowed again. But a password that nobody needs is not shown again.
            if self._again is not None:
                self._again.cancel()
            if self._loop.time() < self._needed_until and not self._stopped:
                pause = min(_AFTER_REFUSAL, float(1 << min(self._backoff.attempts, 8)))
                self._again = self._loop.call_later(pause, self._asked.set)

    def _succeeded(
        self, response: MetadataResponse, topics: list[str] | None, waiting: list[asyncio.Future[None]]
    ) -> None:
        self.last_error = None
        if not self._asked.is_set():  # since this fetch began
            self._needed_until = 0.0
        if self._again is not None:
            self._again.cancel()
        self.last_success = self._loop.time()
        self._reminders.over(_OUTAGE)
        self._backoff.reset()
        unwanted = set(topics or ()) - {*self._topics, *self._looked_up}  # forgotten while asked for
        self._publish(self.snapshot.merge(response, topics).without(unwanted))
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _publish(self, snapshot: Metadata) -> None:
        self.snapshot = snapshot
        for listener in self._listeners:
            listener(snapshot)

    def _release(self, error: KafkaError) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(copy(error))  # a traceback belongs to one caller


def _unexpected(error: Exception) -> KafkaError:
    failure = KafkaError(f"fetching metadata failed in a way that kclient does not know: {error!r}")
    failure.__cause__ = error
    return failure
