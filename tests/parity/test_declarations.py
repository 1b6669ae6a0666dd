"""Every declaration against the newest kafka-clients jar, field by field, version by version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kclient.wire.api import ApiKey
from kclient.wire.message import Message, Request
from kclient.wire.messages import FAMILIES
from kclient.wire.schema import Element, Field, Kind, Struct, fields_of
from kclient.wire.versions import NO_VERSION, VersionRange
from tests.support.catalogue import every_message
from tools.schema_import import default_of, definitions, snake_case

Definition = dict[str, Any]


@pytest.fixture(scope="session")
def kafka_definitions(clients_jar: Path) -> dict[str, Definition]:
    return definitions(clients_jar)


def test_every_api_of_the_client_listener_is_declared(kafka_definitions: dict[str, Definition]) -> None:
    spoken = {
        definition["apiKey"]: snake_case(name.removesuffix("Request")).upper()
        for name, definition in kafka_definitions.items()
        if "broker" in definition.get("listeners", ())
    }
    assert {key.value: key.name for key in ApiKey} == spoken
    assert {key for keys in FAMILIES.values() for key in keys} == set(ApiKey)


@pytest.mark.parametrize("declaration", every_message(), ids=lambda declaration: declaration.__name__)
def test_declaration_equals_kafkas_definition(
    declaration: type[Message], kafka_definitions: dict[str, Definition]
) -> None:
    definition = kafka_definitions[declaration.__name__]
    assert str(declaration.versions) == definition["validVersions"]
    assert str(declaration.flexible) == definition["flexibleVersions"]
    if issubclass(declaration, Request):
        assert declaration.api_key == definition["apiKey"]
        assert declaration.response.__name__ == declaration.__name__.replace("Request", "Response")
        assert declaration.latest_unstable == definition.get("latestVersionUnstable", False)
    shared = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())}
    scope = Scope(declaration.versions, declaration.flexible, shared)
    compare_structs(declaration, definition["fields"], scope, declaration.__name__)


class Scope(NamedTuple):
    """Where a struct stands: the versions that can contain it, and the structs it may refer to."""

    versions: VersionRange
    flexible: VersionRange
    shared: dict[str, list[Definition]]


def compare_structs(ours: type[Struct], theirs: list[Definition], scope: Scope, path: str) -> None:
    assert [field.name for field in fields_of(ours)] == [snake_case(field["name"]) for field in theirs], path
    for field, definition in zip(fields_of(ours), theirs, strict=True):
        where = f"{path}.{field.name}"
        compare_field(field, definition, scope, where)
        struct = (field.type.item or field.type).struct
        if struct is not None:
            inner = definition.get("fields") or scope.shared[definition["type"].removeprefix("[]")]
            span = scope.versions.overlap(VersionRange.parse(definition["versions"]))
            compare_structs(struct, inner, scope._replace(versions=span), where)


def compare_field(field: Field, definition: Definition, scope: Scope, where: str) -> None:
    versions = VersionRange.parse(definition["versions"])
    nullable = VersionRange.parse(definition.get("nullableVersions", "none"))
    tagged = VersionRange.parse(definition.get("taggedVersions", "none"))
    assert type_name(field.type) == re.sub(r"[A-Z]\w*", "struct", definition["type"]), where
    for version in range(scope.versions.first, scope.versions.last + 1):
        at = f"{where} in version {version}"
        assert (version in field.versions) == (version in versions), at
        if version in versions:
            # A record set can be null in every version of Kafka's own readers.
            if field.type.kind is not Kind.RECORDS:
                assert (version in field.nullable) == (version in nullable), at
            has_tag = field.tag is not None and version in scope.flexible
            assert has_tag == (version in tagged), at
    assert field.tag == definition.get("tag"), where
    assert field.compact == (definition.get("flexibleVersions") != "none"), where
    if not versions.covers(scope.versions):
        assert field.ignorable == definition.get("ignorable", False), where
    compare_default(field, definition, where)


def compare_default(field: Field, definition: Definition, where: str) -> None:
    if field.type.kind is Kind.STRUCT and definition.get("default") != "null":
        assert isinstance(field.default(), Struct), where
    else:
        assert field.default() == default_of(definition), where
    if "default" in definition:
        assert not field.required, where
    if field.nullable == NO_VERSION:
        assert field.default() is not None, where


def type_name(element: Element) -> str:
    return f"[]{type_name(element.item)}" if element.item is not None else element.kind.value
