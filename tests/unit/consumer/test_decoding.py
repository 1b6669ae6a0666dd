"""From batches to what the application gets: deserializers, poison, transactions, damage, old formats."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import zlib
from typing import Any

import pytest

from kclient.consumer.answers import Policy, Todo, judge
from kclient.consumer.arrow import Room, table_of
from kclient.consumer.buffer import Frame
from kclient.consumer.cursor import Cursor
from kclient.consumer.decode import Decoder, visible
from kclient.errors import CorruptBatchError, PoisonRecordError
from kclient.records import Codec, ControlType, RecordBatch, Stamp, encode_batch, marker, read_batches
from kclient.records.arrow import SCHEMA
from kclient.types import Record
from kclient.wire.messages.fetch import FetchResponse
from tests.unit.consumer.reading import Topic, World, live, offsets, part, parts, take

Data = FetchResponse.FetchableTopicResponse.PartitionData
RELAXED = Policy(check_crcs=True, committed_only=False, may_reset=True)


def batch(first: int, count: int = 3, producer: int = -1, **stamp: Any) -> bytes:
    fields = Stamp(base_offset=first, leader_epoch=0, producer_id=producer, producer_epoch=0, **stamp)
    records = [(b"k", b"%d" % offset, 1_000 + offset, ()) for offset in range(first, first + count)]
    return encode_batch(records, stamp=fields)


def ended(first: int, producer: int, kind: ControlType) -> bytes:
    key, value = marker(kind, 0)
    fields = Stamp(
        base_offset=first,
        leader_epoch=0,
        producer_id=producer,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    return encode_batch([(key, value, 0, ())], stamp=fields)


def shown(data: bytes, aborted: list[tuple[int, int]], committed_only: bool = True) -> list[int]:
    batches = visible(read_batches(data), aborted, committed_only)
    return [record.offset for each in batches for record in each.records(Topic, 0)]


# Transactions: two producers, interleaved
LOG = b"".join(
    [
        batch(0, producer=1, transactional=True),
        batch(3, producer=2, transactional=True),
        batch(6),
        ended(9, 1, ControlType.ABORT),
        batch(10, producer=1, transactional=True),
        ended(13, 1, ControlType.COMMIT),
        ended(14, 2, ControlType.ABORT),
        batch(15, producer=2, transactional=True),
        ended(18, 2, ControlType.ABORT),
    ]
)


def test_records_of_aborted_transactions_are_left_out_in_whatever_order_brokers_name_them() -> None:
    kept = [6, 7, 8, 10, 11, 12]
    aborted = [(2, 15), (1, 0), (2, 3)]
    assert shown(LOG, aborted) == kept
    assert shown(LOG, aborted[::-1]) == kept


def test_without_read_committed_everything_but_markers_is_shown() -> None:
    everything = [*range(9), *range(10, 13), *range(15, 18)]
    assert shown(LOG, [(2, 15), (1, 0), (2, 3)], committed_only=False) == everything


def test_an_idempotent_producer_without_transactions_is_never_taken_for_aborted() -> None:
    assert shown(batch(0, producer=1), [(1, 0)]) == [0, 1, 2]


def answer(records: bytes | None, **fields: Any) -> Data:
    return Data(partition_index=0, high_watermark=100, aborted_transactions=None, records=records, **fields)


def fetching(offset: int = 0) -> Cursor:
    cursor = Cursor(part())
    cursor.find(offset)
    return cursor


def test_a_marker_at_the_end_moves_the_position_though_nothing_is_shown() -> None:
    cursor = fetching()
    verdict = judge(cursor, answer(ended(0, 1, ControlType.COMMIT)), Frame(0), RELAXED)
    assert verdict.todo is Todo.HAND_OVER
    assert verdict.chunk is not None
    assert (verdict.chunk.empty, verdict.chunk.next_offset, cursor.fetch_offset) == (True, 1, 1)


@pytest.mark.parametrize("records", [None, b"", batch(0)[:5]])
def test_no_records_and_less_than_one_batch_are_nothing(records: bytes | None) -> None:
    cursor = fetching()
    assert judge(cursor, answer(records), Frame(0), RELAXED).todo is Todo.NOTHING
    assert cursor.fetch_offset == 0


def test_a_batch_that_is_cut_off_asks_for_as_much_as_it_needs() -> None:
    cursor, whole = fetching(), batch(0, 100)
    assert judge(cursor, answer(whole[:200]), Frame(0), RELAXED).todo is Todo.NOTHING
    assert cursor.max_bytes == len(whole)
    verdict = judge(cursor, answer(whole + batch(100)[:30]), Frame(0), RELAXED)
    assert verdict.todo is Todo.HAND_OVER
    assert (cursor.fetch_offset, cursor.max_bytes) == (100, 0)


def test_a_damaged_batch_is_met_behind_the_sound_ones_and_stays_until_the_application_seeks() -> None:
    async def story(world: World) -> None:
        state = world.broker.create_topic(Topic, 1).partitions[0]
        for first in (0, 3, 6):
            records = [(b"k", b"%d" % offset, 1_000, ()) for offset in range(first, first + 3)]
            state.log.append(encode_batch(records), leader_epoch=0)
        read = state.log.read

        def read_damaged(*args: Any, **options: Any) -> bytes:
            return bytes(read(*args, **options)).replace(b"\x024", b"\x02X", 1)

        state.log.read = read_damaged  # type: ignore[method-assign]
        async with world.reader() as consumer:
            assert offsets((await take(consumer, 3))[part()]) == [0, 1, 2]
            for _ in range(2):
                with pytest.raises(CorruptBatchError, match="topic orders, partition 0, offset 3"):
                    await consumer.getmany(timeout_ms=1000)
                assert await consumer.position(part()) == 3
            consumer.seek(part(), 6)
            assert offsets((await take(consumer, 3))[part()]) == [6, 7, 8]
        async with world.reader(check_crcs=False) as consumer:
            found = (await take(consumer, 9))[part()]
            assert [record.value for record in found][3:6] == [b"3", b"X", b"5"]

    live(story)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("start", [0, 70])
def test_every_codec_is_read_from_the_middle_of_a_batch_too(codec: Codec, start: int) -> None:
    async def story(world: World) -> None:
        state = world.broker.create_topic(Topic, 1).partitions[0]
        records = [(b"key", b"value %d" % number, 1_000, (("h", b"1"),)) for number in range(300)]
        state.log.append(encode_batch(records, codec=codec), leader_epoch=0)
        async with world.reader() as consumer:
            consumer.seek(part(), start)
            found = (await take(consumer, 300 - start))[part()]
            assert [(record.offset, record.value) for record in found] == [
                (number, b"value %d" % number) for number in range(start, 300)
            ]
            consumer.seek(part(), start)
            assert (await consumer.getarrow(timeout_ms=1000)).column("offset").to_pylist() == offsets(found)

    live(story)


def old_message(offset: int, value: bytes) -> bytes:
    body = struct.pack(">bbq", 1, 0, 5_000) + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(message)) + message


def test_messages_of_old_formats_are_read() -> None:
    data = b"".join(old_message(offset, b"old %d" % offset) for offset in range(5, 10))
    cursor = fetching(7)
    verdict = judge(cursor, answer(data), Frame(0), RELAXED)
    assert verdict.chunk is not None
    found = verdict.chunk.take(None, Decoder(None, None, "raise"))
    assert [(record.offset, record.value) for record in found] == [(n, b"old %d" % n) for n in (7, 8, 9)]
    again = judge(fetching(8), answer(data), Frame(0), RELAXED).chunk
    assert again is not None
    table = table_of(again.take_arrow(Room(None), SCHEMA), SCHEMA)
    assert table.column("offset").to_pylist() == [8, 9]


# Deserializers


def decoded(decoder: Decoder, values: list[bytes | None]) -> tuple[list[Any], Any]:
    data = encode_batch([(b"1", value, 1_000, ()) for value in values])
    [only] = read_batches(data)
    records, done, trouble, _ = decoder.deserialized(decoder.records(only, part(), 0), -1)
    assert done == len(values)
    return [(record.key, record.value) for record in records], trouble


def test_deserializers_get_bytes_and_null_stays_none() -> None:
    decoder = Decoder(int, json.loads, "raise")
    assert decoded(decoder, [b"[1]", None, b"{}"]) == ([(1, [1]), (1, None), (1, {})], None)


@pytest.mark.parametrize("count", [1, 500])
def test_deserialized_records_keep_all_else(count: int) -> None:
    data = encode_batch([(b"1", b"2", 1_000 + n, (("h", b""),)) for n in range(count)])
    [only] = read_batches(data)
    decoder = Decoder(int, None, "raise")
    plain: list[Any] = list(decoder.records(only, part(), 0))
    made = decoder.deserialized(plain, -1).records
    assert made == [record._replace(key=1) for record in plain]
    assert {type(record) for record in made} == {Record}


def test_poison_is_raised_with_its_place_again_and_again_and_a_seek_skips_it() -> None:
    async def story(world: World) -> None:
        state = world.broker.create_topic(Topic, 1).partitions[0]
        values = [b"1", b"2", b"poison", b"4", b"bad", b"6"]
        state.log.append(encode_batch([(None, value, 0, ()) for value in values]), leader_epoch=0)
        async with world.reader(value_deserializer=int) as consumer:
            found = await consumer.getmany(timeout_ms=1000)
            assert [record.value for record in found[part()]] == [1, 2]
            for _ in range(3):
                with pytest.raises(PoisonRecordError, match="partition 0, offset 2") as raised:
                    await consumer.getone()
                assert (raised.value.topic, raised.value.offset) == (Topic, 2)
                assert raised.value.record.value == b"poison"
                assert isinstance(raised.value.__cause__, ValueError)
                assert await consumer.position(part()) == 2
            consumer.seek(part(), raised.value.offset + 1)
            assert (await consumer.getone()).value == 4
            with pytest.raises(PoisonRecordError, match="offset 4"):
                await consumer.getone()

    live(story)


def test_nothing_behind_a_poison_record_is_handed_out_of_answers_that_came_later() -> None:
    def strict(value: bytes) -> bytes:
        if value == b"0000000150":
            raise ValueError(value)
        return value

    async def story(world: World) -> None:
        world.fill_all(2, batches=6)
        options: dict[str, Any] = {"max_partition_fetch_bytes": 5_000, "max_poll_records": 90}
        async with world.reader(2, value_deserializer=strict, **options) as consumer:
            await asyncio.sleep(3)
            seen: dict[int, list[int]] = {0: [], 1: []}
            poison: list[int] = []
            for _ in range(40):
                try:
                    found = await consumer.getmany()
                except PoisonRecordError as error:
                    poison.append(error.offset)
                    continue
                for partition, records in found.items():
                    seen[partition.partition] += offsets(records)
            assert len(poison) > 2
            assert set(poison) == {150}
            assert seen == {0: list(range(150)), 1: list(range(150))}
            for each in parts(2):
                assert await consumer.position(each) == 150
                consumer.seek(each, 151)
            await asyncio.sleep(3)
            while found := await consumer.getmany():
                for partition, records in found.items():
                    seen[partition.partition] += offsets(records)
            assert {number: sorted(found) for number, found in seen.items()} == {
                number: [*range(150), *range(151, 600)] for number in range(2)
            }

    live(story)


def test_poison_can_be_skipped_or_handed_to_the_application() -> None:
    met: list[PoisonRecordError] = []
    values: list[bytes | None] = [b"1", b"x", b"3", b"y"]
    assert decoded(Decoder(None, int, "skip"), values) == ([(b"1", 1), (b"1", 3)], None)
    decoder = Decoder(None, int, met.append)
    assert decoded(decoder, values) == ([(b"1", 1), (b"1", 3)], None)
    assert [error.record.value for error in met] == [b"x", b"y"]
    assert decoder.poisoned == 2


def test_skipped_poison_at_the_end_is_not_met_again() -> None:
    async def story(world: World) -> None:
        state = world.broker.create_topic(Topic, 1).partitions[0]
        state.log.append(encode_batch([(None, b"x", 0, ())]), leader_epoch=0)
        async with world.reader(value_deserializer=int, on_poison="skip") as consumer:
            assert not await consumer.getmany(timeout_ms=1000)
            assert await consumer.position(part()) == 1
            assert consumer.metrics().records_skipped == 1

    live(story)


def test_a_callable_that_fails_keeps_the_place() -> None:
    def refuse(error: PoisonRecordError) -> None:
        raise KeyError(error.offset)

    async def story(world: World) -> None:
        state = world.broker.create_topic(Topic, 1).partitions[0]
        state.log.append(encode_batch([(None, b"x", 0, ())]), leader_epoch=0)
        async with world.reader(value_deserializer=int, on_poison=refuse) as consumer:
            for _ in range(2):
                with pytest.raises(KeyError):
                    await consumer.getone()
            assert await consumer.position(part()) == 0

    live(story)


def test_a_callable_that_fails_takes_nothing_away_from_the_records_around() -> None:
    failed: list[int] = []

    def hesitate(error: PoisonRecordError) -> None:
        if not failed:
            failed.append(error.offset)
            raise KeyError(error.offset)

    async def story(world: World) -> None:
        world.fill_all(2, batches=3, records=10)
        state = world.broker.topics.partition(Topic, 1)
        state.log.append(encode_batch([(None, b"x", 0, ())]), leader_epoch=0)
        async with world.reader(2, value_deserializer=int, on_poison=hesitate) as consumer:
            await asyncio.sleep(5)  # everything is there, a chunk of each partition
            seen: list[tuple[int, int]] = []
            for _ in range(10):
                with contextlib.suppress(KeyError):
                    found = await consumer.getmany(timeout_ms=100)
                    seen += [(each.partition, each.offset) for records in found.values() for each in records]
            assert failed == [30]
            assert sorted(seen) == [(number, offset) for number in range(2) for offset in range(30)]

    live(story)


@pytest.mark.parametrize("call", ["getmany", "getone"])
def test_an_interrupt_in_the_middle_of_decoding_loses_nothing(call: str) -> None:
    class Interrupt(BaseException):
        """As Ctrl-C."""

    pressed: list[bytes] = []

    def deserialize(value: bytes) -> int:
        if int(value) == 15 and not pressed:
            pressed.append(value)
            raise Interrupt
        return int(value)

    async def story(world: World) -> None:
        world.fill(part(), batches=3, records=10)
        async with world.reader(value_deserializer=deserialize) as consumer:
            await asyncio.sleep(5)
            seen: list[int] = []
            while len(seen) < 30:
                try:
                    if call == "getone":
                        seen.append((await consumer.getone()).offset)
                    else:
                        seen += offsets((await take(consumer, 1))[part()])
                except Interrupt:
                    assert await consumer.position(part()) == len(seen)
            assert seen == list(range(30))
            assert pressed

    live(story)


def test_batches_stay_views_until_they_are_wanted() -> None:
    data = memoryview(bytearray(batch(0, 100)))
    verdict = judge(fetching(), answer(data), Frame(0), RELAXED)  # type: ignore[arg-type]
    assert verdict.chunk is not None
    [view] = verdict.chunk._batches
    assert isinstance(view, RecordBatch)
    assert view._view.obj is data.obj
