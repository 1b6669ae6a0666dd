"""Has this process fail at its n-th change of a file, as if it had been killed there.

Work that is done again and again with one change more each time is seen to survive a kill at any point.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

CHANGES = ("pwrite", "ftruncate", "unlink", "rename", "replace", "mkdir", "rmdir")


class Killed(BaseException):
    """The process is no more."""


class Fuse:
    """Lets so many changes of files happen, and none after them."""

    def __init__(self, patch: pytest.MonkeyPatch, lasts: int) -> None:
        self.left = lasts
        for name in CHANGES:
            patch.setattr(os, name, self._guarded(getattr(os, name), halves=name == "pwrite"))

    def _guarded(self, call: Callable[..., Any], *, halves: bool) -> Callable[..., Any]:
        def guarded(*args: Any, **options: Any) -> Any:
            if self.left <= 0:
                if halves and self.left == 0:
                    call(args[0], args[1][: len(args[1]) // 2], *args[2:])
                self.left = -1
                raise Killed
            self.left -= 1
            return call(*args, **options)

        return guarded
