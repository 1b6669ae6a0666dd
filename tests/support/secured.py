"""Clients of a broker with secured listeners: as whom it lets them in, or why not.

Every broker has three topics, each of which one user may describe: so the broker itself says whom it takes a
client for. What kclient says on the way (logs, exceptions, reprs) is searched for secrets at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from kclient.admin import AsyncAdmin
from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.errors import KafkaError, TopicAuthorizationFailedError
from kclient.net import dial
from kclient.wire.messages.acls import CreateAclsRequest
from tests.support.planted import everything_logged, forms, told
from tools.kafka import KafkaCluster
from tools.kafka.security import USERS, Security
from tools.kafka.waiting import poll

T = TypeVar("T")

WRONG = "wr0ng-Pl4nted"
SUPER_USER = "alice bob client"  # sees what everybody sees
PROTOCOLS = {"TLS": "SSL", "MTLS": "SSL", "BADHOST": "SSL", "SASL_SSL": "SASL_SSL"}

_TOPICS = [f"for-{user}" for user in SUPER_USER.split()]
_TOPIC_RESOURCE, _DESCRIBE, _ALLOW = 2, 8, 3
_DEADLINE_MS = 30_000


class Visitor:
    """Connects to one cluster. `connections` are the ports it connected to, one entry for each time."""

    def __init__(self, kafka: KafkaCluster) -> None:
        assert kafka.security is not None
        self.kafka = kafka
        self.security: Security = kafka.security
        self.connections: list[int] = []
        self._said: list[str] = []
        self._secrets = [*USERS.values(), WRONG, self.security.certificates.password]
        self._plant_pem(self.security.certificates.client_key.read_text())

    def plant(self, secret: str) -> str:
        """A secret of the test's own that must not be shown; of a token, neither must its parts."""
        self._secrets += [part for part in {secret, *secret.split(".")[1:]} if part]
        return secret

    def options(self, listener: str, **more: Any) -> dict[str, Any]:
        """How to reach a listener, without credentials."""
        protocol = PROTOCOLS.get(listener, "SASL_PLAINTEXT")
        found: dict[str, Any] = {
            "bootstrap_servers": self.kafka.bootstrap(listener),
            "security_protocol": protocol,
            "default_api_timeout_ms": _DEADLINE_MS,
        }
        if protocol.endswith("SSL"):
            found["ssl_cafile"] = str(self.security.certificates.ca)
        return found | more

    def password(
        self, listener: str, mechanism: str, user: str = "alice", password: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """How to reach a listener with user and password."""
        return self.options(
            listener,
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=USERS.get(user, WRONG) if password is None else password,
            **more,
        )

    def identity(self, options: dict[str, Any]) -> str:
        """The user that the broker takes a client with these options for."""
        return asyncio.run(self._identity(options))

    def refusal(self, options: dict[str, Any]) -> KafkaError:
        """Why a client with these options does not get in."""
        with pytest.raises(KafkaError) as caught:
            self.identity(options)
        self.hear(caught.value)
        return caught.value

    def run(self, options: dict[str, Any], work: Callable[[Cluster], Awaitable[T]]) -> T:
        """Do something with a started `Cluster`."""
        return asyncio.run(self.with_cluster(options, work))

    async def with_cluster(self, options: dict[str, Any], work: Callable[[Cluster], Awaitable[T]]) -> T:
        cluster = self.cluster(options)
        try:
            await cluster.start(cluster.deadline())
            return await work(cluster)
        finally:
            self.heed(cluster)
            await cluster.close()

    def cluster(self, options: dict[str, Any]) -> Cluster:
        return Cluster(ClientConfig(**options))

    def hear(self, error: KafkaError) -> None:
        """Keep what an error tells."""
        self._said.append(told(error))

    def heed(self, cluster: Cluster) -> None:
        """Keep what a cluster shows of itself."""
        self._said.append(f"{cluster.config!r} {cluster._settings!r} {cluster.health()!r}")
        self._said.append(f"{list(cluster._links.values())!r} {vars(cluster)!r}")

    def shown_secrets(self, logged: str) -> list[str]:
        """The secrets that kclient has shown."""
        for token in self.security.token_issuer.issued:
            self.plant(token)
        written = logged + "".join(self._said)
        return [form for secret in self._secrets for form in forms(secret) if form in written]

    async def _identity(self, options: dict[str, Any]) -> str:
        async with AsyncAdmin(**options) as admin:
            self._said.append(f"{admin!r} {admin.health()!r}")
            self.heed(admin._open())
            outcomes = await admin.describe_topics(_TOPICS, raise_errors=False)
        for error in outcomes.errors.values():
            assert isinstance(error, TopicAuthorizationFailedError)
        return " ".join(name.removeprefix("for-") for name in outcomes.succeeded)

    def _plant_pem(self, key: str) -> None:
        self._secrets += [line for line in key.splitlines() if "-----" not in line]


@contextmanager
def visiting(kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visitor]:
    """A visitor under watch: connections are counted, nothing it says may hold a secret."""
    visitor = Visitor(kafka)
    connect = dial._open

    async def counted(loop: Any, endpoint: Any, host: Any, port: int, settings: Any) -> Any:
        visitor.connections.append(port)
        return await connect(loop, endpoint, host, port, settings)

    monkeypatch.setattr(dial, "_open", counted)
    with everything_logged() as logged:
        yield visitor
    assert visitor.shown_secrets(logged.getvalue()) == []


def prepare(kafka: KafkaCluster) -> None:
    """Make the topics by which a broker says whom it takes a client for."""
    for topic in _TOPICS:
        kafka.create_topic(topic)
    visitor = Visitor(kafka)

    async def allow(cluster: Cluster) -> None:
        answer = await cluster.call(None, lambda _: _acls(), CreateAclsRequest, cluster.deadline())
        assert [result.error_code for result in answer.results] == [0] * len(_TOPICS)

    visitor.run({"bootstrap_servers": kafka.bootstrap()}, allow)
    alice = visitor.password("SASL_PLAINTEXT", "PLAIN")
    poll(lambda: visitor.identity(alice) == "alice", timeout=30, failure=lambda: "the ACLs never took effect")


def _acls() -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=_TOPIC_RESOURCE,
                resource_name=topic,
                principal=f"User:{topic.removeprefix('for-')}",
                host="*",
                operation=_DESCRIBE,
                permission_type=_ALLOW,
            )
            for topic in _TOPICS
        ]
    )
