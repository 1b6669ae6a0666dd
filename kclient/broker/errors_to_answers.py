"""The answer that says of everything in a request that it failed with one error.

Kafka has such a method for each request by hand. Here the answer mirrors the request: where the answer has
an error code of its own that is set; arrays of the request become arrays of the answer, item by item, with
the fields that name an item copied. Used for handlers that fail as a whole and for faults on request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kclient.errors import BrokerError
from kclient.wire.message import Request, Response
from kclient.wire.schema import Field, Kind, Struct, default_struct, fields_of

# What Kafka says where a request makes no sense and it has no better words.
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was "
    "sent to an incompatible broker. See the broker logs for more details."
)
_SYNONYMS = {"partition": "partition_index", "group_ids": "group_id", "resource_type": "resource_type"}


def error_answer(request: Request[Any], error: BrokerError, version: int) -> Response:
    """The answer to `request` in which everything failed with `error`."""
    answer = default_struct(type(request).response)
    assert isinstance(answer, Response)
    _mirror(request, answer, error, version)
    return answer


def _mirror(source: Struct, target: Struct, error: BrokerError, version: int) -> None:
    names = set(target._names)
    for field in _present(source, version):
        name = field.name if field.name in names else _SYNONYMS.get(field.name, "")
        if name in names and field.type.kind not in (Kind.ARRAY, Kind.STRUCT):
            setattr(target, name, getattr(source, field.name))
    present = {field.name for field in _present(target, version)}
    if "error_code" in present:
        target.error_code = error.code  # type: ignore[attr-defined]
    if "error_message" in present:
        target.error_message = error.message or str(error)  # type: ignore[attr-defined]
    _mirror_arrays(source, target, error, version)


def _mirror_arrays(source: Struct, target: Struct, error: BrokerError, version: int) -> None:
    wanted = [field for field in _present(target, version) if field.type.item and field.type.item.struct]
    given = [field for field in _present(source, version) if field.type.item]
    for to, from_ in zip(wanted, given, strict=False):
        item_type = to.type.item.struct if to.type.item else None
        assert item_type is not None
        items = []
        for one in getattr(source, from_.name) or ():
            item = default_struct(item_type)
            if isinstance(one, Struct):
                _mirror(one, item, error, version)
            else:
                _name_item(item, one, error, version)
            items.append(item)
        setattr(target, to.name, items)


def _name_item(item: Struct, value: object, error: BrokerError, version: int) -> None:
    """An item of a plain list (of groups, of partitions) is named by the first field of its type."""
    for field in _present(item, version):
        if field.name == "error_code":
            item.error_code = error.code  # type: ignore[attr-defined]
        elif type(field.default()) is type(value):
            setattr(item, field.name, value)
            break
    if "error_code" in item._names:
        item.error_code = error.code  # type: ignore[attr-defined]
    if "error_message" in item._names:
        item.error_message = error.message  # type: ignore[attr-defined]


def _present(struct: Struct, version: int) -> Iterator[Field]:
    return (field for field in fields_of(type(struct)) if version in field.versions)
