"""The small files around logs, and topic configuration: in Kafka's words, and refused when they are not."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kclient.broker.log import checkpoints
from kclient.broker.log.config import LogConfig
from kclient.errors import InvalidConfigError, KafkaStorageError
from kclient.types import TopicPartition

TOPIC_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def test_offsets_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.REPLICATION
    assert checkpoints.read_offsets(path) == {}
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a-b", 0): 1 << 40}
    checkpoints.write_offsets(path, offsets, sync=True)
    assert path.read_text() == "0\n2\na-b 0 1099511627776\nb 1 7\n"
    assert checkpoints.read_offsets(path) == offsets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1\n0\n",
        "0\n2\na 0 1\n",
        "0\n1\na 0\n",
        "0\n1\na zero 1\n",
        "0\n1\na 0 --1\n",
        "0\n1\na 0 ²\n",
        f"0\n1\na 0 {'9' * 5000}\n",
        b"0\n1\n\xff 0 1\n",
    ],
)
def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / checkpoints.CLEANER
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(KafkaStorageError, match="cleaner-offset-checkpoint is not a checkpoint"):
        checkpoints.read_offsets(path)


@pytest.mark.parametrize("name", ["topic", "-1", "topic-x"])
def test_a_directory_that_names_no_partition_is_refused(name: str) -> None:
    with pytest.raises(KafkaStorageError, match="topic-0"):
        checkpoints.partition_of(Path(name))


def test_the_topic_of_a_partition_is_kept_as_kafka_keeps_it(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    assert checkpoints.read_partition_metadata(directory) is None
    checkpoints.write_partition_metadata(directory, TOPIC_ID)
    assert (directory / "partition.metadata").read_text() == "version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"
    assert checkpoints.read_partition_metadata(directory) == TOPIC_ID
    for broken in (b"version: 0\n", b"version: 0\ntopic_id: short\n", b"version: 0\ntopic_id: \xff\n"):
        (directory / "partition.metadata").write_bytes(broken)
        with pytest.raises(KafkaStorageError, match="names no topic id"):
            checkpoints.read_partition_metadata(directory)


def test_meta_properties_say_whose_directory_it_is(tmp_path: Path) -> None:
    assert checkpoints.read_meta_properties(tmp_path) == {}
    checkpoints.write_meta_properties(tmp_path, cluster_id="abc", node_id=3, directory_id=TOPIC_ID)
    assert checkpoints.read_meta_properties(tmp_path) == {
        "cluster.id": "abc",
        "directory.id": "EjRWeBI0VngSNFZ4EjRWeA",
        "node.id": "3",
        "version": "1",
    }
    (tmp_path / checkpoints.META_PROPERTIES).write_bytes(b"cluster.id=\xff\n")
    with pytest.raises(KafkaStorageError, match=r"meta\.properties is not text"):
        checkpoints.read_meta_properties(tmp_path)


def test_an_orderly_end_is_noted_once(tmp_path: Path) -> None:
    assert not checkpoints.take_clean_shutdown(tmp_path)
    checkpoints.mark_clean_shutdown(tmp_path)
    assert checkpoints.take_clean_shutdown(tmp_path)
    assert not checkpoints.take_clean_shutdown(tmp_path)


def test_a_topics_configuration_is_read_in_kafkas_words() -> None:
    config = LogConfig.from_topic_config(
        {
            "cleanup.policy": "compact, delete",
            "retention.bytes": "-1",
            "message.timestamp.type": "LogAppendTime",
            "min.cleanable.dirty.ratio": "0.1",
            "compression.type": "zstd",
            "min.insync.replicas": "2",
            "flush.ms": "1000",
        }
    )
    assert (config.compacted, config.deletes, config.stamps, config.syncs) == (True, True, True, True)
    assert config.min_cleanable_dirty_ratio == 0.1
    assert LogConfig.from_topic_config({}) == LogConfig()
    assert not LogConfig.from_topic_config({"cleanup.policy": ""}).deletes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "soon"),
        ("segment.bytes", "1"),
        ("cleanup.policy", "burn"),
        ("compression.type", "rar"),
        ("min.cleanable.dirty.ratio", "1.5"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_name(name: str, value: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"Invalid value {value} for configuration {name}"):
        LogConfig.from_topic_config({name: value})
