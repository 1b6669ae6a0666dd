"""A web service that writes what it is sent to Kafka: one `AsyncProducer` for all requests, closed last.

`POST /orders/KEY` answers when the order is written, `POST /clicks/KEY` at once. The HTTP is as little as
will do; with a framework the producer is made at start-up and closed at shutdown in the same way.
"""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio import StreamReader, StreamWriter
from http import HTTPStatus

from examples.cluster import cluster_with
from kclient import AsyncProducer
from kclient.errors import BufferFullError, KafkaError

TOPIC = "events"
LARGEST_BODY = 100_000
PATIENCE = 30


class Service:
    """Answers requests. `stop` lets those finish that have begun, then delivers what was taken."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = AsyncProducer(bootstrap_servers=bootstrap, delivery_timeout_ms=10_000)
        self._requests: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Connect first: a service that cannot reach its cluster should not come up. Tells the port."""
        await self._producer.start()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """In this order: no new requests, the end of the old ones, their records, the connections."""
        self._server.close()
        if self._requests:
            await asyncio.wait(self._requests, timeout=PATIENCE)
        await self._producer.flush(timeout_ms=PATIENCE * 1_000)
        metrics = self._producer.metrics()
        await self._producer.close()
        print(f"stopped: {metrics.records} records delivered, {metrics.errors} failed")

    def _connected(self, reader: StreamReader, writer: StreamWriter) -> None:
        request = asyncio.create_task(self._handle(reader, writer))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)

    async def _handle(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                kind, key, body = await read_post(reader)
                status, answer = await self._take(kind, key, body)
        except (ValueError, TimeoutError, asyncio.IncompleteReadError) as error:
            status, answer = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        text = json.dumps(answer).encode()
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Length: {len(text)}",
            "Connection: close",
        ]
        writer.write("\r\n".join([*head, "", ""]).encode() + text)
        writer.close()

    async def _take(self, kind: str, key: bytes, body: bytes) -> tuple[HTTPStatus, dict[str, object]]:
        try:
            if kind == "clicks":  # may be lost, must not wait
                self._producer.send_nowait(TOPIC, body, key)
                return HTTPStatus.ACCEPTED, {}
            written = await self._producer.send_and_wait(TOPIC, body, key)
        except BufferFullError as error:  # come again later
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}
        except KafkaError as error:
            return HTTPStatus.BAD_GATEWAY, {"error": str(error)}
        return HTTPStatus.CREATED, {"partition": written.partition, "offset": written.offset}


async def read_post(reader: StreamReader) -> tuple[str, bytes, bytes]:
    """Kind, key and body of a request; raises ValueError for anything but a small POST."""
    method, path, _ = (await reader.readline()).decode("latin-1").split()
    kind, _, key = path.strip("/").partition("/")
    if method != "POST" or kind not in {"orders", "clicks"} or not key:
        raise ValueError("POST /orders/KEY or /clicks/KEY")
    length = 0
    while line := (await reader.readline()).strip().lower():
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    if not 0 <= length <= LARGEST_BODY:
        raise ValueError(f"a body has up to {LARGEST_BODY} bytes, not {length}")
    return kind, key.encode(), await reader.readexactly(length)


async def post(port: int, path: str, body: bytes) -> str:
    """What a client of the service does; the first line of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = (await reader.read()).decode()
    writer.close()
    return answer.partition("\r\n")[0]


async def main(bootstrap: str) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    service = Service(bootstrap)
    port = await service.start()
    orders = [post(port, f"/orders/customer-{number}", b"a teapot") for number in range(20)]
    clicks = [post(port, f"/clicks/visitor-{number}", b"/teapots") for number in range(20)]
    answers = await asyncio.gather(*orders, *clicks, post(port, "/orders/", b""))
    for answer in sorted(set(answers)):
        print(f"{answers.count(answer)} x {answer}")
    stopped.set()  # a real service leaves this to the signals
    await stopped.wait()
    await service.stop()


if __name__ == "__main__":
    with cluster_with(TOPIC) as (bootstrap, _):
        asyncio.run(main(bootstrap))
