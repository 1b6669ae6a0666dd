"""`kclient broker --control`: a line on standard input is a thing to do to the cluster while it runs.

For tests and scripts that want to see a node fail or a leader move. Every line is answered with one on
standard output, so a script can wait for it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kclient.cli.errors import UsageError, close_to, sentence
from kclient.errors import KafkaError

if TYPE_CHECKING:
    from kclient.broker import Broker

_CHUNK = 1 << 12


class _Order(NamedTuple):
    """What follows the word, and what is done and said then."""

    words: str
    do: Callable[[Broker, list[str]], Awaitable[str]]


async def _stop(broker: Broker, given: list[str]) -> str:
    node = _number(given[0])
    await broker.stop_node(node)
    return f"node {node} is stopped"


async def _start(broker: Broker, given: list[str]) -> str:
    node = _number(given[0])
    await broker.start_node(node)
    return f"node {node} runs"


async def _leader(broker: Broker, given: list[str]) -> str:
    topic, partition, node = given[0], _number(given[1]), _number(given[2])
    broker.move_leader(topic, partition, node)
    return f"node {node} leads {topic}:{partition}"


async def _coordinator(broker: Broker, given: list[str]) -> str:
    group, node = given[0], _number(given[1])
    broker.move_coordinator(group, node)
    return f"node {node} coordinates {group}"


async def _nodes(broker: Broker, _: list[str]) -> str:
    return ", ".join(
        f"node {node} {'runs' if broker.is_running(node) else 'is stopped'}" for node in broker.nodes
    )


async def _help(_: Broker, __: list[str]) -> str:
    return HELP


_ORDERS: Mapping[str, _Order] = {
    "stop": _Order("NODE", _stop),
    "start": _Order("NODE", _start),
    "leader": _Order("TOPIC PARTITION NODE", _leader),
    "coordinator": _Order("GROUP NODE", _coordinator),
    "nodes": _Order("", _nodes),
    "help": _Order("", _help),
}
HELP = ", ".join(f"{word} {order.words}".strip() for word, order in _ORDERS.items())


async def obey(broker: Broker, line: str) -> str | None:
    """Do what a line says, and say what was done or why not; None for an empty line."""
    word, *given = line.split() or [""]
    if not word:
        return None
    try:
        return await _order(word, given).do(broker, given)
    except (KafkaError, ValueError, OSError) as error:
        return f"error: {sentence(error)}"


def _order(word: str, given: list[str]) -> _Order:
    order = _ORDERS.get(word)
    if order is None:
        raise UsageError(f"there is no {word!r}{close_to(word, _ORDERS) or f'; write {HELP}'}")
    if len(given) != len(order.words.split()):
        raise UsageError(f"write: {word} {order.words}".rstrip())
    return order


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{text!r} is no number")
    return int(text)


async def control(broker: Broker) -> None:
    """Obey standard input until it ends, which ends nothing else."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    if hasattr(signal, "SIGTTIN"):  # in the background of a terminal: reading fails then, and stops nobody
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)

    def read() -> None:
        """On a thread, as files cannot be waited for; bare reads, as a lock would outlive the interpreter."""
        rest = b""
        try:
            while chunk := os.read(descriptor, _CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    loop.call_soon_threadsafe(lines.put_nowait, line.decode(errors="replace"))
            loop.call_soon_threadsafe(lines.put_nowait, rest.decode(errors="replace"))
            loop.call_soon_threadsafe(lines.put_nowait, None)
        except (OSError, RuntimeError):  # nobody is at the terminal, or the broker has ended
            return

    descriptor = sys.stdin.fileno()
    threading.Thread(target=read, name="kclient broker control", daemon=True).start()
    while (line := await lines.get()) is not None:
        said = await obey(broker, line)
        if said is not None:
            print(said, flush=True)
