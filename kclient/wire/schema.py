"""The words in which messages are declared, and the classes that declarations become.

A declaration is a class body: field names, their wire types, the versions that carry them and their
defaults. Nothing is resolved when the class is made (a module of declarations must import quickly);
`fields_of` reads the annotations on first use and `kclient.wire.compiler` turns them into code.

    class Topic(Struct):
        name: String
        topic_id: Annotated[Uuid, V("10+", ignorable=True)] = NO_UUID
        partitions: Array[Int32]
"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform
from uuid import UUID

from kclient.wire.versions import NO_VERSION, VersionRange


class Kind(Enum):
    """The layout of a field, under the name that Kafka's definitions give it."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"
    ARRAY = "array"
    STRUCT = "struct"


# The fixed-size kinds: `struct` letter and bytes taken.
FIXED: dict[Kind, tuple[str, int]] = {
    Kind.BOOL: ("?", 1),
    Kind.INT8: ("b", 1),
    Kind.INT16: ("h", 2),
    Kind.UINT16: ("H", 2),
    Kind.INT32: ("i", 4),
    Kind.UINT32: ("I", 4),
    Kind.INT64: ("q", 8),
    Kind.FLOAT64: ("d", 8),
    Kind.UUID: ("16s", 16),
}


class Word(Enum):
    """Remarks about a field that are not about its type."""

    NULLABLE = "may be null"
    SECRET = "never shown by repr"  # noqa: S105
    NOT_COMPACT = "keeps its old layout in flexible versions"


@dataclass(frozen=True, slots=True, init=False)
class V:
    """The versions that carry a field; `ignorable` when older versions may drop a value silently."""

    versions: VersionRange
    nullable: VersionRange
    ignorable: bool

    def __init__(self, versions: str = "0+", *, nullable: str = "0+", ignorable: bool = False) -> None:
        object.__setattr__(self, "versions", VersionRange.parse(versions))
        object.__setattr__(self, "nullable", VersionRange.parse(nullable))
        object.__setattr__(self, "ignorable", ignorable)


@dataclass(frozen=True, slots=True)
class Tag:
    """The field travels in the tagged section of flexible versions, under this number."""

    number: int


T = TypeVar("T")

Bool = Annotated[bool, Kind.BOOL]
Int8 = Annotated[int, Kind.INT8]
Int16 = Annotated[int, Kind.INT16]
UInt16 = Annotated[int, Kind.UINT16]
Int32 = Annotated[int, Kind.INT32]
UInt32 = Annotated[int, Kind.UINT32]
Int64 = Annotated[int, Kind.INT64]
Float64 = Annotated[float, Kind.FLOAT64]
Uuid = Annotated[UUID, Kind.UUID]
String = Annotated[str, Kind.STRING]
NullableString = Annotated[str | None, Kind.STRING, Word.NULLABLE]
Bytes = Annotated[bytes, Kind.BYTES]
NullableBytes = Annotated[bytes | None, Kind.BYTES, Word.NULLABLE]
Records = Annotated[bytes | memoryview | None, Kind.RECORDS, Word.NULLABLE]
Array = Annotated[list[T], Kind.ARRAY]
NullableArray = Annotated[list[T] | None, Kind.ARRAY, Word.NULLABLE]
NullableStruct = Annotated[T | None, Word.NULLABLE]

SECRET = Word.SECRET
NOT_COMPACT = Word.NOT_COMPACT
NO_UUID = UUID(int=0)
# Declares a struct field as optional: its default is the struct with every field at its own default.
DEFAULT: Any = object()

_IMPLICIT_DEFAULTS: dict[Kind, Any] = {
    Kind.BOOL: False,
    Kind.FLOAT64: 0.0,
    Kind.UUID: NO_UUID,
    Kind.STRING: "",
    Kind.BYTES: b"",
    Kind.RECORDS: None,
}


@dataclass(frozen=True, slots=True)
class Element:
    """A wire type: a kind, and what it is made of."""

    kind: Kind
    struct: type[Struct] | None = None
    item: Element | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One resolved field of a struct."""

    name: str
    type: Element
    versions: VersionRange
    nullable: VersionRange
    ignorable: bool
    tag: int | None
    secret: bool
    compact: bool
    required: bool
    declared_default: Any

    def default(self) -> Any:
        """A fresh value for a version that lacks the field: as declared, else Kafka's zero of the type."""
        if not self.required and self.declared_default is not DEFAULT:
            value = self.declared_default
            return list(value) if isinstance(value, list) else value
        if self.type.kind is Kind.ARRAY:
            return []
        if self.type.struct is not None:
            return default_struct(self.type.struct)
        return _IMPLICIT_DEFAULTS.get(self.type.kind, 0)


@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Makes slotted classes from declarations and keeps the defaults for their constructor."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        names = tuple(
            field
            for field, text in namespace.get("__annotations__", {}).items()
            if "ClassVar" not in str(text)
        )
        namespace["_defaults"] = {field: namespace.pop(field) for field in names if field in namespace}
        namespace["_names"] = names
        namespace["__slots__"] = names
        return super().__new__(mcls, name, bases, namespace, **options)


class Struct(metaclass=StructMeta):
    """A group of fields inside a message. Instances are plain mutable values with fields by name."""

    _names: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]
    _fields: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        # The first instance pays for generating the constructor; importing a declaration stays cheap.
        cls = type(self)
        cls.__init__ = _make_constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._names)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (
            f"{field.name}={'<hidden>' if field.secret else repr(getattr(self, field.name))}"
            for field in fields_of(type(self))
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def fields_of(struct: type[Struct]) -> tuple[Field, ...]:
    """The resolved fields of a declaration, in wire order."""
    if "_fields" not in vars(struct):
        hints = typing.get_type_hints(struct, include_extras=True)
        struct._fields = tuple(_resolve_field(struct, name, hints[name]) for name in struct._names)
    return struct._fields


def default_struct(struct: type[Struct]) -> Struct:
    """An instance with every field at its default, required ones included."""
    return struct(**{field.name: field.default() for field in fields_of(struct)})


def _resolve_field(struct: type[Struct], name: str, hint: Any) -> Field:
    base, marks = _peel(hint)
    span = next((mark for mark in marks if isinstance(mark, V)), V())
    tag = next((mark.number for mark in marks if isinstance(mark, Tag)), None)
    return Field(
        name=name,
        type=_resolve_type(base, marks),
        versions=span.versions,
        nullable=span.nullable if Word.NULLABLE in marks else NO_VERSION,
        ignorable=span.ignorable,
        tag=tag,
        secret=Word.SECRET in marks,
        compact=Word.NOT_COMPACT not in marks,
        required=name not in struct._defaults,
        declared_default=struct._defaults.get(name),
    )


def _peel(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split an annotation into the Python type and the words about it; `| None` is a word's business."""
    base, marks = hint, ()
    if typing.get_origin(hint) is Annotated:
        base, *rest = typing.get_args(hint)
        marks = tuple(rest)
    if Word.NULLABLE in marks and Kind.RECORDS not in marks:
        (base,) = (part for part in typing.get_args(base) if part is not type(None))
    return base, marks


def _resolve_type(base: Any, marks: tuple[Any, ...]) -> Element:
    kind = next((mark for mark in marks if isinstance(mark, Kind)), Kind.STRUCT)
    if kind is Kind.ARRAY:
        (item,) = typing.get_args(base)
        return Element(kind, item=_resolve_type(*_peel(item)))
    if kind is Kind.STRUCT:
        return Element(kind, struct=base)
    return Element(kind)


def _make_constructor(struct: type[Struct]) -> Any:
    """Generate `__init__(self, *, a, b=...)`: a typo in a field name is a TypeError, as with any class."""
    names: dict[str, Any] = {}
    parameters = ["self", "*"] if struct._names else ["self"]
    body: list[str] = []
    for field in fields_of(struct):
        name, default, value = field.name, f"default_{field.name}", field.name
        parameters.append(name if field.required else f"{name}={default}")
        names[default] = field.declared_default
        if not field.required and (
            field.declared_default is DEFAULT or isinstance(field.declared_default, list)
        ):
            names[f"fresh_{name}"] = field.default
            value = f"{name} if {name} is not {default} else fresh_{name}()"
        body.append(f"    self.{name} = {value}")
    source = f"def __init__({', '.join(parameters)}):\n" + "\n".join(body or ["    pass"])
    exec(compile(source, f"<{struct.__qualname__}.__init__>", "exec"), names)  # noqa: S102
    return names["__init__"]
