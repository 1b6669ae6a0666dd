"""The errors brokers answer with: what they have in common, their parents, and how a code becomes an error.

Each code is a class in one of the modules beside this one, registered by class keyword. A class says its
code, its name in Kafka, whether to retry, and in its docstring what happened; parents are there to be caught.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kclient.errors.base import KafkaError

_by_code: dict[int, type[BrokerError]] = {}
BROKER_ERRORS: Mapping[int, type[BrokerError]] = MappingProxyType(_by_code)

_UNDERSCORE_CAPITALS = {letter: f"_{chr(letter)}" for letter in range(ord("A"), ord("Z") + 1)}


class BrokerError(KafkaError):
    """A broker answered with an error code.

    `message` is what the broker itself said, `about` what was asked for: "topic orders, partition 3".

    >>> from kclient.errors import NonEmptyGroupError
    >>> str(NonEmptyGroupError(about="group billing"))
    'NON_EMPTY_GROUP (68) for group billing: The group still has members; this needs an empty one.'
    """

    code: int
    name: str

    def __init_subclass__(cls, *, code: int | None = None, name: str | None = None) -> None:
        if code is None:
            return
        cls.code = code
        cls.name = name or _symbolic_name(cls)
        if _by_code.setdefault(code, cls) is not cls:
            raise TypeError(f"{cls.__name__}: code {code} is {_by_code[code].__name__} already")

    def __init__(self, message: str | None = None, *, about: str | None = None) -> None:
        self.message = message
        self.about = about
        text = f"{self.name} ({self.code})"
        if about:
            text += f" for {about}"
        if self.__doc__:  # python -OO removes it
            text += f": {self.__doc__}"
        if message:
            text += f" The broker said: {message}"
        super().__init__(text)


def _symbolic_name(kind: type[BrokerError]) -> str:
    return kind.__name__.removesuffix("Error").translate(_UNDERSCORE_CAPITALS)[1:].upper()


class UnknownCodeError(BrokerError):
    """This version of kclient does not know the error code, so it takes the error for a final one."""

    name = "UNKNOWN_CODE"

    def __init__(self, code: int, message: str | None = None, *, about: str | None = None) -> None:
        self.code = code
        super().__init__(message, about=about)


class RetriableBrokerError(BrokerError):
    """A passing state of the cluster: the same request may succeed later."""

    retriable = True


class StaleMetadataError(RetriableBrokerError):
    """What the client knows of the cluster is out of date: refresh it, then try again."""

    refresh_metadata = True


class AuthorizationError(BrokerError):
    """The principal is known, but may not do what it asked for; an ACL is missing.

    `operation` is what an ACL has to allow, and `principal` the user it has to allow it to, where known.
    """

    operation: str | None = None
    principal: str | None = None

    def explain(self, operation: str | None, principal: str | None) -> None:
        """Add what is known; what is known better by now replaces what was said before."""
        self.operation = operation or self.operation
        self.principal = principal or self.principal

    @property
    def reason(self) -> str:
        """Which right is missing, in a sentence."""
        return self._filled_in((self.__doc__ or "").strip().partition("\n")[0])

    def __str__(self) -> str:
        return self._filled_in(super().__str__())

    def _filled_in(self, text: str) -> str:
        if self.principal is not None:
            text = text.replace("The principal", f"User {self.principal!r}", 1)
        if self.operation is not None:
            text = text.replace("this operation", self.operation, 1)
        return text


class ApplicationRecoverableError(BrokerError):
    """This client has lost its place in a group or transaction: the application can go on with a new one."""


def error_for(code: int, message: str | None = None, *, about: str | None = None) -> BrokerError | None:
    """The error that a code in a response stands for; None for 0, which is success."""
    if code == 0:
        return None
    kind = _by_code.get(code)
    return kind(message, about=about) if kind else UnknownCodeError(code, message, about=about)
