"""The codecs that declarations compile to: kinds of fields, nulls, tags, and fields that versions lack."""

# ruff: noqa: RUF012  # `= []` declares a default; the metaclass hands out fresh copies

from __future__ import annotations

import traceback
from typing import Annotated, Any
from uuid import UUID

import pytest

from kclient.errors import EncodeError, ProtocolError
from kclient.wire.compiler import minimum_size
from kclient.wire.message import Data
from kclient.wire.schema import (
    DEFAULT,
    NO_UUID,
    NOT_COMPACT,
    Array,
    Bool,
    Bytes,
    Element,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Kind,
    NullableArray,
    NullableBytes,
    NullableString,
    NullableStruct,
    Records,
    String,
    Struct,
    Tag,
    UInt16,
    UInt32,
    Uuid,
    V,
)

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


class Pair(Struct):
    left: Int16 = 0
    right: String = ""


class Kinds(Data, versions="0-1", flexible="1+"):
    """Every kind of field; version 1 is flexible."""

    a_bool: Bool = False
    an_int8: Int8 = 0
    an_int16: Int16 = 0
    a_uint16: UInt16 = 0
    an_int32: Int32 = 0
    a_uint32: UInt32 = 0
    an_int64: Int64 = 0
    a_float64: Float64 = 0.0
    a_uuid: Uuid = NO_UUID
    a_string: String = ""
    some_bytes: Bytes = b""
    records: Records = None
    integers: Array[Int32] = []
    strings: Array[String] = []
    uuids: Array[Uuid] = []
    structs: Array[Pair] = []
    a_struct: Pair = DEFAULT


class Nulls(Data, versions="0-1", flexible="1+"):
    text: NullableString = None
    blob: NullableBytes = None
    records: Records = None
    array: NullableArray[Int8] = None
    struct: NullableStruct[Pair] = None


class Optional(Struct):
    pair: NullableStruct[Pair] = None


class Optionals(Data, versions="0-1", flexible="1+"):
    items: Array[Optional] = []


class LateNull(Data, versions="0-3", flexible="2+"):
    text: Annotated[NullableString, V(nullable="1+")] = ""


class Deep(Struct):
    plain: Int8 = 0
    extra: Annotated[Int16, V("1+"), Tag(3)] = -1


class Tagged(Data, versions="0-1", flexible="1+"):
    """In version 0 nothing is tagged: the fields that exist there come in line."""

    first: Int8 = 0
    number: Annotated[Int32, Tag(0)] = 5
    text: Annotated[NullableString, V("1+"), Tag(1)] = None
    items: Annotated[Array[Deep], V("1+"), Tag(2)] = []
    deep: Annotated[Deep, V("1+"), Tag(10)] = DEFAULT


class Old(Data, versions="0-1", flexible="0+"):
    text: Annotated[String, NOT_COMPACT] = ""
    other: String = ""


class Growing(Data, versions="0-9", flexible="none"):
    class Entry(Struct):
        name: String = ""
        weight: Annotated[Int32, V("2+")] = -1

    kept: Int8 = 0
    needed: Annotated[Int32, V("2+")] = -1
    flag: Annotated[Bool, V("2+")] = True
    dropped: Annotated[String, V("2+", ignorable=True)] = ""
    ended: Annotated[NullableString, V("0-4")] = ""
    array: Annotated[Array[Int8], V("2+")] = []
    pair: Annotated[Pair, V("2+")] = DEFAULT
    entries: Array[Entry] = []


def hexed(data: str) -> bytes:
    return bytes.fromhex(data)


KINDS: list[tuple[str, Any, str, str]] = [
    ("a_bool", True, "01", "01"),
    ("an_int8", -2, "fe", "fe"),
    ("an_int16", -2, "fffe", "fffe"),
    ("a_uint16", 0xFFFE, "fffe", "fffe"),
    ("an_int32", -2, "fffffffe", "fffffffe"),
    ("a_uint32", 0xFFFFFFFE, "fffffffe", "fffffffe"),
    ("an_int64", -2, "fffffffffffffffe", "fffffffffffffffe"),
    ("a_float64", -1.5, "bff8000000000000", "bff8000000000000"),
    ("a_uuid", ID, "00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeeff"),
    ("a_string", "é", "0002 c3a9", "03 c3a9"),
    ("some_bytes", b"ab", "00000002 6162", "03 6162"),
    ("records", b"ab", "00000002 6162", "03 6162"),
    ("integers", [1, -1], "00000002 00000001 ffffffff", "03 00000001 ffffffff"),
    ("strings", ["a", ""], "00000002 0001 61 0000", "03 02 61 01"),
    ("uuids", [ID], "00000001 00112233445566778899aabbccddeeff", "02 00112233445566778899aabbccddeeff"),
    ("structs", [Pair(left=1)], "00000001 0001 0000", "02 0001 01 00"),
    ("a_struct", Pair(left=1, right="b"), "0001 0001 62", "0001 02 62 00"),
]


# The layouts of the same fields at their defaults, in order.
FIXED_ZEROES = ["00", "00", "0000", "0000", "00" * 4, "00" * 4, "00" * 8, "00" * 8, "00" * 16]
EMPTY = {
    0: [*FIXED_ZEROES, "0000", "00" * 4, "ff" * 4, "00" * 4, "00" * 4, "00" * 4, "00" * 4, "0000 0000"],
    1: [*FIXED_ZEROES, "01", "01", "00", "01", "01", "01", "01", "0000 01 00"],
}
NO_TAGS = {0: "", 1: "00"}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("index", range(len(KINDS)), ids=[kind[0] for kind in KINDS])
def test_each_kind_of_field_has_its_layout_at_its_place(index: int, version: int) -> None:
    name, value, *layouts = KINDS[index]
    message = Kinds(**{name: value})
    pieces = [*EMPTY[version][:index], layouts[version], *EMPTY[version][index + 1 :], NO_TAGS[version]]
    assert message.encode(version).hex(" ") == hexed("".join(pieces)).hex(" ")
    assert Kinds.decode(hexed("".join(pieces)), version) == message


def test_strings_and_bytes_around_the_length_of_one_varint_byte_survive() -> None:
    for size in (0, 1, 125, 126, 127, 128, 16382, 16383, 16384, 32767):
        message = Kinds(a_string="x" * size, some_bytes=b"y" * size, integers=[7] * size)
        for version in (0, 1):
            assert Kinds.decode(message.encode(version), version) == message


def test_nulls_are_minus_one_in_plain_versions_and_zero_in_flexible_ones() -> None:
    assert Nulls().encode(0) == hexed("ffff ffffffff ffffffff ffffffff ff")
    assert Nulls().encode(1) == hexed("00 00 00 00 ff 00")
    assert Nulls.decode(Nulls().encode(0), 0) == Nulls()
    assert Nulls.decode(Nulls().encode(1), 1) == Nulls()


def test_what_is_empty_is_not_null() -> None:
    empty = Nulls(text="", blob=b"", records=b"", array=[], struct=Pair())
    for version in (0, 1):
        decoded = Nulls.decode(empty.encode(version), version)
        assert decoded == empty
        assert decoded.array == []


def test_a_struct_is_null_only_when_the_byte_before_it_is_negative() -> None:
    """Kafka writes -1 and 1, and reads every other byte by its sign."""
    assert Optionals.decode(hexed("02 fe 00 00"), 1) == Optionals(items=[Optional()])
    present = Optionals(items=[Optional(pair=Pair(left=7))])
    assert Optionals.decode(hexed("02 00 0007 01 00 00 00"), 1) == present


def test_an_array_of_structs_that_are_mostly_null_fits_in_few_bytes() -> None:
    message = Optionals(items=[Optional()] * 100)
    for version in (0, 1):
        assert Optionals.decode(message.encode(version), version) == message


def test_a_null_is_refused_in_versions_that_do_not_allow_it() -> None:
    assert LateNull.decode(hexed("ffff"), 1) == LateNull(text=None)
    assert LateNull.decode(hexed("00 00"), 2) == LateNull(text=None)
    with pytest.raises(ProtocolError, match="LateNull v0: text is null, which this version does not allow"):
        LateNull.decode(hexed("ffff"), 0)
    with pytest.raises(ProtocolError, match="a_string is null"):
        Kinds.decode(bytes(47), 1)


@pytest.mark.parametrize("length", ["ffff", "fffe", "8000"])
def test_every_negative_length_of_a_nullable_field_is_null_as_in_kafkas_own_reader(length: str) -> None:
    assert LateNull.decode(hexed(length), 1) == LateNull(text=None)


def test_a_field_marked_not_compact_keeps_two_bytes_of_length_in_flexible_versions() -> None:
    assert Old(text="a", other="b").encode(1) == hexed("0001 61  02 62  00")
    assert Old.decode(hexed("0001 61  02 62  00"), 1) == Old(text="a", other="b")


def test_tagged_fields_at_their_default_are_not_written() -> None:
    assert Tagged().encode(1) == hexed("00 00")
    assert Tagged(first=1, number=5, text=None, items=[], deep=Deep()).encode(1) == hexed("01 00")


def test_tagged_fields_are_written_in_the_order_of_their_tags_with_their_sizes() -> None:
    message = Tagged(number=6, text="a", items=[Deep(plain=1)], deep=Deep(plain=2))
    assert message.encode(1) == hexed("00  04  00 04 00000006   01 02 02 61   02 03 02 01 00   0a 02 02 00")
    assert Tagged.decode(message.encode(1), 1) == message


def test_a_tagged_field_is_an_ordinary_field_in_versions_that_are_not_flexible() -> None:
    assert Tagged(first=1, number=6).encode(0) == hexed("01 00000006")
    assert Tagged.decode(hexed("01 00000006"), 0) == Tagged(first=1, number=6)


def test_a_tagged_number_that_is_zero_is_written_where_zero_is_not_the_default() -> None:
    assert Tagged(number=0).encode(1) == hexed("00 01 00 04 00000000")


def test_structs_inside_tagged_fields_have_tagged_fields_of_their_own() -> None:
    message = Tagged(deep=Deep(plain=1, extra=2))
    assert message.encode(1) == hexed("00 01  0a 06  01  01 03 02 0002")
    assert Tagged.decode(message.encode(1), 1) == message


def test_tags_may_arrive_in_any_order() -> None:
    assert Tagged.decode(hexed("00 02  01 02 02 61  00 04 00000006"), 1) == Tagged(number=6, text="a")


def test_unknown_tags_are_skipped_before_between_and_after_known_ones() -> None:
    data = hexed("00 05  63 03 ffffff  00 04 00000006  64 00  01 02 02 61  ffffffff0f 01 ff")
    assert Tagged.decode(data, 1) == Tagged(number=6, text="a")


def test_unknown_tags_are_skipped_in_structs_that_know_none() -> None:
    data = bytes(46) + hexed("01 01 00 01 01 01") + hexed("02 0001 01 01 07 02 ffff") + hexed("0000 01 00")
    assert Kinds.decode(data + hexed("01 08 01 ff"), 1) == Kinds(structs=[Pair(left=1)])


@pytest.mark.parametrize(
    "data",
    [
        "00 01 00 03 000006",  # four bytes are needed, three announced
        "00 01 00 03 00000006",
        "00 01 00 05 0000000600",  # one too many announced
        "00 01 01 03 02 61 00",
        "00 01 01 01 02 61",  # the string reaches beyond its field
        "00 01 02 03 02 01 01",  # the struct's own tags reach beyond its field
        "00 01 0a 02 02",  # the field reaches beyond the message
        "00 01 0a 80808080 08 02 00",
    ],
)
def test_a_known_tag_with_a_size_that_does_not_fit_is_refused(data: str) -> None:
    with pytest.raises(ProtocolError, match="Tagged v1"):
        Tagged.decode(hexed(data), 1)


@pytest.mark.parametrize("tags", ["01 63 03 ffff", "02 63 01 ff", "01 63 ffffffff0f", "ffffffff0f"])
def test_unknown_tags_that_reach_beyond_the_data_are_refused(tags: str) -> None:
    """Also by `decode_from`, which does not look where the message should end."""
    with pytest.raises(ProtocolError):
        Tagged.decode_from(hexed("00" + tags), 0, 1)
    with pytest.raises(ProtocolError):
        Old.decode_from(hexed("0000 01" + tags), 0, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("needed", 7),
        ("needed", 0),
        ("flag", False),
        ("array", [1]),
        ("pair", Pair(left=1)),
    ],
)
def test_a_value_in_a_field_that_the_version_lacks_is_refused_by_name(name: str, value: Any) -> None:
    message = Growing(**{name: value})
    assert Growing.decode(message.encode(2), 2) == message
    with pytest.raises(EncodeError, match=f"Growing v1 has no field '{name}'"):
        message.encode(1)


def test_a_field_that_ended_is_refused_too_and_null_counts_as_a_value() -> None:
    assert Growing(ended="x").encode(4)
    for value in ("x", None):
        with pytest.raises(EncodeError, match="Growing v5 has no field 'ended'"):
            Growing(ended=value).encode(5)


def test_a_nested_value_that_the_version_lacks_is_refused_by_name() -> None:
    message = Growing(entries=[Growing.Entry(name="a"), Growing.Entry(name="b", weight=1)])
    assert Growing.decode(message.encode(2), 2) == message
    with pytest.raises(EncodeError, match="has no field 'weight'"):
        message.encode(1)


def test_an_ignorable_value_that_the_version_lacks_is_dropped() -> None:
    assert Growing(dropped="gone").encode(1) == Growing().encode(1)
    assert Growing.decode(Growing(dropped="gone").encode(1), 1) == Growing()


def test_fields_that_the_version_lacks_are_read_as_their_defaults() -> None:
    decoded = Growing.decode(hexed("01 0000 00000000"), 0)
    assert decoded == Growing(kept=1)
    assert (decoded.needed, decoded.flag, decoded.pair) == (-1, True, Pair())


def test_defaults_that_decoding_fills_in_are_not_shared() -> None:
    one, other = (Growing.decode(hexed("01 0000 00000000"), 0) for _ in range(2))
    one.array.append(1)
    one.pair.left = 1
    assert other.array == []
    assert other.pair == Pair()
    assert Growing.decode(hexed("01 0000 00000000"), 0).pair == Pair()
    first, second = (Tagged.decode(hexed("00 00"), 1) for _ in range(2))
    first.items.append(Deep())
    first.deep.plain = 1
    assert second == Tagged()


def test_records_are_passed_and_received_without_a_copy() -> None:
    records = bytearray(b"r" * 1000)
    pieces: list[Any] = []
    Kinds(records=memoryview(records)).encode_into(pieces.append, 1)
    assert any(isinstance(piece, memoryview) and piece.obj is records for piece in pieces)
    frame = bytearray(b"".join(pieces))
    received = Kinds.decode(memoryview(frame), 1).records
    assert isinstance(received, memoryview)
    assert received.obj is frame


def test_strings_and_bytes_are_copies_that_outlive_the_frame() -> None:
    frame = bytearray(Kinds(a_string="text", some_bytes=b"blob").encode(1))
    decoded = Kinds.decode(memoryview(frame), 1)
    frame[:] = bytes(len(frame))
    assert (decoded.a_string, decoded.some_bytes) == ("text", b"blob")
    assert type(decoded.some_bytes) is bytes


def test_bytes_that_are_not_utf_8_are_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="LateNull v1"):
        LateNull.decode(hexed("0001 ff"), 1)


HUGE_COUNTS = [
    ("strings", 0, "7fffffff"),
    ("strings", 1, "ffffffff0f"),
    ("integers", 0, "7fffffff"),
    ("integers", 1, "ffffffff0f"),
    ("uuids", 1, "8080808008"),
    ("structs", 1, "ffffffff07"),
]


@pytest.mark.parametrize(("name", "version", "count"), HUGE_COUNTS)
def test_a_count_beyond_the_data_is_refused_before_anything_is_read(
    name: str, version: int, count: str
) -> None:
    names = ["integers", "strings", "uuids", "structs"]
    empty = "00000000" if version == 0 else "01"
    start = bytes(46) + (hexed("0000 00000000 ffffffff") if version == 0 else hexed("01 01 00"))
    data = start + hexed(empty) * names.index(name) + hexed(count) + bytes(20)
    with pytest.raises(ProtocolError, match=rf"\d+ of {name} announced, more than the data holds"):
        Kinds.decode(data, version)


def test_a_count_is_held_against_the_least_size_of_its_elements() -> None:
    string, number, pair = Element(Kind.STRING), Element(Kind.INT64), Element(Kind.STRUCT, struct=Pair)
    assert [minimum_size(element, 0, flexible=False) for element in (string, number, pair)] == [2, 8, 4]
    assert [minimum_size(element, 0, flexible=True) for element in (string, number, pair)] == [1, 8, 4]
    deep = Element(Kind.STRUCT, struct=Deep)
    assert [minimum_size(deep, version, flexible) for version, flexible in ((0, False), (1, True))] == [1, 2]
    four_integers = bytes(46) + hexed("01 01 00  05") + bytes(15)
    with pytest.raises(ProtocolError, match="4 of integers announced"):
        Kinds.decode(four_integers, 1)


def test_a_traceback_out_of_a_codec_shows_the_generated_line() -> None:
    with pytest.raises(EncodeError) as caught:
        Kinds(an_int32=2**31).encode(0)
    shown = "".join(traceback.format_exception(caught.value))
    assert "<Kinds v0 encode>" in shown
    assert "m.an_int32" in shown


def test_a_codec_is_compiled_once_per_version() -> None:
    Kinds().encode(0)
    encoder = Kinds._encoders[0]
    Kinds().encode(0)
    assert Kinds._encoders[0] is encoder
