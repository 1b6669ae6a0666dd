"""What became of each item of a call about many: its value, or its own typed error."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from copy import copy
from itertools import islice
from typing import Generic, TypeVar

from kclient.errors import KafkaError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

# How many of the others an error tells of by name: a traceback shows a line for each.
_NAMED = 5


class Outcomes(Mapping[K, T], Generic[K, T]):
    """A mapping of item to value, in which looking up a failed item raises its error.

    >>> outcomes = Outcomes({"a": 1, "b": KafkaError("no")})
    >>> outcomes["a"], outcomes.succeeded, outcomes.errors
    (1, {'a': 1}, {'b': KafkaError('no')})
    """

    __slots__ = ("_outcomes",)

    def __init__(self, outcomes: Mapping[K, T | KafkaError]) -> None:
        self._outcomes = dict(outcomes)

    def __getitem__(self, key: K) -> T:
        outcome = self._outcomes[key]
        if isinstance(outcome, KafkaError):
            raise copy(outcome)
        return outcome

    def __iter__(self) -> Iterator[K]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    # Mapping's own versions of these two look items up, and so would raise.
    def __contains__(self, key: object) -> bool:
        return key in self._outcomes

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Outcomes):
            return self._outcomes == other._outcomes
        return self._outcomes == other

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Outcomes[K, T]) -> Outcomes[K, T]:
        """Both together; of an item in both, the other's outcome."""
        return Outcomes(self._outcomes | other._outcomes)

    def __repr__(self) -> str:
        return f"Outcomes({self._outcomes!r})"

    @property
    def succeeded(self) -> dict[K, T]:
        """The items that have a value."""
        return {key: value for key, value in self._outcomes.items() if not isinstance(value, KafkaError)}

    @property
    def errors(self) -> dict[K, KafkaError]:
        """The items that failed."""
        return {key: value for key, value in self._outcomes.items() if isinstance(value, KafkaError)}

    def raise_errors(self) -> None:
        """Raise the first error, if there is one; notes attached to it tell of the others."""
        failed = iter(self.errors.items())
        first = next(failed, None)
        if first is None:
            return
        key, error = first
        # A copy: notes and traceback belong to this raising, the outcome may be raised again.
        raised = copy(error)
        if getattr(error, "about", None) is None:
            raised.add_note(f"for {key}")
        for other, other_error in islice(failed, _NAMED):
            raised.add_note(
                f"also for {other}" if other_error is error else f"also for {other}: {other_error}"
            )
        left = sum(1 for _ in failed)
        if left:
            raised.add_note(f"and for {left:,} more, all of them in `errors` with raise_errors=False")
        raise raised from error.__cause__
