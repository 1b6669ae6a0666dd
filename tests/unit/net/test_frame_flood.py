"""A server that announces two gigabytes and sends as much as anybody takes: closed at the header.

Real sockets, and a client in a process of its own, whose memory is what is measured.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kclient.wire.frame import decode_request, encode_response
from kclient.wire.messages.connection import ApiVersionsResponse

MEGABYTE = 1 << 20
FLOOD = 400 * MEGABYTE
ALLOWED_GROWTH = 64 * MEGABYTE

CLIENT = """
import asyncio, json, resource, sys
from random import Random
from pathlib import Path
from kclient.clock import Deadline
from kclient.config import ClientConfig, Endpoint
from kclient.net.dial import dial
from kclient.net.settings import dial_settings
from kclient.wire.messages.metadata import MetadataRequest

def peak():
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

async def main():
    loop = asyncio.get_running_loop()
    settings = dial_settings(ClientConfig(), Random(0))
    before = peak()
    try:
        connection = await dial(Endpoint("127.0.0.1", int(sys.argv[1])), settings, Deadline.after(loop, 20))
        await connection.call(MetadataRequest(topics=[]), Deadline.after(loop, 20))
    except Exception as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error), "grown": peak() - before}))

asyncio.run(main())
"""


class Flood:
    """Accepts one connection, answers some requests, then floods; `sent` is what the client let it send."""

    def __init__(self, answered: int, announced: int) -> None:
        self.sent = 0
        self._answered = answered
        self._announced = announced
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.close()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            for number in range(self._answered + 1):
                header, _ = decode_request(self._frame(connection))
                if number < self._answered:
                    keys = [
                        ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=4)
                        for key in (3, 18)
                    ]
                    answer = ApiVersionsResponse(api_keys=keys)
                    connection.sendall(encode_response(answer, header.version, header.correlation_id))
            self._flood(connection)

    def _flood(self, connection: socket.socket) -> None:
        zeros = bytes(MEGABYTE)
        try:
            connection.sendall(self._announced.to_bytes(4))
            while self.sent < FLOOD:
                self.sent += connection.send(zeros)
        except OSError:
            return  # the client has had enough

    def _frame(self, connection: socket.socket) -> bytes:
        with connection.makefile("rb") as stream:
            return stream.read(int.from_bytes(stream.read(4)))


@contextmanager
def flooding(answered: int, announced: int) -> Iterator[Flood]:
    flood = Flood(answered, announced)
    try:
        yield flood
    finally:
        flood.close()


def client(port: int) -> Any:
    ended = subprocess.run(
        [sys.executable, "-c", CLIENT, str(port)], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(ended.stdout)


@pytest.mark.parametrize("answered", [0, 1], ids=["while connecting", "later"])
@pytest.mark.parametrize("announced", [2**31 - 1, 100_000_001])
def test_a_flood_is_closed_at_its_header_and_takes_no_memory(answered: int, announced: int) -> None:
    with flooding(answered, announced) as flood:
        seen = client(flood.port)
    assert seen["error"] == ("KafkaConnectionError" if answered else "ConfigurationError")
    assert seen["grown"] < ALLOWED_GROWTH
    assert flood.sent < 16 * MEGABYTE, "what fits into the sockets' buffers, not the flood"


def test_a_frame_within_the_limit_is_read_and_takes_the_memory_of_its_bytes() -> None:
    """The control: what the tests above would see if nothing stopped the flood."""
    with flooding(1, 99_000_000) as flood:
        seen = client(flood.port)
    assert seen["grown"] > ALLOWED_GROWTH
    assert flood.sent > 90 * MEGABYTE
