"""Which process runs which tests, as `--dist loadfile` does it, but with groups of ours and through crashes.

pytest-xdist gives a test that crashed its process to the next process, and a process whose last tests are few
waits for more for ever. Here such a test has failed, once, and every process is told when there is no more.
`tests/conftest.py` says which tests are a group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# A worker begins a test when it knows the next one, or that there is none.
_KNOWN_AHEAD = 2


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Gives the tests of a group to one process, in order."""

    def __init__(self, config: pytest.Config, log: Any, group_of: Callable[[str], str]) -> None:
        super().__init__(config, log)
        self._split_scope = group_of

    def remove_node(self, node: Any) -> str | None:
        """Forget a process; if it crashed, returns the test that it was running."""
        groups: dict[str, dict[str, bool]] = self.assigned_work.pop(node)
        waiting = [name for tests in groups.values() for name, done in tests.items() if not done]
        for group, tests in groups.items():
            left = {name: done for name, done in tests.items() if not done and name != waiting[0]}
            if left:
                self.workqueue[group] = left
        for other in self.nodes:
            self._reschedule(other)
        return waiting[0] if waiting else None

    def _reschedule(self, node: Any) -> None:
        """Give a process more to do, if it has little, or tell it that there is no more."""
        if (
            node not in self.registered_collections
        ):  # it replaces a crashed one, and does not know the tests yet
            return
        super()._reschedule(node)
        while self.workqueue and self._pending_of(self.assigned_work[node]) < _KNOWN_AHEAD:
            self._assign_work_unit(node)
        if not self.workqueue and not node.shutting_down:
            node.shutdown()
