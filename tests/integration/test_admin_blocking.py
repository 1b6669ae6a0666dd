"""The blocking admin client on a real broker: from threads, after fork, and gone without a trace."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from kclient import Admin, AsyncAdmin
from kclient.errors import ClientClosedError
from kclient.runtime import LoopThread
from tests.support.threads import wait_for_no_threads
from tools.kafka.provider import PlainKafka

pytestmark = pytest.mark.uvloop

ROOT = Path(__file__).resolve().parents[2]


def test_the_first_verb_connects(kafka: PlainKafka) -> None:
    admin = Admin(bootstrap_servers=kafka.bootstrap())
    assert admin.describe_cluster().brokers
    assert repr(admin) == "<Admin kclient open>"
    health = admin.health()
    assert health.connected
    assert health.brokers[0].last_error is None
    admin.close()
    wait_for_no_threads()


def test_a_closed_client_says_so(kafka: PlainKafka) -> None:
    with Admin(bootstrap_servers=kafka.bootstrap()) as admin:
        admin.list_topics()
    assert not admin.health().connected
    for call in (admin.list_topics, admin.start):
        with pytest.raises(ClientClosedError, match="kclient admin kclient is closed"):
            call()
    wait_for_no_threads()


def test_threads_may_share_a_client(kafka: PlainKafka) -> None:
    def work(admin: Admin) -> bool:
        name = f"shared-{uuid4().hex[:8]}"
        admin.create_topics(name)
        described = admin.describe_topics(name)[name].name == name
        admin.describe_cluster()
        admin.delete_topics(name)
        return described

    with Admin(bootstrap_servers=kafka.bootstrap()) as admin, ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, [admin] * 24))
    wait_for_no_threads()


def test_a_client_that_is_forgotten_warns_and_ends_its_thread(kafka: PlainKafka) -> None:
    admin = Admin(bootstrap_servers=kafka.bootstrap())
    admin.list_topics()
    with pytest.warns(ResourceWarning, match="<Admin kclient open> was never closed"):  # noqa: PT031
        del admin
        gc.collect()
    wait_for_no_threads()


def test_an_asyncio_client_that_is_closed_leaves_no_task_and_no_socket(kafka: PlainKafka) -> None:
    async def use() -> None:
        async with AsyncAdmin(bootstrap_servers=kafka.bootstrap()) as admin:
            await asyncio.gather(*(admin.list_topics() for _ in range(20)), admin.list_groups())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(use())
        gc.collect()


def run_script(kafka: PlainKafka, script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, kafka.bootstrap()]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_a_forked_child_is_told_to_make_its_own_client(kafka: PlainKafka) -> None:
    done = run_script(
        kafka,
        """if True:
        import os, sys
        from kclient import Admin
        from kclient.errors import ClientClosedError
        with Admin(bootstrap_servers=sys.argv[1]) as admin:
            admin.list_topics()
            child = os.fork()
            if child == 0:
                try:
                    admin.list_topics()
                except ClientClosedError as error:
                    print("child:", error)
                admin.close()
                with Admin(bootstrap_servers=sys.argv[1]) as own:
                    own.list_topics()
                print("child can work", flush=True)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            admin.list_topics()
            print("parent can work")
        """,
    )
    assert done.returncode == 0, done.stderr
    assert "a client does not survive fork, make one in the child" in done.stdout
    assert "child can work" in done.stdout
    assert "parent can work" in done.stdout


def test_a_program_ends_although_its_client_was_never_closed(kafka: PlainKafka) -> None:
    done = run_script(
        kafka,
        """if True:
        import sys
        from kclient import Admin
        admin = Admin(bootstrap_servers=sys.argv[1])
        admin.list_topics()
        print("done")
        """,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_clients_share_a_thread_that_outlives_them(kafka: PlainKafka) -> None:
    with LoopThread("shared") as thread:
        first = Admin.on(thread, bootstrap_servers=kafka.bootstrap())
        second = Admin.on(thread, bootstrap_servers=kafka.bootstrap())
        assert first.describe_cluster().cluster_id == second.describe_cluster().cluster_id
        first.close()
        assert thread.running
        assert second.describe_cluster().brokers
        with pytest.raises(ClientClosedError):
            first.describe_cluster()
        second.close()
    assert not thread.running
