"""Turns a declaration into code: one flat encoder and one flat decoder per (struct, version).

`kclient.wire.message` calls `compile_encoder` and `compile_decoder` on first use of a version. Nested structs
are inlined, runs of fixed-size fields become one `struct` call, and everything that depends only on the
version is decided here, not at run time. The two emitters below are mirror images; read `_Encoder` first.

Generated decoders rely on three facts. A read beyond the end raises `struct.error` or `IndexError`, which
`message` turns into `ProtocolError`. A slice never raises, so every slice is preceded by a check. An array's
count is checked against the bytes left before anything is allocated for it.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from kclient.errors import EncodeError, ProtocolError
from kclient.wire.schema import FIXED, Element, Field, Kind, Struct, fields_of
from kclient.wire.varint import SHORT_UVARINTS, decode_uvarint, encode_uvarint
from kclient.wire.versions import NO_VERSION, VersionRange

Encoder = Callable[[Any, Callable[[bytes], object]], None]
Decoder = Callable[[bytes | memoryview, int], tuple[Any, int]]

_MAX_STRING = 0x7FFF


def compile_encoder(declaration: type[Struct], version: int, flexible: VersionRange) -> Encoder:
    """`encode(value, write)`: passes the message's bytes to `write`, piece by piece, payloads uncopied."""
    emitter = _Encoder(declaration, version, version in flexible)
    emitter.struct(declaration, "m")
    emitter.flush()
    encoder: Encoder = emitter.function("encode", "m, write")
    return encoder


def compile_decoder(declaration: type[Struct], version: int, flexible: VersionRange) -> Decoder:
    """`decode(data, position)`: the message that starts there and the position after it."""
    emitter = _Decoder(declaration, version, version in flexible)
    emitter.line("end = len(data)")
    emitter.struct(declaration, "m")
    emitter.flush()
    emitter.line("return m, pos")
    decoder: Decoder = emitter.function("decode", "data, pos")
    return decoder


def minimum_size(element: Element, version: int, flexible: bool) -> int:
    """The fewest bytes a value of this type can take, to hold announced counts against the bytes left."""
    if element.kind in FIXED:
        return FIXED[element.kind][1]
    if element.struct is None:
        return 1 if flexible else 2 if element.kind is Kind.STRING else 4
    total = 1 if flexible else 0
    for field in fields_of(element.struct):
        if version in field.versions and not (flexible and field.tag is not None):
            nullable_struct = field.type.kind is Kind.STRUCT and version in field.nullable
            total += 1 if nullable_struct else minimum_size(field.type, version, flexible)
    return total


class _Emitter:
    """Lines of source under construction, the names they refer to, and the pending run of fixed fields."""

    def __init__(self, declaration: type[Struct], version: int, flexible: bool) -> None:
        self.title = f"{declaration.__qualname__} v{version}"
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 1
        self.temporaries = 0
        self.names: dict[str, Any] = {"UUID": UUID, "SHORT": SHORT_UVARINTS}
        self.constants: dict[tuple[str, object], str] = {}
        self.run: list[tuple[str, str]] = []  # (struct letter, expression or target)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def temporary(self, prefix: str = "t") -> str:
        self.temporaries += 1
        return f"{prefix}{self.temporaries}"

    def constant(self, prefix: str, key: object, value: Any) -> str:
        """The name of a global that holds `value`; one per prefix and key."""
        if (prefix, key) not in self.constants:
            self.constants[prefix, key] = f"{prefix}_{len(self.constants)}"
        name = self.constants[prefix, key]
        self.names[name] = value
        return name

    def block(self, header: str) -> _Block:
        return _Block(self, header)

    def compact(self, field: Field | None) -> bool:
        return self.flexible and (field is None or field.compact)

    def present(self, declaration: type[Struct]) -> tuple[list[Field], list[Field], list[Field]]:
        """The fields of this version in order, its tagged fields, and the fields it lacks."""
        plain, tagged, absent = [], [], []
        for field in fields_of(declaration):
            if self.version not in field.versions:
                absent.append(field)
            elif self.flexible and field.tag is not None:
                tagged.append(field)
            else:
                plain.append(field)
        return plain, sorted(tagged, key=lambda field: field.tag or 0), absent

    def flush(self) -> None:
        raise NotImplementedError

    def function(self, name: str, parameters: str) -> Any:
        source = f"def {name}({parameters}):\n" + "\n".join(self.lines or ["    pass"]) + "\n"
        filename = f"<{self.title} {name}>"
        # Registered so that a traceback, a profiler or a debugger can show the generated lines.
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec"), self.names)  # noqa: S102
        return self.names[name]


class _Block:
    """`with emitter.block("for …:")` indents what is emitted inside; no fixed run crosses its edge."""

    def __init__(self, emitter: _Emitter, header: str) -> None:
        self.emitter = emitter
        self.header = header

    def __enter__(self) -> None:
        self.emitter.flush()
        self.emitter.line(self.header)
        self.emitter.depth += 1
        self.start = len(self.emitter.lines)

    def __exit__(self, *_: object) -> None:
        self.emitter.flush()
        if len(self.emitter.lines) == self.start:
            self.emitter.line("pass")
        self.emitter.depth -= 1


class _Encoder(_Emitter):
    def __init__(self, declaration: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(declaration, version, flexible)
        self.write = "write"
        self.names.update(uvarint=encode_uvarint, long_string=_long_string, pack_many=_pack_many)
        self.names.update(size_of=_size_of)
        self.names["unsupported"] = self._unsupported

    def _unsupported(self, name: str, value: object) -> None:
        raise EncodeError(
            f"{self.title} has no field {name!r}, so a {type(value).__name__} in it cannot be sent: "
            f"the broker speaks an older version; leave the field at its default or use a newer broker"
        )

    def flush(self) -> None:
        if self.run:
            letters = "".join(letter for letter, _ in self.run)
            pack = self.constant("pack", letters, _packer(letters).pack)
            self.line(f"{self.write}({pack}({', '.join(value for _, value in self.run)}))")
            self.run = []

    def struct(self, declaration: type[Struct], value: str) -> None:
        plain, tagged, absent = self.present(declaration)
        for field in absent:
            if not field.ignorable:
                with self.block(f"if {self.differs(field, f'{value}.{field.name}')}:"):
                    self.line(f"unsupported({field.name!r}, {value}.{field.name})")
        for field in plain:
            self.field(field, f"{value}.{field.name}")
        if self.flexible:
            self.tags(tagged, value)

    def differs(self, field: Field, value: str) -> str:
        """An expression: the value is not the default of its field."""
        default = field.default()
        if default is None:
            return f"{value} is not None"
        if default in ([], "", b"", 0) and field.nullable == NO_VERSION:
            return value
        return f"{value} != {self.constant('default', id(field), default)}"

    def field(self, field: Field, value: str) -> None:
        if self.version not in field.nullable:
            self.value(field.type, value, field)
            return
        name = self.temporary()
        self.flush()
        self.line(f"{name} = {value}")
        with self.block(f"if {name} is None:"):
            self.null(field)
        with self.block("else:"):
            if field.type.kind is Kind.STRUCT:
                self.run.append(("b", "1"))
            self.value(field.type, name, field)

    def null(self, field: Field) -> None:
        if field.type.kind is Kind.STRUCT:
            self.run.append(("b", "-1"))
        elif self.compact(field):
            self.run.append(("b", "0"))
        else:
            self.run.append(("h" if field.type.kind is Kind.STRING else "i", "-1"))

    def value(self, element: Element, value: str, field: Field | None = None) -> None:
        if element.kind in FIXED:
            letter = FIXED[element.kind][0]
            self.run.append((letter, f"{value}.bytes" if element.kind is Kind.UUID else value))
        elif element.struct is not None:
            name = self.temporary()
            self.line(f"{name} = {value}")
            self.struct(element.struct, name)
        elif element.item is not None:
            self.array(element.item, value)
        else:
            self.blob(element, value, self.compact(field))

    def blob(self, element: Element, value: str, compact: bool) -> None:
        """A string, bytes or a record set: its length, then itself."""
        name = self.temporary()
        text = element.kind is Kind.STRING
        self.line(f"{name} = {value}.encode()" if text else f"{name} = {value}")
        size, long = ("len", "long_string") if text else ("size_of", "uvarint")
        if compact:
            self.flush()
            self.line(f"n = {size}({name}) + 1")
            self.line(f"{self.write}(SHORT[n] if n < 128 else {long}(n))")
        else:
            self.run.append(("h" if text else "i", f"{size}({name})"))
            self.flush()
        self.line(f"{self.write}({name})")

    def array(self, item: Element, value: str) -> None:
        name = self.temporary()
        self.line(f"{name} = {value}")
        if item.kind is Kind.STRING:
            # Text is a sequence of texts too: topics="orders" would be sent as six topics.
            with self.block(f"if type({name}) is str:"):
                self.line("raise TypeError")
        if self.flexible:
            self.flush()
            self.line(f"{self.write}(uvarint(len({name}) + 1))")
        else:
            self.run.append(("i", f"len({name})"))
            self.flush()
        if item.kind in FIXED and item.kind is not Kind.UUID:
            self.line(f"{self.write}(pack_many({FIXED[item.kind][0]!r}, {name}))")
        else:
            one = self.temporary()
            with self.block(f"for {one} in {name}:"):
                self.value(item, one)

    def tags(self, tagged: Sequence[Field], value: str) -> None:
        if not tagged:
            self.run.append(("b", "0"))
            return
        self.flush()
        tags, outer = self.temporary("tags"), self.write
        self.line(f"{tags} = []")
        for field in tagged:
            with self.block(f"if {self.differs(field, f'{value}.{field.name}')}:"):
                pieces = self.temporary("pieces")
                self.line(f"{pieces} = []")
                self.write = f"{pieces}.append"
                self.field(field, f"{value}.{field.name}")
                self.flush()
                self.line(f"{pieces} = b''.join({pieces})")
                self.line(f"{tags} += (uvarint({field.tag}), uvarint(len({pieces})), {pieces})")
                self.write = outer
        self.line(f"{outer}(uvarint(len({tags}) // 3))")
        self.line(f"{outer}(b''.join({tags}))")


class _Decoder(_Emitter):
    def __init__(self, declaration: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(declaration, version, flexible)
        self.end = "end"
        self.names.update(new=object.__new__, uvarint=decode_uvarint, unpack_many=_unpack_many)
        self.names.update(skip_tags=_skip_tags, view=memoryview, fail=self._fail)

    def _fail(self, what: str, position: int) -> None:
        raise ProtocolError(f"{self.title}: {what} at byte {position}")

    def flush(self) -> None:
        if self.run:
            letters = "".join(letter for letter, _ in self.run)
            layout = _packer(letters)
            unpack = self.constant("unpack", letters, layout.unpack_from)
            self.line(f"{', '.join(target for _, target in self.run)}, = {unpack}(data, pos)")
            self.line(f"pos += {layout.size}")
            self.run = []

    def struct(self, declaration: type[Struct], target: str) -> None:
        plain, tagged, absent = self.present(declaration)
        # Fields of the run belong to structs that exist already; a new one may be made at any point.
        self.line(f"{target} = new({self.constant('Struct', declaration, declaration)})")
        for field in plain:
            self.field(field, f"{target}.{field.name}")
        for field in (*absent, *tagged):
            self.assign_default(field, f"{target}.{field.name}")
        if self.flexible:
            self.tags(tagged, target)

    def assign_default(self, field: Field, target: str) -> None:
        default = field.default()
        if isinstance(default, list):
            self.line(f"{target} = []")
        elif isinstance(default, Struct):
            name = self.temporary("s")
            self.line(f"{name} = new({self.constant('Struct', type(default), type(default))})")
            for inner in fields_of(type(default)):
                self.assign_default(inner, f"{name}.{inner.name}")
            self.line(f"{target} = {name}")
        else:
            self.line(f"{target} = {self.constant('default', id(field), default)}")

    def field(self, field: Field, target: str) -> None:
        nullable = self.version in field.nullable
        kind = field.type.kind
        if kind in FIXED:
            self.fixed(kind, target)
        elif field.type.struct is not None and nullable:
            present = self.temporary()
            self.run.append(("b", present))
            with self.block(f"if {present} < 0:"):
                self.line(f"{target} = None")
            with self.block("else:"):
                self.value(field.type, target, field)
        else:
            self.value(field.type, target, field, nullable=nullable)

    def fixed(self, kind: Kind, target: str) -> None:
        if kind is Kind.UUID:
            raw = self.temporary()
            self.run.append(("16s", raw))
            self.flush()
            self.line(f"{target} = UUID(bytes={raw})")
        else:
            self.run.append((FIXED[kind][0], target))

    def value(
        self, element: Element, target: str, field: Field | None = None, *, nullable: bool = False
    ) -> None:
        if element.kind in FIXED:
            self.fixed(element.kind, target)
        elif element.struct is not None:
            name = self.temporary("s")
            self.struct(element.struct, name)
            self.flush()
            self.line(f"{target} = {name}")
        else:
            self.counted(element, target, field, nullable=nullable)

    def counted(self, element: Element, target: str, field: Field | None, *, nullable: bool) -> None:
        """A string, bytes, record set or array: a length or count, checked, then the content."""
        n = self.temporary("n")
        if self.compact(field):
            self.uvarint(n)
            self.line(f"{n} -= 1")
        else:
            self.run.append(("h" if element.kind is Kind.STRING else "i", n))
            self.flush()
        label = field.name if field else "array element"
        unit = minimum_size(element.item, self.version, self.flexible) if element.item else 1
        with self.block(f"if {n} * {max(unit, 1)} > {self.end} - pos:"):
            self.line(f"fail(f'{{{n}}} of {label} announced, more than the data holds', pos)")
        with self.block(f"if {n} < 0:"):
            if nullable:
                self.line(f"{target} = None")
            else:
                self.line(f"fail('{label} is null, which this version does not allow', pos)")
        with self.block("else:"):
            if element.item is not None:
                self.items(element.item, target, n)
            else:
                self.line(f"{target} = {_SLICES[element.kind].format(n=n)}")
                self.line(f"pos += {n}")

    def items(self, item: Element, target: str, n: str) -> None:
        if item.kind in FIXED and item.kind is not Kind.UUID:
            letter, size = FIXED[item.kind]
            self.line(f"{target} = unpack_many({letter!r}, {n}, data, pos)")
            self.line(f"pos += {n} * {size}")
            return
        items, one = self.temporary("items"), self.temporary("item")
        self.line(f"{items} = []")
        with self.block(f"for _ in range({n}):"):
            self.value(item, one)
            self.flush()
            self.line(f"{items}.append({one})")
        self.line(f"{target} = {items}")

    def uvarint(self, target: str) -> None:
        self.flush()
        self.line(f"{target} = data[pos]")
        self.line("pos += 1")
        with self.block(f"if {target} > 127:"):
            self.line(f"{target}, pos = uvarint(data, pos - 1)")

    def tags(self, tagged: Sequence[Field], target: str) -> None:
        if not tagged:
            self.flush()
            self.line(f"pos = pos + 1 if data[pos] == 0 else skip_tags(data, pos, {self.end})")
            return
        count, tag, size, stop = (self.temporary(name) for name in ("count", "tag", "size", "stop"))
        self.uvarint(count)
        with self.block(f"for _ in range({count}):"):
            self.uvarint(tag)
            self.uvarint(size)
            self.line(f"{stop} = pos + {size}")
            with self.block(f"if {stop} > {self.end}:"):
                self.line(f"fail(f'tagged field {{{tag}}} of {{{size}}} bytes ends beyond the data', pos)")
            for field in tagged:
                outer, self.end = self.end, stop
                with self.block(f"if {tag} == {field.tag}:"):
                    self.field(field, f"{target}.{field.name}")
                    self.flush()
                    with self.block(f"if pos != {stop}:"):
                        self.line(f"fail('tagged field {field.name} does not fill its announced size', pos)")
                self.end = outer
            self.line(f"pos = {stop}")


_SLICES = {
    Kind.STRING: "str(data[pos : pos + {n}], 'utf-8')",
    Kind.BYTES: "bytes(data[pos : pos + {n}])",
    Kind.RECORDS: "view(data)[pos : pos + {n}]",
}

_PACKERS: dict[str, struct.Struct] = {}
_FEW = 6
_LAYOUTS = {
    letter: [struct.Struct(f">{count}{letter}") for count in range(_FEW)] for letter, _ in FIXED.values()
}


def _packer(letters: str) -> struct.Struct:
    """One big-endian Struct per layout, so that equal runs share one bound method."""
    if letters not in _PACKERS:
        _PACKERS[letters] = struct.Struct(">" + letters)
    return _PACKERS[letters]


def _pack_many(letter: str, values: Sequence[Any]) -> bytes:
    return struct.pack(f">{len(values)}{letter}", *values)


def _unpack_many(letter: str, count: int, data: bytes | memoryview, position: int) -> list[Any]:
    if count < _FEW:  # replicas of a partition and the like: no format to make, no Struct to find
        return list(_LAYOUTS[letter][count].unpack_from(data, position))
    return list(struct.unpack_from(f">{count}{letter}", data, position))


def _skip_tags(data: bytes | memoryview, position: int, end: int) -> int:
    """The position after a tagged section of which nothing is known; newer brokers may send more."""
    count, position = decode_uvarint(data, position)
    for _ in range(count):
        tag, position = decode_uvarint(data, position)
        size, position = decode_uvarint(data, position)
        position += size
        if position > end:
            raise ProtocolError(
                f"tagged field {tag} of {size} bytes at {position - size} ends beyond the data"
            )
    return position


def _long_string(length_plus_one: int) -> bytes:
    if length_plus_one > _MAX_STRING + 1:
        # What packing it into two bytes raises in older versions; `message` names the field.
        raise struct.error(f"string of {length_plus_one - 1} bytes")
    return encode_uvarint(length_plus_one)


def _size_of(blob: bytes | bytearray | memoryview) -> int:
    if type(blob) is bytes:
        return len(blob)
    view = memoryview(blob)  # a TypeError for text and lists, which have a length too
    if view.nbytes != len(blob) or not view.contiguous:
        raise TypeError("bytes are needed, not a view of wider or scattered items")
    return view.nbytes
