"""How much is granted between two looks at the clock, and when the loop has to have its turn."""

from __future__ import annotations

import asyncio
import time

import pytest

from kclient.clock import fine_time
from kclient.testing import VirtualLoop
from kclient.turns import EVERY, Pace, Turns


class Work:
    """A loop over calls that never wait, with work of its own, in time that only this work takes."""

    def __init__(self, most: int = 128) -> None:
        self.now = 0.0
        self.turns = Turns(lambda: self.now)
        self.pace = Pace(self.turns, most)
        self.gaps: list[float] = []
        self.looks = 0
        self._turned = 0.0
        self._granted = self._left = 0

    def do(self, seconds: float) -> None:
        if not self._left:
            self.looks += 1
            self._granted = self.pace.grant(self._granted)
            if not self._granted:
                self.gaps.append(self.now - self._turned)
                self._turned = self.now
                self.turns.given()
                self._granted = self.pace.after_turn()
            self._left = self._granted
        self._left -= 1
        self.now += seconds


@pytest.mark.parametrize("seconds", [0.0001, 0.0007, 0.001, 0.003, 0.004, 0.0051, 0.0099])
def test_a_loop_that_keeps_its_pace_gives_a_turn_in_time(seconds: float) -> None:
    work = Work()
    for _ in range(2_000):
        work.do(seconds)
    assert max(work.gaps) <= EVERY + 1e-9
    assert len(work.gaps) >= 2_000 * seconds / EVERY - 1


def test_work_that_takes_longer_than_a_turn_may_wait_is_followed_by_one() -> None:
    work = Work()
    for _ in range(100):
        work.do(0.025)
    assert len(work.gaps) == 99
    assert max(work.gaps) == pytest.approx(0.025)


def test_a_tight_loop_hardly_looks_at_the_clock_and_still_gives_its_turns() -> None:
    work = Work()
    for _ in range(100_000):
        work.do(0.000_000_5)
    assert work.looks < 100_000 / 128 + 20
    assert max(work.gaps) <= EVERY + 1e-9


def test_a_loop_that_slows_down_at_once_is_late_by_what_was_granted_and_then_no_more() -> None:
    work = Work()
    for _ in range(10_000):
        work.do(0.000_000_5)
    for _ in range(1_000):
        work.do(0.004)
    late = [gap for gap in work.gaps if gap > EVERY + 1e-9]
    assert len(late) == 1
    assert late[0] <= 128 * 0.004 + EVERY


def test_time_is_the_loop_s_own_where_that_is_fine() -> None:
    plain = asyncio.SelectorEventLoop()
    assert fine_time(plain) is time.monotonic  # without the call around it
    plain.close()
    virtual = VirtualLoop()
    assert fine_time(virtual) == virtual.time
    virtual.close()


def test_uvloop_s_time_is_too_coarse() -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    assert fine_time(loop) is time.monotonic
    loop.close()
