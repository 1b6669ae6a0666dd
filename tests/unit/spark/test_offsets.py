"""Offsets as users and checkpoints write them."""

from __future__ import annotations

import json

import pytest

from kclient.errors import ConfigurationError
from kclient.spark.offsets import EARLIEST, LATEST, Mark, assigned, ending, from_json, starting
from kclient.spark.options import Options, Use, parse
from kclient.types import TopicPartition

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def options(**given: str) -> Options:
    return parse({"kafka.bootstrap.servers": "x:1", **given}, Use.READ)


def test_streams_begin_at_the_end_and_batches_at_the_start() -> None:
    assert starting(options(), streaming=True).questions([A]) == {A: LATEST}
    assert starting(options(), streaming=False).questions([A]) == {A: EARLIEST}
    assert ending(options()).questions([A]) == {A: LATEST}


def test_partitions_that_are_not_named_are_as_without_the_option() -> None:
    spec = starting(options(startingOffsets='{"orders":{"0":17}}'), streaming=False)

    assert spec.questions([A, B]) == {B: EARLIEST}
    assert spec.settle([A, B], {B: 3}, {}) == {A: 17, B: 3}


def test_a_time_goes_before_times_by_partition_and_these_before_offsets() -> None:
    given = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"orders":{"0":1000}}'}

    by_partition = starting(options(**given), streaming=False)
    by_time = starting(options(**given, startingTimestamp="2000"), streaming=False)

    assert by_partition.questions([A, B]) == {A: 1000, B: EARLIEST}
    assert by_time.questions([A, B]) == {A: 2000, B: 2000}


def test_a_time_without_a_record_is_an_error_or_the_end() -> None:
    strict = starting(options(startingTimestamp="5"), streaming=False)
    lenient = starting(
        options(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest"), streaming=False
    )

    with pytest.raises(ConfigurationError, match="topic orders, partition 0 has no record at 5 ms"):
        strict.settle([A], {A: -1}, {})
    assert lenient.settle([A], {A: -1}, {A: 9}) == {A: 9}
    assert ending(options(endingTimestamp="5")).settle([A], {A: -1}, {A: 9}) == {A: 9}


@pytest.mark.parametrize("given", ["latest", '{"orders":{"0":-1}}'])
def test_a_batch_cannot_begin_at_the_end(given: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be latest"):
        starting(options(startingOffsets=given), streaming=False)
    starting(options(startingOffsets=given), streaming=True)


def test_a_batch_cannot_end_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match="cannot be earliest"):
        ending(options(endingOffsets="earliest"))


@pytest.mark.parametrize(
    "given", ["yesterday", "[1]", '{"orders":7}', '{"orders":{"x":1}}', '{"orders":{"0":true}}', "{"]
)
def test_offsets_that_are_none_are_shown(given: str) -> None:
    with pytest.raises(ConfigurationError, match="startingOffsets="):
        starting(options(startingOffsets=given), streaming=True)


def test_offsets_of_partitions_that_are_not_read_are_refused() -> None:
    spec = starting(options(startingOffsets='{"orders":{"7":1}}'), streaming=True)

    with pytest.raises(ConfigurationError, match="partition 7 of topic orders"):
        spec.check([A, B])


def test_assigned_partitions() -> None:
    assert assigned('{"orders":[1,0]}') == [A, B]
    for wrong in ('{"orders":["x"]}', "{}", "orders"):
        with pytest.raises(ConfigurationError):
            assigned(wrong)


def test_a_mark_survives_its_checkpoint_and_is_always_written_alike() -> None:
    mark = Mark({B: 2, A: 1, TopicPartition("orders", 10): 3}, {"orders": "id-1", "gone": "id-2"})

    text = json.dumps(mark.to_json())

    assert text == '{"orders": {"0": 1, "1": 2, "10": 3}, "@ids": {"orders": "id-1"}}'
    assert json.dumps(from_json(json.loads(text)).to_json()) == text
    assert from_json({"orders": {"0": 1}}) == Mark({A: 1}, {})
