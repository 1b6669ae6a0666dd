"""A `send` that a signal handler ends by raising, at every point where CPython looks for signals.

The hooks hear of every record once: what became of it where it was appended, or what `send` raised.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kclient
from kclient.producer import Producer
from kclient.runtime import brief_lock
from kclient.testing import RunningBroker
from tests.support.producing import values

OURS = str(Path(kclient.__file__).parent)
# Signals are looked for behind a call, at the begin of a function and where a loop goes back.
_POINTS = {code for name, code in dis.opmap.items() if name.startswith(("CALL", "RESUME", "JUMP_BACKWARD"))}


class Interrupt:
    """Raises KeyboardInterrupt at one such point of our code, on this thread; counts them from 1."""

    def __init__(self, at: int) -> None:
        self.left = at
        self._before: dict[FrameType, int] = {}

    def during(self, work: Callable[[], object]) -> bool:
        """Whether the work was interrupted."""
        sys.settrace(self._enter)
        try:
            work()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    def _enter(self, frame: FrameType, _: str, __: object) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            before, self._before[frame] = self._before.get(frame), frame.f_lasti
            if before is not None and frame.f_code.co_code[before] in _POINTS:
                self.left -= 1
                if not self.left:
                    sys.settrace(None)
                    raise KeyboardInterrupt
        return self._step


class Hook:
    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.told: list[tuple[bytes, bool]] = []

    def on_send(self, record: Any) -> None:
        self.seen.append(record.value)

    def on_delivery(self, record: Any, metadata: object, error: object) -> None:
        assert (metadata is None) != (error is None)
        self.told.append((record.value, error is None))


WAYS: dict[str, Callable[[Producer, bytes], object]] = {
    "send": lambda producer, value: producer.send("t", value),
    "send with headers": lambda producer, value: producer.send("t", value, headers={"name": b"text"}),
    "send_nowait": lambda producer, value: producer.send_nowait("t", value, partition=0),
}


@pytest.mark.parametrize("version", [(3, 13), (3, 14)])
@pytest.mark.parametrize("linger_ms", [0, 60_000])
@pytest.mark.parametrize("way", WAYS)
def test_hooks_hear_of_every_record_once_and_what_is_so(
    kafka_broker: RunningBroker,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    linger_ms: int,
    version: tuple[int, int],
) -> None:
    monkeypatch.setattr("kclient.producer.core.brief_lock", lambda: brief_lock(version))
    hook = Hook()
    with Producer(
        bootstrap_servers=kafka_broker.bootstrap_servers, hooks=[hook], linger_ms=linger_ms
    ) as producer:
        producer.send("t", b"0")
        producer.flush()
        number, interrupted = 0, True
        while interrupted:
            number += 1
            value = b"%d" % number
            interrupt = Interrupt(number)
            interrupted = interrupt.during(lambda value=value: WAYS[way](producer, value))  # type: ignore[misc]
        producer.flush()
    written = values(kafka_broker.broker)
    assert number > 20
    assert len(written) > 1
    assert sorted(hook.told) == sorted((value, value in written) for value in hook.seen)
    assert set(written) <= set(hook.seen)
