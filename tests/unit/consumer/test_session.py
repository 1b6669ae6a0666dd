"""Incremental fetches, the client's side: what requests carry in which state of the session."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient.consumer.session import FetchSession, Key, Wanted
from kclient.wire.messages.fetch import FetchRequest, FetchResponse

NEWEST = 17
ID = UUID(int=7)


def ask(session: FetchSession, wanted: dict[Key, Wanted], version: int = NEWEST) -> FetchRequest:
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    session.fill(request, wanted, version)
    return request


def said(request: FetchRequest) -> dict[tuple[object, int], int]:
    return {
        (topic.topic or topic.topic_id, each.partition): each.fetch_offset
        for topic in request.topics
        for each in topic.partitions
    }


def at(**offsets: int) -> dict[Key, Wanted]:
    return {Key(name, 0): Wanted(offset, -1, 100) for name, offset in offsets.items()}


def established() -> FetchSession:
    session = FetchSession()
    ask(session, at(a=1, b=2))
    session.answered(FetchResponse(session_id=42, responses=[]))
    return session


def test_only_what_changed_travels_and_what_is_gone_is_forgotten() -> None:
    session = established()
    request = ask(session, at(b=5, c=1))
    assert (request.session_id, request.session_epoch) == (42, 1)
    assert said(request) == {("b", 0): 5, ("c", 0): 1}
    assert [(each.topic, each.partitions) for each in request.forgotten_topics_data] == [("a", [0])]
    session.answered(FetchResponse(session_id=42, responses=[]))
    again = ask(session, at(b=5, c=1))
    assert (again.session_epoch, said(again), again.forgotten_topics_data) == (2, {}, [])


def test_after_an_answer_that_never_came_everything_is_said_again_and_the_old_session_ended() -> None:
    session = established()
    ask(session, at(a=3))
    session.lost()
    request = ask(session, at(a=3, b=2))
    assert (request.session_id, request.session_epoch) == (42, 0)
    assert said(request) == {("a", 0): 3, ("b", 0): 2}


def test_a_session_that_the_broker_forgot_is_not_named_again() -> None:
    session = established()
    session.lost(forgotten=True)
    assert ask(session, at(a=3)).session_id == 0
    assert session.end() is None


def test_a_broker_that_keeps_no_session_is_told_everything_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        request = ask(session, at(a=1, b=2))
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert said(request) == {("a", 0): 1, ("b", 0): 2}
        session.answered(FetchResponse(session_id=0, responses=[]))


def test_brokers_before_sessions_get_none_and_each_partition_comes_first_some_time() -> None:
    session = FetchSession()
    first = set()
    for _ in range(3):
        request = ask(session, at(a=1, b=2, c=3), version=6)
        assert (request.session_id, request.session_epoch) == (0, -1)
        first.add(next(iter(said(request))))
        session.answered(FetchResponse(session_id=0, responses=[]))
    assert first == {("a", 0), ("b", 0), ("c", 0)}


def test_epochs_wrap_around() -> None:
    session = established()
    session._epoch = 0x7FFFFFFF
    assert ask(session, at(a=1)).session_epoch == 0x7FFFFFFF
    session.answered(FetchResponse(session_id=42, responses=[]))
    assert ask(session, at(a=1)).session_epoch == 1


def test_the_last_request_of_a_session_ends_it() -> None:
    last = established().end()
    assert last is not None
    assert (last.session_id, last.session_epoch, last.topics) == (42, -1, [])


@pytest.mark.parametrize("topic", ["orders", ID])
def test_topics_are_named_as_their_keys_are(topic: str | UUID) -> None:
    session = FetchSession()
    assert said(ask(session, {Key(topic, 3): Wanted(9, 1, 10)})) == {(topic, 3): 9}
    session.answered(FetchResponse(session_id=1, responses=[]))
    [forgotten] = ask(session, {}).forgotten_topics_data
    assert (forgotten.topic or forgotten.topic_id, forgotten.partitions) == (topic, [3])
