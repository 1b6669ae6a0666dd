"""What consumer groups say to commits, fetches of offsets, admin clients and classic members."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kclient.broker.groups.modern_regex import compile_regex, matching
from kclient.errors import (
    BrokerError,
    FencedInstanceIdError,
    InvalidRegularExpressionError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from tests.unit.broker.modern.driving import world


def _refused(error: type[BrokerError], call: Callable[[], object]) -> str:
    with pytest.raises(error) as raised:
        call()
    return raised.value.message or ""


def test_commits_need_a_member_at_its_epoch() -> None:
    with world(a=4) as where:
        where.join("m", "a")
        group = where.group()
        group.check_commit("m", 2, None, 9)
        assert _refused(StaleMemberEpochError, lambda: group.check_commit("m", 3, None, 9)) == (
            "The received member epoch 3 does not match the expected member epoch 2."
        )
        _refused(UnknownMemberIdError, lambda: group.check_commit("x", 2, None, 9))
        _refused(UnknownMemberIdError, lambda: group.check_commit("", -1, None, 9))
        _refused(UnsupportedVersionError, lambda: group.check_commit("m", 1, None, 8))
        where.heartbeat("m", -1)
        group.check_commit("", -1, None, 2)


def test_a_commit_with_an_older_epoch_is_good_for_partitions_that_the_member_had_then() -> None:
    with world(a=4) as where:
        where.join("m1", "a")
        where.pass_time(1.1)
        where.join("m2", "a")
        where.heartbeat("m1", 2)
        where.heartbeat("m1", 2, topic_partitions=where.owning({"a": [0, 1]}))
        where.heartbeat("m2", 3)
        group, topic_id = where.group(), where.topics.known["a"][0]
        group.check_commit_of("m1", 2, topic_id, 0)
        _refused(StaleMemberEpochError, lambda: group.check_commit_of("m1", 1, topic_id, 0))
        _refused(StaleMemberEpochError, lambda: group.check_commit_of("m1", 2, topic_id, 2))
        group.check_commit_of("m2", 3, topic_id, 2)
        _refused(StaleMemberEpochError, lambda: group.check_commit_of("m2", 2, topic_id, 2))


def test_fetching_offsets_needs_the_epoch_only_from_who_says_who_it_is() -> None:
    with world(a=4) as where:
        where.join("m", "a")
        group = where.group()
        group.check_fetch("m", 2)
        group.check_fetch(None, -1)
        _refused(StaleMemberEpochError, lambda: group.check_fetch("m", 1))
        _refused(UnknownMemberIdError, lambda: group.check_fetch("", -1))


def test_a_group_with_members_is_not_deleted() -> None:
    with world(a=4) as where:
        where.join("m", "a", instance_id="i")
        group = where.group()
        _refused(NonEmptyGroupError, group.check_delete)
        _refused(UnknownMemberIdError, lambda: group.holder("x", None))
        _refused(FencedInstanceIdError, lambda: group.holder("x", "i"))
        group.leave("", "i")
        group.check_delete()


def test_subscribed_topics_are_known_by_name_and_by_regex() -> None:
    with world(a=1, b=1) as where:
        where.join("m1", "a", "not-yet")
        where.join("m2", regex="b|zzz")
        where.pass_time(1)
        group = where.group()
        assert [name for name in ("a", "b", "not-yet", "c") if group.is_subscribed_to(name)] == [
            "a",
            "b",
            "not-yet",
        ]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a)", "regexp/syntax: internal error"),
        ("[a", "missing closing ]"),
        ("*a", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a*+", "invalid nested repetition operator"),
        (r"(a)\1", "invalid escape sequence"),
        (r"\q", "invalid escape sequence"),
        ("(?P<n", "invalid named capture"),
        ("(?<!a)b", "invalid named capture"),
        ("(?P<n>a)(?P=n)", "invalid or unsupported Perl syntax"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?>a)", "invalid or unsupported Perl syntax"),
        ("[b-a]", "invalid character class range"),
        ("a{2,1}", "invalid repeat count"),
        ("(?z)", "invalid or unsupported Perl syntax"),
        ("\\", "trailing backslash at end of expression"),
    ],
)
def test_what_re2_refuses_is_refused_in_its_words(pattern: str, why: str) -> None:
    """Each of these was asked of Kafka 4.3.1."""
    message = _refused(InvalidRegularExpressionError, lambda: compile_regex(pattern))
    assert message == f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {why}."


def test_what_re2_allows_is_matched_against_whole_names() -> None:
    assert matching("a|ab", ["a", "ab", "abc"]) == {"a", "ab"}
    assert matching(r"[[:alpha:]]+-\d{2}", ["x-01", "x-1", "1-01"]) == {"x-01"}
    assert matching("(?i)A[(?=]?", ["a", "a(", "a="]) == {"a", "a(", "a="}
    assert matching("a{2", ["a{2", "aa"]) == {"a{2"}
