"""Deadlines: computed once, never extended."""

from __future__ import annotations

import time

import pytest

from kclient.clock import Deadline, SystemClock
from kclient.errors import KafkaTimeoutError


class Hands:
    """A clock that a test moves."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def time(self) -> float:
        return self.now


def test_a_deadline_counts_down_to_nothing() -> None:
    loop = Hands()
    deadline = Deadline.after(loop, 5)
    assert (deadline.at, deadline.remaining(loop), deadline.passed(loop)) == (105, 5, False)
    loop.now = 104.5
    assert (deadline.remaining(loop), deadline.passed(loop)) == (0.5, False)
    loop.now = 105
    assert (deadline.remaining(loop), deadline.passed(loop)) == (0, True)
    loop.now = 200
    assert (deadline.remaining(loop), deadline.passed(loop)) == (0, True)


def test_a_part_ends_before_the_whole_and_never_after_it() -> None:
    loop = Hands()
    whole = Deadline.after(loop, 10)
    part = whole.earlier(loop, 3)
    assert (part.at, part.seconds) == (103, 3)
    loop.now = 109
    assert whole.earlier(loop, 3) is whole
    loop.now = 150
    assert whole.earlier(loop, 3) is whole


@pytest.mark.parametrize(("seconds", "shown"), [(30.0, "30 s"), (0.25, "0.25 s"), (0, "0 s")])
def test_the_error_says_what_did_not_end_and_after_how_long(seconds: float, shown: str) -> None:
    error = Deadline.after(Hands(), seconds).expired("connecting")
    assert isinstance(error, KafkaTimeoutError)
    assert isinstance(error, TimeoutError)
    assert str(error) == f"connecting did not end within {shown}"


def test_the_systems_clock_tells_the_time_of_day() -> None:
    assert abs(SystemClock().wall() - time.time()) < 60
