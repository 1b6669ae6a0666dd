"""Header fields of batches that are already encoded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kclient.errors import EncodeError
from kclient.records import (
    Codec,
    ModernBatch,
    Stamp,
    encode_batch,
    with_append_time,
    with_place,
    with_producer,
)
from kclient.types import TimestampType
from tests.unit.records.building import NOW, mixed, read_one

STAMP = Stamp(base_offset=3, leader_epoch=1, producer_id=5, producer_epoch=6, base_sequence=7)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_another_place_is_the_batch_encoded_there(codec: Codec) -> None:
    data = encode_batch(mixed(30), stamp=STAMP, codec=codec)
    expected = encode_batch(mixed(30), stamp=STAMP._replace(base_offset=1 << 40, leader_epoch=9), codec=codec)
    assert with_place(data, 1 << 40, 9) == expected


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_another_producer_is_the_batch_encoded_by_it(codec: Codec) -> None:
    data = encode_batch(mixed(30), stamp=STAMP, codec=codec)
    stamp = STAMP._replace(producer_id=1 << 50, producer_epoch=32767, base_sequence=(1 << 31) - 1)
    assert with_producer(data, 1 << 50, 32767, (1 << 31) - 1) == encode_batch(
        mixed(30), stamp=stamp, codec=codec
    )
    found = read_one(with_producer(data, 8, 9, 10))
    assert isinstance(found, ModernBatch)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (8, 9, 10)


def test_append_time_replaces_all_timestamps() -> None:
    found = read_one(with_append_time(encode_batch(mixed(30), codec=Codec.GZIP), NOW + 99))
    assert found.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert found.codec is Codec.GZIP
    assert {record.timestamp for record in found.records("t", 0)} == {NOW + 99}


def test_restamping_leaves_the_batch_it_was_given_alone() -> None:
    data = encode_batch(mixed(3))
    before = bytes(bytearray(data))
    with_place(data, 5, 5)
    with_producer(data, 5, 5, 5)
    with_append_time(data, 5)
    assert data == before


@pytest.mark.parametrize(
    "restamp",
    [
        lambda data: with_place(data, 1 << 63, 0),
        lambda data: with_producer(data, 0, 1 << 15, 0),
        lambda data: with_append_time(data, 1 << 63),
        lambda data: with_place(data[:60], 0, 0),
    ],
)
def test_fields_that_do_not_fit_are_encode_errors(restamp: Callable[[bytes], bytes]) -> None:
    with pytest.raises(EncodeError):
        restamp(encode_batch(mixed(3)))
