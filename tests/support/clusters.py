"""A client's `Cluster` on fake brokers, and operations to run over it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from kclient.cluster.client import Cluster
from kclient.cluster.operations import Operation
from kclient.cluster.routes import AnyBroker, Route
from kclient.config import ClientConfig
from kclient.errors import KafkaError, error_for
from kclient.wire.api import ApiKey
from kclient.wire.message import Response
from kclient.wire.messages import request_class
from kclient.wire.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from kclient.wire.schema import default_struct
from tests.support.fake_broker import Exchange, FakeCluster
from tests.support.faults import codes_in, filled


def new_cluster(brokers: FakeCluster, **options: Any) -> Cluster:
    config = ClientConfig.from_options({"bootstrap_servers": brokers.bootstrap} | options)
    return Cluster(config, random=Random(0))


@asynccontextmanager
async def connected(brokers: FakeCluster, **options: Any) -> AsyncIterator[Cluster]:
    cluster = new_cluster(brokers, **options)
    try:
        await cluster.start(cluster.deadline())
        yield cluster
    finally:
        await cluster.close()


class Describe(Operation[str, int]):
    """Asks about keys; the value of each is the node that answered."""

    request = DescribeGroupsRequest

    def __init__(self, route: Callable[[str], Route] = lambda _: AnyBroker()) -> None:
        self._route = route

    def route(self, key: str) -> Route:
        return self._route(key)

    def build(self, keys: list[str], version: int) -> DescribeGroupsRequest:  # noqa: ARG002
        return DescribeGroupsRequest(groups=keys)

    def read(self, response: DescribeGroupsResponse, keys: list[str]) -> dict[str, int | KafkaError]:  # noqa: ARG002
        return {
            group.group_id: error_for(group.error_code) or int(group.protocol_data)
            for group in response.groups
        }


class Described:
    """What brokers answer to `Describe`: their own number, after the error codes planned for a key.

    A key in `owners` is answered by that node alone; the others say `elsewhere`.
    """

    def __init__(self, brokers: FakeCluster) -> None:
        self.codes: defaultdict[str, deque[int]] = defaultdict(deque)
        self.owners: dict[str, int] = {}
        self.elsewhere = 0
        self.asked: list[tuple[int, list[str]]] = []
        brokers.answer(ApiKey.DESCRIBE_GROUPS, self._answer)

    def _answer(self, exchange: Exchange) -> DescribeGroupsResponse:
        node_id = exchange.broker.node_id
        self.asked.append((node_id, list(exchange.request.groups)))
        return DescribeGroupsResponse(
            groups=[
                DescribeGroupsResponse.DescribedGroup(
                    error_code=self._code(key, node_id),
                    group_id=key,
                    group_state="",
                    protocol_type="",
                    protocol_data=str(node_id),
                    members=[],
                )
                for key in exchange.request.groups
            ]
        )

    def _code(self, key: str, node_id: int) -> int:
        if self.owners.get(key, node_id) != node_id:
            return self.elsewhere
        return self.codes[key].popleft() if self.codes[key] else 0


class Probe(Operation[str, str]):
    """Any API as an operation: asks with an empty request, and fails with the first code in the answer."""

    def route(self, key: str) -> Route:  # noqa: ARG002
        return AnyBroker()

    def build(self, keys: list[str], version: int) -> Any:  # noqa: ARG002
        return default_struct(self.request)

    def read(self, response: Response, keys: list[str]) -> dict[str, str | KafkaError]:
        error = next((error_for(code) for code in codes_in(response)), None)
        return dict.fromkeys(keys, error or "fine")


def probe(key: ApiKey) -> Probe:
    kind: type[Probe] = type(f"Probe{key.name}", (Probe,), {"request": request_class(key)})
    return kind()


def answer_everything(brokers: FakeCluster, key: ApiKey) -> None:
    """Have every broker answer an API with an item in each of its arrays."""
    brokers.answer(key, lambda exchange: filled(request_class(key).response, exchange.version))
