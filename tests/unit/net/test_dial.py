"""From an address to a ready connection, and what each way to fail is called."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.errors import (
    AuthenticationError,
    ConfigurationError,
    KafkaConnectionError,
    KafkaError,
    UnsupportedVersionError,
)
from kclient.net.dial import dial
from kclient.wire.api import ApiKey
from kclient.wire.messages.connection import ApiVersionsResponse
from kclient.wire.versions import VersionRange
from tests.support import faults
from tests.support.connecting import answered, ask, connect, settings
from tests.support.fake_broker import UNSUPPORTED_VERSION, FakeCluster
from tests.support.virtual_loop import MemoryTransport, VirtualLoop

Brokers = Callable[..., FakeCluster]
HERE = Endpoint("broker-1", 9092)


class Stranger(asyncio.Protocol):
    """A server that speaks something else: answers the first bytes with its own and may hang up."""

    def __init__(self, says: bytes, *, hangs_up: bool) -> None:
        self._says = says
        self._hangs_up = hangs_up

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, _data: bytes) -> None:
        self._transport.write(self._says)
        if self._hangs_up:
            self._transport.close()


async def failed(loop: VirtualLoop, endpoint: Endpoint = HERE, **changes: Any) -> KafkaError:
    """The error of a dial that must fail."""
    try:
        connection = await dial(endpoint, settings(**changes), Deadline.after(loop, 60))
    except KafkaError as error:
        return error
    pytest.fail(f"{connection!r} should not have come about")


# Versions


async def test_a_dialled_connection_knows_what_the_broker_speaks(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1], software=("kclient", "9.9"))
    assert connection.versions == cluster[1].versions
    [introduction] = cluster[1].requests
    assert introduction.version == 5
    assert introduction.request.client_software_name == "kclient"
    assert introduction.request.client_software_version == "9.9"
    assert answered(await connection.call(ask("a"), Deadline.after(loop, 5))) == "a"
    connection.close()
    await connection.wait_closed()


@pytest.mark.parametrize("last", [0, 2, 3, 4])
async def test_an_older_broker_is_asked_again_in_the_newest_version_it_knows(
    loop: VirtualLoop, brokers: Brokers, last: int
) -> None:
    cluster = brokers()
    cluster[1].versions[ApiKey.API_VERSIONS] = VersionRange(0, last)
    connection = await connect(loop, cluster[1])
    assert [seen.version for seen in cluster[1].requests] == [5, last]
    assert connection.versions == cluster[1].versions
    assert len(cluster[1].peers) == 1
    connection.close()
    await connection.wait_closed()


async def test_a_broker_that_refuses_without_saying_what_it_knows_is_asked_in_version_0(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    refusal = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=[])
    cluster[1].plan(ApiKey.API_VERSIONS, faults.answers(refusal))
    connection = await connect(loop, cluster[1])
    assert [seen.version for seen in cluster[1].requests] == [5, 0]
    connection.close()
    await connection.wait_closed()


async def test_a_broker_that_refuses_every_version_is_given_up(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    refusal = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=[])
    cluster[1].always(ApiKey.API_VERSIONS, faults.answers(refusal))
    assert isinstance(await failed(loop), UnsupportedVersionError)
    assert cluster[1].count(ApiKey.API_VERSIONS) == 2


# Addresses


async def test_an_ipv6_address_is_dialled_as_it_is(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    cluster[1].move(("fe80::1", 9092))
    connection = await connect(loop, cluster[1])
    assert connection.name == "[fe80::1]:9092"
    connection.close()
    await connection.wait_closed()


async def test_every_address_of_a_name_is_tried_when_the_first_refuse(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    loop.network.names["kafka.example"] = ["10.0.0.1", "10.0.0.2", "broker-1"]
    connection = await dial(Endpoint("kafka.example", 9092), settings(), Deadline.after(loop, 10))
    assert [host for host, _ in loop.network.dialled] == ["10.0.0.1", "10.0.0.2", "broker-1"]
    assert connection.name == "kafka.example:9092"
    assert len(cluster[1].peers) == 1
    connection.close()
    await connection.wait_closed()


async def test_a_silent_address_gets_its_share_of_the_time_and_no_more(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    brokers()
    loop.network.silence(("10.0.0.1", 9092))
    loop.network.names["kafka.example"] = ["10.0.0.1", "broker-1"]
    connection = await dial(Endpoint("kafka.example", 9092), settings(), Deadline.after(loop, 10))
    assert loop.time() == pytest.approx(5, abs=0.1)
    connection.close()
    await connection.wait_closed()


async def test_the_same_address_twice_is_tried_once(loop: VirtualLoop) -> None:
    loop.network.names["kafka.example"] = ["10.0.0.1", "10.0.0.1"]
    await failed(loop, Endpoint("kafka.example", 9092))
    assert len(loop.network.dialled) == 1


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        (Endpoint("nowhere.example", 9092), "cannot resolve 'nowhere.example'"),
        (Endpoint("double..dot", 9092), "cannot resolve 'double..dot'"),
        (Endpoint("x" * 64, 9092), "cannot resolve"),
        (Endpoint("broker-1", 9093), "cannot connect to broker-1:9093: Connection refused"),
        (Endpoint("broker-1", 65536 + 9092), "cannot connect to broker-1:74628: there is no such port"),
        (Endpoint("broker-1", -1), "cannot connect to broker-1:-1: there is no such port"),
    ],
)
async def test_an_address_that_cannot_be_reached_is_a_connection_error(
    loop: VirtualLoop, brokers: Brokers, endpoint: Endpoint, message: str
) -> None:
    brokers()
    loop.network.names["nowhere.example"] = []
    error = await failed(loop, endpoint)
    assert isinstance(error, KafkaConnectionError)
    assert message in str(error)
    assert loop.time() < 1


# Ports that do not speak Kafka, or not in this way


@pytest.mark.parametrize("hangs_up", [True, False])
@pytest.mark.parametrize(
    ("says", "message"),
    [
        (
            bytes.fromhex("15030300020250"),
            "broker-1:9092 speaks TLS: set security_protocol to SSL or SASL_SSL",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "broker-1:9092 speaks HTTP: it is not a Kafka broker"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "broker-1:9092 speaks something other than Kafka"),
    ],
)
async def test_a_port_that_speaks_something_else_is_a_configuration_error_at_once(
    loop: VirtualLoop, says: bytes, message: str, hangs_up: bool
) -> None:
    loop.network.listen(HERE, lambda: Stranger(says, hangs_up=hangs_up))
    error = await failed(loop)
    assert isinstance(error, ConfigurationError)
    assert str(error) == message
    assert loop.time() < 1


async def test_a_listener_that_hangs_up_at_once_hints_at_the_security_protocol(loop: VirtualLoop) -> None:
    loop.network.listen(HERE, lambda: Stranger(b"", hangs_up=True))
    error = await failed(loop)
    assert isinstance(error, KafkaConnectionError)
    assert "before it said anything" in str(error)
    assert "check security_protocol" in str(error)


@pytest.mark.parametrize(
    "fault", [faults.garbles, faults.answers_another_request, faults.sends(b"\0\0\0\1!")]
)
async def test_nonsense_in_the_first_answer_is_a_typed_error(
    loop: VirtualLoop, brokers: Brokers, fault: Any
) -> None:
    brokers()[1].plan(ApiKey.API_VERSIONS, fault)
    await failed(loop)
    assert loop.time() < 1


async def test_a_refusal_in_the_first_answer_is_passed_on_as_what_it_is(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    refusal = ApiVersionsResponse(error_code=31, api_keys=[])
    brokers()[1].plan(ApiKey.API_VERSIONS, faults.answers(refusal))
    error = await failed(loop)
    assert "CLUSTER_AUTHORIZATION_FAILED" in str(error)
    assert not error.retriable


# Time


def frozen(loop: VirtualLoop, cluster: FakeCluster) -> None:
    del cluster
    loop.network.silence(HERE)


def mute(_: VirtualLoop, cluster: FakeCluster) -> None:
    cluster[1].always(ApiKey.API_VERSIONS, faults.silent)


def dripping(_: VirtualLoop, cluster: FakeCluster) -> None:
    cluster[1].always(ApiKey.API_VERSIONS, faults.drips)


@pytest.mark.parametrize("trouble", [frozen, mute, dripping])
async def test_a_dial_ends_with_the_setup_timeout_and_leaves_no_socket(
    loop: VirtualLoop, brokers: Brokers, trouble: Callable[[VirtualLoop, FakeCluster], None]
) -> None:
    trouble(loop, brokers())
    error = await failed(loop, setup_timeout=3.0)
    assert isinstance(error, KafkaConnectionError)
    assert "within 3 s" in str(error)
    assert loop.time() == pytest.approx(3)


async def test_a_dial_never_outlives_the_deadline_of_its_caller(loop: VirtualLoop, brokers: Brokers) -> None:
    brokers()[1].freeze()
    with pytest.raises(KafkaConnectionError):
        await dial(HERE, settings(setup_timeout=10.0), Deadline.after(loop, 2))
    assert loop.time() == pytest.approx(2)


async def test_a_cancelled_dial_leaves_no_socket(loop: VirtualLoop, brokers: Brokers) -> None:
    brokers()[1].always(ApiKey.API_VERSIONS, faults.silent)
    attempt = asyncio.create_task(dial(HERE, settings(), Deadline.after(loop, 60)))
    await asyncio.sleep(1)
    assert len(loop.network.open) == 1
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await asyncio.sleep(0)
    assert not loop.network.open


class Socket:
    """Takes note of its options; a kernel that refuses some of them refuses all above `most`."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.options: dict[int, int] = {}
        self._most = most

    def setsockopt(self, _level: int, name: int, value: int) -> None:
        if value > self._most:
            raise OSError(12, "Cannot allocate memory")
        self.options[name] = value


def give(monkeypatch: pytest.MonkeyPatch, given: Socket) -> None:
    monkeypatch.setattr(MemoryTransport, "get_extra_info", lambda _self, _name: given)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({}, {}),
        ({"send_buffer": -1, "receive_buffer": -1}, {}),
        (
            {"send_buffer": 70_000, "receive_buffer": 0},
            {socket.SO_SNDBUF: 70_000, socket.SO_RCVBUF: 0},
        ),
    ],
)
async def test_a_socket_gets_the_buffers_asked_for_and_is_kept_alive(
    loop: VirtualLoop,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
    sizes: dict[str, int],
    expected: dict[int, int],
) -> None:
    given = Socket()
    give(monkeypatch, given)
    connection = await connect(loop, brokers()[1], **sizes)
    assert given.options == {socket.SO_KEEPALIVE: 1} | expected
    connection.close()
    await connection.wait_closed()


async def test_a_buffer_that_the_kernel_refuses_leaves_no_socket(
    loop: VirtualLoop, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers()
    give(monkeypatch, Socket(most=1_000))
    error = await failed(loop, send_buffer=2_000)
    assert isinstance(error, KafkaConnectionError)
    assert "Cannot allocate memory" in str(error)
    await asyncio.sleep(0)
    assert not loop.network.open


async def test_a_broker_that_says_no_to_who_we_are_is_an_authentication_error(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    brokers()
    error = await failed(loop, sasl=Fixed())
    assert isinstance(error, AuthenticationError)
    assert str(error) == "broker-1:9092 does not accept SASL mechanism PLAIN; it offers: none"


class Fixed:
    """An authenticator whose one message is given."""

    mechanism = "PLAIN"

    async def exchange(self, _host: str, /) -> Any:
        def speak() -> Any:
            yield b"\0user\0secret"

        return speak()
