"""Waits between attempts."""

from __future__ import annotations

from random import Random

import pytest

from kclient.cluster.retry import Backoff


class Middle(Random):
    """Randomness without chance: the middle of every range."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def test_waits_double_up_to_the_limit() -> None:
    backoff = Backoff(100, 1000, Middle())
    assert [backoff.next() for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert backoff.attempts == 6


def test_a_success_starts_over() -> None:
    backoff = Backoff(100, 1000, Middle())
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.next() == pytest.approx(0.1)


def test_waits_vary_by_a_fifth_around_their_value() -> None:
    backoff = Backoff(1000, 1000, Random(1))
    waits = [backoff.next() for _ in range(1000)]
    assert 0.8 <= min(waits) < 0.81
    assert 1.19 < max(waits) <= 1.2


def test_a_limit_below_the_first_wait_does_not_shorten_it() -> None:
    assert Backoff(100, 10, Middle()).next() == pytest.approx(0.1)


def test_a_million_failures_do_not_overflow() -> None:
    backoff = Backoff(1, 1000, Middle())
    backoff.attempts = 1_000_000
    assert backoff.next() == pytest.approx(1.0)


def test_no_wait_at_all_can_be_asked_for() -> None:
    assert Backoff(0, 0, Random(0)).next() == 0
