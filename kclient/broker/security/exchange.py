"""What the server halves of the SASL mechanisms have in common.

An exchange belongs to one login on one connection and does no I/O: `step` takes what the client sent and
gives what to send back, or who the client has proven to be. `sasl_server` drives exchanges and turns
refusals into answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kclient.errors import AuthenticationError


@dataclass(frozen=True, slots=True)
class Proven:
    """The end of a login: who the client is, the mechanism's last word, and when that ends (wall clock)."""

    user: str
    last_word: bytes = field(default=b"", repr=False)
    expires_at: float | None = None


class RefusedError(AuthenticationError):
    """The login ends here. `said` is what the client is told; None says no more than that it failed.

    Only what helps nobody to guess names or passwords is said.
    """

    def __init__(self, said: str | None = None) -> None:
        super().__init__(said or "refused")
        self.said = said


class Exchange(Protocol):
    """One login under way."""

    def step(self, message: bytes, /) -> bytes | Proven:
        """Answer the client's next message. Raises `RefusedError`; is not called again after that."""
