"""All connections of a client and what it knows of the cluster. Producer, consumer and admin speak through
this.

`Cluster` finds brokers and hands out connections; `operations` drives requests with retries over it. A
broker is reached by the address that the newest metadata gives; when no known broker answers, the bootstrap
addresses are resolved and tried again (KIP-899), so a cluster that moved as a whole is found as long as one
of its old names is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random, getrandbits
from typing import TypeVar

from kclient.background import BackgroundTasks
from kclient.clock import Deadline
from kclient.cluster.coordinators import Coordinators
from kclient.cluster.link import Link
from kclient.cluster.metadata import Metadata
from kclient.cluster.refresher import Refresher
from kclient.cluster.retry import Backoff
from kclient.cluster.unreachable import Unreachable
from kclient.config import ClientConfig, Endpoint
from kclient.errors import (
    ClientClosedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RebootstrapRequiredError,
    error_for,
)
from kclient.net.connection import Connection
from kclient.net.settings import dial_settings
from kclient.wire.message import Request, Response
from kclient.wire.messages.metadata import MetadataRequest, MetadataResponse

R = TypeVar("R", bound=Response)

# Requests that keep a connection waiting (long polls, group joins) have lanes of their own.
MAIN_LANE = "main"
# The first pause before a look at what will be there in a moment: a new topic, a new leader.
_BRIEFLY_MS = 10


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """One address, as `health()` shows it. `throttled_for` is in seconds from now."""

    address: str
    node_id: int | None
    connected: bool
    requests_pending: int
    throttled_for: float
    last_error: str | None


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """Whether the client is in touch with its cluster. Ages are in seconds, None where it never happened.

    `failure` says why the client does not work any more, and can only be closed; None while it works.
    `complaints` are what is the matter now and may pass, such as a broker whose address leads nowhere.
    """

    connected: bool
    brokers: tuple[BrokerHealth, ...]
    cluster_id: str | None
    metadata_age: float | None
    last_error: str | None
    failure: str | None = None
    complaints: tuple[str, ...] = ()


class Cluster:
    """The cluster as one client sees it."""

    def __init__(
        self, config: ClientConfig, *, auto_create_topics: bool = False, random: Random | None = None
    ) -> None:
        self.config = config
        self._auto_create_topics = auto_create_topics
        # From the module's generator, which a simulation seeds: jitter is part of what must repeat.
        self.random: Random = random or Random(getrandbits(64))  # noqa: S311 - not for secrets
        self._loop = asyncio.get_running_loop()
        self._settings = dial_settings(config, self.random)
        self._links: dict[tuple[Endpoint, str], Link] = {}
        self._retired: list[Link] = []  # as it closed
        self._closed = False
        # Of the whole client: what is in one of the layers above works for it too.
        self.tasks: BackgroundTasks = BackgroundTasks(f"the client {config.client_id!r}")
        self.metadata: Refresher = Refresher(
            self._fetch_metadata,
            self.backoff(),
            Backoff(min(_BRIEFLY_MS, config.retry_backoff_ms), config.retry_backoff_ms, self.random),
            config.metadata_max_age_ms / 1000,
            self.tasks,
        )
        self.metadata.listen(self._drop_stale_links)
        standing = _longest_until_another_attempt(config)
        self._unreachable = Unreachable(
            lambda: self.metadata.snapshot, lambda: self.metadata.last_error, config.endpoints(), standing
        )
        self.coordinators: Coordinators = Coordinators(self.call, self.metadata, standing)
        self._silent: set[int] = set()

    async def start(self, deadline: Deadline) -> None:
        """Find the cluster. Raises what went wrong if it cannot be found in time."""
        self.metadata.start()
        await self.metadata.refreshed(deadline)

    async def close(self) -> None:
        """Close every connection; requests in flight fail.

        All of them are told before anything is awaited: a caller that gives up, or is cancelled, leaves
        nothing behind that does not end by itself.
        """
        self.retire()
        await self.metadata.stop()
        await asyncio.gather(*(link.close() for link in self._retired))

    def retire(self) -> None:
        """Tell all connections and tasks to end; does not wait."""
        self._closed = True
        self._retired += self._links.values()
        self._links = {}
        for link in self._retired:
            link.retire()
        self.metadata.retire()

    def backoff(self) -> Backoff:
        """A fresh back-off with the client's settings."""
        return Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, self.random)

    def brief_backoff(self) -> Backoff:
        """One that begins with short waits, for what will be there in a moment: a new topic, a new leader."""
        config = self.config
        return Backoff(min(_BRIEFLY_MS, config.retry_backoff_ms), config.retry_backoff_max_ms, self.random)

    def deadline(self, timeout_ms: float | None = None) -> Deadline:
        """The deadline of one call, from `default_api_timeout_ms` where the caller gives none."""
        return Deadline.after(
            self._loop, (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        )

    async def connection(self, node_id: int, deadline: Deadline, lane: str = MAIN_LANE) -> Connection:
        """A connection to one broker."""
        broker = self.metadata.snapshot.brokers.get(node_id)
        if broker is None:
            self.metadata.ask()
            raise KafkaConnectionError(f"broker {node_id} is not in the cluster, as far as its metadata says")
        return await self._link(broker.endpoint, lane).open(deadline)

    def open_connection(self, node_id: int, lane: str = MAIN_LANE) -> Connection | None:
        """The connection to one broker, if there is one; never dials."""
        broker = self.metadata.snapshot.brokers.get(node_id)
        link = None if broker is None else self._links.get((broker.endpoint, lane))
        return link.connection if link is not None and link.connected else None

    async def any_connection(self, deadline: Deadline) -> Connection:
        """A connection to whichever broker can be reached, the least busy first."""
        failures: list[str] = []
        for endpoint in self._candidates():
            try:
                return await self._link(endpoint, MAIN_LANE).open(deadline)
            except KafkaTimeoutError as error:
                failures.append(str(error))
                raise KafkaTimeoutError(f"no broker was reached in time: {'; '.join(failures)}") from error
            except KafkaError as error:
                if not error.retriable:
                    raise
                failures.append(str(error))
        raise KafkaConnectionError(f"no broker can be reached: {'; '.join(failures)}")

    async def call(
        self,
        node_id: int | None,
        build: Callable[[int], Request[R]],
        request: type[Request[R]],
        deadline: Deadline,
        *,
        newest: int | None = None,
    ) -> R:
        """One attempt at one request, to a broker or, where `node_id` is None, to any.

        `build` makes the request for the negotiated version, which `newest` may limit further.
        """
        if self._closed:
            raise ClientClosedError("this client is closed")
        if node_id is None:
            connection = await self.any_connection(deadline)
        else:
            connection = await self.connection(node_id, deadline)
        if deadline.passed(self._loop):  # sent now, it could only close the connection under everyone else
            raise deadline.expired(f"{request.api_key.name} to {connection.name}")
        version = connection.version_for(request, newest)
        attempt = deadline.earlier(self._loop, self.config.request_timeout_ms / 1000)
        await connection.writable(attempt)
        return await connection.call(build(version), attempt, version=version)

    def health(self) -> ClusterHealth:
        """What the connections and the metadata look like now; never waits."""
        nodes = {broker.endpoint: node_id for node_id, broker in self.metadata.snapshot.brokers.items()}
        now = self._loop.time()
        brokers = tuple(
            BrokerHealth(
                address=str(link.endpoint),
                node_id=nodes.get(link.endpoint),
                connected=link.connected,
                requests_pending=link.pending,
                throttled_for=max(0.0, link.connection.throttled_until - now) if link.connection else 0.0,
                last_error=str(link.last_error) if link.last_error else None,
            )
            for link in self._links.values()
        )
        success, error = self.metadata.last_success, self.metadata.last_error
        return ClusterHealth(
            connected=any(broker.connected for broker in brokers),
            brokers=brokers,
            cluster_id=self.metadata.snapshot.cluster_id,
            metadata_age=None if success is None else now - success,
            last_error=str(error) if error else None,
            failure=None if self.tasks.failure is None else str(self.tasks.failure),
            complaints=self.complaints(),
        )

    def complaints(self) -> tuple[str, ...]:
        """What is the matter now and may pass."""
        return self._unreachable.complaints() + self.coordinators.complaints()

    def owes_an_answer(self, node_id: int, owes: bool) -> None:
        """Tell of a broker that is silent on some connection, or no more: meanwhile others are asked first.

        One that froze keeps all its connections open, and a question to it would wait as long as the first.
        """
        if owes:
            self._silent.add(node_id)
        else:
            self._silent.discard(node_id)

    def _candidates(self) -> Iterable[Endpoint]:
        """Addresses to try: open connections first, those that keep failing or are silent last."""
        known = [broker.endpoint for broker in self.metadata.snapshot.brokers.values()]
        bootstrap = list(self.config.endpoints())
        self.random.shuffle(known)
        self.random.shuffle(bootstrap)
        every = list(dict.fromkeys(known + bootstrap))
        brokers = self.metadata.snapshot.brokers
        silent = {brokers[node].endpoint for node in self._silent if node in brokers}

        def order(endpoint: Endpoint) -> tuple[bool, bool, int, int]:
            link = self._links.get((endpoint, MAIN_LANE))
            closed, failures, pending = (
                (True, 0, 0) if link is None else (not link.connected, link.failures, link.pending)
            )
            return endpoint in silent, closed, failures, pending

        return sorted(every, key=order)

    def _link(self, endpoint: Endpoint, lane: str) -> Link:
        if self._closed:
            raise ClientClosedError("this client is closed")
        link = self._links.get((endpoint, lane))
        if link is None:
            config = self.config
            backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self.random)
            idle = config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else None
            link = Link(endpoint, self._settings, backoff, idle, self._unreachable.tried)
            self._links[endpoint, lane] = link
        return link

    async def _fetch_metadata(self, topics: list[str] | None) -> MetadataResponse:
        deadline = Deadline.after(self._loop, self.config.request_timeout_ms / 1000)

        def build(version: int) -> MetadataRequest:
            names = None if topics is None else [_topic_named(name) for name in topics]
            # Versions before 4 cannot say no: there the broker's own setting decides.
            return MetadataRequest(
                topics=names, allow_auto_topic_creation=self._auto_create_topics or version < 4
            )

        try:
            response = await self.call(None, build, MetadataRequest, deadline)
        except KafkaTimeoutError as late:  # for one attempt: whoever waits for metadata has a deadline too
            raise KafkaConnectionError(str(late)) from late
        error = error_for(response.error_code)
        if isinstance(error, RebootstrapRequiredError):
            self._start_over()
            raise KafkaConnectionError(f"the cluster is no longer what it was: {error}") from error
        if error is not None:
            raise error
        if not response.brokers:
            raise KafkaConnectionError("the broker that was asked knows of no brokers yet: it is starting")
        return response

    def _start_over(self) -> None:
        """Forget the cluster. An open connection, also to a bootstrap address, may lead to the wrong one."""
        links, self._links = self._links, {}
        for link in links.values():
            link.retire()
        self.metadata.update(Metadata())

    def _drop_stale_links(self, snapshot: Metadata) -> None:
        """Let go of addresses that the cluster no longer has, once nothing waits for them."""
        wanted = {broker.endpoint for broker in snapshot.brokers.values()} | set(self.config.endpoints())
        for key, link in list(self._links.items()):
            if key[0] not in wanted and not link.pending:
                del self._links[key]
                link.retire()
                self._unreachable.forget(key[0])


def _longest_until_another_attempt(config: ClientConfig) -> float:
    """Seconds from a failure until the next attempt of somebody who goes on trying has failed, too."""
    pauses = 2 * (config.reconnect_backoff_max_ms + config.retry_backoff_max_ms)
    return (pauses + config.socket_connection_setup_timeout_ms) / 1000


def _topic_named(name: str) -> MetadataRequest.MetadataRequestTopic:
    return MetadataRequest.MetadataRequestTopic(name=name)
