"""Prints message declarations as skeletons, from the definitions inside a kafka-clients jar.

    python -m tools.schema_import path/to/kafka-clients.jar ListOffsets OffsetForLeaderEpoch

Only facts are taken over (names, types, versions, nullability, tags, defaults), never the jar's texts. What
it prints is pasted into `kclient/wire/messages/` and finished by hand: `SECRET` marks, a docstring for the
file. `tests/parity` holds the result against the jar from then on.
"""

from __future__ import annotations

import argparse
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kclient.wire.schema import NO_UUID
from kclient.wire.versions import NO_VERSION, VersionRange

WORDS = {
    "bool": "Bool",
    "int8": "Int8",
    "int16": "Int16",
    "uint16": "UInt16",
    "int32": "Int32",
    "uint32": "UInt32",
    "int64": "Int64",
    "float64": "Float64",
    "uuid": "Uuid",
    "string": "String",
    "bytes": "Bytes",
    "records": "Records",
}
ZEROS = {
    "bool": "False",
    "float64": "0.0",
    "uuid": "NO_UUID",
    "string": '""',
    "bytes": 'b""',
    "records": "None",
}
# Left out by most callers, so optional even where every version carries them.
ALWAYS_OPTIONAL = {"throttle_time_ms", "error_code"}


def definitions(jar: Path) -> dict[str, dict[str, Any]]:
    """Every message definition in the jar by name; their format is JSON with // comments."""
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                found[definition["name"]] = definition
    return found


def snake_case(name: str) -> str:
    """`ThrottleTimeMs` -> `throttle_time_ms`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def default_of(field: dict[str, Any]) -> Any:
    """The default of a field, by Kafka's rules, as a Python value; None for a struct, which has its own."""
    kind, text = field["type"], field.get("default")
    if text == "null" or kind.startswith("[]"):
        return None if text == "null" else []
    if kind.startswith(("int", "uint")):
        return int(str(text or 0), 0)
    readers: dict[str, Any] = {"bool": lambda t: str(t).lower() == "true", "float64": lambda t: float(t or 0)}
    readers |= {"string": lambda t: t or "", "bytes": lambda t: (t or "").encode(), "uuid": lambda _: NO_UUID}
    return readers[kind](text) if kind in readers else None


class Skeleton:
    """One message under translation."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition
        self.valid = VersionRange.parse(definition["validVersions"])
        self.common = {struct["name"]: struct for struct in definition.get("commonStructs", [])}

    def lines(self) -> Iterator[str]:
        for struct in self.common.values():
            yield from self.struct(self.shared_name(struct["name"]), struct["fields"], self.valid)
            yield from ("", "")
        yield f"class {self.definition['name']}({self.base()}):"
        yield from self.body(self.definition["fields"], self.valid)

    def base(self) -> str:
        name, kind = self.definition["name"], self.definition["type"]
        options = f'versions="{self.valid}", flexible="{self.definition["flexibleVersions"]}"'
        if kind not in {"request", "response"}:
            return f"Data, {options}"
        key = f"key=ApiKey.{snake_case(re.sub('(Request|Response)$', '', name)).upper()}"
        if self.definition.get("latestVersionUnstable"):
            options += ", latest_unstable=True"
        base = f"Request[{name.removesuffix('Request')}Response]" if kind == "request" else "Response"
        return f"{base}, {key}, {options}"

    def shared_name(self, name: str) -> str:
        """Structs used in several places stand beside their message, so they carry its name."""
        message: str = self.definition["name"]
        return name if name.startswith(re.sub("(Request|Response)$", "", message)) else message + name

    def struct(self, name: str, fields: list[dict[str, Any]], span: VersionRange) -> Iterator[str]:
        yield f"class {name}(Struct):"
        yield from self.body(fields, span)

    def body(self, fields: list[dict[str, Any]], span: VersionRange) -> Iterator[str]:
        """A class body; `span` is where its struct can appear, so what holds for all of it goes unsaid."""
        for field in fields:
            if "fields" in field:
                within = span.overlap(VersionRange.parse(field["versions"]))
                nested = self.struct(field["type"].removeprefix("[]"), field["fields"], within)
                yield from (f"    {line}" for line in nested)
                yield ""
        for field in fields:
            yield f"    {self.field(field, span)}"
        if not fields:
            yield "    pass"

    def field(self, field: dict[str, Any], span: VersionRange) -> str:
        name = snake_case(field["name"])
        versions = VersionRange.parse(field["versions"])
        everywhere = versions.covers(span)
        nullable = VersionRange.parse(field.get("nullableVersions", "none"))
        limits = [] if everywhere else [f'"{versions}"']
        if nullable != NO_VERSION and not nullable.covers(span.overlap(versions)):
            limits.append(f'nullable="{nullable}"')
        if field.get("ignorable") and not everywhere:
            limits.append("ignorable=True")
        marks = [f"V({', '.join(limits)})"] if limits else []
        if "tag" in field:
            marks.append(f"Tag({field['tag']})")
        if field.get("flexibleVersions") == "none":
            marks.append("NOT_COMPACT")
        word = self.word(field["type"], nullable)
        if marks:
            word = f"Annotated[{word}, {', '.join(marks)}]"
        optional = "default" in field or "tag" in field or not everywhere or name in ALWAYS_OPTIONAL
        return f"{name}: {word}" + (f" = {self.default(field)}" if optional else "")

    def word(self, kind: str, nullable: VersionRange) -> str:
        null = "Nullable" if nullable != NO_VERSION else ""
        if kind.startswith("[]"):
            return f"{null}Array[{self.word(kind[2:], NO_VERSION)}]"
        if kind in WORDS:
            return WORDS[kind] if kind == "records" else null + WORDS[kind]
        struct = self.shared_name(kind) if kind in self.common else kind
        return f"NullableStruct[{struct}]" if null else struct

    def default(self, field: dict[str, Any]) -> str:
        kind, value = field["type"], default_of(field)
        if value == NO_UUID:
            return "NO_UUID"
        is_struct = kind not in WORDS and not kind.startswith("[]")
        return "DEFAULT" if is_struct and field.get("default") != "null" else repr(value)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jar", type=Path, help="a kafka-clients jar")
    parser.add_argument(
        "names", nargs="+", metavar="API", help="an API (Fetch) or a data message (EndTxnMarker)"
    )
    options = parser.parse_args()
    known = definitions(options.jar)
    for name in options.names:
        chosen = [known[full] for full in (f"{name}Response", f"{name}Request", name) if full in known]
        if not chosen:
            parser.error(f"{options.jar.name} defines no message {name!r}; names look like 'ListOffsets'")
        for definition in chosen:
            print("\n".join(Skeleton(definition).lines()), end="\n\n\n")


if __name__ == "__main__":
    main()
