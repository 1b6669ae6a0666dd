"""ConsumerGroupHeartbeat, step by step, as Kafka 4.3.1 answers it."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.broker.groups.base import GroupConfig
from kclient.errors import (
    BrokerError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from tests.unit.broker.modern.driving import Consumer, World, world

WHOLE = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["a"], "topic_partitions": []}


def refusal(where: World, error: type[BrokerError], member_id: str, epoch: int, **fields: Any) -> str:
    with pytest.raises(error) as raised:
        where.heartbeat(member_id, epoch, **fields)
    return raised.value.message or ""


@pytest.mark.parametrize(
    ("epoch", "fields", "message"),
    [
        (0, {"member_id": " "}, "MemberId can't be empty."),
        (1, {"member_id": ""}, "MemberId can't be empty."),
        (0, {"group": ""}, "GroupId can't be empty."),
        (0, {"instance_id": ""}, "InstanceId can't be empty."),
        (0, {"rack_id": " "}, "RackId can't be empty."),
        (0, {}, "RebalanceTimeoutMs must be provided in first request."),
        (0, {"rebalance_timeout_ms": 1}, "TopicPartitions must be empty when (re-)joining."),
        (
            0,
            {"rebalance_timeout_ms": 1, "topic_partitions": []},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (-2, {}, "InstanceId can't be null."),
        (-3, {}, "MemberEpoch is invalid."),
    ],
)
def test_a_malformed_heartbeat_is_refused_in_kafkas_words(
    epoch: int, fields: dict[str, Any], message: str
) -> None:
    with world(a=4) as where:
        member_id = fields.pop("member_id", "m")
        assert refusal(where, InvalidRequestError, member_id, epoch, **fields) == message
        assert not where.groups


def test_an_unknown_assignor_and_a_bad_regex_are_refused_and_leave_no_group() -> None:
    with world(a=4) as where:
        assert refusal(where, UnsupportedAssignorError, "m", 0, **WHOLE, server_assignor="foo") == (
            "ServerAssignor foo is not supported. Supported assignors: uniform, range."
        )
        regex = {**WHOLE, "subscribed_topic_names": None, "subscribed_topic_regex": "a("}
        assert refusal(where, InvalidRegularExpressionError, "m", 0, **regex) == (
            "SubscribedTopicRegex `a(` is not a valid regular expression: missing closing )."
        )
        assert not where.groups


def test_groups_and_members_that_do_not_exist() -> None:
    with world(a=4) as where:
        assert refusal(where, GroupIdNotFoundError, "m", 1) == "Consumer group g not found."
        assert refusal(where, GroupIdNotFoundError, "m", -1) == "Group g not found."
        where.join("m", "a")
        unknown = "Member x is not a member of group g."
        assert refusal(where, UnknownMemberIdError, "x", 1) == unknown
        assert refusal(where, UnknownMemberIdError, "x", -1) == unknown


def test_the_first_member_has_everything_at_epoch_2() -> None:
    with world(a=4) as where:
        joined = where.join("m", "a")
        assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("m", 2, 5_000)
        assert where.told(joined) == {"a": [0, 1, 2, 3]}
        assert where.state() == "Stable"


def test_a_member_without_topics_joins_at_epoch_1() -> None:
    with world(a=4) as where:
        joined = where.join("m")
        assert (joined.member_epoch, where.told(joined), where.state()) == (1, {}, "Stable")


def test_old_clients_get_their_member_id_from_the_broker() -> None:
    with world(a=4) as where:
        joined = where.join("", "a", version=0)
        assert joined.member_id is not None
        assert len(joined.member_id) == 22
        assert list(where.group().members) == [joined.member_id]


def test_the_assignment_is_told_when_it_changes_and_to_whoever_says_all() -> None:
    with world(a=4) as where:
        where.join("m", "a")
        assert where.told(where.heartbeat("m", 2)) is None
        everything: dict[str, Any] = {**WHOLE, "topic_partitions": where.owning({"a": [0, 1, 2, 3]})}
        assert where.told(where.heartbeat("m", 2, **everything)) == {"a": [0, 1, 2, 3]}
        assert where.told(where.join("m", "a")) == {"a": [0, 1, 2, 3]}


def test_a_partition_is_handed_over_only_once_its_owner_has_let_go() -> None:
    with world(a=4) as where:
        where.join("m1", "a")
        where.pass_time(1.1)
        second = where.join("m2", "a")
        assert (second.member_epoch, where.told(second), where.state()) == (3, {}, "Reconciling")
        assert where.told(where.heartbeat("m2", 3)) is None
        revoke = where.heartbeat("m1", 2)
        assert (revoke.member_epoch, where.told(revoke)) == (2, {"a": [0, 1]})
        assert where.told(where.heartbeat("m1", 2)) is None
        still = where.heartbeat("m1", 2, topic_partitions=where.owning({"a": [0, 1, 2]}))
        assert (still.member_epoch, where.told(where.heartbeat("m2", 3))) == (2, None)
        done = where.heartbeat("m1", 2, topic_partitions=where.owning({"a": [0, 1]}))
        assert (done.member_epoch, where.told(done)) == (3, None)
        assert where.told(where.heartbeat("m2", 3)) == {"a": [2, 3]}
        assert where.state() == "Stable"


def test_a_lost_answer_is_forgiven_to_a_member_that_owns_no_more_than_it_may() -> None:
    with world(a=4) as where:
        where.join("m1", "a")
        where.pass_time(1.1)
        where.join("m2", "a")
        where.heartbeat("m1", 2)
        where.heartbeat("m1", 2, topic_partitions=where.owning({"a": [0, 1]}))
        again = where.heartbeat("m1", 2, topic_partitions=where.owning({"a": [0, 1]}))
        assert again.member_epoch == 3
        assert refusal(where, FencedMemberEpochError, "m1", 2).startswith(
            "The consumer group member has a smaller member epoch (2) "
            "than the one known by the group coordinator (3)."
        )
        owns_more = where.owning({"a": [0, 1, 2]})
        refusal(where, FencedMemberEpochError, "m1", 2, topic_partitions=owns_more)
        assert "greater member epoch (9)" in refusal(where, FencedMemberEpochError, "m1", 9)


def test_assignments_are_at_least_a_second_apart() -> None:
    with world(a=4) as where:
        where.join("m1", "a")
        second = where.join("m2", "a")
        assert (second.member_epoch, where.told(second), where.state()) == (2, {}, "Assigning")
        described = where.described()
        assert (described.group_epoch, described.assignment_epoch) == (3, 2)
        where.pass_time(1.0)
        assert where.heartbeat("m2", 2).member_epoch == 3


def test_a_topic_is_let_go_as_soon_as_its_subscription_ends() -> None:
    with world(a=4, b=2) as where:
        where.join("m", "a")
        changed = where.heartbeat("m", 2, subscribed_topic_names=["b"])
        assert (changed.member_epoch, where.told(changed), where.state()) == (2, {}, "Assigning")
        where.heartbeat("m", 2, topic_partitions=[])
        where.pass_time(1.0)
        moved = where.heartbeat("m", 2, topic_partitions=[])
        assert (moved.member_epoch, where.told(moved)) == (3, {"b": [0, 1]})


def test_a_regex_matches_whole_names_a_moment_after_the_join() -> None:
    with world(a=2, ab=1, b=1) as where:
        joined = where.join("m", regex="a.*")
        assert (joined.member_epoch, where.told(joined)) == (1, {})
        where.pass_time(0.1)
        assert where.state() == "Assigning"
        assert where.told(where.heartbeat("m", 1)) == {"a": [0, 1], "ab": [0]}


def test_a_regex_that_matches_nothing_changes_nothing_until_a_topic_comes() -> None:
    with world(a=2) as where:
        where.join("m", regex="new-.*")
        where.pass_time(5)
        assert (where.described().group_epoch, where.state()) == (1, "Stable")
        where.topics.make("new-1", 3)
        where.service.topics_changed()
        beat = where.heartbeat("m", 1)
        assert (beat.member_epoch, where.told(beat)) == (2, {"new-1": [0, 1, 2]})


def test_topics_that_come_grow_and_go_change_the_assignment() -> None:
    with world(a=2) as where:
        member = Consumer(where, "m", "a", "later")
        assert member.owned == {"a": [0, 1]}
        where.topics.make("later", 1)
        where.topics.known["a"] = (where.topics.known["a"][0], 3)
        where.service.topics_changed()
        where.settle([member])
        assert member.owned == {"a": [0, 1, 2], "later": [0]}
        epoch = member.epoch
        where.topics.make("other", 1)
        where.service.topics_changed()
        where.settle([member])
        assert member.epoch == epoch
        del where.topics.known["later"]
        where.service.topics_changed()
        where.pass_time(1)
        assert where.told(where.heartbeat("m", epoch)) == {"a": [0, 1, 2]}


def test_a_member_that_leaves_gives_its_partitions_to_the_others() -> None:
    with world(a=4) as where:
        stays, goes = Consumer(where, "m1", "a"), Consumer(where, "m2", "a")
        where.settle([stays, goes])
        left = where.heartbeat("m2", -1)
        assert (left.member_id, left.member_epoch, left.heartbeat_interval_ms) == ("m2", -1, 0)
        where.settle([stays])
        assert stays.owned == {"a": [0, 1, 2, 3]}
        where.heartbeat("m1", -1)
        assert (where.state(), where.group().is_empty) == ("Empty", True)


def test_a_silent_member_is_gone_after_the_session_timeout() -> None:
    with world(a=4) as where:
        silent = Consumer(where, "m1", "a")
        where.pass_time(44)
        silent.beat()
        where.pass_time(44)
        assert where.state() == "Stable"
        where.pass_time(2)
        assert where.state() == "Empty"
        refusal(where, UnknownMemberIdError, "m1", 2)


def test_a_member_that_does_not_revoke_in_time_is_gone_though_it_is_alive() -> None:
    with world(a=4) as where:
        where.join("m1", "a", timeout_ms=3_000)
        where.pass_time(1.1)
        where.join("m2", "a")
        where.heartbeat("m1", 2)
        where.pass_time(2.9)
        assert where.heartbeat("m1", 2).member_epoch == 2
        where.pass_time(0.2)
        refusal(where, UnknownMemberIdError, "m1", 2)
        assert where.told(where.heartbeat("m2", 3)) == {"a": [0, 1, 2, 3]}


def test_a_static_member_comes_back_to_what_it_had() -> None:
    with world(a=4) as where:
        where.join("s1", "a", instance_id="i")
        assert refusal(where, UnreleasedInstanceIdError, "s2", 0, **WHOLE, instance_id="i") == (
            "Static member s2 with instance id i cannot join the group "
            "because the instance id is owned by s1 member."
        )
        away = where.heartbeat("s1", -2, instance_id="i")
        assert (away.member_epoch, where.state()) == (-2, "Reconciling")
        refusal(where, FencedMemberEpochError, "s1", 2, instance_id="i")
        back = where.join("s2", "a", instance_id="i")
        assert (back.member_epoch, where.told(back), where.state()) == (2, {"a": [0, 1, 2, 3]}, "Stable")
        assert where.described().group_epoch == 2
        assert refusal(where, FencedInstanceIdError, "s1", 2, instance_id="i") == (
            "Static member s1 with instance id i was fenced by member s2."
        )
        refusal(where, UnknownMemberIdError, "s1", 2)
        assert refusal(where, UnknownMemberIdError, "s2", 2, instance_id="j") == "Instance id j is unknown."


def test_a_static_member_that_stays_away_loses_its_place() -> None:
    with world(a=4) as where:
        where.join("s1", "a", instance_id="i")
        where.heartbeat("s1", -2, instance_id="i")
        where.pass_time(46)
        assert where.state() == "Empty"


def test_a_full_group_takes_nobody_in() -> None:
    with world(GroupConfig(group_consumer_max_size=1), a=4) as where:
        where.join("m1", "a")
        assert refusal(where, GroupMaxSizeReachedError, "m2", 0, **WHOLE) == (
            "The consumer group has reached its maximum capacity of 1 members."
        )
        where.join("m1", "a")


def test_most_members_decide_on_the_assignor() -> None:
    with world(a=2, b=2) as where:
        members = [Consumer(where, name, "a", "b", server_assignor="range") for name in ("m1", "m2")]
        where.settle(members)
        assert where.described().assignor_name == "range"
        assert [member.owned for member in members] == [{"a": [0], "b": [0]}, {"a": [1], "b": [1]}]
