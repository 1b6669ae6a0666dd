"""One broker at a time has a data directory, whoever started the other and however the first one ended."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kclient.broker import Broker, directory_lock
from kclient.broker.directory_lock import NAME, DirectoryLock
from kclient.errors import DataDirectoryError
from tests.broker.killable import Brokers

_TAKE = """
import os, sys
from pathlib import Path
from kclient.broker.directory_lock import DirectoryLock
from kclient.errors import DataDirectoryError
"""


def command(data: Path) -> subprocess.CompletedProcess[str]:
    """A second broker, from the command line."""
    arguments = [sys.executable, "-m", "kclient.cli.main", "broker", "--port", "0", "--data", str(data)]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)


def test_a_second_broker_of_a_process_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    async def run() -> None:
        async with Broker(data=tmp_path) as first:
            topic = first.create_topic("kept")
            second = Broker(data=tmp_path)
            with pytest.raises(
                DataDirectoryError, match=rf"another broker in this process \({os.getpid()}\)"
            ):
                await second.start()
            # Copies are made of directories in use, which must not unlock them.
            shutil.copytree(tmp_path, tmp_path / "copy")
            refused = command(tmp_path)
            assert refused.returncode == 1
            assert f"{tmp_path} is in use by process {os.getpid()}" in refused.stderr
            assert "Traceback" not in refused.stderr
        async with Broker(data=tmp_path) as third:
            assert third.topics.topic("kept").topic_id == topic.topic_id
        assert (tmp_path / NAME).read_bytes() == b""

    asyncio.run(run())


def test_a_start_that_fails_lets_the_next_one_in(tmp_path: Path) -> None:
    async def run() -> None:
        async with Broker(data=tmp_path / "other") as other:
            taken = int(other.bootstrap_servers.rpartition(":")[2])
            for _ in range(2):
                with pytest.raises(OSError, match=str(taken)):
                    await Broker(data=tmp_path / "data", port=taken).start()

    asyncio.run(run())


def test_a_broker_keeps_its_directory_when_the_process_changes_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    async def run() -> None:
        async with Broker(data="data") as broker:
            monkeypatch.chdir(tmp_path / "elsewhere")
            broker.create_topic("late")
            broker.producer_ids.take()
            assert broker.data_directory == str(tmp_path / "data")
        assert list((tmp_path / "elsewhere").iterdir()) == []
        async with Broker(data=tmp_path / "data") as again:
            assert set(again.topics.by_name) == {"late"}

    asyncio.run(run())


def test_a_stop_that_is_cancelled_gives_back_lock_and_ports(tmp_path: Path) -> None:
    async def run() -> None:
        broker = Broker(data=tmp_path)
        await broker.start()
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        stopping = asyncio.create_task(broker.stop())
        await asyncio.sleep(0)  # it has begun, and waits for its tasks
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert broker.running() == []
        async with Broker(data=tmp_path, port=port):
            await broker.stop()
            with pytest.raises(DataDirectoryError, match="another broker in this process"):
                await Broker(data=tmp_path).start()

    asyncio.run(run())


def test_the_kernel_unlocks_what_a_killed_broker_had(tmp_path: Path) -> None:
    with Brokers(tmp_path / "data") as brokers:
        brokers.start()
        assert brokers.pid is not None
        with pytest.raises(DataDirectoryError, match=f"in use by process {brokers.pid}, "):
            DirectoryLock.take(tmp_path / "data")
        brokers.kill()
        assert (tmp_path / "data" / NAME).read_bytes() != b""
        DirectoryLock.take(tmp_path / "data").release()
        brokers.start()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    script = """
lock = DirectoryLock.take(Path(sys.argv[1]))
reading, writing = os.pipe()
if not os.fork():
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
lock.release()
DirectoryLock.take(Path(sys.argv[1]))
print("taken again")
"""
    ended = subprocess.run(
        [sys.executable, "-c", _TAKE + script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("taken again\n", "")


def refuse_locks_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As kernels and sandboxes answer that do not know them."""
    asked = fcntl.fcntl

    def answer(descriptor: int, command: int, argument: Any = 0) -> Any:
        if command == fcntl.F_OFD_SETLK:
            raise OSError(errno.EINVAL, "Invalid argument")
        return asked(descriptor, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", answer)


@pytest.mark.parametrize("known", [True, False], ids=["locks of open files", "no locks of open files"])
def test_a_lock_as_kafkas_is_honoured_both_ways_and_its_process_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Java's `FileChannel.tryLock` is `lockf` on Linux."""
    if not known:
        refuse_locks_of_open_files(monkeypatch)
    script = """
import fcntl
file = open(sys.argv[1], "r+")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("refused", flush=True)
else:
    print("locked", flush=True)
    sys.stdin.read()
"""
    (tmp_path / NAME).touch()
    arguments = [sys.executable, "-c", _TAKE + script, str(tmp_path / NAME)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(DataDirectoryError, match=f"in use by process {other.pid}, "):
            DirectoryLock.take(tmp_path)
        assert (tmp_path / NAME).read_bytes() == b""
        other.communicate(timeout=60)
    lock = DirectoryLock.take(tmp_path)
    refused = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
    assert refused.stdout == "refused\n"
    lock.release()


def test_it_holds_where_the_kernel_refuses_locks_of_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_locks_of_open_files(monkeypatch)
    lock = DirectoryLock.take(tmp_path)
    assert f"{tmp_path} is in use by process {os.getpid()}" in command(tmp_path).stderr
    with pytest.raises(DataDirectoryError, match="another broker in this process"):
        DirectoryLock.take(tmp_path)
    lock.release()
    DirectoryLock.take(tmp_path).release()


def test_a_holder_that_leaves_no_number_is_said_to_be_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = DirectoryLock.take(tmp_path)
    (tmp_path / NAME).write_bytes(b"")
    with pytest.raises(DataDirectoryError, match="in use by another process"):
        DirectoryLock.take(tmp_path)
    lock.release()
    lock.release()

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(DataDirectoryError, match=r"locking .* failed: .*no locks here"):
        DirectoryLock.take(tmp_path)


def loaded(monkeypatch: pytest.MonkeyPatch, platform: str, **modules: Any) -> ModuleType:
    """The module as another system would load it."""
    assert directory_lock.__file__ is not None
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    spec = spec_from_file_location("kclient.broker.directory_lock", directory_lock.__file__)
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", platform)
        spec.loader.exec_module(made)
    return made


def test_it_holds_where_there_is_no_fcntl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked: set[int] = set()

    def locking(descriptor: int, mode: int, count: int) -> None:
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        assert count == 1
        if mode == 0:
            locked.remove(place)
            return
        if place in locked:
            raise PermissionError(errno.EACCES, "Permission denied")
        locked.add(place)

    windows = loaded(
        monkeypatch, "win32", msvcrt=SimpleNamespace(locking=locking, LK_UNLCK=0, LK_NBLCK=2), fcntl=None
    )
    lock = windows.DirectoryLock.take(tmp_path)
    assert (tmp_path / NAME).read_text() == f"{os.getpid()}\n"
    with pytest.raises(DataDirectoryError, match="another broker in this process"):
        windows.DirectoryLock.take(tmp_path)
    # Windows locks bytes against reading: those of the process id must stay readable.
    assert min(locked) > (tmp_path / NAME).stat().st_size
    lock.release()
    windows.DirectoryLock.take(tmp_path).release()


def test_it_holds_where_open_files_have_no_locks_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = loaded(monkeypatch, "darwin")
    lock = other.DirectoryLock.take(tmp_path)
    with pytest.raises(DataDirectoryError, match="another broker in this process"):
        other.DirectoryLock.take(tmp_path)
    lock.release()
    other.DirectoryLock.take(tmp_path).release()
