"""What one fetch brought of one partition, on its way to the application: batches, decoded when wanted.

Hot, per batch. `answers` makes chunks, `buffer` keeps them in order, `poller` takes from them; only the
application's side decodes. A batch is decoded once and handed out in slices; asked for records after Arrow,
or the other way round, what is left of it is decoded again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kclient.errors import KafkaError, PositionError, ProtocolError

if TYPE_CHECKING:
    import pyarrow

    from kclient.consumer.buffer import Frame
    from kclient.consumer.cursor import Cursor
    from kclient.consumer.decode import Decoder
    from kclient.records.batch import RecordBatch
    from kclient.records.columns import Columns
    from kclient.records.objects import Origin
    from kclient.types import Record

    Records = list[Record[Any, Any]]


class Mark(NamedTuple):
    """See `Chunk.mark`."""

    batches: deque[RecordBatch]
    rest: Records | None
    at: int
    position: int
    epoch: int
    next_offset: int
    next_epoch: int
    failure: KafkaError | None


class Chunk:
    """Batches of one partition from `position` to `next_offset`; behind them perhaps a `failure`.

    Made when the cursor fetches behind it already. `batches` are those that may be shown: where there are
    none (markers, aborted transactions), the position is behind them from the beginning.
    """

    __slots__ = (
        "_at",
        "_batches",
        "_last",
        "_rest",
        "_table",
        "cursor",
        "epoch",
        "failure",
        "frame",
        "next_epoch",
        "next_offset",
        "position",
        "resets",
    )

    def __init__(
        self,
        cursor: Cursor,
        frame: Frame,
        batches: Iterable[RecordBatch],
        position: int,
    ) -> None:
        self._batches = deque(batches)
        self.cursor = cursor
        self.frame = frame
        self.next_offset = cursor.fetch_offset
        self.next_epoch = cursor.fetch_epoch  # of the last batch, which may not be one that is shown
        self.position = position if self._batches else self.next_offset
        self.epoch = cursor.epoch if self._batches else self.next_epoch
        # What the application is told when it gets here; `resets` goes on by the reset policy instead.
        self.failure: KafkaError | None = None
        self.resets = False
        self._last: RecordBatch | None = None  # the one that was finished last
        self._rest: Records | None = None  # of the first batch, decoded
        self._at = 0  # what of it is handed out
        # As Arrow, with the batches before it that were gathered into one table with it.
        self._table: pyarrow.RecordBatch | None = None

    def __repr__(self) -> str:
        topic, number = self.cursor.partition
        what = f"then {self.failure!r}" if self.failure else f"to {self.next_offset}"
        return f"<Chunk {topic}-{number} from {self.position}, {len(self._batches)} batches, {what}>"

    @property
    def empty(self) -> bool:
        """Whether all of its records are handed out."""
        return not self._batches

    def take(self, most: int | None, decoder: Decoder) -> Records:
        """The next records, at most so many; none when the chunk is empty."""
        out: Records = []
        while self._batches and (most is None or len(out) < most):
            try:
                rest = self._rest if self._rest is not None else self._decode(decoder)
            except Exception:  # the application's own `on_poison` refused; the next call meets it again
                if out:
                    return out
                raise
            start, end = self._at, len(rest)
            if most is not None:
                end = min(end, start + most - len(out))
            part = rest if end - start == len(rest) else rest[start:end]
            out = out + part if out else part
            if end == len(rest):
                self._finish_batch()
            else:
                self._at = end
                self.position = rest[end].offset
                self.epoch = rest[end].leader_epoch
        return out

    def take_batch(self, decoder: Decoder) -> Records:
        """What is left of the next batch that has records."""
        while self._batches:
            rest = self._rest if self._rest is not None else self._decode(decoder)
            part = rest[self._at :]
            self._finish_batch()
            if part:
                return part
        return []

    def keep(self, records: Records) -> None:
        """Take back what is left of the batch that `take_batch` gave last."""
        if records and self._last is not None:
            self._batches.appendleft(self._last)
            self._rest, self._at, self._table = records, 0, None
            self.position = records[0].offset

    def mark(self) -> Mark:
        """All that `take` changes, for `rewind`."""
        return Mark(
            self._batches.copy(),
            self._rest,
            self._at,
            self.position,
            self.epoch,
            self.next_offset,
            self.next_epoch,
            self.failure,
        )

    def rewind(self, mark: Mark) -> None:
        """As if nothing had been taken since `mark`."""
        self._batches, self._rest, self._at, self._table = mark.batches, mark.rest, mark.at, None
        self.position, self.epoch = mark.position, mark.epoch
        self.next_offset, self.next_epoch, self.failure = mark.next_offset, mark.next_epoch, mark.failure

    def take_columns(self) -> list[tuple[Columns, Origin]] | None:
        """All that is left as columns; None, and nothing is taken, where `take_arrow` has to look."""
        from kclient.consumer.decode import columns_from_all  # noqa: PLC0415 - imports numpy

        try:
            parts = columns_from_all(self._batches, self.cursor.partition, self.position)
        except ProtocolError:
            return None
        while parts is not None and self._batches:
            self._finish_batch()
        return parts

    def take_arrow(self, most: int | None, schema: pyarrow.Schema) -> list[pyarrow.RecordBatch]:
        """The next records as Arrow batches, at most so many in all. `schema` must have the offset."""
        if self._table is not None and self._table.schema != schema:
            self._table = None
        if self._table is None and len(self._batches) > 1:
            self._gather(most, schema)
        out: list[pyarrow.RecordBatch] = []
        count = 0
        while self._batches and (most is None or count < most):
            table = self._table if self._table is not None else self._arrow(schema)
            if most is not None and count + table.num_rows > most:
                out.append(table.slice(0, most - count))
                self._table = table = table.slice(most - count)
                self.position = table.column("offset")[0].as_py()
                break
            count += table.num_rows
            if table.num_rows:
                out.append(table)
            self._finish_batch()
        return out

    def _gather(self, most: int | None, schema: pyarrow.Schema) -> None:
        """Make one table of as many batches as are wanted; what is not taken of it is of the last of them."""
        from kclient.consumer.decode import arrow_from_all  # noqa: PLC0415 - imports pyarrow

        count = number = 0
        for batch in self._batches:
            number += 1
            count += batch.next_offset - max(batch.base_offset, self.position)
            if most is not None and count >= most:
                break
        chosen = list(islice(self._batches, number))
        try:
            table = arrow_from_all(chosen, self.cursor.partition, self.position, schema)
        except ProtocolError:
            return  # one by one it will show which
        self._rest, self._table = None, table
        for _ in chosen[:-1]:
            self._batches.popleft()

    def _decode(self, decoder: Decoder) -> Records:
        self._table, self._at = None, 0
        try:
            self._rest, failure = decoder.records(self._batches[0], self.cursor.partition, self.position)
        except ProtocolError as error:
            self._rest, failure = [], error
        if failure is not None:
            self._break_off(failure)
        return self._rest

    def _arrow(self, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        from kclient.consumer.decode import arrow_from  # noqa: PLC0415 - imports pyarrow

        self._rest, self._at = None, 0
        try:
            self._table = arrow_from(self._batches[0], self.cursor.partition, self.position, schema)
        except ProtocolError as error:
            self._break_off(error)
            self._table = arrow_from(None, self.cursor.partition, self.position, schema)
        return self._table

    def _break_off(self, failure: KafkaError) -> None:
        """Nothing behind the failure can be had."""
        while len(self._batches) > 1:
            self._batches.pop()
        self.failure, self.resets = failure, False
        self.next_offset = failure.offset if isinstance(failure, PositionError) else self.position
        self.next_epoch = self._batches[0].leader_epoch

    def _finish_batch(self) -> None:
        self._last = batch = self._batches.popleft()
        self._rest = self._table = None
        self._at = 0
        if self._batches:
            # A batch, or an old message, may end before the offset that was asked for.
            self.position = max(self.position, batch.next_offset)
            self.epoch = batch.leader_epoch
        else:
            self.position, self.epoch = self.next_offset, self.next_epoch
