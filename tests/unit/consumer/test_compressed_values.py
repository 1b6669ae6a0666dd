"""Values that compress very well: what a producer writes consumers read, and what is too much is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, Consumer
from kclient.errors import DecompressionLimitError, RecordTooLargeError
from kclient.producer import Producer, ProducerConfig
from kclient.records import Codec, Limits, encode_batch
from kclient.testing import RunningBroker
from tests.unit.consumer.reading import Topic, World, live, part

LETTERS = b"a" * 20_000_000
PATIENCE_MS = 30_000


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_value_of_one_letter_is_read_as_it_was_written(codec: str) -> None:
    with RunningBroker() as running:
        running.broker.create_topic(Topic, 1, 1, {"max.message.bytes": "2000000"})
        servers = running.bootstrap_servers
        options: dict[str, Any] = {"max_request_size": 32_000_000, "compression_type": codec}
        with Producer(bootstrap_servers=servers, **options) as producer:
            producer.send(Topic, LETTERS).result(30)
            producer.send_many(Topic, [b"s", LETTERS, b"s"]).result(30)
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([part()])
            sizes: list[int] = []
            while len(sizes) < 4:
                found = consumer.poll(timeout_ms=PATIENCE_MS)
                sizes += [len(record.value or b"") for record in found[part()]]
            assert sizes == [len(LETTERS), 1, len(LETTERS), 1]


def _written(world: World, value: bytes) -> None:
    state = world.broker.create_topic(Topic, 1).partitions[0]
    state.log.append(encode_batch([(None, value, 0, ())], codec=Codec.ZSTD), leader_epoch=0)


async def _one(consumer: AsyncConsumer[Any, Any]) -> int:
    [record] = (await consumer.getmany(timeout_ms=1000))[part()]
    return len(record.value)


async def _row(consumer: AsyncConsumer[Any, Any]) -> int:
    return len((await consumer.getarrow(timeout_ms=1000))["value"][0].as_py())


@pytest.mark.parametrize("read", [_one, _row])
def test_what_is_refused_names_the_option_with_which_it_is_read(read: Any) -> None:
    async def story(world: World) -> None:
        _written(world, bytes(2_000_000))
        async with world.reader(decompressed_batch_max_bytes=1_000_000) as consumer:
            for _ in range(2):
                with pytest.raises(
                    DecompressionLimitError, match=r"decompressed_batch_max_bytes.*partition 0"
                ):
                    await read(consumer)
        async with world.reader(decompressed_batch_max_bytes=2_100_000) as consumer:
            assert await read(consumer) == 2_000_000

    live(story)


def test_a_record_that_consumers_would_refuse_is_refused_where_it_is_sent() -> None:
    with RunningBroker() as running:
        running.broker.create_topic(Topic, 1, 1, {"max.message.bytes": "2000000"})
        options: dict[str, Any] = {"max_request_size": 3_000_000, "decompressed_batch_max_bytes": 1_000_000}
        servers = running.bootstrap_servers
        with Producer(bootstrap_servers=servers, compression_type="lz4", **options) as producer:
            with pytest.raises(RecordTooLargeError, match="more than 1000000: raise decompressed_batch"):
                producer.send(Topic, bytes(1_500_000))
            with pytest.raises(RecordTooLargeError, match="decompressed_batch_max_bytes"):
                producer.send_many(Topic, [b"small", bytes(1_500_000)])
        with Producer(bootstrap_servers=servers, **options) as producer:
            producer.send(Topic, bytes(1_500_000)).result(30)


def test_compressed_batches_have_no_more_records_than_consumers_take() -> None:
    large = ProducerConfig(batch_size=1 << 30, max_request_size=1 << 30)
    assert large.largest_batch > 1_000_000_000
    compressed = ProducerConfig(batch_size=1 << 30, max_request_size=1 << 30, compression_type="zstd")
    assert compressed.largest_batch // 7 == Limits().most_records
