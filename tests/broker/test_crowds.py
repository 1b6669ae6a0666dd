"""Ten thousand clients that send garbage, half a frame or nothing: the broker serves others and recovers.

The broker is a process of its own, whose memory and descriptors are looked at from outside. The crowd comes
in waves as large as the limit of descriptors allows.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from kclient.broker.broker import Broker
from kclient.broker.security.listeners import ListenerSpec
from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.net.connection import Connection
from kclient.net.dial import dial
from kclient.types import Secret
from kclient.wire.messages.topics import CreateTopicsRequest
from tests.broker.conversation import build
from tests.broker.records_script import fetch, produce, records
from tests.support.connecting import settings
from tools.kafka.certificates import Certificates

CROWD = 10_000
SPARE = 200  # descriptors for everything else
LITTLE = 40  # descriptors for a broker that runs out of them
MOST_GROWTH = 64 * 1024  # kB
OPENINGS = (
    b"",
    b"\x00\x00",
    b"\x00\x00\x01\x00half",
    b"\x00\x07\xff\xff" + b"h" * 2000,  # half of a frame of 512 KB
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff" * 64,
    b"\x00\x00\x00\x08\x00\x12\x00\x00\x00\x00\x00\x00",  # ApiVersions cut in its header
)

pytestmark = pytest.mark.alone  # watches a process grow, and opens every descriptor there is

linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at a process through /proc")


class Watched:
    """`kclient broker` as a process, seen from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        said = process.stdout.readline()
        self.address = ("127.0.0.1", int(said.split(",")[0].rpartition(":")[2]))

    @property
    def descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self._process.pid}/fd").iterdir())

    @property
    def resident(self) -> int:
        """Memory in kB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


@contextmanager
def watched(tmp_path: Path, descriptors: int) -> Iterator[Watched]:
    """A broker process that may open so many descriptors; what it complains about is in `tmp_path`."""
    command = [sys.executable, "-m", "kclient.cli.main", "broker", "--port", "0"]
    with (tmp_path / "complaints").open("w") as complaints:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True)
    try:
        broker = Watched(process)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
        yield broker
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture
def descriptors() -> Iterator[int]:
    """How many this process may open, which are all that it can get."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield before[1] if before[1] != resource.RLIM_INFINITY else CROWD + SPARE
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def within(seconds: float) -> Deadline:
    return Deadline.after(asyncio.get_running_loop(), seconds)


async def served(connection: Connection) -> None:
    """A client writes and reads."""
    written = await connection.call(produce("served", records(b"one")), within(60), version=12)
    assert written.responses[0].partition_responses[0].error_code == 0
    answer = await connection.call(fetch("served", 0), within(60), version=12)
    assert answer.responses[0].partitions[0].records


async def open_crowd(address: tuple[str, int], first: int, size: int) -> list[socket.socket]:
    """Connections that have said what they have to say; bare sockets, for the sake of our own memory."""
    loop = asyncio.get_running_loop()
    crowd: list[socket.socket] = []
    for number in range(first, first + size):
        one = socket.socket()
        one.setblocking(False)
        crowd.append(one)
        await loop.sock_connect(one, address)
        one.send(OPENINGS[number % len(OPENINGS)])
    return crowd


async def until_it_has(broker: Watched, least: int, most: int) -> None:
    """Wait until the broker has so many descriptors."""
    async with asyncio.timeout(60):
        while not least <= broker.descriptors <= most:  # noqa: ASYNC110 - another process tells nobody
            await asyncio.sleep(0.02)


@asynccontextmanager
async def client(address: tuple[str, int]) -> AsyncIterator[Connection]:
    """A connection of somebody who means well, with a topic to write to."""
    patient = settings(request_timeout=60.0, setup_timeout=60.0)
    connection = await dial(Endpoint(*address), patient, within(60))
    try:
        topic = {"name": "served", "num_partitions": 1, "replication_factor": 1}
        await connection.call(build(CreateTopicsRequest, topics=[topic], timeout_ms=1000), within(60))
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()


@linux
def test_ten_thousand_clients_with_nonsense_are_survived_and_forgotten(
    tmp_path: Path, descriptors: int
) -> None:
    async def check(broker: Watched) -> None:
        async with client(broker.address) as connection:
            await served(connection)
            memory, open_before = broker.resident, broker.descriptors
            wave = min(CROWD, descriptors - SPARE)
            for first in range(0, CROWD, wave):
                crowd = await open_crowd(broker.address, first, min(wave, CROWD - first))
                for _ in range(10):
                    await served(connection)
                for one in crowd:
                    one.close()
                await until_it_has(broker, 0, open_before)
            await served(connection)
            grown = broker.resident - memory
            print(f"memory grew from {memory} kB by {grown} kB")
            assert grown < MOST_GROWTH

    with watched(tmp_path, descriptors) as broker:
        asyncio.run(check(broker))
    assert (tmp_path / "complaints").read_text() == ""


@linux
def test_a_broker_without_descriptors_serves_whom_it_has_and_accepts_again_later(tmp_path: Path) -> None:
    async def check(broker: Watched) -> None:
        async with client(broker.address) as connection:
            await served(connection)  # what is imported on first use needs a descriptor
            open_before = broker.descriptors
            crowd = await open_crowd(broker.address, 0, 100)
            await until_it_has(broker, LITTLE, LITTLE)
            for _ in range(200):
                await served(connection)
            for one in crowd:
                one.close()
            await until_it_has(broker, 0, open_before)
            async with client(broker.address) as another:
                await served(another)

    with watched(tmp_path, LITTLE) as broker:
        asyncio.run(check(broker))
    # It tries again once a second, not as fast as it can.
    assert 0 < (tmp_path / "complaints").read_text().count("Too many open files") < 1000


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("limit", [524_288, 1000])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_nothing_larger_than_the_limit_is_taken_before_authentication(
    certificates: Certificates, tls: bool, limit: int
) -> None:
    async def refused(broker: Broker, context: ssl.SSLContext | None, size: int) -> bool:
        host, _, port = broker.bootstrap_servers.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        writer.write(size.to_bytes(4) + b"\0" * 100)
        try:
            return await asyncio.wait_for(reader.read(1), 5 if size > limit else 0.2) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        finally:
            writer.transport.abort()

    async def check() -> None:
        spec = ListenerSpec(
            "SASL",
            "SASL_SSL" if tls else "SASL_PLAINTEXT",
            certfile=certificates.broker_keystore_pem if tls else None,
            mechanisms=("PLAIN",),
            users={"a": Secret("b")},
        )
        context = ssl.create_default_context(cafile=certificates.ca) if tls else None
        async with Broker(listeners=[spec], config={"sasl.server.max.receive.size": str(limit)}) as broker:
            assert await refused(broker, context, limit + 1)
            assert not await refused(broker, context, limit)

    asyncio.run(check())
