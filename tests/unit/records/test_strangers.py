"""Bytes of other clients are read here, and bytes made here are read by them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.record import legacy_records as aio_legacy
from aiokafka.record._crecords import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record._crecords import LegacyRecordBatchBuilder as AioLegacyBuilder
from aiokafka.record._crecords import MemoryRecords as AioRecords
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as AioPythonBuilder
from aiokafka.record.memory_records import _MemoryRecordsPy as AioPythonRecords

from kclient.records import Codec, ControlType, Stamp, encode_batch, marker, read_batches
from kclient.records.pieces import RecordTuple
from tests.unit.records.building import NOW, mixed, plain, tupled, uniform, varied

with warnings.catch_warnings():
    # kafka-python reads its definitions with a function of the standard library that is deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonLegacyBuilder
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

# kafka-python reads lz4, snappy and zstd with packages of their own, which are not installed here.
KAFKA_PYTHON_CODECS = (Codec.NONE, Codec.GZIP)
MODERN = [
    pytest.param(peer, codec, id=f"{name}-{codec.name.lower()}")
    for name, peer, codecs in (
        ("aiokafka", (AioBuilder, AioRecords), tuple(Codec)),
        ("aiokafka without extensions", (AioPythonBuilder, AioPythonRecords), tuple(Codec)),
        ("kafka-python", (KafkaPythonBuilder, KafkaPythonRecords), KAFKA_PYTHON_CODECS),
    )
    for codec in codecs
]
shapes = pytest.mark.parametrize("make", [uniform, varied, mixed])


def _read_by(reader: Any, data: bytes) -> list[tuple[Any, ...]]:
    batches = reader(data)
    records = []
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        records += [
            (record.offset, record.key, record.value, record.timestamp, tuple(record.headers))
            for record in batch
        ]
    return records


@pytest.mark.parametrize(("peer", "codec"), MODERN)
@shapes
@pytest.mark.parametrize("count", [1, 30, 300])
def test_batches_of_others_are_read(
    peer: tuple[Any, Any], codec: Codec, make: Callable[[int], list[RecordTuple]], count: int
) -> None:
    builder = peer[0](
        magic=2,
        compression_type=int(codec),
        is_transactional=True,
        producer_id=11,
        producer_epoch=2,
        base_sequence=3,
        batch_size=1 << 30,
    )
    for offset, (key, value, timestamp, headers) in enumerate(make(count)):
        builder.append(offset, timestamp=timestamp, key=key, value=value, headers=list(headers))
    data = bytes(builder.build())
    assert plain(data) == tupled(make(count))
    (found,) = read_batches(data)
    assert found.is_transactional
    assert found.last_offset == count - 1


@pytest.mark.parametrize(("peer", "codec"), MODERN)
@shapes
@pytest.mark.parametrize("count", [1, 30, 300])
def test_batches_are_read_by_others(
    peer: tuple[Any, Any], codec: Codec, make: Callable[[int], list[RecordTuple]], count: int
) -> None:
    data = encode_batch(make(count), stamp=Stamp(base_offset=500, producer_id=7), codec=codec)
    expected = [(500 + place, *record) for place, record in enumerate(tupled(make(count)))]
    assert [(offset, key, value, time, headers) for offset, key, value, time, headers in expected] == [
        (offset, key, value, time, headers) for offset, key, value, time, headers in _read_by(peer[1], data)
    ]


@shapes
def test_uncompressed_batches_are_those_of_others_byte_for_byte(
    make: Callable[[int], list[RecordTuple]],
) -> None:
    for builder_type in (AioBuilder, KafkaPythonBuilder):
        builder = builder_type(2, 0, False, -1, -1, -1, 1 << 30)
        for offset, (key, value, timestamp, headers) in enumerate(make(300)):
            builder.append(offset, timestamp=timestamp, key=key, value=value, headers=list(headers))
        theirs = bytes(builder.build())
        # They leave the leader epoch at 0, which is the broker's to set; it is not under the checksum.
        assert encode_batch(make(300), stamp=Stamp(leader_epoch=0)) == theirs[:12] + bytes(4) + theirs[16:]


LEGACY = [
    pytest.param(builder, magic, codec, id=f"{name}-{magic}-{codec.name.lower()}")
    for name, builder, codecs in (
        ("aiokafka", AioLegacyBuilder, (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)),
        (
            "aiokafka without extensions",
            aio_legacy._LegacyRecordBatchBuilderPy,
            (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4),
        ),
        ("kafka-python", KafkaPythonLegacyBuilder, KAFKA_PYTHON_CODECS),
    )
    for magic in (0, 1)
    for codec in codecs
    # They refuse lz4 for magic 0, whose header checksum they do not know how to write.
    if not (codec is Codec.LZ4 and magic == 0)
]


@pytest.mark.parametrize(("builder_type", "magic", "codec"), LEGACY)
def test_message_sets_of_others_are_read(builder_type: Any, magic: int, codec: Codec) -> None:
    builder = builder_type(magic, int(codec), 1 << 20)
    expected = []
    for offset, (key, value, timestamp, _) in enumerate(mixed(40)):
        builder.append(offset, timestamp=timestamp if magic else None, key=key, value=value)
        expected.append((offset, key, value, timestamp if magic else -1))
    found = [
        (record.offset, record.key, record.value, record.timestamp)
        for batch in read_batches(bytes(builder.build()))
        for record in batch.records("t", 0)
    ]
    assert found == expected


def test_control_batches_are_known_to_others() -> None:
    key, value = marker(ControlType.ABORT, 1)
    data = encode_batch([(key, value, NOW, ())], stamp=Stamp(control=True, transactional=True, producer_id=1))
    batch = AioRecords(data).next_batch()
    assert batch.is_control_batch
    assert batch.is_transactional
    assert ControlRecord.parse(next(batch).key) == ABORT_MARKER
