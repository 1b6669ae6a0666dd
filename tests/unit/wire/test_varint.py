"""Unsigned variable-length integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import ProtocolError
from kclient.wire.varint import decode_uvarint, encode_uvarint

# From Kafka's ByteUtilsTest.
KNOWN = [
    (0, "00"),
    (1, "01"),
    (63, "3f"),
    (64, "40"),
    (127, "7f"),
    (128, "80 01"),
    (8191, "ff 3f"),
    (8192, "80 40"),
    (16383, "ff 7f"),
    (16384, "80 80 01"),
    (2097151, "ff ff 7f"),
    (2097152, "80 80 80 01"),
    (268435455, "ff ff ff 7f"),
    (268435456, "80 80 80 80 01"),
    (2**31 - 1, "ff ff ff ff 07"),
    (2**32 - 1, "ff ff ff ff 0f"),
]


@pytest.mark.parametrize(("value", "encoded"), KNOWN)
def test_known_values_have_kafkas_bytes(value: int, encoded: str) -> None:
    assert encode_uvarint(value) == bytes.fromhex(encoded)
    assert decode_uvarint(bytes.fromhex(encoded), 0) == (value, len(bytes.fromhex(encoded)))


@given(st.integers(0, 2**32 - 1), st.binary(max_size=4), st.binary(max_size=4))
def test_any_value_is_read_from_its_position_to_its_end(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_uvarint(value)
    data = before + encoded + after
    assert decode_uvarint(data, len(before)) == (value, len(before) + len(encoded))
    assert decode_uvarint(memoryview(data), len(before)) == (value, len(before) + len(encoded))


@pytest.mark.parametrize("data", ["ff ff ff ff 10", "80 80 80 80 80 00", "ff ff ff ff ff ff 01"])
def test_more_than_32_bits_are_a_protocol_error_that_names_the_place(data: str) -> None:
    with pytest.raises(ProtocolError, match="at byte 2 does not fit 32 bits"):
        decode_uvarint(b"\0\0" + bytes.fromhex(data), 2)


@pytest.mark.parametrize("data", ["", "80", "ff ff ff ff"])
def test_data_that_ends_inside_is_an_index_error_for_the_caller_to_translate(data: str) -> None:
    with pytest.raises(IndexError):
        decode_uvarint(bytes.fromhex(data), 0)
