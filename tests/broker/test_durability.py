"""What a data directory keeps from run to run, whatever the end of the run: epochs, topics, ids, checkpoints.

A copy of the directory of a running broker is what `kill -9` would have left at that moment.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kclient.broker import Broker, upkeep
from kclient.broker.log import recovery
from kclient.broker.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT, REPLICATION, read_offsets
from kclient.broker.log.config import FOREVER
from kclient.broker.log.epochs import FILE_NAME as EPOCHS
from kclient.broker.log.storage import sync_files
from kclient.broker.producer_ids import ProducerIds
from kclient.broker.topic_file import NAME
from kclient.broker.topic_journal import JOURNAL
from kclient.cli import broker as command
from kclient.errors import DataDirectoryError, InvalidConfigError, KafkaStorageError
from kclient.net.connection import Connection
from kclient.records import encode_batch
from kclient.types import TopicPartition
from kclient.wire.messages.configs import DescribeConfigsRequest
from kclient.wire.messages.fetch import OffsetForLeaderEpochRequest
from tests.broker import segments
from tests.broker.conversation import build
from tests.broker.test_server import soon, with_broker

KEPT = TopicPartition("kept", 0)


def append(broker: Broker, topic: str = "kept", count: int = 1) -> None:
    partition = broker.topics.partition(topic, 0)
    rows = [(b"k", b"v", int(broker.clock.wall() * 1000), ()) for _ in range(count)]
    partition.log.append(encode_batch(rows), leader_epoch=partition.leader_epoch)


async def epoch_end(connection: Connection, epoch: int) -> tuple[int, int]:
    asked = [{"topic": "kept", "partitions": [{"partition": 0, "leader_epoch": epoch}]}]
    request = build(OffsetForLeaderEpochRequest, replica_id=-2, topics=asked)
    answer = await connection.call(request, soon(5), version=4)
    found = answer.topics[0].partitions[0]
    return found.leader_epoch, found.end_offset


def test_every_start_begins_an_epoch_after_orderly_ends_and_kills(tmp_path: Path) -> None:
    data = tmp_path / "0"

    async def first(broker: Broker, connection: Connection) -> None:
        broker.create_topic("kept")
        append(broker)
        assert await epoch_end(connection, 0) == (0, 1)

    async def second(broker: Broker, connection: Connection) -> None:
        assert broker.topics.partition("kept", 0).leader_epoch == 1
        assert await epoch_end(connection, 1) == (1, 1)
        append(broker, count=2)
        shutil.copytree(data, tmp_path / "killed")

    async def third(broker: Broker, connection: Connection) -> None:
        append(broker, count=4)
        assert broker.topics.partition("kept", 0).leader_epoch == 2
        assert [await epoch_end(connection, epoch) for epoch in range(3)] == [(0, 1), (1, 3), (2, 7)]

    with_broker(first, data=data)
    with_broker(second, data=data)
    with_broker(third, data=tmp_path / "killed")
    directory = tmp_path / "killed" / "kept-0"
    assert segments.epoch_starts(directory) == {0: 0, 1: 1, 2: 3}
    assert [batch.leader_epoch for batch in segments.partition_batches(directory)] == [0, 1, 2]


@pytest.mark.parametrize("lost", [[f"kept-0/{EPOCHS}"], [NAME, JOURNAL]], ids=["epochs", "list"])
def test_an_epoch_that_only_the_log_or_only_the_list_of_topics_knows_does_not_come_again(
    tmp_path: Path, lost: list[str]
) -> None:
    async def move(broker: Broker, _: Connection) -> None:
        partition = broker.create_topic("kept", 1, 2).partitions[0]
        old = {name: (tmp_path / "data" / name).read_bytes() for name in lost}
        await broker.stop_node(partition.leader)
        append(broker)
        for node in broker.running():
            if node.node_id in partition.replicas:
                await broker.stop_node(node.node_id)
        assert (partition.leader, partition.leader_epoch) == (-1, 2)
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
        for name, data in old.items():
            (tmp_path / "killed" / name).write_bytes(data)

    async def after(broker: Broker, _: Connection) -> None:
        assert broker.topics.partition("kept", 0).leader_epoch == 3

    with_broker(move, nodes=3, data=tmp_path / "data")
    with_broker(after, nodes=3, data=tmp_path / "killed")
    assert segments.epoch_starts(tmp_path / "killed" / "kept-0") == {1: 0, 3: 1}


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_only_what_was_not_closed_in_good_order_is_checked(
    tmp_path: Path, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"

    async def write(broker: Broker, _: Connection) -> None:
        broker.create_topic("kept")
        append(broker, count=3)
        assert not (data / CLEAN_SHUTDOWN).exists()
        shutil.copytree(data, tmp_path / "killed")

    scanned: list[object] = []
    original = recovery.scan

    def scan(segment: Any, interval: int, *, gaps: bool) -> bool:
        scanned.append(segment)
        return original(segment, interval, gaps=gaps)

    monkeypatch.setattr(recovery, "scan", scan)

    async def read(broker: Broker, _: Connection) -> None:
        assert broker.topics.partition("kept", 0).log.end_offset == 3
        assert bool(scanned) == killed

    with_broker(write, data=data)
    assert (data / CLEAN_SHUTDOWN).exists()
    assert read_offsets(data / REPLICATION) == read_offsets(data / RECOVERY_POINT) == {KEPT: 3}
    with_broker(read, data=tmp_path / "killed" if killed else data)


def test_records_that_a_disk_lost_are_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def write(broker: Broker, _: Connection) -> None:
        broker.create_topic("kept")
        append(broker, count=3)
        append(broker, count=2)

    async def read(broker: Broker, _: Connection) -> None:
        assert broker.topics.partition("kept", 0).log.end_offset == 3

    with_broker(write, data=tmp_path)
    path = tmp_path / "kept-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    with_broker(read, data=tmp_path)
    assert "kept-0 ends at offset 3 but had been acknowledged up to 5" in caplog.text


def test_checkpoints_are_written_while_the_broker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(broker: Broker, _: Connection) -> None:
        broker.create_topic("kept")
        append(broker, count=3)
        broker.topics.partition("kept", 0).log.roll()
        saved = asyncio.Event()
        original = broker.storage.checkpoint_recovery

        def checkpoint(logs: Any) -> None:
            original(logs)
            saved.set()

        monkeypatch.setattr(broker.storage, "checkpoint_recovery", checkpoint)
        await asyncio.wait_for(saved.wait(), 10)
        assert read_offsets(tmp_path / RECOVERY_POINT) == {KEPT: 3}
        assert read_offsets(tmp_path / REPLICATION) == {KEPT: 3}

    often = {
        "log.flush.offset.checkpoint.interval.ms": "200",
        "replica.high.watermark.checkpoint.interval.ms": "20",
    }
    with_broker(check, data=tmp_path, config=often)


@pytest.mark.parametrize("by_topic", [True, False], ids=["the topic's", "the broker's"])
def test_records_wait_for_the_disk_no_longer_than_the_setting_says(
    tmp_path: Path, by_topic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        loop, synced = asyncio.get_running_loop(), asyncio.Event()

        def sync(paths: Iterable[Path], directory: Path) -> None:
            names = [path for path in paths if path.name == f"{0:020}.log"]
            assert directory.name == "kept-0", "the other topic leaves it to the operating system"
            sync_files(names, directory)
            if names:
                loop.call_soon_threadsafe(synced.set)

        monkeypatch.setattr(upkeep, "sync_files", sync)
        topic = broker.create_topic("kept")
        append(broker)
        broker.create_topic("other", configs={"flush.ms": str(FOREVER)})
        append(broker, "other")
        if by_topic:
            broker.topics.configure(topic, {"flush.ms": "30"})
        await asyncio.wait_for(synced.wait(), 10)
        asked = [{"resource_type": 2, "resource_name": "kept", "configuration_keys": ["flush.ms"]}]
        answer = await connection.call(build(DescribeConfigsRequest, resources=asked), soon(5), version=4)
        (entry,) = answer.results[0].configs
        assert (entry.value, entry.config_source) == ("30", 1 if by_topic else 4)

    with_broker(check, data=tmp_path, config={} if by_topic else {"log.flush.interval.ms": "30"})


@pytest.mark.parametrize(
    ("fsync", "more", "expected"),
    [
        ("always", [], {"log.flush.interval.messages": "1"}),
        ("interval", [], {"log.flush.interval.ms": "1000"}),
        ("never", [], {}),
        ("interval", ["--config", "log.flush.interval.ms=5"], {"log.flush.interval.ms": "5"}),
    ],
)
def test_the_command_line_chooses_when_the_disk_is_waited_for(
    fsync: str, more: list[str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    async def serve(broker: Broker, *_: object, **__: object) -> None:
        given.update(broker.settings.given)

    monkeypatch.setattr(command, "_serve", serve)
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with pytest.raises(KeyboardInterrupt):  # how it ends, by Ctrl-C
        command.run(parser.parse_args(["--fsync", fsync, *more]))
    assert given == expected


def test_upkeep_goes_on_when_a_disk_has_refused_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(broker: Broker, _: Connection) -> None:
        asked = asyncio.Queue[None]()

        def refuse(_: Any) -> None:
            asked.put_nowait(None)
            raise KafkaStorageError("no space")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker.storage, "checkpoint_marks", refuse)
            for _round in range(3):
                await asyncio.wait_for(asked.get(), 10)

    with_broker(check, data=tmp_path, config={"replica.high.watermark.checkpoint.interval.ms": "20"})
    assert caplog.text.count("no space") == 1


def test_a_crash_while_topics_are_made_or_deleted_leaves_a_broker_that_starts(tmp_path: Path) -> None:
    async def write(broker: Broker, _: Connection) -> None:
        for name in ("kept", "made", "deleted"):
            broker.create_topic(name, 2)
            append(broker, name, 3)
        broker.topics.partition("deleted", 0).log.delete_before(2)
        shutil.copytree(tmp_path / "data", tmp_path / "killed")

    with_broker(write, data=tmp_path / "data")
    killed = tmp_path / "killed"
    # In the list of topics and not yet on the disk; on the disk and no longer in the list; neither, nor ours.
    shutil.rmtree(killed / "made-0")
    # The topic that was made last is the last line of the journal.
    lines = (killed / JOURNAL).read_bytes().splitlines(keepends=True)
    assert b'"deleted"' in lines[-1]
    (killed / JOURNAL).write_bytes(b"".join(lines[:-1]))
    (killed / f"{NAME}.tmp").write_text("[")
    (killed / "later-0").mkdir()
    (killed / "not-ours-0").mkdir()
    (killed / "not-ours-0" / "letter").write_text("dear")

    async def read(broker: Broker, _: Connection) -> None:
        assert set(broker.topics.by_name) == {"kept", "made"}
        ends = {name: broker.topics.partition(name, 0).log.end_offset for name in ("kept", "made")}
        assert ends == {"kept": 3, "made": 0}
        assert not (killed / "deleted-0").exists()
        assert len(list(killed.glob("deleted-*-stray"))) == 2
        assert (killed / "not-ours-0" / "letter").exists()
        for name in ("deleted", "later"):
            log = broker.create_topic(name).partitions[0].log
            assert (log.start_offset, log.end_offset) == (0, 0)
            append(broker, name)

    with_broker(read, data=killed)


def test_a_topic_that_cannot_be_is_not_kept(tmp_path: Path) -> None:
    async def check(broker: Broker, _: Connection) -> None:
        with pytest.raises(InvalidConfigError):
            broker.create_topic("wrong", configs={"flush.messages": "0"})

    with_broker(check, data=tmp_path)
    with_broker(check, data=tmp_path)


def test_a_list_of_topics_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('[{"name": "kept"}]')

    async def start() -> None:
        await Broker(data=tmp_path).start()

    with pytest.raises(DataDirectoryError, match=NAME):
        asyncio.run(start())


def test_ids_of_the_cluster_and_of_producers_go_on_after_a_kill(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    async def note(broker: Broker, _: Connection) -> None:
        seen.append((broker.cluster_id, broker.producer_ids.take()))
        if len(seen) == 1:
            shutil.copytree(tmp_path / "data", tmp_path / "killed")

    with_broker(note, data=tmp_path / "data")
    with_broker(note, data=tmp_path / "killed")
    assert seen[0][0] == seen[1][0]
    assert seen[0][1] < seen[1][1]


@pytest.mark.parametrize("text", [b"", b"\xff", b"many"])
def test_a_file_that_holds_no_producer_id_is_named_and_no_id_comes_again(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "kclient-producer-ids").write_bytes(text)
    ids = ProducerIds(tmp_path, sync=False)
    with pytest.raises(KafkaStorageError, match="kclient-producer-ids holds no producer id"):
        ids.take()
    assert (tmp_path / "kclient-producer-ids").read_bytes() == text
