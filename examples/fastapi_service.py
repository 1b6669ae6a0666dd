"""A FastAPI service under uvicorn: routes write to Kafka, a task reads beside them, SIGTERM ends it in order.

`POST /orders/KEY` answers when the order is written, `GET /orders/KEY` says how many have been read. uvicorn
runs this on uvloop where that is installed. With a cluster of yours:

    KCLIENT_BOOTSTRAP=localhost:9092 uvicorn --factory examples.fastapi_service:service
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import uvicorn
from fastapi import FastAPI, HTTPException, Request

from examples.cluster import cluster_with
from kclient import AsyncConsumer, AsyncProducer
from kclient.errors import KafkaError

TOPIC = "orders"
PATIENCE = 30


class Orders:
    """What the routes share: one producer for all requests, and what the consumer has counted."""

    def __init__(self, bootstrap: str) -> None:
        self.producer = AsyncProducer(bootstrap_servers=bootstrap, delivery_timeout_ms=10_000)
        self.consumer = AsyncConsumer(
            bootstrap_servers=bootstrap, group_id="order-service", auto_offset_reset="earliest"
        )
        self.consumer.subscribe([TOPIC])
        self.read: Counter[str] = Counter()

    async def count(self) -> None:
        async for record in self.consumer:
            self.read[(record.key or b"").decode()] += 1


def service(bootstrap: str | None = None) -> FastAPI:
    """The application; `uvicorn --factory` calls this without an address."""
    orders = Orders(bootstrap or os.environ["KCLIENT_BOOTSTRAP"])

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # A service that cannot reach its cluster does not come up. At the end, by when uvicorn has answered
        # what it had taken: first the reading, then what is still to be written, then the connections.
        async with orders.producer, orders.consumer:
            counting = asyncio.create_task(orders.count(), name="count orders")
            yield
            counting.cancel()
            with suppress(asyncio.CancelledError):
                await counting  # raises what ended it before, so that it is not overlooked
            await orders.producer.flush(timeout_ms=PATIENCE * 1_000)
            print(f"stopped: {orders.producer.metrics().records} written, {orders.read.total()} read")

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders/{key}", status_code=201)
    async def write(key: str, request: Request) -> dict[str, int]:
        try:
            written = await orders.producer.send_and_wait(TOPIC, await request.body(), key.encode())
        except KafkaError as error:
            raise HTTPException(503, str(error)) from error
        return {"partition": written.partition, "offset": written.offset}

    @app.get("/orders/{key}")
    async def read(key: str) -> dict[str, int]:
        return {"read": orders.read[key]}

    return app


async def use(server: uvicorn.Server) -> None:
    """What clients of the service do."""
    while not server.started:  # noqa: ASYNC110 - uvicorn has nothing to await
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
        posts = [client.post("/orders/teapot", content=b"one, please") for _ in range(20)]
        answers = [answer.status_code for answer in await asyncio.gather(*posts)]
        print(f"{answers.count(201)} of {len(answers)} orders were taken")
        while (await client.get("/orders/teapot")).json()["read"] < len(answers):  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.01)
        print("all of them were read")
    server.should_exit = True  # a real service leaves this to SIGTERM


async def main(server: uvicorn.Server) -> None:
    print(f"on {type(asyncio.get_running_loop()).__module__.partition('.')[0]}")
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        tasks.create_task(use(server))


if __name__ == "__main__":
    with cluster_with(TOPIC) as (address, _):
        config = uvicorn.Config(service(address), port=0, log_level="warning")
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(main(uvicorn.Server(config)))
