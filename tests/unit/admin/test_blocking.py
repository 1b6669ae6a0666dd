"""The blocking admin client without a broker: its verbs, thread and end. These tests use real threads."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from kclient import Admin, AsyncAdmin
from kclient.errors import ClientClosedError, KafkaTimeoutError
from tests.support.threads import our_threads, wait_for_no_threads
from tools.kafka.ports import free_ports
from tools.kafka.waiting import poll


def verbs(kind: type) -> dict[str, Callable[..., object]]:
    return {
        name: value
        for name, value in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_every_verb_has_a_blocking_twin_of_the_same_signature() -> None:
    theirs, ours = verbs(AsyncAdmin), verbs(Admin)
    assert set(ours) == set(theirs)
    for name, verb in theirs.items():
        assert inspect.signature(ours[name]) == inspect.signature(verb), name
        assert ours[name].__doc__, name


def test_the_constructor_does_not_connect_and_close_ends_the_thread() -> None:
    (port,) = free_ports(1)
    admin = Admin(bootstrap_servers=f"127.0.0.1:{port}", client_id="idle")
    assert "kclient admin idle" in our_threads()
    assert not admin.health().connected
    admin.close()
    admin.close()
    wait_for_no_threads()
    assert not admin.health().connected
    with pytest.raises(ClientClosedError):
        admin.list_topics()


def test_threads_may_close_a_client_at_the_same_time() -> None:
    (port,) = free_ports(1)
    for _ in range(20):
        admin = Admin(bootstrap_servers=f"127.0.0.1:{port}")
        with ThreadPoolExecutor(4) as pool:
            for closing in [pool.submit(admin.close) for _ in range(4)]:
                closing.result(timeout=10)
    wait_for_no_threads()


@pytest.mark.alone
def test_entering_says_that_nobody_is_there_and_leaves_nothing() -> None:
    (port,) = free_ports(1)
    began = time.monotonic()
    with (
        pytest.raises(KafkaTimeoutError),
        Admin(bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=700),
    ):
        pass
    assert time.monotonic() - began < 2
    wait_for_no_threads()


@pytest.mark.alone
def test_closing_ends_the_calls_of_other_threads() -> None:
    (port,) = free_ports(1)
    admin = Admin(bootstrap_servers=f"127.0.0.1:{port}")
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(admin.list_topics) for _ in range(4)]
        poll(lambda: admin.health().brokers, timeout=10, failure=lambda: "nobody has tried to connect")
        began = time.monotonic()
        admin.close()
        errors = [call.exception(timeout=10) for call in calls]
    assert [type(error) for error in errors] == [ClientClosedError] * 4
    assert time.monotonic() - began < 3
    wait_for_no_threads()
