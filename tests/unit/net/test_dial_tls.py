"""TLS on ports that do not speak it: told at once where a broker answers in plain text, else tried again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kclient import AsyncProducer, Producer
from kclient.clock import Deadline
from kclient.config import ClientConfig, Endpoint
from kclient.errors import ConfigurationError, KafkaConnectionError, KafkaError
from kclient.net import dial as dialling
from kclient.net.dial import dial
from kclient.net.sasl import Plain
from kclient.net.settings import dial_settings
from kclient.net.tls_files import TlsFiles
from kclient.testing import RunningBroker
from kclient.types import Secret
from tests.support.connecting import settings

pytestmark = pytest.mark.uvloop

PATIENCE = 60


@asynccontextmanager
async def serving(says: bytes) -> AsyncIterator[int]:
    """A port that answers whatever comes first with `says`, and hangs up."""

    class Stranger(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, _data: bytes) -> None:
            self.transport.write(says)
            self.transport.close()

    async with await asyncio.get_running_loop().create_server(Stranger, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def refusal(port: int, protocol: str = "SSL", **changes: Any) -> KafkaError:
    tls = TlsFiles(ssl.create_default_context, [])
    deadline = Deadline.after(asyncio.get_running_loop(), PATIENCE)
    try:
        await dial(Endpoint("127.0.0.1", port), settings(protocol=protocol, tls=tls, **changes), deadline)
    except KafkaError as error:
        return error
    pytest.fail("this should not have come about")


@pytest.mark.parametrize(("protocol", "other"), [("SSL", "PLAINTEXT"), ("SASL_SSL", "SASL_PLAINTEXT")])
def test_tls_on_the_plaintext_port_of_a_broker_is_a_configuration_error_at_once(
    protocol: str, other: str
) -> None:
    with RunningBroker() as running:
        port = int(running.bootstrap_servers.rpartition(":")[2])
        error = asyncio.run(refusal(port, protocol, sasl=Plain("alice", Secret("wonderland"))))
    assert isinstance(error, ConfigurationError)
    assert str(error) == (
        f"127.0.0.1:{port} speaks Kafka without TLS: use the port of its {protocol} listener, "
        f"or set security_protocol to {other}, which encrypts nothing"
    )


def test_a_client_is_told_so_by_its_first_call() -> None:
    """With deadlines that are far away: it is no use to try again."""
    patient: dict[str, Any] = {"default_api_timeout_ms": 600_000, "max_block_ms": 600_000}

    async def start(bootstrap: str) -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap, security_protocol="SSL", **patient):
            pass

    with RunningBroker() as running:
        with pytest.raises(ConfigurationError, match="speaks Kafka without TLS"):
            asyncio.run(start(running.bootstrap_servers))
        with (
            pytest.raises(ConfigurationError, match="speaks Kafka without TLS"),
            Producer(bootstrap_servers=running.bootstrap_servers, security_protocol="SSL", **patient),
        ):
            pass


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 503 Service Unavailable\r\n\r\n"])
def test_a_port_without_tls_that_is_no_broker_s_is_worth_another_try(says: bytes) -> None:
    """A proxy answers like this for as long as the brokers behind it are away."""

    async def main() -> KafkaError:
        async with serving(says) as port:
            return await refusal(port)

    error = asyncio.run(main())
    assert isinstance(error, KafkaConnectionError)
    assert error.retriable
    assert "TLS" in str(error)


def test_a_broker_that_may_lack_tls_is_told_nothing_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked then goes unencrypted, to a port that may be anybody's."""
    asked: list[Any] = []
    ask: Callable[..., Any] = dialling._ask_versions

    async def watched(connection: Any, plain: Any, deadline: Deadline) -> Any:
        asked.append((connection.client_id, plain.software, plain.sasl))
        return await ask(connection, plain, deadline)

    monkeypatch.setattr(dialling, "_ask_versions", watched)
    with RunningBroker() as running:
        port = int(running.bootstrap_servers.rpartition(":")[2])
        asyncio.run(refusal(port, "SASL_SSL", sasl=Plain("alice", Secret("wonderland"))))
    assert asked == [("", ("unknown", "unknown"), None)]


def test_a_port_on_which_nobody_listens_is_called_that() -> None:
    config = dial_settings(ClientConfig(), settings().random)

    async def main() -> None:
        deadline = Deadline.after(asyncio.get_running_loop(), PATIENCE)
        with pytest.raises(
            KafkaConnectionError, match=r"^cannot connect to 127\.0\.0\.1:1: Connection refused$"
        ):
            await dial(Endpoint("127.0.0.1", 1), config, deadline)

    asyncio.run(main())
