"""What the operations of the admin client have in common beyond `kclient.cluster.operations`."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from kclient.cluster.operations import Operation
from kclient.errors import IncompatibleBrokerError

K = TypeVar("K")
T = TypeVar("T")


class AdminOperation(Operation[K, T]):
    """An operation that knows which Kafka first offered it, for the error of older ones."""

    since: ClassVar[str | None] = None

    @classmethod
    def unavailable(cls, error: IncompatibleBrokerError) -> IncompatibleBrokerError:
        """The error in the words of the user, who knows releases and not versions of messages."""
        if cls.since is None:
            return error
        name = cls.request.__name__.removesuffix("Request")
        better = IncompatibleBrokerError(f"{name} needs Kafka {cls.since} or newer: {error}")
        better.__cause__ = error
        return better


def needs(kafka: str, what: str) -> IncompatibleBrokerError:
    """The error for a wish that the negotiated version of a request cannot carry."""
    return IncompatibleBrokerError(
        f"{what} needs Kafka {kafka} or newer, and the broker that was asked is older"
    )
