"""What keys and values are: text, JSON, msgpack, or bytes to be shown in hex or base64."""

from __future__ import annotations

import base64
import json
import math
from typing import TYPE_CHECKING, Any, TypeAlias

from kclient.cli.errors import CommandError

if TYPE_CHECKING:
    from kclient.types import Record

    BytesRecord: TypeAlias = Record[bytes | None, bytes | None]

KINDS = ("string", "json", "msgpack", "hex", "base64")


class Decoder:
    """Reads the keys and values of records, each as one of KINDS."""

    def __init__(self, key: str = "string", value: str = "string") -> None:
        self._key, self._value = key, value
        if "msgpack" in (key, value):
            _msgpack()

    def key_text(self, record: BytesRecord) -> bytes | None:
        return self._text("key", self._key, record.key, record)

    def value_text(self, record: BytesRecord) -> bytes | None:
        return self._text("value", self._value, record.value, record)

    def key_fields(self, record: BytesRecord) -> dict[str, Any]:
        return self._fields("key", self._key, record.key, record)

    def value_fields(self, record: BytesRecord) -> dict[str, Any]:
        return self._fields("value", self._value, record.value, record)

    def _text(self, name: str, kind: str, data: bytes | None, record: BytesRecord) -> bytes | None:
        """The bytes to print; what is text already is not touched."""
        if data is None or kind == "string":
            return data
        decoded = self._decoded(name, kind, data, record)
        if kind in ("json", "msgpack"):
            return json.dumps(decoded, ensure_ascii=False, separators=(",", ":")).encode(
                errors="backslashreplace"
            )
        return str(decoded).encode()

    def _fields(self, name: str, kind: str, data: bytes | None, record: BytesRecord) -> dict[str, Any]:
        if data is None:
            return {name: None}
        if kind == "string":
            try:
                return {name: data.decode()}
            except UnicodeDecodeError:
                return {f"{name}_base64": base64.b64encode(data).decode()}
        return {name: self._decoded(name, kind, data, record)}

    def _decoded(self, name: str, kind: str, data: bytes, record: BytesRecord) -> Any:
        if kind == "hex":
            return data.hex()
        if kind == "base64":
            return base64.b64encode(data).decode()
        try:
            return (
                json.loads(data, parse_constant=no_constant)
                if kind == "json"
                else _plain(_msgpack().unpackb(data, strict_map_key=False))
            )
        except (ValueError, RecursionError, TypeError, OverflowError) as error:
            raise CommandError(
                f"the {name} of {record.topic}, partition {record.partition}, offset {record.offset} is no "
                f"{kind} ({error}): --decode{'-key' if name == 'key' else ''} hex shows what it is"
            ) from error


def no_constant(name: str) -> Any:
    """For `json.loads`, which takes NaN and Infinity, though no other program would take them from us."""
    raise ValueError(f"{name} is not in JSON")


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError as error:
        raise CommandError("msgpack needs a package: pip install 'kclient-kafka[msgpack]'") from error
    return msgpack


def _plain(value: Any) -> Any:
    """The same with nothing in it that JSON does not have."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(_plain(key)): _plain(each) for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
