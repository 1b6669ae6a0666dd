"""What the three ways to say what to read may be."""

from __future__ import annotations

import pytest

from kclient.errors import ConfigurationError
from kclient.spark.options import Use, parse
from kclient.spark.subscription import Subscription, subscription
from kclient.types import TopicPartition


def _subscription(**given: str) -> Subscription:
    return subscription(parse({"kafka.bootstrap.servers": "localhost:9092", **given}, Use.READ))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"subscribePattern": ""}, r"subscribePattern='' is blank: .* \.\* for every topic"),
        ({"subscribePattern": " \t"}, "is blank"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"subscribe": ""}, "subscribe='' names no topic"),
        ({"subscribe": " , "}, "names no topic"),
        ({"assign": "{}"}, "names no partition"),
        ({"assign": '{"orders": []}'}, "names no partition"),
        ({"assign": ""}, "must be JSON"),
    ],
)
def test_what_names_nothing_is_refused_and_never_taken_for_everything(
    given: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        _subscription(**given)


def test_each_of_the_three_ways_says_what_is_asked_for() -> None:
    assigned, listed, pattern = (
        _subscription(assign='{"orders": [1, 0]}'),
        _subscription(subscribe=" orders,users "),
        _subscription(subscribePattern=" orders.* "),
    )
    assert assigned.partitions == (TopicPartition("orders", 0), TopicPartition("orders", 1))
    assert listed.names() == ["orders", "users"]
    assert pattern.names() is None
