"""Kafka's own tools at listeners that demand certificates, passwords and tokens.

A JVM takes its time to start, so all of them start together.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.broker.librdkafka import consumer, take
from tests.broker.secured import Login, Secured, right, secured, wrong
from tools.kafka import commands
from tools.kafka.errors import CommandError
from tools.kafka.jars import JarSet
from tools.kafka.jvm import CommandRunner, installed_java
from tools.kafka.versions import DEFAULT_VERSION
from tools.kafka.workspace import Workspace

_JARS = JarSet.broker(DEFAULT_VERSION)
_JAVA = installed_java()
_PATIENCE = 60.0

pytestmark = pytest.mark.skipif(
    _JAVA is None or not _JARS.is_cached(), reason=f"needs Java and Kafka {DEFAULT_VERSION}'s jars"
)


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    with Workspace() as made:
        yield made


@pytest.fixture
def house(workspace: Workspace) -> Iterator[Secured]:
    with secured(workspace.directory / "certificates") as made:
        yield made


def run(house: Secured, workspace: Workspace, login: Login, *args: str, stdin: str = "") -> str:
    """Run a tool with a login; what it printed, or what was said against it."""
    assert _JAVA is not None
    runner = CommandRunner(_JAVA, _JARS.class_path, workspace)
    main = commands.resolve(args[0], _JARS.directory)
    properties = str(login.for_java(workspace.directory))
    options = ["--bootstrap-server", house.servers(login), "--command-config", properties, *args[1:]]
    try:
        return runner.run(main, options, stdin=stdin, timeout=_PATIENCE).stdout
    except CommandError as error:
        return str(error)


def test_tools_get_in_with_the_right_login_and_with_no_other(house: Secured, workspace: Workspace) -> None:
    good, bad = right(house), wrong(house)
    welcome = {name: good[name] for name in ("certificate", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")}
    welcome["unsecured token"] = replace(good["unsecured token"], unsecured=True)
    refused = {
        "SslAuthenticationException": bad["no certificate"],
        "SSL handshake failed": bad["another CA"],
        "invalid credentials with SASL mechanism SCRAM-SHA-256": bad["SCRAM-SHA-256"],
        "invalid_token": replace(bad["unsecured token"], unsecured=True),
    }
    with ThreadPoolExecutor(4) as pool:
        written = [
            pool.submit(
                run, house, workspace, login, "console-producer", "--topic", "lines", stdin=f"{name}\n"
            )
            for name, login in welcome.items()
        ]
        said = {
            reason: pool.submit(run, house, workspace, login, "topics", "--list")
            for reason, login in refused.items()
        }

    assert [call.result() for call in written] == [""] * len(welcome)
    assert house.producers == {(login.listener, login.principal) for login in welcome.values()}
    plain = good["PLAIN"]
    with consumer(house.servers(plain), **plain.for_librdkafka()) as reader:
        reader.subscribe(["lines"])
        assert {message.value().decode() for message in take(reader, len(welcome))} == set(welcome)
    for reason, call in said.items():
        assert reason in call.result()
