"""When something that lasts is said again."""

from __future__ import annotations

from kclient.reminders import IN_CALLS, IN_LOG, Reminders, Rhythm


def said(reminders: Reminders, seconds: int, about: object = "it") -> list[int]:
    """In which seconds it is said, if it is asked for in each of them."""
    return [second for second in range(seconds) if reminders.due(about, float(second))]


def test_what_lasts_is_said_again_after_growing_pauses() -> None:
    assert said(Reminders(Rhythm(0.0, 2.0, 10.0)), 40) == [0, 2, 6, 14, 24, 34]


def test_what_passes_within_the_grace_is_never_said() -> None:
    reminders = Reminders(Rhythm(5.0, 2.0, 10.0))
    assert said(reminders, 5) == []
    reminders.over("it")
    assert not reminders.due("it", 5.0)
    assert reminders.due("it", 10.0)


def test_the_grace_begins_when_the_trouble_did() -> None:
    assert Reminders(Rhythm(5.0, 2.0, 10.0)).due("it", 7.0, since=2.0)


def test_what_comes_back_is_new_and_other_things_have_pauses_of_their_own() -> None:
    reminders = Reminders(Rhythm(0.0, 60.0, 600.0))
    assert reminders.due("one", 0.0)
    assert reminders.due("other", 1.0)
    assert not reminders.due("one", 2.0)
    reminders.keep({"other"})
    assert reminders.due("one", 3.0)
    assert not reminders.due("other", 3.0)


def test_it_says_when_to_ask_again() -> None:
    reminders = Reminders(Rhythm(5.0, 60.0, 600.0))
    assert reminders.next() is None
    reminders.due("one", 10.0)
    reminders.due("other", 12.0)
    assert reminders.next() == 15.0
    assert reminders.due("one", 15.0)
    assert reminders.next() == 17.0


def test_the_log_hears_of_it_less_often_than_the_application() -> None:
    assert said(Reminders(IN_LOG), 2_000) == [1, 61, 181, 421, 901, 1501]
    assert said(Reminders(IN_CALLS), 200) == [0, 1, 3, 7, 15, 31, 63, 123, 183]
