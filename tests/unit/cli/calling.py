"""Calls the command in this process, as a shell would: words and bytes in; a code and bytes out."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple
from unittest.mock import patch

from kclient.cli.main import main


class Result(NamedTuple):
    """How a call ended."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def table(self) -> list[list[str]]:
        return [line.split() for line in self.lines]


class _Stream(io.TextIOWrapper):
    def __init__(self, data: bytes = b"", *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8", newline="", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def contents(self) -> bytes:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue()


def call(*words: str, stdin: bytes = b"", terminal: bool = False) -> Result:
    """Run `kclient WORDS…`; `terminal` makes it believe to be on one."""
    out, err = _Stream(terminal=terminal), _Stream(terminal=terminal)
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", _Stream(stdin)):
        code = main(words)
    return Result(code, out.contents(), err.contents().decode())


def ok(*words: str, stdin: bytes = b"", terminal: bool = False) -> Result:
    """The same for a call that must succeed."""
    result = call(*words, stdin=stdin, terminal=terminal)
    assert result.code == 0, result
    return result
