"""Causes that pass, on a real broker: passwords, tokens, ACLs and certificates that are wrong for a while.

Every kind of client goes on by itself when the cause is gone; its application only calls again after errors.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self
from uuid import uuid4

import pytest

from kclient import Admin, AsyncConsumer, Consumer, Producer, TopicPartition
from kclient.cluster.client import Cluster
from kclient.errors import AuthenticationError, CommitFailedError, GroupAuthorizationFailedError, KafkaError
from kclient.wire.messages.acls import CreateAclsRequest, DeleteAclsRequest
from kclient.wire.messages.users import AlterUserScramCredentialsRequest
from tests.support.secured import WRONG, Visitor
from tools.kafka import KafkaCluster
from tools.kafka.certificates import Certificates
from tools.kafka.oidc import unsecured_token
from tools.kafka.waiting import poll

pytestmark = pytest.mark.kafka

USER, PASSWORD = "carol", "carol-secret"
TOPIC = "passing-refusals"
PATIENCE = 60.0
_TOPIC_RESOURCE, _GROUP_RESOURCE = 2, 3
_ANY, _ALL, _ALLOW = 1, 2, 3
_LITERAL = 3
_SHA_512, _ITERATIONS, _SALT = 2, 4_096, b"salt of the test"


class Client(Protocol):
    """Something that works in steps, each of which says how much is done by now."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def step(self) -> int: ...

    def refused(self) -> str | None: ...


class BlockingMember:
    """Reads and commits, and commits what it could not commit before."""

    def __init__(self, **options: Any) -> None:
        self._consumer = Consumer(TOPIC, auto_offset_reset="earliest", enable_auto_commit=False, **options)
        self._read = self._committed = 0

    def __enter__(self) -> Self:
        self._consumer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def step(self) -> int:
        self._read += sum(map(len, self._consumer.poll(timeout_ms=300).values()))
        if self._read > self._committed:
            self._consumer.commit(timeout_ms=10_000)
            self._committed = self._read
        return self._committed

    def refused(self) -> str | None:
        group = self._consumer.health().group
        return None if group is None else group.refused


class AsyncMember:
    """The same on an event loop of its own; without a group it reads alone."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        self._read = self._committed = 0

    def __enter__(self) -> Self:
        self._runner.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._consumer.close())
        self._runner.close()

    async def _start(self) -> None:
        self._consumer = AsyncConsumer(
            auto_offset_reset="earliest", enable_auto_commit=False, **self._options
        )
        if "group_id" in self._options:
            self._consumer.subscribe([TOPIC])
        else:
            self._consumer.assign([TopicPartition(TOPIC, 0)])
        await self._consumer.start()

    def step(self) -> int:
        return self._runner.run(self._step())

    async def _step(self) -> int:
        taken = await self._consumer.getmany(timeout_ms=300)
        self._read += sum(map(len, taken.values()))
        if self._read > self._committed:
            if "group_id" in self._options:
                await self._consumer.commit(timeout_ms=10_000)
            self._committed = self._read
        return self._committed

    def refused(self) -> str | None:
        group = self._consumer.health().group
        return None if group is None else group.refused


class Writer:
    """A producer; what it writes does not count, that it can does."""

    def __init__(self, topic: str, **options: Any) -> None:
        self._producer = Producer(**options)
        self._topic = topic
        self._written = 0

    def __enter__(self) -> Self:
        self._producer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def step(self) -> int:
        self._producer.send(self._topic, b"x").result(10)
        self._written += 1
        return self._written

    def refused(self) -> str | None:
        return None


class Asker:
    """An admin client."""

    def __init__(self, **options: Any) -> None:
        self._admin = Admin(**options)
        self._answers = 0

    def __enter__(self) -> Self:
        self._admin.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def step(self) -> int:
        self._admin.describe_topics([TOPIC], timeout_ms=10_000)
        self._answers += 1
        return self._answers

    def refused(self) -> str | None:
        return None


class Application(threading.Thread):
    """A program that catches errors, takes a breath and goes on."""

    def __init__(self, name: str, make: Callable[[], Client]) -> None:
        super().__init__(name=name, daemon=True)
        self.done = 0
        self.errors: list[KafkaError] = []
        self.client: Client | None = None
        self.broken: BaseException | None = None
        self._make = make
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"<{self.name}: {self.done} done, {self.errors!r}, {self.broken!r}>"

    def run(self) -> None:
        try:
            with self._make() as self.client:
                while not self._stopped.is_set():
                    try:
                        self.done = self.client.step()
                    except KafkaError as error:
                        self.errors.append(error)
                        self._stopped.wait(0.5)
        except BaseException as error:  # noqa: BLE001 - for the test to see
            self.broken = error

    def stop(self) -> None:
        self._stopped.set()

    def was_told(self, *kinds: type[KafkaError]) -> bool:
        return any(isinstance(error, kinds) for error in self.errors)

    def refused(self) -> str | None:
        return None if self.client is None else self.client.refused()


class Scene:
    """The broker, and the applications that run on it."""

    def __init__(self, kafka: KafkaCluster, visitor: Visitor, stack: ExitStack) -> None:
        self.kafka = kafka
        self.visitor = visitor
        self.records = 0
        self.applications: list[Application] = []
        self._stack = stack
        self._groups: list[str] = []

    def start(self, name: str, make: Callable[[], Client]) -> None:
        application = Application(name, make)
        self.applications.append(application)
        application.start()
        self._stack.callback(application.join, PATIENCE)

    def start_members(self, **options: Any) -> None:
        """One of each kind and protocol, each in a group of its own."""
        for kind in (AsyncMember, BlockingMember):
            for protocol in ("classic", "consumer"):
                own = options | {"group_id": self.group(), "group_protocol": protocol}
                self.start(f"{kind.__name__} {protocol}", partial(kind, **own))

    def group(self) -> str:
        """A new group that the user may use, and the owner of the client certificate."""
        group = f"passing-{uuid4().hex[:8]}"
        self._groups.append(group)
        for user in (USER, "client"):
            self.allow(_GROUP_RESOURCE, group, user)
        return group

    def take_groups(self) -> None:
        for group in self._groups:
            self.forbid(group, USER)

    def give_groups(self) -> None:
        for group in self._groups:
            self.allow(_GROUP_RESOURCE, group, USER)

    def write(self, count: int = 10) -> None:
        """Put records into the topic, past all security."""
        with Producer(bootstrap_servers=self.kafka.bootstrap()) as producer:
            for _ in range(count):
                producer.send(TOPIC, b"record").result(PATIENCE)
        self.records += count

    def await_all_read(self) -> None:
        """Every application has read, and committed, all that was written to the topic."""
        self.until(lambda app: app.done >= self.records, "has not read everything")

    def until(self, true: Callable[[Application], bool], failure: str) -> None:
        for each in self.applications:
            poll(
                lambda each=each: each.broken is not None or true(each),  # type: ignore[misc]
                timeout=PATIENCE,
                failure=lambda each=each: f"{failure}: {each!r}",  # type: ignore[misc]
            )
            assert each.broken is None, each

    def until_refused(self, *kinds: type[KafkaError]) -> None:
        """Every application was told."""
        self.until(lambda app: app.was_told(*kinds), "was not told")

    def ask(self, request: Any) -> None:
        """Have the broker do something, as its owner."""

        async def call(cluster: Cluster) -> Any:
            return await cluster.call(None, lambda _: request, type(request), cluster.deadline())

        answer = self.visitor.run({"bootstrap_servers": self.kafka.bootstrap()}, call)
        results = getattr(answer, "results", None) or answer.filter_results
        assert [result.error_code for result in results] == [0] * len(results)

    def set_password(self, password: str) -> None:
        salted = hashlib.pbkdf2_hmac("sha512", password.encode(), _SALT, _ITERATIONS)
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=USER, mechanism=_SHA_512, iterations=_ITERATIONS, salt=_SALT, salted_password=salted
        )
        self.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))

    def allow(self, resource: int, name: str, user: str) -> None:
        creation = CreateAclsRequest.AclCreation(
            resource_type=resource,
            resource_name=name,
            principal=f"User:{user}",
            host="*",
            operation=_ALL,
            permission_type=_ALLOW,
        )
        self.ask(CreateAclsRequest(creations=[creation]))

    def forbid(self, group: str, user: str) -> None:
        found = DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=_GROUP_RESOURCE,
            resource_name_filter=group,
            pattern_type_filter=_LITERAL,
            principal_filter=f"User:{user}",
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        self.ask(DeleteAclsRequest(filters=[found]))


@pytest.fixture
def scene(secured_kafka: KafkaCluster, visitor: Visitor) -> Iterator[Scene]:
    """With a topic that the test's user may use, and ten records in it."""
    with _scene(secured_kafka, visitor) as made:
        yield made


@contextmanager
def _scene(kafka: KafkaCluster, visitor: Visitor) -> Iterator[Scene]:
    visitor.plant(PASSWORD)
    with ExitStack() as stack:
        scene = Scene(kafka, visitor, stack)
        if not kafka.in_sync(TOPIC):
            kafka.create_topic(TOPIC)
            kafka.create_topic(f"{TOPIC}-written")
            for user in (USER, "client"):
                scene.allow(_TOPIC_RESOURCE, TOPIC, user)
                scene.allow(_TOPIC_RESOURCE, f"{TOPIC}-written", user)
        scene.records = _end(kafka)
        scene.write()
        try:
            yield scene
        finally:
            for application in scene.applications:
                application.stop()


def _end(kafka: KafkaCluster) -> int:
    """How many records earlier tests have written."""
    with Consumer(bootstrap_servers=kafka.bootstrap()) as consumer:
        [end] = consumer.end_offsets([TopicPartition(TOPIC, 0)]).values()
        return end


def _pass_and_go_on(scene: Scene, mend: Callable[[], object], *kinds: type[KafkaError]) -> None:
    """Everybody was told, the cause passes, everybody reads on; nobody was stormed with errors."""
    scene.until_refused(*kinds)
    scene.until(lambda app: app.refused() is not None, "does not show it")
    told = max(len(app.errors) for app in scene.applications)
    mend()
    scene.write()
    scene.await_all_read()
    scene.until(lambda app: app.refused() is None, "still shows it")
    assert told <= 20, scene.applications


def test_members_go_on_when_a_password_that_was_changed_is_changed_back(scene: Scene) -> None:
    """Sessions of this listener last four seconds, then the password is asked for again."""
    scene.set_password(PASSWORD)
    scene.start_members(**scene.visitor.password("REAUTH", "SCRAM-SHA-512", USER, PASSWORD))
    scene.await_all_read()
    scene.set_password(WRONG)
    try:
        _pass_and_go_on(scene, lambda: scene.set_password(PASSWORD), AuthenticationError)
    finally:
        scene.set_password(PASSWORD)


def test_members_go_on_when_a_token_service_that_failed_for_twelve_seconds_works_again(scene: Scene) -> None:
    down = threading.Event()

    def token() -> str:
        if down.is_set():
            raise ConnectionError("the token service is down")
        return scene.visitor.plant(unsecured_token(USER))

    scene.start_members(
        **scene.visitor.options("REAUTH", sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=token)
    )
    scene.await_all_read()
    down.set()

    def recover() -> None:
        threading.Event().wait(12)
        down.clear()

    _pass_and_go_on(scene, recover, AuthenticationError)


def test_members_go_on_when_the_right_to_use_their_group_is_given_back(scene: Scene) -> None:
    scene.set_password(PASSWORD)
    scene.start_members(**scene.visitor.password("SASL_PLAINTEXT", "SCRAM-SHA-512", USER, PASSWORD))
    scene.await_all_read()
    scene.take_groups()
    scene.write()  # read, but not committed
    scene.until(lambda app: app.was_told(CommitFailedError), "committed")
    _pass_and_go_on(scene, scene.give_groups, GroupAuthorizationFailedError)


@pytest.mark.parametrize("what", ["client.pem", "ca.pem"])
def test_every_kind_of_client_reads_certificates_that_are_replaced_on_disk(
    scene: Scene, tmp_path: Path, what: str
) -> None:
    """First by such that are refused, then by good ones: a broker that restarts ends all connections."""
    good = scene.visitor.security.certificates
    foreign = Certificates(tmp_path / "foreign")
    files = {"ca.pem": good.ca, "client.pem": good.client_certificate, "client.key": good.client_key}
    for name, path in files.items():
        shutil.copy(path, tmp_path / name)
    options = scene.visitor.options(
        "MTLS",
        ssl_cafile=tmp_path / "ca.pem",
        ssl_certfile=tmp_path / "client.pem",
        ssl_keyfile=tmp_path / "client.key",
        default_api_timeout_ms=10_000,
    )
    scene.start_members(**options)
    scene.start("reader", lambda: AsyncMember(**options))
    scene.start("producer", lambda: Writer(f"{TOPIC}-written", **options))
    scene.start("admin", lambda: Asker(**options))
    scene.await_all_read()
    if what == "ca.pem":
        shutil.copy(foreign.ca, tmp_path / what)
    else:
        shutil.copy(foreign.client_certificate, tmp_path / "client.pem")
        shutil.copy(foreign.client_key, tmp_path / "client.key")
    scene.kafka.restart(1)
    patient = ("reader", "producer")  # as long as their newest metadata knows no leader they wait for one
    scene.until(lambda app: app.name in patient or app.was_told(AuthenticationError), "was not told")
    for name, path in files.items():
        shutil.copy(path, tmp_path / name)
    before = {app: app.done for app in scene.applications}
    scene.write()
    scene.await_all_read()
    scene.until(lambda app: app.done > before[app], "does nothing more")
    scene.until(lambda app: app.refused() is None, "still shows it")
