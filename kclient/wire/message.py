"""Whole messages: what `kclient.wire.messages` declares and what everything above `wire` encodes and decodes.

A version's codec is compiled on first use and kept on the class. Whatever a decoder trips over leaves here as
`ProtocolError`, whatever an encoder trips over as `EncodeError`.
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from kclient.errors import EncodeError, ProtocolError
from kclient.wire.api import ApiKey
from kclient.wire.compiler import Decoder, Encoder, compile_decoder, compile_encoder
from kclient.wire.schema import FIXED, Element, Kind, Struct, fields_of
from kclient.wire.versions import VersionRange

# What generated decoders meet in bytes that are too short or not UTF-8; see `compiler`.
_DECODE_FAULTS = (struct.error, IndexError, UnicodeDecodeError)
# What generated encoders meet in values of the wrong type or size.
_ENCODE_FAULTS = (struct.error, AttributeError, TypeError, UnicodeEncodeError)


class Message(Struct):
    """A declaration with versions of its own. Subclass `Request`, `Response` or `Data`, not this."""

    versions: ClassVar[VersionRange]
    flexible: ClassVar[VersionRange]
    _encoders: ClassVar[dict[int, Encoder]]
    _decoders: ClassVar[dict[int, Decoder]]

    def __init_subclass__(cls, *, versions: str = "none", flexible: str = "none", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.versions = VersionRange.parse(versions)
        cls.flexible = VersionRange.parse(flexible)
        cls._encoders = {}
        cls._decoders = {}

    def encode(self, version: int) -> bytes:
        """The message as bytes, without header or size."""
        pieces: list[bytes] = []
        self.encode_into(pieces.append, version)
        return b"".join(pieces)

    def encode_into(self, write: Callable[[bytes], object], version: int) -> None:
        """Pass the bytes to `write` piece by piece; record sets are passed as they are, uncopied."""
        encoder = self._encoders.get(version) or _encoder(type(self), version)
        try:
            encoder(self, write)
        except _ENCODE_FAULTS as error:
            raise EncodeError(
                _explain(self, version) or f"{type(self).__name__} v{version}: {error}"
            ) from error

    @classmethod
    def decode(cls, data: bytes | memoryview, version: int) -> Self:
        """The message that fills `data` exactly."""
        message, end = cls.decode_from(data, 0, version)
        if end != len(data):
            raise ProtocolError(
                f"{cls.__name__} v{version}: {len(data) - end} bytes left over after the message"
            )
        return message

    @classmethod
    def decode_from(cls, data: bytes | memoryview, position: int, version: int) -> tuple[Self, int]:
        """The message that starts at `position`, and the position after it."""
        decoder = cls._decoders.get(version) or _decoder(cls, version)
        try:
            return decoder(data, position)
        except _DECODE_FAULTS as error:
            raise ProtocolError(
                f"{cls.__name__} v{version}: {error}, in {len(data)} bytes of data"
            ) from error


class Data(Message):
    """A message that travels inside another one, or in a record: group metadata, control records."""


class Response(Message):
    """The broker's answer to the request with the same key."""

    api_key: ClassVar[ApiKey]

    def __init_subclass__(cls, *, key: ApiKey | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if key is not None:
            cls.api_key = key


R = TypeVar("R", bound=Response)


class Request(Message, Generic[R]):
    """What a client asks. `Request[FooResponse]` names the answer, for type checkers and at run time.

    `latest_unstable` marks a newest version that brokers have not settled on; it is never negotiated.
    """

    api_key: ClassVar[ApiKey]
    response: ClassVar[type[Response]]
    latest_unstable: ClassVar[bool]

    def __init_subclass__(
        cls, *, key: ApiKey | None = None, latest_unstable: bool = False, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        if key is not None:
            cls.api_key = key
            cls.latest_unstable = latest_unstable
            (base,) = cls.__orig_bases__  # type: ignore[attr-defined]
            (cls.response,) = typing.get_args(base)


def _encoder(cls: type[Message], version: int) -> Encoder:
    _check_version(cls, version)
    encoder = cls._encoders[version] = compile_encoder(cls, version, cls.flexible)
    return encoder


def _decoder(cls: type[Message], version: int) -> Decoder:
    _check_version(cls, version)
    decoder = cls._decoders[version] = compile_decoder(cls, version, cls.flexible)
    return decoder


def _check_version(cls: type[Message], version: int) -> None:
    if version not in cls.versions:
        raise EncodeError(f"{cls.__name__} has versions {cls.versions}, not {version}")


_PYTHON_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.BOOL: (bool,),
    Kind.FLOAT64: (float, int),
    Kind.STRING: (str,),
    Kind.BYTES: (bytes, bytearray, memoryview),
    Kind.RECORDS: (bytes, bytearray, memoryview),
    Kind.ARRAY: (list, tuple),
}


def _explain(value: Struct, version: int, path: str = "") -> str | None:
    """Name the field that made encoding fail; its type is shown, its content may be secret."""
    path = path or type(value).__name__
    for field in fields_of(type(value)):
        if version not in field.versions:
            continue
        item = getattr(value, field.name, None)
        if item is None and version in field.nullable:
            continue
        problem = _explain_value(field.type, item, version, f"{path}.{field.name}")
        if problem:
            return problem
    return None


def _explain_value(element: Element, value: Any, version: int, path: str) -> str | None:
    if element.struct is not None:
        if isinstance(value, element.struct):
            return _explain(value, version, path)
        return f"{path} must be {element.struct.__qualname__}, not {type(value).__name__}"
    if element.kind is Kind.UUID:
        return None if hasattr(value, "bytes") else f"{path} must be a uuid.UUID, not {type(value).__name__}"
    expected = _PYTHON_TYPES.get(element.kind, (int,))
    if not isinstance(value, expected):
        return f"{path} must be {expected[0].__name__}, not {type(value).__name__}"
    if element.item is not None and isinstance(value, Sequence):
        problems = (_explain_value(element.item, one, version, f"{path}[{i}]") for i, one in enumerate(value))
        return next(filter(None, problems), None)
    return _explain_range(element.kind, value, path)


def _explain_range(kind: Kind, value: Any, path: str) -> str | None:
    if kind is Kind.STRING:
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            return f"{path} is not valid text: {error.reason} at character {error.start}"
        return f"{path} of {size} bytes is longer than Kafka's limit of 32767" if size > 0x7FFF else None
    if kind in FIXED:
        try:
            struct.pack(">" + FIXED[kind][0], value)
        except struct.error:
            return f"{path} = {value} does not fit {kind.value}"
    return None
