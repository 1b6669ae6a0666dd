"""What can be the name of a topic, for producers, consumers and the embedded broker alike."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.broker import Broker
from kclient.broker.topics import check_name
from kclient.errors import InvalidTopicError
from kclient.producer import AsyncProducer
from kclient.topics import check_topic
from tests.support.producing import producing


@pytest.mark.parametrize("name", ["orders", "A.b_c-9", "...", "x" * 249, "__consumer_offsets"])
def test_a_legal_name_passes(name: str) -> None:
    check_topic(name)
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "my orders", "ö", "a/b", "a\n", "x" * 250])
def test_an_illegal_name_is_refused_with_what_is_allowed(name: str) -> None:
    with pytest.raises(InvalidTopicError, match="allowed are 1 to 249 of a-z") as caught:
        check_topic(name)
    assert repr(name) in str(caught.value)
    with pytest.raises(InvalidTopicError, match="Topic name is invalid"):
        check_name(name)


def test_a_name_that_is_too_long_is_cut_off_in_the_error_with_its_length() -> None:
    with pytest.raises(InvalidTopicError, match="which has 100000 characters") as caught:
        check_topic("x" * 100_000)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("name", [None, 3, b"orders", ["orders"]])
def test_what_is_no_text_is_a_mistake_in_the_program(name: Any) -> None:
    with pytest.raises(TypeError, match="not text"):
        check_topic(name)


def test_a_producer_refuses_the_names_that_stand_for_directories() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        for name in (".", ".."):
            with pytest.raises(InvalidTopicError):
                await producer.send(name, b"value")

    producing(check)
