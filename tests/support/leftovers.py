"""What a client has left behind on a virtual loop: tasks, timers, sockets."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.virtual_loop import VirtualLoop


def leftovers(loop: VirtualLoop) -> list[str]:
    """Each thing of kclient's that is still alive, in words."""
    tasks = [f"task {task!r}" for task in asyncio.all_tasks(loop)]
    timers = [f"timer {handle!r}" for handle in loop.pending_timers() if _is_ours(handle)]
    return tasks + timers + [f"socket {transport!r}" for transport in loop.network.open]


def _is_ours(handle: Any) -> bool:
    """Whether a timer is kclient's, or of an asyncio helper that kclient waits in.

    Fakes and the network may keep theirs.
    """
    callback = getattr(handle._callback, "func", handle._callback)
    module = getattr(callback, "__module__", "") or type(getattr(callback, "__self__", None)).__module__
    return module.startswith(("kclient", "asyncio")) and not module.startswith("kclient.testing")
