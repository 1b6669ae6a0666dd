"""What a start does with the folders that it finds: only what a recorded deletion names is removed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kclient.broker import Broker
from kclient.broker.data_directory import DataDirectory
from kclient.broker.log.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT,
    REPLICATION,
    mark_clean_shutdown,
    write_meta_properties,
    write_partition_metadata,
)
from kclient.broker.log.epochs import FILE_NAME as EPOCHS
from kclient.broker.topic_file import NAME as LIST
from kclient.broker.topics import TopicCatalogue
from kclient.clock import SystemClock
from kclient.errors import DataDirectoryError, KafkaStorageError
from kclient.records import encode_batch
from tests.support.crash_points import Fuse, Killed

CLUSTER = "KBIcyc0dTYKA9zn1GZOgbg"


def opened(data: Path) -> TopicCatalogue:
    """The topics of a directory, as a start opens them; claimed for as long as a test runs."""
    storage = DataDirectory(data, sync=False)
    storage.claim()
    storage.identify(CLUSTER)
    topics = TopicCatalogue(storage, SystemClock(), Random(7), {})
    try:
        topics.load([1])
    finally:
        storage.release()
    return topics


def fill(topics: TopicCatalogue, name: str, partitions: int = 2, count: int = 3) -> None:
    topic = topics.by_name.get(name) or topics.create(name, [(1,)] * partitions)
    for partition in topic.partitions:
        rows = [(b"k", name.encode(), partition.log.now_ms(), ()) for _ in range(count)]
        partition.log.append(encode_batch(rows), leader_epoch=partition.leader_epoch)


def ends(topics: TopicCatalogue) -> dict[str, list[int]]:
    return {
        name: [partition.log.end_offset for partition in topic.partitions]
        for name, topic in topics.by_name.items()
    }


def tree(directory: Path) -> dict[str, bytes | None]:
    """Every file below a directory with its bytes."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


def strays(data: Path) -> list[Path]:
    return sorted(data.glob("*-stray"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with two topics of two partitions, closed in good order."""
    topics = opened(tmp_path / "data")
    fill(topics, "kept")
    fill(topics, "other")
    topics.close()
    return tmp_path / "data"


def test_a_partition_that_no_list_knows_is_set_aside_with_all_its_bytes_and_said(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(data / "other-1", data / "unlisted-0")
    write_partition_metadata(data / "unlisted-0", uuid.uuid4())
    shutil.copytree(data / "other-0", data / "kept-2")
    shutil.copytree(data / "other-0", data / "ancient-3", ignore=lambda *_: [PARTITION_METADATA])
    write_partition_metadata(data / "other-0", uuid.uuid4())
    before = {name: tree(data / name) for name in ("unlisted-0", "kept-2", "ancient-3", "other-0")}
    topics = opened(data)
    assert ends(topics) == {"kept": [3, 3], "other": [0, 3]}
    topics.close()
    aside = {path.name.partition(".")[0]: path for path in strays(data)}
    assert {name: tree(path) for name, path in aside.items()} == before
    for name, path in aside.items():
        assert f"{name} is not of any topic in {LIST}: set aside as {path.name}" in caplog.text
    caplog.clear()
    opened(data).close()
    assert strays(data) == sorted(aside.values())
    assert caplog.text == ""


def test_a_listed_partition_that_does_not_say_whose_it_is_stays_in_use(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (data / "kept-1" / PARTITION_METADATA).unlink()
    topics = opened(data)
    assert ends(topics) == {"kept": [3, 3], "other": [3, 3]}
    topics.close()
    assert strays(data) == []
    assert "kept-1 does not say which topic it belongs to" in caplog.text


def test_partitions_without_their_list_are_refused_and_stay_as_they_are(data: Path) -> None:
    (data / LIST).unlink()
    before = tree(data)
    with pytest.raises(DataDirectoryError, match=rf"4 partitions: kept-0, kept-1, other-0, …, but {LIST}"):
        opened(data)
    assert tree(data) == before


def _formatted(data: Path) -> None:
    write_meta_properties(data, cluster_id=CLUSTER, node_id=3, directory_id=uuid.uuid4())
    (data / "bootstrap.checkpoint").write_bytes(b"\x00")


def _running_on_several_disks(data: Path) -> None:
    write_meta_properties(data, cluster_id=CLUSTER, node_id=3, directory_id=uuid.uuid4())
    write_partition_metadata(data / "orders-0", uuid.uuid4())
    mark_clean_shutdown(data)


def _with_zookeeper(data: Path) -> None:
    (data / META_PROPERTIES).write_text(f"#\nversion=0\nbroker.id=3\ncluster.id={CLUSTER}\n")
    (data / "orders-0").mkdir()
    (data / "orders-0" / f"{0:020}.log").write_bytes(b"records")


def _shared_with_us(data: Path) -> None:
    _formatted(data)
    (data / LIST).write_text("[]")
    (data / "__cluster_metadata-0").mkdir()


@pytest.mark.parametrize("make", [_formatted, _running_on_several_disks, _with_zookeeper, _shared_with_us])
def test_a_kafka_brokers_directory_is_refused_with_what_it_is(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(
        DataDirectoryError, match=rf"log directory of a Kafka broker \(cluster.id {CLUSTER}, .*3, "
    ):
        opened(tmp_path)
    assert tree(tmp_path) == before


def test_the_command_says_why_it_does_not_start_on_a_kafka_brokers_directory(tmp_path: Path) -> None:
    _running_on_several_disks(tmp_path)
    command = [sys.executable, "-m", "kclient.cli.main", "broker", "--port", "0", "--data", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"{tmp_path} is the log directory of a Kafka broker (cluster.id {CLUSTER}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(DataDirectoryError, match="is not a directory"):
        opened(tmp_path / "letter")


def started(data: Path) -> None:
    async def run() -> None:
        async with Broker(data=data):
            pass

    asyncio.run(run())


def test_a_link_that_leads_nowhere_is_refused_with_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(tmp_path / "unplugged")
    with pytest.raises(DataDirectoryError, match=r"data is a link to .*/unplugged, where .* choose another"):
        started(tmp_path / "data")
    (tmp_path / "unplugged").mkdir()
    started(tmp_path / "data")


def test_a_directory_that_may_not_be_written_in_is_refused_with_what_to_do(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def access(path: Path, mode: int, **_: bool) -> bool:
        return path != data or not mode & os.W_OK

    before = tree(data)
    monkeypatch.setattr(os, "access", access)
    with pytest.raises(
        DataDirectoryError, match=r"data cannot be written in by this user: .* choose another"
    ):
        started(data)
    assert tree(data) == before


def test_a_directory_that_cannot_be_made_is_said_without_words_for_clients(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(DataDirectoryError, match=r"^making .*letter/data failed: .*Not a directory"):
        started(tmp_path / "letter" / "data")


def _cut_epochs(written: bytes) -> bytes:
    topics = json.loads(written)
    del topics[0]["epochs"][1:]
    return json.dumps(topics).encode()


def _with(**fields: object) -> Callable[[bytes], bytes]:
    return lambda written: json.dumps([topic | fields for topic in json.loads(written)]).encode()


def _no_text(written: bytes) -> bytes:
    return b"\xff\xfe" + written


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        (LIST, _no_text),
        (LIST, lambda _: b"{}"),
        (LIST, lambda _: b'""'),
        (LIST, lambda _: b"[[]]"),
        (LIST, _cut_epochs),
        (LIST, _with(epochs=["a", "b"])),
        (LIST, _with(replicas=[[1], ["b"]])),
        (LIST, _with(topic_id=7)),
        (LIST, _with(name="../kept")),
        (LIST, _with(configs=[])),
        (LIST, _with(configs={"retention.ms": 7})),
        (META_PROPERTIES, _no_text),
        (RECOVERY_POINT, _no_text),
        (REPLICATION, _no_text),
        (f"kept-1/{PARTITION_METADATA}", _no_text),
        (f"kept-1/{EPOCHS}", _no_text),
    ],
)
def test_a_start_names_the_file_that_is_broken_and_removes_nothing(
    data: Path, name: str, spoil: Callable[[bytes], bytes]
) -> None:
    good, folders = (data / name).read_bytes(), {path.name for path in data.iterdir()}
    (data / name).write_bytes(spoil(good))
    with pytest.raises(DataDirectoryError, match=f"^{re.escape(str(data / name))} .*restore it"):
        started(data)
    (data / name).write_bytes(good)
    assert {path.name for path in data.iterdir()} >= folders - {CLEAN_SHUTDOWN}
    assert strays(data) == []
    assert ends(opened(data)) == {"kept": [3, 3], "other": [3, 3]}


@pytest.mark.parametrize("name", [LIST, RECOVERY_POINT, REPLICATION, f"kept-1/{PARTITION_METADATA}"])
def test_a_start_that_cannot_read_what_there_is_changes_nothing(data: Path, name: str) -> None:
    (data / name).write_bytes(b"\xff")
    before = tree(data)
    with pytest.raises(DataDirectoryError, match=name):
        started(data)
    assert tree(data) == before


def test_directories_with_other_files_and_those_of_brokers_without_topics_are_taken(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    opened(tmp_path).close()
    (tmp_path / LIST).unlink()  # earlier versions made no list before the first topic
    topics = opened(tmp_path)
    fill(topics, "kept")
    topics.close()
    assert (tmp_path / "letter").read_text() == "dear"


def test_a_folder_of_something_else_is_never_taken_for_a_partition(data: Path) -> None:
    (data / "mine-0").mkdir()
    (data / "mine-0" / "letter").write_text("dear")
    topics = opened(data)
    with pytest.raises(KafkaStorageError, match="mine-0 is in the way of a partition"):
        topics.create("mine", [(1,)])
    topics.close()
    topics = opened(data)
    assert set(topics.by_name) == {"kept", "other"}
    (data / "mine-0" / "letter").unlink()
    fill(topics, "mine", partitions=1)
    topics.close()


def test_a_start_that_fails_leaves_the_mark_of_an_orderly_end(data: Path) -> None:
    (data / LIST).write_text("{")
    with pytest.raises(KafkaStorageError, match=LIST):
        opened(data)
    assert (data / CLEAN_SHUTDOWN).exists()


def _delete(topics: TopicCatalogue) -> None:
    topics.delete(topics.by_name["other"])


def _delete_and_make_anew(topics: TopicCatalogue) -> None:
    topics.delete(topics.by_name["other"])
    topics.create("other", [(1,), (1,)])


def _create(topics: TopicCatalogue) -> None:
    topics.create("made", [(1,), (1,)])


def _grow(topics: TopicCatalogue) -> None:
    topics.grow(topics.by_name["kept"], [(1,), (1,)])


KEPT = {"kept": [3, 3]}
OTHER = {"other": [3, 3]}


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (_delete, [KEPT | OTHER, KEPT]),
        (_delete_and_make_anew, [KEPT | OTHER, KEPT, KEPT | {"other": [0, 0]}]),
        (_create, [KEPT | OTHER, KEPT | OTHER | {"made": [0, 0]}]),
        (_grow, [KEPT | OTHER, OTHER | {"kept": [3, 3, 0, 0]}]),
    ],
)
def test_a_process_that_is_killed_at_any_change_of_a_file_leaves_topics_whole_or_gone(
    data: Path, tmp_path: Path, work: Callable[[TopicCatalogue], None], expected: list[dict[str, list[int]]]
) -> None:
    seen: list[dict[str, list[int]]] = []
    killed = True
    for lasts in range(1000):
        copy = tmp_path / str(lasts)
        shutil.copytree(data, copy)
        topics = opened(copy)
        with pytest.MonkeyPatch.context() as patch:
            Fuse(patch, lasts)
            try:
                work(topics)
                killed = False
            except Killed:
                pass
        again = opened(copy)
        seen.append(ends(again))
        again.close()
        known = {f"{name}-{index}" for name, found in seen[-1].items() for index in range(len(found))}
        folders = {path.name for path in copy.iterdir() if path.is_dir()}
        # An empty folder is what remains where a deletion ended just before its last change.
        assert folders >= known, f"after {lasts} changes"
        assert all(not any((copy / name).iterdir()) for name in folders - known), f"after {lasts} changes"
        if not killed:
            break
    assert not killed
    assert [one for one in expected if one in seen] == expected
    assert all(one in expected for one in seen)
    assert seen[-1] == expected[-1]


@pytest.mark.parametrize("refused", [False, True], ids=["at once", "by the next start"])
def test_the_deletion_of_a_partition_on_another_disk_ends_and_takes_its_link_alone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    def refuse(_: object) -> None:
        raise PermissionError("not permitted")

    (data / "other-1").rename(tmp_path / "disk")
    (data / "other-1").symlink_to(tmp_path / "disk")
    topics = opened(data)
    before = tree(tmp_path / "disk")
    if refused:
        with monkeypatch.context() as patch:
            patch.setattr("os.unlink", refuse)
            with pytest.raises(KafkaStorageError, match="not permitted"):
                topics.delete(topics.by_name["other"])
    else:
        topics.delete(topics.by_name["other"])
    topics.close()
    again = opened(data)
    assert ends(again) == {"kept": [3, 3]}
    assert not (data / "other-1").is_symlink()
    fill(again, "other")
    again.close()
    assert tree(tmp_path / "disk") == before
    assert strays(data) == []


def test_what_a_deleted_link_leads_to_is_said_to_stay(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (data / "other-1").rename(tmp_path / "disk")
    (data / "other-1").symlink_to(tmp_path / "disk")
    topics = opened(data)
    topics.delete(topics.by_name["other"])
    topics.close()
    assert f"other-1 was a link to {tmp_path / 'disk'}, which is left" in caplog.text


def test_a_deletion_that_the_disk_refused_is_ended_by_the_next_start(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: object) -> None:
        raise PermissionError("not permitted")

    topics = opened(data)
    with monkeypatch.context() as patch:
        patch.setattr("os.unlink", refuse)
        with pytest.raises(KafkaStorageError, match="not permitted"):
            topics.delete(topics.by_name["other"])
    assert (data / "other-0").exists()
    # A new topic of that name takes the place of what should be gone, and is not taken for it.
    topics.create("other", [(1,)])
    fill(topics, "other", count=5)
    topics.close()
    again = opened(data)
    assert ends(again) == {"kept": [3, 3], "other": [5]}
    assert not (data / "other-1").exists()
    again.close()
    assert strays(data) == []
    assert caplog.text == ""
