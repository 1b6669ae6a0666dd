"""What a log takes, what it refuses and with which error, and what it makes of the headers."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from kclient.broker.log import partition_log
from kclient.broker.log.partition_log import Appended, Origin, PartitionLog
from kclient.broker.log.validate import RecordsRefusedError, TimestampsRefusedError
from kclient.errors import (
    BrokerError,
    CorruptMessageError,
    InvalidRecordError,
    KafkaStorageError,
    MessageTooLargeError,
    RecordListTooLargeError,
    UnknownServerError,
)
from kclient.records import Codec, ControlType, Stamp, encode_batch, marker, read_batches
from kclient.records.crc import crc32c
from tests.unit.broker.log.building import NOW, SetClock, batch, batches, contents, keyed, open_log

HOUR = 3_600_000


def patched(data: bytes, form: str, at: int, value: int) -> bytes:
    """`data` with one header field changed and the checksum put right."""
    out = bytearray(data)
    struct.pack_into(form, out, at, value)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


@pytest.fixture(params=["memory", "files"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> PartitionLog:
    return open_log(None if request.param == "memory" else tmp_path / "topic-0")


def test_batches_get_consecutive_offsets_and_the_leaders_epoch(log: PartitionLog) -> None:
    assert log.append(batch(b"a", b"b"), leader_epoch=3) == Appended(0, 1, -1, 0, False)
    assert log.append(memoryview(batch(b"c")), leader_epoch=4) == Appended(2, 2, -1, 0, False)
    assert contents(log) == [(0, b"key", b"a"), (1, b"key", b"b"), (2, b"key", b"c")]
    assert [one.leader_epoch for one in batches(log)] == [3, 4]
    assert (log.start_offset, log.end_offset) == (0, 3)


def test_stored_bytes_differ_from_sent_ones_only_in_offset_and_epoch(log: PartitionLog) -> None:
    log.append(batch(), leader_epoch=0)
    sent = batch(b"x", b"y", codec=Codec.ZSTD)
    log.append(sent, leader_epoch=7)
    stored = bytes(log.read(1, 1))
    assert stored[:8] == (1).to_bytes(8, "big")
    assert stored[12:16] == (7).to_bytes(4, "big")
    assert (stored[8:12], stored[16:]) == (sent[8:12], sent[16:])


GOOD = batch(b"one", b"two")
LEGACY = struct.pack(">qiIbbqii", 0, 22, 0, 1, 0, NOW, -1, -1)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"", InvalidRecordError),
        (GOOD[:-1], InvalidRecordError),
        (GOOD + GOOD, InvalidRecordError),
        (LEGACY, InvalidRecordError),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), CorruptMessageError),
        (patched(GOOD, ">b", 16, 3), CorruptMessageError),
        (patched(GOOD, ">i", 8, 13), CorruptMessageError),
        (patched(GOOD, ">i", 8, 40)[:52], CorruptMessageError),
        (patched(GOOD, ">q", 0, 5), InvalidRecordError),
        (patched(GOOD, ">i", 23, -1), InvalidRecordError),
        (patched(GOOD, ">i", 23, 2), InvalidRecordError),
        (patched(GOOD, ">i", 57, 0), InvalidRecordError),
        (patched(GOOD, ">i", 57, 3), InvalidRecordError),
        (patched(GOOD, ">h", 21, 0x20), InvalidRecordError),
        (patched(GOOD, ">h", 21, 0x08), TimestampsRefusedError),
        (patched(GOOD, ">h", 21, 5), UnknownServerError),
        (patched(GOOD, ">q", 43, 9), InvalidRecordError),
    ],
    ids=[
        "empty", "torn", "two batches", "magic 1", "checksum", "magic 3", "length", "shorter than a header",
        "base offset", "negative delta", "delta", "no records", "count", "control", "append time", "codec",
        "producer without sequence",
    ],
)  # fmt: skip
def test_what_kafka_refuses_is_refused_with_its_error(payload: bytes, error: type[BrokerError]) -> None:
    log = open_log()
    with pytest.raises(error):
        log.append(payload, leader_epoch=0)
    assert log.end_offset == 0
    assert log.append(GOOD, leader_epoch=0).base_offset == 0


def test_a_torn_batch_behind_a_whole_one_is_left_out() -> None:
    log = open_log()
    log.append(GOOD + GOOD[:30], leader_epoch=0)
    assert log.size == len(GOOD)


def test_a_coordinator_may_write_markers_and_several_batches() -> None:
    log = open_log()
    key, value = marker(ControlType.COMMIT, 4)
    stamp = Stamp(producer_id=7, producer_epoch=0, control=True, transactional=True)
    control = encode_batch([(key, value, NOW, ())], stamp=stamp)
    appended = log.append(batch(b"a", b"b") + control, leader_epoch=0, origin=Origin.COORDINATOR)
    assert (appended.base_offset, appended.last_offset) == (0, 2)
    (producer,) = log.active_producers()
    assert (producer.producer_id, producer.coordinator_epoch, producer.last_sequence) == (7, 4, -1)


def test_a_batch_larger_than_the_topic_allows_is_refused() -> None:
    size = len(GOOD)
    open_log(max_message_bytes=size).append(GOOD, leader_epoch=0)
    with pytest.raises(MessageTooLargeError, match=str(size)):
        open_log(max_message_bytes=size - 1).append(GOOD, leader_epoch=0)


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    with pytest.raises(RecordListTooLargeError, match="segment size"):
        open_log(segment_bytes=len(GOOD) - 1).append(GOOD, leader_epoch=0)


@pytest.mark.parametrize("count", [3, 100])
def test_a_compacted_topic_needs_keys(count: int) -> None:
    log = open_log(cleanup_policy=frozenset({"compact"}))
    records: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v")] * count
    records[1] = (None, b"v")
    with pytest.raises(RecordsRefusedError) as caught:
        log.append(keyed(records), leader_epoch=0)
    assert [index for index, _ in caught.value.record_errors] == [1]
    assert caught.value.code == 87
    assert log.append(keyed([(b"k", None)]), leader_epoch=0).base_offset == 0


@pytest.mark.parametrize(
    ("limits", "time", "fine"),
    [
        ({}, NOW + HOUR, True),
        ({}, NOW + HOUR + 1, False),
        ({}, 0, True),
        ({}, -1, True),
        ({"message_timestamp_after_max_ms": 5}, NOW + 6, False),
        ({"message_timestamp_before_max_ms": 5}, NOW - 5, True),
        ({"message_timestamp_before_max_ms": 5}, NOW - 6, False),
        ({"message_timestamp_before_max_ms": 5}, -1, True),
        ({"message_timestamp_before_max_ms": 5, "message_timestamp_type": "LogAppendTime"}, 0, True),
    ],
)
def test_timestamps_must_be_near_enough_to_the_clock(limits: dict[str, Any], time: int, fine: bool) -> None:
    log = open_log(**limits)
    if fine:
        log.append(batch(time=time), leader_epoch=0)
    else:
        with pytest.raises(TimestampsRefusedError) as caught:
            log.append(batch(b"a", b"b", time=time), leader_epoch=0)
        assert [index for index, _ in caught.value.record_errors] == [0, 1]
        assert caught.value.code == 32


def test_the_broker_stamps_records_where_the_topic_says_so() -> None:
    clock = SetClock()
    log = open_log(clock=clock, message_timestamp_type="LogAppendTime")
    clock.now_ms += 77
    assert log.append(batch(time=5), leader_epoch=0).append_time_ms == NOW + 77
    (stored,) = read_batches(log.read(0, 1))
    assert stored.records("topic", 0)[0].timestamp == NOW + 77


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed", "producer"])
def test_the_topics_compression_replaces_the_producers(codec: Codec, wanted: str) -> None:
    log = open_log(compression_type=wanted)
    log.append(batch(b"a" * 500, b"b" * 500, codec=codec), leader_epoch=0)
    (stored,) = read_batches(log.read(0, 1))
    expected = {"producer": codec, "uncompressed": Codec.NONE}.get(wanted)
    assert stored.codec is (expected if expected is not None else Codec[wanted.upper()])
    assert contents(log) == [(0, b"key", b"a" * 500), (1, b"key", b"b" * 500)]


def test_a_batch_that_grows_by_the_topics_compression_is_measured_again() -> None:
    packed = batch(b"a" * 500, codec=Codec.ZSTD)
    with pytest.raises(MessageTooLargeError, match="compression"):
        open_log(compression_type="uncompressed", max_message_bytes=len(packed)).append(
            packed, leader_epoch=0
        )


def test_a_full_disk_is_a_storage_error_and_leaves_the_log_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "topic-0")
    log.append(GOOD, leader_epoch=0)
    real = __import__("os").pwrite

    def full(descriptor: int, data: memoryview, position: int) -> int:
        real(descriptor, data[:10], position)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(KafkaStorageError, match="No space left"):
        log.append(GOOD, leader_epoch=0)
    monkeypatch.undo()
    assert log.end_offset == 2
    assert (tmp_path / "topic-0" / f"{0:020}.log").stat().st_size == len(GOOD)
    assert log.append(GOOD, leader_epoch=0).base_offset == 2
    log.close()
    assert len(contents(open_log(tmp_path / "topic-0"))) == 4


@pytest.mark.parametrize(
    ("config", "waits"),
    [({"flush_messages": 1}, 3), ({"flush_messages": 4}, 1), ({"flush_ms": 10}, 0), ({}, 0)],
)
def test_the_fsync_policy_decides_when_the_disk_is_waited_for(
    config: dict[str, Any], waits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[set[str]] = []
    monkeypatch.setattr(
        partition_log, "sync_files", lambda paths, _: synced.append({path.name for path in paths})
    )
    log = open_log(tmp_path / "topic-0", **config)
    for _ in range(3):
        log.append(GOOD, leader_epoch=0)
    assert len(synced) == waits
    assert log.recovery_point == {3: 6, 1: 4, 0: 0}[waits]
    assert (log.unsynced_since is None) == (waits == 3)
    log.roll()
    log.append(GOOD, leader_epoch=0)
    log.close()
    assert {f"{6:020}.log", "leader-epoch-checkpoint"} <= synced[-1], "an orderly end syncs what is left"
    assert (f"{0:020}.log" in synced[-1]) == (waits < 3)
    assert (log.recovery_point, log.unsynced_since) == (8, None)


def test_syncing_reaches_files_and_their_directory_and_passes_over_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr("os.fsync", seen.append)
    log = open_log(tmp_path / "topic-0")
    log.append(GOOD, leader_epoch=0)
    log.flush()
    assert len(seen) == 3, "the segment, the epochs, and their names in the directory"
    shutil.rmtree(tmp_path / "topic-0")
    log.flush()
    assert len(seen) == 3
