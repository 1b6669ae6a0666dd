"""What can go wrong with one request at a fake broker; planned with `FakeBroker.plan` and `always`."""

from __future__ import annotations

import struct
from typing import Any

from kclient.wire.frame import encode_response
from kclient.wire.message import Response
from kclient.wire.schema import Kind, Struct, default_struct, fields_of
from tests.support.fake_broker import Exchange, Fault

CODE_FIELD = "error_code"


def answers(response: Response) -> Fault:
    """Another answer than usual."""
    return lambda exchange: exchange.reply(response)


def fails(code: int) -> Fault:
    """The usual answer with an error code in every place that has one."""

    def fault(exchange: Exchange) -> None:
        response = exchange.response()
        set_codes(response, code, exchange.version)
        exchange.reply(response)

    return fault


def delayed(seconds: float) -> Fault:
    """The usual answer, late; requests behind it wait too."""
    return lambda exchange: exchange.later(seconds, lambda: exchange.reply(exchange.response()))


def silent(exchange: Exchange) -> None:
    """No answer, to this request and all that follow it on the connection."""


def closes(exchange: Exchange) -> None:
    """The connection ends instead of an answer, in good order."""
    exchange.close()


def resets(exchange: Exchange) -> None:
    """The connection breaks instead of an answer."""
    exchange.reset()


def closes_after_answering(exchange: Exchange) -> None:
    """The usual answer, then the end; requests that came along with this one get none."""
    exchange.write(exchange.frame(exchange.response()))
    exchange.close()


def sends(data: bytes) -> Fault:
    """These bytes instead of an answer."""

    def fault(exchange: Exchange) -> None:
        exchange.write(data)
        exchange.finish()

    return fault


def announces(size: int) -> Fault:
    """The size of a frame, and some of its bytes."""
    return sends(struct.pack(">i", size) + bytes(100))


def garbles(exchange: Exchange) -> None:
    """A frame with the right correlation id and a body that makes no sense."""
    body = struct.pack(">i", exchange.correlation_id) + b"\xff" * 30
    exchange.write(struct.pack(">i", len(body)) + body)
    exchange.finish()


def answers_another_request(exchange: Exchange) -> None:
    """The usual answer with a correlation id that nobody used."""
    frame = encode_response(exchange.response(), exchange.version, exchange.correlation_id + 1000)
    exchange.write(frame)
    exchange.finish()


def drips(exchange: Exchange, every: float = 0.1) -> None:
    """The usual answer, a byte at a time."""
    frame = exchange.frame(exchange.response())

    def drop(position: int) -> None:
        exchange.write(frame[position : position + 1])
        if position + 1 < len(frame):
            exchange.later(every, lambda: drop(position + 1))
        else:
            exchange.finish()

    drop(0)


def trickles(exchange: Exchange, every: float = 0.1) -> None:
    """An answer that never ends: a byte at a time for as long as anybody reads."""

    def drop() -> None:
        if not exchange.peer.lost:
            exchange.write(b"\0")
            exchange.later(every, drop)

    exchange.write(struct.pack(">i", 100_000))
    drop()


def set_codes(value: Struct, code: int, version: int) -> int:
    """Put an error code wherever a version of a message has a place for one; returns how many there are."""
    places = 0
    for field in fields_of(type(value)):
        if version not in field.versions:
            continue
        if field.name == CODE_FIELD:
            setattr(value, field.name, code)
            places += 1
        else:
            places += sum(set_codes(item, code, version) for item in _structs(getattr(value, field.name)))
    return places


def codes_in(value: Struct) -> list[int]:
    """Every error code of a message that is not 0."""
    codes: list[int] = []
    for field in fields_of(type(value)):
        item = getattr(value, field.name)
        if field.name == CODE_FIELD and item != 0:
            codes.append(item)
        codes += [code for struct_ in _structs(item) for code in codes_in(struct_)]
    return codes


def _structs(value: Any) -> list[Struct]:
    if isinstance(value, Struct):
        return [value]
    return [item for item in value if isinstance(item, Struct)] if isinstance(value, list) else []


def filled(declaration: type[Struct], version: int) -> Any:
    """An instance that has one item in every array of structs, so that every place of a code is there."""
    made = default_struct(declaration)
    for field in fields_of(declaration):
        element = field.type
        struct_ = element.struct if element.item is None else element.item.struct
        if struct_ is not None and version in field.versions:
            item = filled(struct_, version)
            setattr(made, field.name, item if element.item is None else [item])
        elif element.kind is Kind.RECORDS:
            setattr(made, field.name, b"")
    return made
