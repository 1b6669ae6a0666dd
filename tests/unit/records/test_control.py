"""Transaction markers and the other control records."""

from __future__ import annotations

import pytest

from kclient.errors import CorruptBatchError
from kclient.records import ControlType, Stamp, encode_batch, marker, parse_control
from tests.unit.records.building import NOW, read_one


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_markers_survive_a_round_trip_through_a_control_batch(kind: ControlType) -> None:
    key, value = marker(kind, 17)
    stamp = Stamp(control=True, transactional=True, producer_id=4)
    found = read_one(encode_batch([(key, value, NOW, ())], stamp=stamp))
    assert found.is_control
    assert found.is_transactional
    (record,) = found.records("t", 0)
    assert parse_control(record.key, record.value) == (0, kind, 17)


def test_ordinary_batches_are_neither_control_nor_transactional() -> None:
    found = read_one(encode_batch([(b"k", b"v", NOW, ())]))
    assert not found.is_control
    assert not found.is_transactional


def test_kraft_records_have_a_type_and_no_coordinator() -> None:
    assert parse_control(b"\0\0\0\2", b"anything") == (0, ControlType.LEADER_CHANGE, -1)


def test_control_types_of_the_future_are_numbers() -> None:
    assert parse_control(b"\0\1\0\x63", None) == (1, 99, -1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\0", b"\0\0\0"),
    ],
)
def test_control_records_that_are_cut_short_are_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        parse_control(key, value)
