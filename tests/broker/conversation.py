"""A conversation with a broker, written down so that it can be compared with the same one held elsewhere.

`Talk` sends the requests of a script (`script`) in the version that the script names and notes each answer
with what differs from run to run replaced: ids, ports, times. `differences` compares two conversations
field by field. Not here: what is said, and which differences are accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.errors import KafkaError
from kclient.net.connection import Connection
from kclient.net.dial import dial
from kclient.wire.message import Request, Response
from kclient.wire.schema import Struct, default_struct, fields_of
from tests.support.connecting import settings

R = TypeVar("R", bound=Response)
# For one answer, and for Kafka to have settled: generous, because machines that run tests are busy.
_PATIENCE = 120.0
Plain = Any  # what JSON can hold, and bytes

_NEVER_THE_SAME = {
    "host",
    "port",
    "cluster_id",
    "log_dir",
    "total_bytes",
    "usable_bytes",
    "partition_size",
    "log_append_time_ms",
}
_NUMBERED = {"session_id", "producer_id", "member_id", "leader"}
_UNSET = (0, -1, "", None)


def build(struct: type[Any], **given: Any) -> Any:
    """A message from plain values: dictionaries become its structs, what is not given is at its default."""
    message = default_struct(struct)
    types = {one.name: one.type for one in fields_of(struct)}
    for name, value in given.items():
        item = types[name].item
        inner = types[name].struct
        if inner is not None and isinstance(value, dict):
            setattr(message, name, build(inner, **value))
        elif item is not None and item.struct is not None and value is not None:
            setattr(message, name, [build(item.struct, **one) for one in value])
        else:
            setattr(message, name, value)
    return message


@dataclass
class Exchange:
    """One request and what came back."""

    label: str
    api: str
    version: int
    answer: Plain


@dataclass
class Talk:
    """One conversation with one broker."""

    host: str
    port: int
    exchanges: list[Exchange] = field(default_factory=list)
    names: dict[UUID, str] = field(default_factory=dict)
    _numbers: dict[str, dict[object, str]] = field(default_factory=dict)
    _connection: Connection | None = None

    async def ask(self, label: str, request: Request[Any], version: int | None = None) -> Any:
        """Ask, note the answer, and give it back as it came; None where the connection ended instead."""
        used = request.versions.last - type(request).latest_unstable if version is None else version
        response = await self._call(request, used)
        plain = "closed" if response is None else self._plain(response, used)
        self.exchanges.append(Exchange(label, request.api_key.name, used, plain))
        return response

    async def until(self, request: Request[R], version: int, ready: Callable[[R], bool]) -> R:
        """Ask, unnoted, until the answer is as it will stay: Kafka's metadata come a little later."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                response = await self._call(request, version)
                if response is not None and ready(response):
                    return response
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            await self._connection.wait_closed()

    async def _call(self, request: Request[R], version: int) -> R | None:
        deadline = Deadline.after(asyncio.get_running_loop(), _PATIENCE)
        if self._connection is None or self._connection.closed:
            patient = settings(max_frame=100_000_000, request_timeout=_PATIENCE, setup_timeout=_PATIENCE / 2)
            self._connection = await dial(Endpoint(self.host, self.port), patient, deadline)
        try:
            return await self._connection.call(request, deadline, version=version)
        except KafkaError:
            return None

    def _plain(self, struct: Struct, version: int) -> Plain:
        return {
            one.name: self._value(one.name, getattr(struct, one.name), version)
            for one in fields_of(type(struct))
            if version in one.versions
        }

    def _value(self, name: str, value: Any, version: int) -> Plain:
        match value:
            case Struct():
                return self._plain(value, version)
            case list():
                return [self._value(name, one, version) for one in value]
            case UUID():
                return self._named(value)
            case memoryview():
                return bytes(value)
            case _:
                return self._scalar(name, value)

    def _scalar(self, name: str, value: Any) -> Plain:
        if value in _UNSET:
            return value
        if name in _NEVER_THE_SAME:
            return f"a {name}"
        if name in _NUMBERED:
            known = self._numbers.setdefault(name, {})
            return known.setdefault(value, f"{name} {len(known)}")
        return value

    def _named(self, topic_id: UUID) -> str:
        if not topic_id.int:
            return "no id"
        return self.names.get(topic_id, "an id of nothing")


@dataclass(frozen=True)
class Difference:
    """One field that is not the same."""

    label: str
    api: str
    version: int
    path: str
    ours: Plain
    theirs: Plain

    def __str__(self) -> str:
        return (
            f"{self.label} ({self.api} v{self.version}) {self.path}: "
            f"ours {_short(self.ours)}, Kafka's {_short(self.theirs)}"
        )


def differences(ours: list[Exchange], theirs: list[Exchange]) -> Iterator[Difference]:
    """Every field in which two conversations differ."""
    assert [one.label for one in ours] == [one.label for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for path, here, there in _compare("", one.answer, other.answer):
            yield Difference(one.label, one.api, one.version, path, here, there)


def _compare(path: str, ours: Plain, theirs: Plain) -> Iterator[tuple[str, Plain, Plain]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours:
            yield from _compare(f"{path}.{name}" if path else name, ours[name], theirs[name])
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from _compare_lists(path, ours, theirs)
    elif ours != theirs:
        yield path, ours, theirs


# Lists of things that have a name, whose order means nothing.
_NAMED_BY = ("name", "topic", "api_key", "topic_id", "group_id", "resource_name", "key", "partition_index")


def _compare_lists(path: str, ours: list[Plain], theirs: list[Plain]) -> Iterator[tuple[str, Plain, Plain]]:
    key = next((name for name in _NAMED_BY if _all_have(name, ours, theirs)), None)
    if key is None:
        if len(ours) != len(theirs):
            yield path, ours, theirs
            return
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _compare(f"{path}[{index}]", one, other)
        return
    here, there = {one[key]: one for one in ours}, {one[key]: one for one in theirs}
    for name in sorted(here.keys() | there.keys(), key=str):
        where = f"{path}[{name}]"
        if name in here and name in there:
            yield from _compare(where, here[name], there[name])
        else:
            yield where, here.get(name, "nothing"), there.get(name, "nothing")


def _all_have(name: str, ours: list[Plain], theirs: list[Plain]) -> bool:
    for items in (ours, theirs):
        values = [one.get(name) for one in items if isinstance(one, dict)]
        if len(values) != len(items) or None in values or len(set(values)) != len(values):
            return False
    return bool(ours or theirs)


def _short(value: Plain) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}…"
