"""The input of `kclient produce`: bytes of files or standard input, cut into records."""

from __future__ import annotations

import argparse
import base64
import binascii
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

from kclient.cli.decoding import no_constant
from kclient.cli.errors import CommandError, UsageError

if TYPE_CHECKING:
    from io import BufferedReader

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

_CHUNK = 1 << 16
_FIELDS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "value",
    "headers",
    "key_base64",
    "value_base64",
)


@dataclass(frozen=True, slots=True)
class InputRecord:
    """One record as it was read; `number` counts them from 1, for messages."""

    number: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None

    def with_defaults(
        self, key: str | None, partition: int | None, timestamp: int | None, headers: Iterable[Any]
    ) -> InputRecord:
        """The same with what the command line says for all records."""
        if key is None and partition is None and timestamp is None and not headers:
            return self
        return replace(
            self,
            key=self.key if key is None else key.encode(errors="surrogateescape"),
            partition=self.partition if partition is None else partition,
            timestamp=self.timestamp if timestamp is None else timestamp,
            headers=(*headers, *self.headers),
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How records are laid out in the input."""

    json: bool
    whole: bool
    delimiter: bytes
    key_separator: bytes | None
    parse_headers: bool
    null: bytes | None

    @classmethod
    def of(cls, options: argparse.Namespace) -> Layout:
        json_lines = options.input == "jsonl"
        if json_lines and (options.key_separator or options.parse_headers or options.whole):
            raise UsageError(
                "-i jsonl has keys and headers of its own: leave out -K, --parse-headers and --whole"
            )
        if options.whole and (options.key_separator or options.parse_headers):
            raise UsageError("--whole takes a file as it is: leave out -K and --parse-headers")
        return cls(
            json=json_lines,
            whole=options.whole,
            delimiter=_unescaped(options.delimiter, "-D"),
            key_separator=None if options.key_separator is None else _unescaped(options.key_separator, "-K"),
            parse_headers=options.parse_headers,
            null=None if options.null is None else options.null.encode(errors="surrogateescape"),
        )


def _unescaped(text: str, option: str) -> bytes:
    for escape, character in (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r"), ("\\0", "\0")):
        text = text.replace(escape, character)
    if not text:
        raise UsageError(f"{option} must not be empty")
    return text.encode(errors="surrogateescape")


def records_from(files: list[str], layout: Layout) -> Iterator[InputRecord]:
    """Every record of every file in turn; without a file, of standard input."""
    number = 0
    for name in files or ["-"]:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as stream:
            pieces = [stream.read()] if layout.whole else _pieces(stream, layout.delimiter)
            for line, piece in enumerate(pieces, 1):
                number += 1
                where = f"{'standard input' if name == '-' else name}, record {line}"
                yield _record(number, piece, layout, where)


def _pieces(stream: IO[bytes], delimiter: bytes) -> Iterator[bytes]:
    """What is between the delimiters; one at the very end begins no other record."""
    if delimiter == b"\n":
        for line in stream:
            yield line.removesuffix(b"\n")
        return
    rest = bytearray()
    # What there is, not a full chunk: a record that a pipe has brought shall not wait for the next ones.
    while chunk := cast("BufferedReader", stream).read1(_CHUNK):
        searched = max(0, len(rest) - len(delimiter) + 1)
        rest += chunk
        if rest.find(delimiter, searched) >= 0:
            *whole, last = bytes(rest).split(delimiter)
            rest = bytearray(last)
            yield from whole
    if rest.removesuffix(b"\n"):  # the newline that an editor or `echo` puts at the end
        yield bytes(rest.removesuffix(b"\n"))


def _record(number: int, piece: bytes, layout: Layout, where: str) -> InputRecord:
    if layout.json:
        return _from_json(number, piece, where)
    key: bytes | None = None
    headers: Headers = ()
    if layout.parse_headers:
        before, tab, piece = piece.partition(b"\t")
        if not tab:
            raise CommandError(f"{where}: there is no tab between headers and value")
        headers = _headers_from_text(before, where)
    if layout.key_separator is not None:
        key, found, piece = piece.partition(layout.key_separator)
        if not found:
            raise CommandError(
                f"{where}: there is no key separator {layout.key_separator.decode(errors='replace')!r} in it"
            )
    value: bytes | None = piece
    if layout.null is not None:
        key = None if key == layout.null else key
        value = None if value == layout.null else value
    return InputRecord(number, key, value, headers)


def _headers_from_text(text: bytes, where: str) -> Headers:
    found: list[tuple[str, bytes | None]] = []
    for pair in text.split(b",") if text else []:
        name, colon, value = pair.partition(b":")
        if not colon:
            raise CommandError(f"{where}: a header must be name:value")
        found.append((name.decode(errors="replace"), value))
    return tuple(found)


def _from_json(number: int, piece: bytes, where: str) -> InputRecord:
    try:
        document = json.loads(piece, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{where} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise CommandError(f'{where} must be an object such as {{"key": "17", "value": "three apples"}}')
    unknown = [name for name in document if name not in _FIELDS]
    if unknown:
        raise CommandError(f"{where}: {unknown[0]!r} is not one of {', '.join(_FIELDS)}")
    partition, timestamp = document.get("partition"), document.get("timestamp")
    for name, value in (("partition", partition), ("timestamp", timestamp)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise CommandError(f"{where}: {name} must be a whole number, not {value!r}")
    try:
        return InputRecord(
            number,
            _bytes_of(document, "key", where),
            _bytes_of(document, "value", where),
            _headers_from_json(document.get("headers") or (), where),
            partition,
            timestamp,
        )
    except UnicodeEncodeError as error:
        raise CommandError(
            f"{where}: {error.object[error.start]!r} is half a character, which is no text"
        ) from error


def _bytes_of(document: Mapping[str, Any], name: str, where: str) -> bytes | None:
    if f"{name}_base64" in document:
        return _from_base64(document[f"{name}_base64"], f"{where}: {name}_base64")
    value = document.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else _dumped(value)


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _from_base64(text: Any, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise CommandError(f"{where} is no base64") from error


def _headers_from_json(given: Any, where: str) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else given
    try:
        return tuple((_name(name), _header_value(value, where)) for name, value in pairs)
    except (TypeError, ValueError) as error:
        raise CommandError(
            f'{where}: headers must be [["name", "value"], …] or {{"name": "value"}}'
        ) from error


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError("a header's name is text")
    return name


def _header_value(value: Any, where: str) -> bytes | None:
    if isinstance(value, dict) and list(value) == ["base64"]:
        return _from_base64(value["base64"], f"{where}: a header's base64")
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else _dumped(value)
