"""Types written as text, as Spark's SQL has them: `id bigint, tags array<string>`, `decimal(10,2)`.

Spark reads such texts in its JVM, which the processes that ask a data source for its schema cannot reach. So
the options `keySchema` and `valueSchema` are read here. A list of fields is a struct without saying so.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kclient.errors import ConfigurationError

_SIMPLE: dict[str, type[DataType]] = {
    "bigint": LongType,
    "binary": BinaryType,
    "boolean": BooleanType,
    "byte": ByteType,
    "date": DateType,
    "double": DoubleType,
    "float": FloatType,
    "int": IntegerType,
    "integer": IntegerType,
    "long": LongType,
    "real": FloatType,
    "short": ShortType,
    "smallint": ShortType,
    "string": StringType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
    "tinyint": ByteType,
}
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([\w.]+)|([<>(),:])|('(?:[^'\\]|\\.)*'))")


class _Token(NamedTuple):
    kind: str  # "name", "word", "mark", "text", or "end"
    text: str


def data_type(text: str) -> DataType:
    """The type that a text describes.

    >>> data_type("id bigint, tags array<string>").simpleString()
    'struct<id:bigint,tags:array<string>>'
    """
    reader = _Reader(text)
    # A struct without saying so is a field at least: a name and something behind it that is not a bracket.
    first, second = reader.tokens[0], reader.tokens[1]
    fields = first.kind == "name" or (
        first.kind == "word" and (second.kind in ("word", "name") or second.text == ":")
    )
    found: DataType = StructType(reader.fields("")) if fields else reader.type()
    reader.expect("")
    return found


class _Reader:
    """A walk over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.tokens = self._cut(text)
        self._at = 0

    def _cut(self, text: str) -> list[_Token]:
        tokens, at = [], 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong(f"{text[at:].strip()[:10]!r}")
            name, word, mark, quoted = found.groups()
            if name is not None:
                tokens.append(_Token("name", name[1:-1].replace("``", "`")))
            elif word is not None:
                tokens.append(_Token("word", word))
            else:
                tokens.append(_Token("text", quoted) if mark is None else _Token("mark", mark))
            at = found.end()
        return [*tokens, _Token("end", ""), _Token("end", "")]

    def _wrong(self, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"the schema {self._text!r} cannot be read at {what}: write it as Spark's SQL does, "
            "for example 'id bigint, tags array<string>'"
        )

    def _next(self) -> _Token:
        token = self.tokens[self._at]
        self._at = min(self._at + 1, len(self.tokens) - 1)
        return token

    def _accept(self, *words: str) -> bool:
        ahead = self.tokens[self._at : self._at + len(words)]
        if [token.text.lower() for token in ahead] != list(words) or any(t.kind == "name" for t in ahead):
            return False
        self._at += len(words)
        return True

    def expect(self, mark: str) -> None:
        token = self._next()
        if token.text != mark or token.kind not in ("mark", "end"):
            raise self._wrong(repr(token.text) if token.text else "its end")

    def fields(self, end: str) -> list[StructField]:
        """Fields up to `end`, which is left there."""
        found: list[StructField] = []
        while self.tokens[self._at].text != end or not found:
            if found:
                self.expect(",")
            token = self._next()
            if token.kind not in ("name", "word"):
                raise self._wrong(repr(token.text) if token.text else "its end")
            self._accept(":")
            kind = self.type()
            nullable = not self._accept("not", "null")
            if self._accept("comment"):
                self._next()
            found.append(StructField(token.text, kind, nullable))
        return found

    def type(self) -> DataType:
        token = self._next()
        name = token.text.lower() if token.kind == "word" else ""
        if name in _SIMPLE:
            return _SIMPLE[name]()
        if name in ("decimal", "dec", "numeric"):
            return self._decimal()
        if name in ("array", "map", "struct"):
            self.expect("<")
            found = self._nested(name)
            self.expect(">")
            return found
        raise self._wrong(repr(token.text) if token.text else "its end")

    def _nested(self, name: str) -> DataType:
        if name == "array":
            return ArrayType(self.type())
        if name == "struct":
            return StructType(self.fields(">"))
        key = self.type()
        self.expect(",")
        return MapType(key, self.type())

    def _decimal(self) -> DataType:
        if not self._accept("("):
            return DecimalType()
        numbers = [self._number()]
        if self._accept(","):
            numbers.append(self._number())
        self.expect(")")
        return DecimalType(*numbers)

    def _number(self) -> int:
        token = self._next()
        if not token.text.isdecimal():
            raise self._wrong(repr(token.text))
        return int(token.text)
