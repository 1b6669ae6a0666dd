"""What one fetch brought of one partition, on its way to the application: batches, decoded when wanted.

Hot, per batch. `answers` makes chunks, `buffer` keeps them in order, `poller` takes from them; only the
application's side decodes. A batch is decoded once and handed out in slices; asked for records after Arrow,
or the other way round, what is left of it is decoded again. Deserializers are called for a slice when it is
handed out. One can go back in the batch in hand, and in the one that was handed out last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kclient.errors import KafkaError, PositionError, ProtocolError

if TYPE_CHECKING:
    import pyarrow

    from kclient.consumer.arrow import Piece, Room
    from kclient.consumer.buffer import Frame
    from kclient.consumer.cursor import Cursor
    from kclient.consumer.decode import Decoder
    from kclient.records.batch import RecordBatch
    from kclient.types import Record

    Records = list[Record[Any, Any]]

_offset = attrgetter("offset")
_NO_EPOCH = -1
# Put back, or of a batch that is finished: never changed.
_NO_RECORDS: Records = []
_NEVER = 1 << 63


def one_list(parts: Sequence[Records]) -> Records:
    """All records, in order. None of the lists is changed: a mark may hold it."""
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))


class Mark(NamedTuple):
    """See `Chunk.mark`."""

    batches: deque[RecordBatch]
    rest: Records | None
    rest_from: int
    at: int
    put_back: Records
    put_back_at: int
    low: int
    position: int
    epoch: int
    next_offset: int
    next_epoch: int
    failure: KafkaError | None
    trouble: Exception | None


class Chunk:
    """Batches of one partition from `position` to `next_offset`; behind them perhaps a `failure`.

    Made when the cursor fetches behind it already. `batches` are those that may be shown: where there are
    none (markers, aborted transactions), the position is behind them from the beginning.
    """

    __slots__ = (
        "_at",
        "_batches",
        "_last",
        "_last_low",
        "_low",
        "_passed",
        "_put_back",
        "_put_back_at",
        "_rest",
        "_rest_from",
        "_table",
        "_table_ends_batch",
        "cursor",
        "epoch",
        "failure",
        "frame",
        "next_epoch",
        "next_offset",
        "position",
        "resets",
        "trouble",
    )

    def __init__(
        self,
        cursor: Cursor,
        frame: Frame,
        batches: Iterable[RecordBatch],
        position: int,
    ) -> None:
        self._batches = deque(batches)
        self.cursor: Cursor = cursor
        self.frame: Frame = frame
        self.next_offset: int = cursor.fetch_offset
        self.next_epoch: int = cursor.fetch_epoch  # of the last batch, which may not be one that is shown
        self.position: int = position if self._batches else self.next_offset
        self.epoch: int = cursor.epoch if self._batches else self.next_epoch
        # What the application is told when it gets here; `resets` goes on by the reset policy instead.
        self.failure: KafkaError | None = None
        self.resets: bool = False
        # What it is told before: of a record that could not be deserialized. Once; then that is tried again.
        self.trouble: Exception | None = None
        self._passed = -1  # the poison record that was let pass last
        self._last: RecordBatch | None = None  # the one that was finished last
        self._low = self._last_low = position  # where what can be had of the first batch begins; of `_last`
        self._rest: Records | None = None  # of the first batch from `_rest_from` on, decoded
        self._rest_from = 0
        self._at = 0  # what of it is handed out
        # Deserialized already and put back: comes before what is left of `_rest`.
        self._put_back: Records = _NO_RECORDS
        self._put_back_at = 0
        # The same as Arrow: what is not handed out of it.
        self._table: pyarrow.RecordBatch | None = None
        self._table_ends_batch = True  # else columns could not hold all of it

    def __repr__(self) -> str:
        topic, number = self.cursor.partition
        what = f"then {self.failure!r}" if self.failure else f"to {self.next_offset}"
        return f"<Chunk {topic}-{number} from {self.position}, {len(self._batches)} batches, {what}>"

    @property
    def empty(self) -> bool:
        """Whether all of its records are handed out."""
        return not self._batches

    @property
    def blocked(self) -> bool:
        """Whether the application has to be told of `trouble` now."""
        return self.trouble is not None and self._put_back_at == len(self._put_back)

    def told(self) -> Exception:
        """The trouble, of which the application is told."""
        trouble, self.trouble = self.trouble, None
        assert trouble is not None
        return trouble

    def take(self, most: int | None, decoder: Decoder) -> Records:
        """The next records, at most so many; none when the chunk is empty or blocked."""
        parts: list[Records] = []
        count, plain = 0, decoder.plain
        while self._batches and (most is None or count < most):
            if self.trouble is not None and self.blocked:
                break
            try:
                if self._rest is None and plain:
                    part = self._decode(decoder)
                    if most is None or count + len(part) <= most:  # most often: a whole batch, as it is
                        self._finish_batch()
                    else:
                        part = self._next(most - count, decoder)
                else:
                    part = self._next(None if most is None else most - count, decoder)
            except Exception:  # the next call meets it again
                if count:
                    break
                raise
            parts.append(part)
            count += len(part)
        return one_list(parts)

    def take_batch(self, most: int | None, decoder: Decoder) -> Records:
        """What is left of the next batch that has records, at most so many."""
        while self._batches and not self.blocked:
            part = self._next(most, decoder)
            if part:
                return part
        return []

    def _next(self, most: int | None, decoder: Decoder) -> Records:
        """At most so many of what is left of the first batch; none where that was passed by."""
        rest = self._rest if self._rest is not None else self._decode(decoder)
        if self._put_back_at < len(self._put_back):
            start, end = self._put_back_at, len(self._put_back)
            if most is not None:
                end = min(end, start + most)
            part = self._put_back[start:end]
            self._put_back_at = end
            if end == len(self._put_back):
                self._put_back, self._put_back_at = _NO_RECORDS, 0
        else:
            start, end = self._at, len(rest)
            if most is not None:
                end = min(end, start + most)
            part = rest if end - start == len(rest) else rest[start:end]
            if not decoder.plain:
                part, count, self.trouble, self._passed = decoder.deserialized(part, self._passed)
                end = start + count
            self._at = end
        if self._put_back_at < len(self._put_back):
            following = self._put_back[self._put_back_at]
        elif self._at < len(rest):
            following = rest[self._at]
        else:
            self._finish_batch()
            return part
        self.position, self.epoch = following.offset, following.leader_epoch
        return part

    def keep(self, records: Records) -> None:
        """Take back what is left of the records that `take_batch` gave last. May be repeated."""
        last = self._last
        if not records:
            return
        finished = not self._batches or self._batches[0] is not last
        if finished and last is not None and records[-1].offset <= last.last_offset:
            self._rest, self._rest_from, self._at = _NO_RECORDS, _NEVER, 0
            self._low = self._last_low
            self._batches.appendleft(last)
        self._put_back, self._put_back_at, self._table = records, 0, None
        self.position = records[0].offset

    def seek(self, offset: int) -> bool:
        """Go on at an offset; False, and nothing is changed, if that is not here."""
        if not self._low <= offset < self.next_offset and not self._last_has(offset):
            return False
        while self._batches and self._batches[0].last_offset < offset:
            self._finish_batch()
        self._table = self.trouble = None
        self._put_back, self._put_back_at = _NO_RECORDS, 0
        self._passed = min(self._passed, offset - 1)
        if not self._batches:
            return True
        if self._rest is not None and self._rest_from <= offset:
            self._at = bisect_left(self._rest, offset, key=_offset)
        else:
            self._rest = None
        self.position, self.epoch = offset, _NO_EPOCH
        return True

    def _last_has(self, offset: int) -> bool:
        """Whether an offset is in the batch that was finished last, which is taken up again then."""
        last = self._last
        if last is None or not self._last_low <= offset <= last.last_offset or last in self._batches:
            return False
        self._batches.appendleft(last)
        self._low, self._rest, self._last = self._last_low, None, None
        return True

    def mark(self) -> Mark:
        """All that `take` changes, for `rewind`; but for the poison that was let pass."""
        return Mark(
            self._batches.copy(),
            self._rest,
            self._rest_from,
            self._at,
            self._put_back,
            self._put_back_at,
            self._low,
            self.position,
            self.epoch,
            self.next_offset,
            self.next_epoch,
            self.failure,
            self.trouble,
        )

    def rewind(self, mark: Mark) -> None:
        """As if nothing had been taken since `mark`."""
        self._batches, self._rest, self._rest_from, self._at = (
            mark.batches,
            mark.rest,
            mark.rest_from,
            mark.at,
        )
        self._put_back, self._put_back_at, self._low = mark.put_back, mark.put_back_at, mark.low
        self.position, self.epoch, self._table = mark.position, mark.epoch, None
        self.next_offset, self.next_epoch = mark.next_offset, mark.next_epoch
        self.failure, self.trouble = mark.failure, mark.trouble
        self._last = None  # it may be among the batches again

    def take_arrow(self, room: Room, schema: pyarrow.Schema) -> list[Piece]:
        """The next records for which there is room. `schema` must have the offset."""
        self._rest = self.trouble = None
        self._put_back, self._put_back_at = _NO_RECORDS, 0
        if self._table is not None and self._table.schema != schema:
            self._table = None
        pieces: list[Piece] = []
        damaged = False
        while self._batches and not room.full:
            if self._table is None and not damaged:
                try:
                    if self._take_whole(room, pieces):
                        continue
                except ProtocolError:
                    damaged = True  # one by one it will show which
            if not self._take_part(room, schema, pieces):
                break
        return pieces

    def _take_whole(self, room: Room, pieces: list[Piece]) -> bool:
        """As many of the next batches as fit; False if not even one does."""
        from kclient.consumer.arrow import extent_in_arrow, pieces_of, rows_in  # noqa: PLC0415 - imports pyarrow

        topic, start = self.cursor.partition.topic, self.position
        chosen: list[RecordBatch] = []
        rows = size = 0
        for batch in self._batches:
            more_rows, more_size = extent_in_arrow(batch, topic)
            if not room.holds(rows + more_rows, size + more_size):
                break
            rows += more_rows
            size += more_size
            chosen.append(batch)
        found = pieces_of(chosen, self.cursor.partition, start)
        room.take(rows_in(found), size)
        pieces += found
        for _ in chosen:
            self._finish_batch()
        return bool(chosen)

    def _take_part(self, room: Room, schema: pyarrow.Schema, pieces: list[Piece]) -> bool:
        """What fits of the next batch; False if nothing does, or not all."""
        size = 0
        if self._table is None:
            rows, size = self._extent_of_next()
            if rows and not room.rows_of(rows, size):
                return False
        table = self._table if self._table is not None else self._arrow(schema)
        count = room.rows_of(table.num_rows, table.nbytes)
        if count < table.num_rows:
            if count:
                part, self._table = table.slice(0, count), table.slice(count)
                self.position = self._table.column("offset")[0].as_py()
                room.take(count, part.nbytes)
                pieces.append(part)
            return False
        room.take(count, max(size, table.nbytes))
        pieces.append(table)
        if not self._table_ends_batch:
            self._table = None
            self.position = table.column("offset")[-1].as_py() + 1
            return False
        self._finish_batch()
        return True

    def _extent_of_next(self) -> tuple[int, int]:
        """Rows and bytes of the next batch; none of a damaged one, which is to be taken and told."""
        from kclient.consumer.arrow import extent_in_arrow  # noqa: PLC0415 - imports pyarrow

        try:
            return extent_in_arrow(self._batches[0], self.cursor.partition.topic)
        except ProtocolError:
            return 0, 0

    def _decode(self, decoder: Decoder) -> Records:
        self._table, self._at = None, 0
        try:
            rest = decoder.records(self._batches[0], self.cursor.partition, self.position)
        except ProtocolError as error:
            rest = []
            self._break_off(error)
        self._rest, self._rest_from = rest, self.position
        return rest

    def _arrow(self, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        from kclient.consumer.arrow import arrow_from_all  # noqa: PLC0415 - imports pyarrow

        partition = self.cursor.partition
        try:
            table, ends = arrow_from_all([self._batches[0]], partition, self.position, schema)
        except ProtocolError as error:
            self._break_off(error.locate(topic=partition.topic, partition=partition.partition))
            table, ends = arrow_from_all([], partition, self.position, schema)
        self._table, self._table_ends_batch = table, ends
        return table

    def _break_off(self, failure: KafkaError) -> None:
        """Nothing behind the failure can be had."""
        while len(self._batches) > 1:
            self._batches.pop()
        self.failure, self.resets = failure, False
        self.next_offset = failure.offset if isinstance(failure, PositionError) else self.position
        self.next_epoch = self._batches[0].leader_epoch

    def _finish_batch(self) -> None:
        self._last = batch = self._batches.popleft()
        self._last_low = self._low
        self._low = behind = batch.next_offset
        self._rest = self._table = None
        if self._batches:
            # A batch, or an old message, may end before the offset that was asked for.
            self.position = max(self.position, behind)
            self.epoch = batch.leader_epoch
        else:
            self.position, self.epoch = self.next_offset, self.next_epoch
