"""How an answer changes what is known of the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import pytest

from kclient.cluster.metadata import Broker, Metadata
from kclient.config import Endpoint
from kclient.types import TopicPartition
from kclient.wire.messages.metadata import MetadataResponse
from kclient.wire.schema import NO_UUID

ONE, OTHER = UUID(int=1), UUID(int=2)
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_AUTHORIZED = 3, 5, 29

Described = MetadataResponse.MetadataResponseTopic


def topic(
    name: str, *leaders: tuple[int, int], topic_id: UUID = ONE, error_code: int = 0
) -> MetadataResponse.MetadataResponseTopic:
    """A topic whose partitions have these leaders and epochs."""
    return Described(
        error_code=error_code,
        name=name,
        topic_id=topic_id,
        partitions=[
            Described.MetadataResponsePartition(
                partition_index=number,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=[1, 2],
                isr_nodes=[1],
            )
            for number, (leader, epoch) in enumerate(leaders)
        ],
    )


def answer(
    *topics: MetadataResponse.MetadataResponseTopic,
    brokers: Iterable[int] = (1, 2),
    cluster_id: str | None = "c",
) -> MetadataResponse:
    declared = MetadataResponse.MetadataResponseBroker
    return MetadataResponse(
        brokers=[
            declared(node_id=node, host=f"broker-{node}", port=9092, rack=f"rack-{node}") for node in brokers
        ],
        topics=list(topics),
        cluster_id=cluster_id,
        controller_id=1,
    )


def leaders(snapshot: Metadata, name: str) -> list[int]:
    return [partition.leader for partition in snapshot.topics[name].partitions.values()]


def test_an_answer_about_everything_is_taken_over_as_it_is() -> None:
    snapshot = Metadata().merge(answer(topic("a", (1, 0), (2, 5))), None)
    assert snapshot.cluster_id == "c"
    assert snapshot.controller_id == 1
    assert snapshot.brokers == {
        node: Broker(node, Endpoint(f"broker-{node}", 9092), f"rack-{node}") for node in (1, 2)
    }
    described = snapshot.topics["a"]
    assert (described.name, described.topic_id, described.internal) == ("a", ONE, False)
    assert [tuple(partition) for partition in described.partitions.values()] == [
        (0, 1, 0, (1, 2), (1,), (), 0),
        (1, 2, 5, (1, 2), (1,), (), 0),
    ]
    assert snapshot.leader(TopicPartition("a", 1)) == 2
    assert snapshot.topic_by_id(ONE) is described


def test_nothing_is_said_about_leaders_that_are_not_known() -> None:
    snapshot = Metadata().merge(answer(topic("a", (-1, 3))), None)
    assert snapshot.leader(TopicPartition("a", 0)) is None
    assert snapshot.leader(TopicPartition("a", 7)) is None
    assert snapshot.leader(TopicPartition("b", 0)) is None
    assert snapshot.topic_by_id(OTHER) is None


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    shuffled = topic("a", (1, 0), (1, 0), (1, 0))
    shuffled.partitions.reverse()
    assert list(Metadata().merge(answer(shuffled), None).topics["a"].partitions) == [0, 1, 2]


@pytest.mark.parametrize(
    ("known", "answered", "expected"),
    [
        ((1, 4), (2, 5), 2),  # a newer leader
        ((1, 4), (2, 3), 1),  # old news from a broker that lags behind
        ((1, 4), (2, 4), 2),  # the same epoch: the answer is the newer one
        ((1, 4), (2, -1), 2),  # an old broker that knows no epochs
        ((1, -1), (2, 0), 2),
    ],
)
def test_old_news_about_a_leader_does_not_undo_new(
    known: tuple[int, int], answered: tuple[int, int], expected: int
) -> None:
    snapshot = Metadata().merge(answer(topic("a", known)), ["a"]).merge(answer(topic("a", answered)), ["a"])
    assert leaders(snapshot, "a") == [expected]


def test_each_partition_keeps_its_own_newest_leader_and_new_ones_are_added() -> None:
    before = Metadata().merge(answer(topic("a", (1, 4), (1, 4))), ["a"])
    assert leaders(before.merge(answer(topic("a", (2, 3), (2, 5), (2, 0))), ["a"]), "a") == [1, 2, 2]


def test_a_topic_made_again_under_another_id_starts_over_with_low_epochs() -> None:
    before = Metadata().merge(answer(topic("a", (1, 40), (1, 40), topic_id=ONE)), ["a"])
    after = before.merge(answer(topic("a", (2, 0), topic_id=OTHER)), ["a"])
    assert leaders(after, "a") == [2]
    assert after.topics["a"].topic_id == OTHER


def test_an_answer_without_topic_ids_is_about_the_same_topic() -> None:
    before = Metadata().merge(answer(topic("a", (1, 40), topic_id=ONE)), ["a"])
    assert leaders(before.merge(answer(topic("a", (2, 3), topic_id=NO_UUID)), ["a"]), "a") == [1]


def test_a_topic_that_is_gone_is_dropped_and_its_error_kept() -> None:
    before = Metadata().merge(answer(topic("a", (1, 0)), topic("b", (1, 0))), ["a", "b"])
    after = before.merge(answer(topic("a", error_code=UNKNOWN_TOPIC), topic("b", (1, 0))), ["a", "b"])
    assert set(after.topics) == {"b"}
    assert after.errors == {"a": UNKNOWN_TOPIC}
    again = after.merge(answer(topic("a", (2, 0), topic_id=OTHER)), ["a"])
    assert set(again.topics) == {"a", "b"}
    assert again.errors == {}


@pytest.mark.parametrize("asked", [["a"], None])
def test_a_passing_error_leaves_what_is_known(asked: list[str] | None) -> None:
    before = Metadata().merge(answer(topic("a", (1, 0))), asked)
    after = before.merge(answer(topic("a", error_code=LEADER_NOT_AVAILABLE)), asked)
    assert leaders(after, "a") == [1]
    assert after.errors == {"a": LEADER_NOT_AVAILABLE}


def test_topics_that_were_not_asked_about_stay_and_an_answer_about_all_drops_them() -> None:
    before = Metadata().merge(answer(topic("a", (1, 0)), topic("x", error_code=NOT_AUTHORIZED)), ["a", "x"])
    some = before.merge(answer(topic("b", (1, 0))), ["b"])
    assert set(some.topics) == {"a", "b"}
    assert some.errors == {"x": NOT_AUTHORIZED}
    every = some.merge(answer(topic("b", (1, 0))), None)
    assert set(every.topics) == {"b"}
    assert every.errors == {}


def test_brokers_are_replaced_and_an_answer_without_any_changes_none() -> None:
    before = Metadata().merge(answer(brokers=[1, 2]), [])
    assert set(before.merge(answer(brokers=[2, 3]), []).brokers) == {2, 3}
    assert set(before.merge(answer(brokers=[]), []).brokers) == {1, 2}


def test_the_cluster_id_stays_known_when_an_answer_lacks_it() -> None:
    before = Metadata().merge(answer(), [])
    assert before.merge(answer(cluster_id=None), []).cluster_id == "c"


def test_a_hint_moves_one_leader_unless_it_is_old_news() -> None:
    before = Metadata().merge(answer(topic("a", (1, 4), (1, 4))), ["a"])
    partition = TopicPartition("a", 1)
    assert leaders(before.with_leader(partition, 2, 5), "a") == [1, 2]
    assert before.with_leader(partition, 2, 4) is before
    assert before.with_leader(TopicPartition("a", 9), 2, 9) is before
    assert before.with_leader(TopicPartition("b", 0), 2, 9) is before
    assert leaders(before, "a") == [1, 1], "a snapshot never changes"


def test_a_hint_survives_an_answer_that_lags_behind_it() -> None:
    hinted = Metadata().merge(answer(topic("a", (1, 4))), ["a"]).with_leader(TopicPartition("a", 0), 2, 5)
    assert leaders(hinted.merge(answer(topic("a", (1, 4))), ["a"]), "a") == [2]


def test_brokers_named_in_passing_are_added_or_take_the_place_of_the_known() -> None:
    moved = Broker(2, Endpoint("elsewhere", 1))
    snapshot = Metadata().merge(answer(), []).with_brokers([moved, Broker(3, Endpoint("broker-3", 9092))])
    assert set(snapshot.brokers) == {1, 2, 3}
    assert snapshot.brokers[2] == moved


def test_forgotten_topics_leave_nothing() -> None:
    before = Metadata().merge(answer(topic("a", (1, 0)), topic("b", error_code=UNKNOWN_TOPIC)), None)
    after = before.without(["a", "b"])
    assert (after.topics, after.errors) == ({}, {})
    assert set(before.topics) == {"a"}


def test_a_snapshot_cannot_be_changed() -> None:
    snapshot = Metadata().merge(answer(topic("a", (1, 0))), None)
    with pytest.raises(TypeError):
        snapshot.topics["b"] = snapshot.topics["a"]  # type: ignore[index]
    with pytest.raises(TypeError):
        snapshot.topics["a"].partitions[0] = snapshot.topics["a"].partitions[0]  # type: ignore[index]
