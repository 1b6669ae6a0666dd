"""Declarations as classes: constructor, defaults, equality, repr, and the fields made of annotations."""

# ruff: noqa: RUF012  # `= []` declares a default; the metaclass hands out fresh copies

from __future__ import annotations

from typing import Annotated, Any, cast

import pytest

from kclient.wire.messages.connection import SaslAuthenticateRequest
from kclient.wire.messages.users import AlterUserScramCredentialsRequest
from kclient.wire.schema import (
    DEFAULT,
    NO_UUID,
    NOT_COMPACT,
    SECRET,
    Array,
    Bool,
    Bytes,
    Element,
    Float64,
    Int16,
    Int32,
    Kind,
    NullableArray,
    NullableString,
    NullableStruct,
    Records,
    String,
    Struct,
    Tag,
    Uuid,
    V,
    default_struct,
    fields_of,
)
from kclient.wire.versions import EVERY_VERSION, NO_VERSION, VersionRange


class Inner(Struct):
    number: Int32 = 7
    names: Array[String] = []


class Outer(Struct):
    name: String
    count: Annotated[Int16, V("2+", ignorable=True)] = -1
    inner: Annotated[Inner, V("3-5"), Tag(4)] = DEFAULT
    maybe: NullableStruct[Inner] = None
    numbers: Array[Int32] = []
    secret: Annotated[NullableString, SECRET, V(nullable="1+")] = None


class Zeroes(Struct):
    flag: Bool
    number: Int32
    real: Float64
    identity: Uuid
    text: String
    maybe_text: NullableString
    blob: Bytes
    records: Records
    array: Array[Inner]
    maybe_array: NullableArray[Int32]
    struct: Inner
    old_layout: Annotated[String, NOT_COMPACT]


class Empty(Struct):
    pass


def test_fields_are_given_by_name_and_read_by_name() -> None:
    value = Outer(name="n", count=3, numbers=[1])
    assert (value.name, value.count, value.numbers) == ("n", 3, [1])


def test_fields_that_are_not_given_take_their_declared_default() -> None:
    value = Outer(name="n")
    assert value.count == -1
    assert value.inner == Inner(number=7, names=[])
    assert value.maybe is None


def test_a_missing_required_field_is_a_type_error_that_names_it() -> None:
    with pytest.raises(TypeError, match="'name'"):
        cast("Any", Outer)(count=3)


def test_an_unknown_field_name_is_a_type_error_that_names_it() -> None:
    with pytest.raises(TypeError, match="'nmae'"):
        cast("Any", Outer)(name="n", nmae="typo")


def test_fields_cannot_be_given_by_position() -> None:
    with pytest.raises(TypeError):
        cast("Any", Outer)("n")


def test_an_unknown_attribute_cannot_be_set() -> None:
    value = cast("Any", Outer(name="n"))
    with pytest.raises(AttributeError):
        value.nmae = "typo"


def test_every_instance_has_default_lists_and_structs_of_its_own() -> None:
    one, other = Outer(name="one"), Outer(name="other")
    one.numbers.append(1)
    one.inner.number = 8
    one.inner.names.append("x")
    assert other.numbers == []
    assert other.inner == Inner()
    assert Outer(name="new").inner.names == []


def test_a_list_that_is_given_is_kept_and_not_copied() -> None:
    numbers = [1, 2]
    assert Outer(name="n", numbers=numbers).numbers is numbers


def test_a_struct_without_fields_can_be_made() -> None:
    assert Empty() == Empty()
    assert repr(Empty()) == "Empty()"


def test_instances_are_equal_when_every_field_is() -> None:
    assert Outer(name="n", inner=Inner(number=1)) == Outer(name="n", inner=Inner(number=1))
    assert Outer(name="n", inner=Inner(number=1)) != Outer(name="n", inner=Inner(number=2))
    assert Outer(name="n") != Outer(name="n", numbers=[1])


def test_instances_of_other_classes_are_never_equal() -> None:
    class Twin(Struct):
        number: Int32 = 7
        names: Array[String] = []

    twin: object = Twin()
    assert Inner() != twin
    assert Inner() != (7, [])


def test_records_compare_by_content_whether_bytes_or_a_view() -> None:
    left, right = default_struct(Zeroes), default_struct(Zeroes)
    cast("Any", left).records = b"abc"
    cast("Any", right).records = memoryview(b"abc")
    assert left == right


def test_instances_are_mutable_and_so_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Inner())


def test_the_repr_shows_every_field_by_name() -> None:
    assert repr(Inner(number=1, names=["a"])) == "Inner(number=1, names=['a'])"


def test_the_repr_hides_secrets_at_any_depth() -> None:
    assert "4711" not in repr(Outer(name="n", secret="4711"))
    assert "secret=<hidden>" in repr(Outer(name="n", secret="4711"))
    assert repr(SaslAuthenticateRequest(auth_bytes=b"4711")) == "SaslAuthenticateRequest(auth_bytes=<hidden>)"
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=1, salt=b"4711", salted_password=b"4711"
    )
    shown = repr(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))
    assert "alice" in shown
    assert "4711" not in shown


def test_a_secret_that_is_null_is_hidden_too() -> None:
    assert "secret=<hidden>" in repr(Outer(name="n", secret=None))


def test_annotations_become_fields_in_the_order_of_declaration() -> None:
    fields = {field.name: field for field in fields_of(Outer)}
    assert list(fields) == ["name", "count", "inner", "maybe", "numbers", "secret"]
    assert fields["name"].type == Element(Kind.STRING)
    assert fields["inner"].type == Element(Kind.STRUCT, struct=Inner)
    assert fields["maybe"].type == Element(Kind.STRUCT, struct=Inner)
    assert fields["numbers"].type == Element(Kind.ARRAY, item=Element(Kind.INT32))


def test_words_about_a_field_become_its_properties() -> None:
    fields = {field.name: field for field in (*fields_of(Outer), *fields_of(Zeroes))}
    assert fields["name"].versions == EVERY_VERSION
    assert fields["count"].versions == VersionRange.parse("2+")
    assert (fields["count"].ignorable, fields["name"].ignorable) == (True, False)
    assert fields["inner"].versions == VersionRange(3, 5)
    assert [field.tag for field in fields_of(Outer)] == [None, None, 4, None, None, None]
    assert (fields["secret"].nullable, fields["name"].nullable) == (VersionRange.parse("1+"), NO_VERSION)
    assert (fields["secret"].secret, fields["name"].secret) == (True, False)
    assert (fields["old_layout"].compact, fields["text"].compact) == (False, True)
    assert (fields["name"].required, fields["count"].required) == (True, False)


def test_the_default_struct_has_the_zero_of_each_type_in_required_fields() -> None:
    assert default_struct(Zeroes) == Zeroes(
        flag=False,
        number=0,
        real=0.0,
        identity=NO_UUID,
        text="",
        maybe_text="",
        blob=b"",
        records=None,
        array=[],
        maybe_array=[],
        struct=Inner(),
        old_layout="",
    )


def test_default_structs_share_nothing() -> None:
    one, other = cast("Any", default_struct(Zeroes)), cast("Any", default_struct(Zeroes))
    one.array.append(1)
    one.struct.names.append("x")
    assert other.array == []
    assert other.struct.names == []
