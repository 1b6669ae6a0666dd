"""Listeners that are no plain objects with methods, and what they raise has no words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from kclient.errors import KafkaError
from tests.support.misbehaviour import raises
from tests.unit.consumer.reading import Topic, World, live
from tests.unit.consumer.test_user_code import ASSIGNED, IN_GROUPS, SETTINGS, Listener, goes_on, member


class UnspeakableError(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


class Unreadable:
    @property
    def on_partitions_assigned(self) -> object:
        raise ValueError("a property")


def partly(_: object) -> None:
    raise ValueError


LISTENERS: dict[str, Callable[[], object]] = {
    "partial": lambda: SimpleNamespace(on_partitions_assigned=partial(partly)),
    "mock": lambda: Mock(on_partitions_assigned=Mock(side_effect=ValueError)),
    "no words": lambda: Listener(ASSIGNED, raises(UnspeakableError)),
    "property": Unreadable,
}


@IN_GROUPS
@pytest.mark.parametrize("kind", LISTENERS)
def test_a_listener_that_has_no_name_or_no_words_is_told_of_and_the_member_goes_on(
    kind: str, protocol: str
) -> None:
    async def story(world: World) -> None:
        told: list[KafkaError] = []
        world.fill_all(2, records=10)
        async with member(world, protocol) as consumer:
            consumer.subscribe([Topic], listener=LISTENERS[kind]())
            await goes_on(world, consumer, told)
        assert "the rebalance listener's" in str(told[0])
        assert isinstance(told[0].__cause__, UnspeakableError if kind == "no words" else ValueError)

    live(story, config=SETTINGS)
