"""How `kclient consume` writes a record: by kcat's format letters, or as one JSON object.

Bytes go out as they came. On a terminal the fields of a record, not the format around them, are stripped of
what a terminal would obey.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from kclient.cli.decoding import Decoder
from kclient.cli.errors import UsageError
from kclient.cli.output import neutral

if TYPE_CHECKING:
    from kclient.types import Record

    BytesRecord: TypeAlias = Record[bytes | None, bytes | None]

LETTERS = """\
format letters, as kcat has them:
  %t topic     %p partition  %o offset        %T timestamp (ms)  %h headers (name=value,…)
  %k key       %s value      %K size of key   %S size of value   %R size of value, 4 bytes   %% percent sign
  \\n \\r \\t \\\\ and \\x41 are what they are in C"""
_TOKEN = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{1,2}|.?)", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


class TextFormat:
    """A format string, cut once; `render` makes the bytes of one record."""

    def __init__(self, text: str, decoder: Decoder, *, terminal: bool, null: str = "") -> None:
        self._decoder = decoder
        self._null = null.encode()
        self._shown: Callable[[bytes], bytes] = _shown if terminal else bytes
        letters: dict[str, Callable[[BytesRecord], bytes]] = {
            "t": lambda record: record.topic.encode(),
            "p": lambda record: b"%d" % record.partition,
            "o": lambda record: b"%d" % record.offset,
            "T": lambda record: b"%d" % record.timestamp,
            "k": lambda record: self._field(decoder.key_text(record)),
            "s": lambda record: self._field(decoder.value_text(record)),
            "K": lambda record: b"%d" % record.serialized_key_size,
            "S": lambda record: b"%d" % record.serialized_value_size,
            "R": lambda record: record.serialized_value_size.to_bytes(4, "big", signed=True),
            "h": self._headers,
            "%": lambda _: b"%",
        }
        self._parts = [_part(piece, letters) for piece in _pieces(text)]

    def render(self, record: BytesRecord) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in self._parts])

    def _field(self, field: bytes | None) -> bytes:
        return self._null if field is None else self._shown(field)

    def _headers(self, record: BytesRecord) -> bytes:
        return b",".join(
            self._shown(name.encode()) + b"=" + (b"NULL" if value is None else self._shown(value))
            for name, value in record.headers
        )


def _pieces(text: str) -> list[str]:
    pieces, end = [], 0
    for token in _TOKEN.finditer(text):
        pieces += [text[end : token.start()], token[0]]
        end = token.end()
    return [piece for piece in [*pieces, text[end:]] if piece]


def _part(
    piece: str, letters: dict[str, Callable[[BytesRecord], bytes]]
) -> bytes | Callable[[BytesRecord], bytes]:
    if piece[0] == "%":
        if piece[1:] not in letters:
            raise UsageError(f"-f: {piece!r} is no format letter; there are %{' %'.join(letters)}")
        return letters[piece[1]]
    if piece[0] == "\\":
        if piece[1:2] == "x" and len(piece) > 2:
            return bytes.fromhex(piece[2:].rjust(2, "0"))
        if piece[1:] not in _ESCAPES:
            raise UsageError(f"-f: {piece!r} is no escape; there are \\n \\r \\t \\\\ \\0 and \\xNN")
        return _ESCAPES[piece[1:]]
    return piece.encode()


def _shown(field: bytes) -> bytes:
    return neutral(field.decode(errors="backslashreplace")).encode()


class JsonFormat:
    """One object a record; what is not UTF-8 is in `key_base64` and `value_base64`, so nothing is lost."""

    def __init__(self, decoder: Decoder, *, terminal: bool, end: bytes = b"") -> None:
        self._decoder = decoder
        self._terminal = terminal
        self._end = end

    def render(self, record: BytesRecord) -> bytes:
        document: dict[str, Any] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            **self._decoder.key_fields(record),
            **self._decoder.value_fields(record),
            "headers": [[name, _header(value)] for name, value in record.headers],
        }
        # On a terminal all but ASCII is escaped: JSON has no better way to keep control characters away.
        text = json.dumps(document, ensure_ascii=self._terminal, separators=(",", ":"))
        return text.encode(errors="backslashreplace") + self._end  # half a character as JSON's \ud800


def _header(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
