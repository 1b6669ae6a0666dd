"""confluent-kafka (librdkafka) produces to, consumes from and reads the broker as it would Kafka."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from tests.broker.conftest import Stage
from tests.broker.librdkafka import PATIENCE, consumer, produce, take

pytestmark = pytest.mark.uvloop


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_with_a_codec_is_consumed_as_it_was(broker: Stage, servers: str, codec: str) -> None:
    broker.create_topic("numbers")
    values = [b"value %d " % number * 20 for number in range(500)]

    produce(servers, "numbers", values, **{"compression.type": codec})

    with consumer(servers) as reader:
        reader.subscribe(["numbers"])
        messages = take(reader, len(values))
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(500))
    assert messages[7].key() == b"7"
    assert messages[7].headers() == [("n", b"7")]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_delivers(servers: str, acks: str) -> None:
    reported = produce(servers, "made-by-metadata", [b"a", b"b", b"c"], acks=acks)

    assert len(reported) == 3
    with consumer(servers) as reader:
        reader.assign([TopicPartition("made-by-metadata", 0, 0)])
        assert [message.value() for message in take(reader, 3)] == [b"a", b"b", b"c"]


def test_an_idempotent_producer_writes_each_record_once(broker: Stage, servers: str) -> None:
    broker.create_topic("once", partitions=3)

    reported = produce(
        servers, "once", [b"%d" % number for number in range(3000)], **{"enable.idempotence": True}
    )

    assert len({(message.partition(), message.offset()) for message in reported}) == 3000
    with consumer(servers) as reader:
        reader.subscribe(["once"])
        assert {message.value() for message in take(reader, 3000)} == {b"%d" % n for n in range(3000)}


def test_large_messages_pass_and_too_large_ones_are_refused(servers: str) -> None:
    produce(servers, "large", [b"x" * 900_000])
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 5_000_000})
    producer.produce("large", b"y" * 2_000_000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE) == 0

    assert errors[0] is not None
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    with consumer(servers) as reader:
        reader.assign([TopicPartition("large", 0, 0)])
        assert len(take(reader, 1)[0].value()) == 900_000


def test_committed_offsets_are_where_the_next_member_begins(servers: str) -> None:
    produce(servers, "resumed", [b"%d" % number for number in range(10)])
    with consumer(servers, **{"enable.auto.commit": False}) as first:
        first.subscribe(["resumed"])
        messages = take(first, 10)
        first.commit(message=messages[3], asynchronous=False)
        committed = first.committed([TopicPartition("resumed", 0)], timeout=PATIENCE)
        assert committed[0].offset == 4

    with consumer(servers) as second:
        second.subscribe(["resumed"])
        assert take(second, 1)[0].value() == b"4"


def test_watermarks_times_and_seeks_are_answered(servers: str) -> None:
    produce(servers, "timed", [b"%d" % number for number in range(5)])
    with consumer(servers) as reader:
        assert reader.get_watermark_offsets(TopicPartition("timed", 0), timeout=PATIENCE) == (0, 5)
        reader.assign([TopicPartition("timed", 0, 0)])
        stamp = take(reader, 5)[2].timestamp()[1]
        found = reader.offsets_for_times([TopicPartition("timed", 0, stamp)], timeout=PATIENCE)
        assert found[0].offset <= 2
        late = reader.offsets_for_times([TopicPartition("timed", 0, stamp + 100_000)], timeout=PATIENCE)
        assert late[0].offset == -1
        reader.seek(TopicPartition("timed", 0, 3))
        assert take(reader, 2)[0].value() == b"3"


def test_an_unknown_topic_is_said_to_be_unknown(servers: str) -> None:
    with (
        consumer(servers, **{"allow.auto.create.topics": False}) as reader,
        pytest.raises(KafkaException) as caught,
    ):
        reader.get_watermark_offsets(TopicPartition("nowhere", 0), timeout=PATIENCE)
    assert caught.value.args[0].code() in (
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    )


def test_a_cluster_of_three_serves_every_partition(cluster: Stage) -> None:
    cluster.create_topic("spread", partitions=6, replication_factor=3)
    values = [b"%d" % number for number in range(600)]
    produce(cluster.bootstrap_servers, "spread", values)
    with consumer(cluster.bootstrap_servers) as reader:
        reader.subscribe(["spread"])
        assert {message.value() for message in take(reader, 600)} == set(values)
