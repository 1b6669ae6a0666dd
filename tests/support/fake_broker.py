"""Scripted Kafka brokers for tests, on `kclient.wire` and the network of `virtual_loop`.

`FakeCluster` holds what brokers agree on (topics, leaders, coordinators), a `FakeBroker` listens at one
address and answers in order, as Kafka does. It answers ApiVersions, SASL, Metadata and FindCoordinator by
itself; a test sets answers of its own with `answer` and plans faults for the next requests with `plan`.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from kclient.errors import ProtocolError
from kclient.wire.api import ApiKey
from kclient.wire.frame import decode_request, encode_response
from kclient.wire.message import Request, Response
from kclient.wire.messages import request_class
from kclient.wire.messages.connection import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kclient.wire.messages.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kclient.wire.versions import VersionRange
from tests.support.virtual_loop import Address, VirtualLoop

UNKNOWN_TOPIC = 3
UNSUPPORTED_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
SASL_FAILED = 58

Handler: TypeAlias = "Callable[[Exchange], Response]"
Fault: TypeAlias = "Callable[[Exchange], None]"

_AGAIN_AFTER = 1.0  # seconds, as in Kafka
_BEFORE_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


@dataclass
class FakePartition:
    leader: int
    epoch: int = 0


@dataclass
class FakeTopic:
    topic_id: UUID
    partitions: list[FakePartition]
    error_code: int = 0


@dataclass
class FakeSasl:
    """What brokers ask of clients. `lifetime` is of a session, in seconds; 0 has no end."""

    users: dict[str, str]
    mechanism: str = "PLAIN"
    lifetime: float = 0.0


class FakeCluster:
    """Brokers 1 to n at broker-1:9092, broker-2:9092 …, and what they know."""

    def __init__(self, loop: VirtualLoop, nodes: int = 1, sasl: FakeSasl | None = None) -> None:
        self.loop = loop
        self.sasl = sasl
        self.cluster_id = "fake"
        self.controller = 1
        self.topics: dict[str, FakeTopic] = {}
        self.coordinators: dict[str, int] = {}
        self.brokers = {number: FakeBroker(self, number) for number in range(1, nodes + 1)}
        for broker in self.brokers.values():
            broker.start()

    def __getitem__(self, node_id: int) -> FakeBroker:
        return self.brokers[node_id]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in (b.address for b in self.brokers.values()))

    @property
    def requests(self) -> list[Seen]:
        """Every request that any broker has read, in order of time."""
        return sorted((seen for broker in self.brokers.values() for seen in broker.requests), key=_time)

    def count(self, key: ApiKey) -> int:
        return sum(broker.count(key) for broker in self.brokers.values())

    def add_topic(self, name: str, leaders: Iterable[int] = (1,), number: int = 1) -> FakeTopic:
        topic = self.topics[name] = FakeTopic(UUID(int=number), [FakePartition(leader) for leader in leaders])
        return topic

    def move_leader(self, name: str, partition: int, leader: int) -> None:
        moved = self.topics[name].partitions[partition]
        moved.leader, moved.epoch = leader, moved.epoch + 1

    def answer(self, key: ApiKey, handler: Handler) -> None:
        for broker in self.brokers.values():
            broker.answer(key, handler)

    def plan(self, key: ApiKey, *faults: Fault) -> None:
        """Plan the same faults on every broker."""
        for broker in self.brokers.values():
            broker.plan(key, *faults)


class Seen(NamedTuple):
    """A request as a broker has read it."""

    at: float
    node_id: int
    connection: int
    key: ApiKey
    version: int
    request: Any


def _time(seen: Seen) -> float:
    return seen.at


class FakeBroker:
    """One broker. `versions` may be narrowed to play an old one."""

    def __init__(self, cluster: FakeCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.address: Address = (f"broker-{node_id}", 9092)
        self.rack: str | None = None
        self.versions = {key: _stable_versions(request_class(key)) for key in ApiKey}
        self.requests: list[Seen] = []
        self.violations: list[str] = []
        self.peers: list[Peer] = []
        self._handlers: dict[ApiKey, Handler] = dict(_DEFAULT_HANDLERS)
        self._planned: defaultdict[ApiKey, deque[Fault]] = defaultdict(deque)
        self._always: dict[ApiKey, Fault] = {}

    def __repr__(self) -> str:
        return f"<FakeBroker {self.node_id} at {self.address}, {len(self.connected)} connected>"

    @property
    def connected(self) -> list[Peer]:
        return [peer for peer in self.peers if not peer.lost]

    def start(self) -> None:
        self.cluster.loop.network.listen(self.address, self._accept)

    def stop(self) -> None:
        """Die: every connection is reset, new ones are refused."""
        self.cluster.loop.network.stop_listening(self.address)
        self.drop_connections()

    def drop_connections(self) -> None:
        for peer in self.connected:
            peer.transport.abort()

    def move(self, address: Address) -> None:
        """Restart at another address."""
        self.stop()
        self.address = address
        self.start()

    def freeze(self) -> None:
        self.cluster.loop.network.silence(self.address)

    def thaw(self) -> None:
        self.cluster.loop.network.heal(self.address)

    def answer(self, key: ApiKey, handler: Handler) -> None:
        """Answer requests of an API this way from now on."""
        self._handlers[key] = handler

    def plan(self, key: ApiKey, *faults: Fault) -> None:
        """Meet the next requests of an API with these faults, one each."""
        self._planned[key].extend(faults)

    def always(self, key: ApiKey, fault: Fault | None) -> None:
        """Meet every request of an API with a fault, until it is taken away with None."""
        if fault is None:
            self._always.pop(key, None)
        else:
            self._always[key] = fault

    def count(self, key: ApiKey) -> int:
        return sum(seen.key == key for seen in self.requests)

    def fault_for(self, key: ApiKey) -> Fault | None:
        planned = self._planned[key]
        return planned.popleft() if planned else self._always.get(key)

    def handler(self, key: ApiKey) -> Handler:
        return self._handlers[key]

    def _accept(self) -> Peer:
        peer = Peer(self, len(self.peers))
        self.peers.append(peer)
        return peer


def _stable_versions(request: type[Request[Any]]) -> VersionRange:
    first, last = request.versions
    return VersionRange(first, last - 1 if request.latest_unstable else last)


class Peer(asyncio.Protocol):
    """A connection as the broker sees it: reads frames, answers one after the other."""

    transport: asyncio.Transport

    def __init__(self, broker: FakeBroker, number: int) -> None:
        self.broker = broker
        self.number = number
        self.lost = False
        self.logged_in_until = float("inf") if broker.cluster.sasl is None else -1.0
        self.handshaken = False
        self.renewed_at = float("-inf")
        self._received = b""
        self._waiting: deque[bytes] = deque()
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, _exc: Exception | None) -> None:
        self.lost = True

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                break
            self._waiting.append(self._received[4 : 4 + size])
            self._received = self._received[4 + size :]
        self._work()

    def finish(self) -> None:
        """The request has been dealt with: on to the next."""
        self._busy = False
        self._work()

    def _work(self) -> None:
        while self._waiting and not self._busy and not self.lost:
            self._busy = True
            self._begin(self._waiting.popleft())

    def _begin(self, frame: bytes) -> None:
        broker = self.broker
        header, request = decode_request(frame)
        key = ApiKey(header.key)
        now = broker.cluster.loop.time()
        broker.requests.append(Seen(now, broker.node_id, self.number, key, header.version, request))
        exchange = Exchange(self, request, header.version, header.correlation_id)
        if key not in _BEFORE_LOGIN and (now >= self.logged_in_until or self.handshaken):
            broker.violations.append(f"{key.name} without a login")
            exchange.close()
            return
        if key != ApiKey.API_VERSIONS and header.version not in broker.versions[key]:
            raise ProtocolError(f"{key.name} v{header.version} was not offered")
        fault = broker.fault_for(key)
        if fault is None:
            exchange.reply(exchange.response())
        else:
            fault(exchange)


@dataclass
class Exchange:
    """A request on its way to be answered; what a handler or a fault works with."""

    peer: Peer
    request: Any
    version: int
    correlation_id: int
    finished: bool = field(default=False, init=False)

    @property
    def broker(self) -> FakeBroker:
        return self.peer.broker

    @property
    def cluster(self) -> FakeCluster:
        return self.peer.broker.cluster

    def response(self) -> Response:
        """What the broker answers when nothing is wrong."""
        return self.broker.handler(self.request.api_key)(self)

    def frame(self, response: Response) -> bytes:
        # A broker that does not know the version of an ApiVersions request answers in version 0.
        refused = isinstance(response, ApiVersionsResponse) and response.error_code == UNSUPPORTED_VERSION
        return encode_response(response, 0 if refused else self.version, self.correlation_id)

    def reply(self, response: Response) -> None:
        self.write(self.frame(response))
        self.finish()

    def write(self, data: bytes) -> None:
        self.peer.transport.write(data)

    def close(self) -> None:
        self.peer.transport.close()

    def reset(self) -> None:
        self.peer.transport.abort()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.cluster.loop.call_later(seconds, act)

    def finish(self) -> None:
        if not self.finished:
            self.finished = True
            self.peer.finish()


def _api_versions(exchange: Exchange) -> Response:
    assert isinstance(exchange.request, ApiVersionsRequest)
    known = exchange.broker.versions
    ranges = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=offered.first, max_version=offered.last)
        for key, offered in known.items()
    ]
    if exchange.version not in known[ApiKey.API_VERSIONS]:
        own = [entry for entry in ranges if entry.api_key == ApiKey.API_VERSIONS]
        return ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=own)
    return ApiVersionsResponse(api_keys=ranges)


def _sasl_handshake(exchange: Exchange) -> Response:
    assert isinstance(exchange.request, SaslHandshakeRequest)
    sasl = exchange.cluster.sasl
    offered = [sasl.mechanism] if sasl else []
    if exchange.request.mechanism not in offered:
        return SaslHandshakeResponse(error_code=UNSUPPORTED_MECHANISM, mechanisms=offered)
    peer, now = exchange.peer, exchange.cluster.loop.time()
    if peer.logged_in_until >= 0:
        if now - peer.renewed_at < _AGAIN_AFTER:
            return SaslHandshakeResponse(error_code=ILLEGAL_SASL_STATE, mechanisms=[])
        peer.renewed_at = now
    peer.handshaken = True
    return SaslHandshakeResponse(mechanisms=offered)


def _sasl_authenticate(exchange: Exchange) -> Response:
    assert isinstance(exchange.request, SaslAuthenticateRequest)
    sasl, peer = exchange.cluster.sasl, exchange.peer
    assert sasl is not None
    assert peer.handshaken
    user, password = exchange.request.auth_bytes.decode().split("\0")[1:3]
    if sasl.users.get(user) != password:
        return SaslAuthenticateResponse(
            error_code=SASL_FAILED, error_message="Invalid username or password", auth_bytes=b""
        )
    peer.handshaken = False
    peer.logged_in_until = exchange.cluster.loop.time() + sasl.lifetime if sasl.lifetime else float("inf")
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=b"", session_lifetime_ms=int(sasl.lifetime * 1000)
    )


def _metadata(exchange: Exchange) -> Response:
    assert isinstance(exchange.request, MetadataRequest)
    cluster, asked = exchange.cluster, exchange.request.topics
    names = list(cluster.topics) if asked is None else [topic.name or "" for topic in asked]
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker.node_id, host=broker.address[0], port=broker.address[1], rack=broker.rack
            )
            for broker in cluster.brokers.values()
        ],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller,
        topics=[_described(name, cluster.topics.get(name)) for name in names],
    )


def _described(name: str, topic: FakeTopic | None) -> MetadataResponse.MetadataResponseTopic:
    described = MetadataResponse.MetadataResponseTopic
    if topic is None:
        return described(error_code=UNKNOWN_TOPIC, name=name, partitions=[])
    return described(
        error_code=topic.error_code,
        name=name,
        topic_id=topic.topic_id,
        partitions=[
            described.MetadataResponsePartition(
                partition_index=number,
                leader_id=partition.leader,
                leader_epoch=partition.epoch,
                replica_nodes=[partition.leader],
                isr_nodes=[partition.leader],
            )
            for number, partition in enumerate(topic.partitions)
        ],
    )


def _find_coordinator(exchange: Exchange) -> Response:
    request, cluster = exchange.request, exchange.cluster
    assert isinstance(request, FindCoordinatorRequest)

    def node(key: str) -> FakeBroker:
        return cluster[cluster.coordinators.get(key, 1)]

    if exchange.version < 4:
        broker = node(request.key)
        return FindCoordinatorResponse(node_id=broker.node_id, host=broker.address[0], port=broker.address[1])
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key=key,
                node_id=node(key).node_id,
                host=node(key).address[0],
                port=node(key).address[1],
                error_message=None,
            )
            for key in request.coordinator_keys
        ]
    )


_DEFAULT_HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.SASL_HANDSHAKE: _sasl_handshake,
    ApiKey.SASL_AUTHENTICATE: _sasl_authenticate,
    ApiKey.METADATA: _metadata,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
}
