"""Tasks in words: what each is called and where it waits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import FrameType
from typing import Any


def describe_tasks(loop: asyncio.AbstractEventLoop) -> str:
    """A line for every task that is not done, oldest first."""
    tasks = sorted(asyncio.all_tasks(loop), key=hash)
    return "\n".join(["pending tasks:", *(f"  {describe_task(task)}" for task in tasks)])


def describe_task(task: asyncio.Task[Any]) -> str:
    return f"{task.get_name()}: {' > '.join(_places(task.get_coro())) or 'not started'}"


def _places(awaited: Any) -> list[str]:
    """Where a coroutine stands, then what it awaits, down to what nothing is known of."""
    places: list[str] = []
    while awaited is not None:
        frame: FrameType | None = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            break
        places.append(f"{frame.f_code.co_name} ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})")
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return places


def _first(thing: Any, *names: str) -> Any:
    return next((getattr(thing, name) for name in names if hasattr(thing, name)), None)
