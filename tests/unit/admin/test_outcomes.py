"""`Outcomes`: a mapping in which failed items raise their own errors."""

from __future__ import annotations

import pytest

from kclient.admin import Outcomes
from kclient.errors import (
    KafkaConnectionError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

EXISTS = TopicAlreadyExistsError(about="topic b")
UNKNOWN = UnknownTopicOrPartitionError(about="topic c")


@pytest.fixture
def mixed() -> Outcomes[str, int]:
    return Outcomes({"a": 1, "b": EXISTS, "c": UNKNOWN})


def test_values_and_errors_can_be_told_apart(mixed: Outcomes[str, int]) -> None:
    assert mixed["a"] == 1
    assert mixed.succeeded == {"a": 1}
    assert mixed.errors == {"b": EXISTS, "c": UNKNOWN}


def test_looking_up_a_failed_item_raises_its_error_as_often_as_one_looks(mixed: Outcomes[str, int]) -> None:
    depths = []
    for _ in range(3):
        with pytest.raises(TopicAlreadyExistsError, match="topic b") as raised:
            mixed["b"]
        depths.append(len(raised.traceback))
    assert len(set(depths)) == 1


def test_an_item_that_was_not_asked_about_is_a_key_error(mixed: Outcomes[str, int]) -> None:
    with pytest.raises(KeyError):
        mixed["d"]


def test_a_failed_item_is_among_the_keys(mixed: Outcomes[str, int]) -> None:
    assert "b" in mixed
    assert "d" not in mixed
    assert list(mixed) == ["a", "b", "c"]
    assert len(mixed) == 3


def test_a_full_success_reads_like_a_dict() -> None:
    outcomes = Outcomes({"a": 1, "b": 2})
    assert outcomes == {"a": 1, "b": 2}
    assert dict(outcomes.items()) == {"a": 1, "b": 2}
    outcomes.raise_errors()


def test_the_first_error_is_raised_and_tells_of_the_others(mixed: Outcomes[str, int]) -> None:
    for _ in range(2):
        with pytest.raises(TopicAlreadyExistsError) as raised:
            mixed.raise_errors()
        assert raised.value.__notes__ == [f"also for c: {UNKNOWN}"]


def test_an_error_that_names_no_item_is_raised_with_the_names_of_all_it_concerns() -> None:
    lost = KafkaConnectionError("lost")
    outcomes: Outcomes[str, int] = Outcomes({"a": lost, "b": lost})
    with pytest.raises(KafkaConnectionError) as raised:
        outcomes.raise_errors()
    assert raised.value.__notes__ == ["for a", "also for b"]


def test_an_error_keeps_its_cause() -> None:
    error = KafkaError("outer")
    error.__cause__ = LookupError("inner")
    with pytest.raises(KafkaError) as raised:
        Outcomes({"a": error}).raise_errors()
    assert isinstance(raised.value.__cause__, LookupError)


def test_joining_lets_the_later_outcome_win() -> None:
    assert Outcomes({"a": 1, "b": EXISTS}) | Outcomes({"b": 2}) == {"a": 1, "b": 2}


def test_an_error_about_hundreds_names_a_few_of_them_and_counts_the_others() -> None:
    errors = {str(n): UnknownTopicOrPartitionError(about=f"topic {n}") for n in range(800)}
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 0") as raised:
        Outcomes(errors).raise_errors()
    notes = raised.value.__notes__
    assert len(notes) == 6
    assert notes[0].startswith("also for 1: ")
    assert notes[-1].startswith("and for 794 more")
