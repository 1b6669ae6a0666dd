"""The state machine of a cursor: what may happen when, and that what cannot happen is noticed."""

from __future__ import annotations

import pytest

from kclient.consumer.cursor import EARLIEST, Cursor, Event, State
from kclient.consumer.subscription import Subscription
from kclient.types import OffsetAndMetadata, TopicPartition

HERE = TopicPartition("orders", 0)


def test_a_cursor_looks_up_what_is_committed_then_resets_then_fetches() -> None:
    cursor = Cursor(HERE)
    assert "looking up" in repr(cursor)
    cursor.happens(Event.NOT_COMMITTED)
    assert "resetting" in repr(cursor)
    cursor.find(7, 3)
    assert (cursor.state, cursor.position, cursor.fetch_offset) == (State.FETCHING, 7, 7)
    assert cursor.consumed() == cursor.settled() == OffsetAndMetadata(7, "", 3)


def test_a_target_needs_no_looking_up() -> None:
    assert Cursor(HERE, target=EARLIEST).state is State.RESETTING
    assert Cursor(HERE, by_policy=True).state is State.RESETTING


@pytest.mark.parametrize("state", list(State))
def test_every_cursor_can_be_dropped(state: State) -> None:
    cursor = Cursor(HERE)
    cursor.state = state
    cursor.drop()
    assert cursor.dropped


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (State.LOOKING_UP, Event.NEW_LEADER),
        (State.FETCHING, Event.FOUND),
        (State.DROPPED, Event.FOUND),
        (State.STUCK, Event.VALID),
        (State.RESETTING, Event.VALID),
    ],
)
def test_what_cannot_happen_is_a_defect(state: State, event: Event) -> None:
    cursor = Cursor(HERE)
    cursor.state = state
    with pytest.raises(AssertionError, match=f"{event.name} cannot happen"):
        cursor.happens(event)


def test_a_place_is_left_by_a_new_cursor_never_by_changing_one() -> None:
    subscription = Subscription(exclude_internal_topics=True, on_change=lambda: None, on_wake=lambda: None)
    subscription.assign([HERE])
    old = subscription.cursor(HERE)
    old.paused, old.high_watermark = True, 99
    subscription.seek(HERE, 5)
    new = subscription.cursor(HERE)
    assert old.dropped
    assert (new.position, new.paused, new.high_watermark) == (5, True, 99)
    assert repr(new) == "<Cursor orders-0 fetching 5 <= 5 paused>"
    subscription.revoke([HERE])
    assert new.dropped
    assert not subscription.assigned()


@pytest.mark.parametrize(
    ("end", "position", "processed", "committed"),
    [(150, 100, 60, 40), (80, 80, 60, 40), (50, 50, 50, 40), (30, 30, 30, 30)],
)
def test_a_cut_of_the_log_changes_nothing_of_what_is_before_it(
    end: int, position: int, processed: int, committed: int
) -> None:
    old, new = Cursor(HERE), Cursor(HERE)
    old.find(40, 1)
    old.move(60, 1)
    old.settle()
    old.move(100, 1)
    old.drop()
    new.inherit(old, end, 2)
    settled = new.settled()
    assert settled is not None
    assert (new.position, settled.offset, new.committed) == (position, processed, committed)
    assert new.in_hand is (processed != position)
    old.settle()  # the application comes back
    assert not new.in_hand
