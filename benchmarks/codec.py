"""kclient's record codec against aiokafka's compiled one and kafka-python's, in one process and one run.

`python -m benchmarks.codec` prints a table of nanoseconds per record and ratios, and says where kclient is
behind its floors. `run()` returns the same as data. Contestants take turns in every round, the median counts,
and time is that of the processor, so that what else the machine does hits all of them or none.
"""

from __future__ import annotations

import statistics
import sys
from time import thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.record._crecords import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record._crecords import MemoryRecords as AioRecords
from aiokafka.structs import ConsumerRecord
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from benchmarks.codec_shapes import SHAPES, Shape
from kclient.records import Codec, Fields, encode_batch, encode_fields, encode_flat, read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Contestants = dict[str, Callable[[], object]]

# Least speed of kclient as a multiple of the peer's: (operation, peer) for 1,000 and 8,000 records of 100 B.
FLOORS = {
    ("encode tuples", "aiokafka"): 0.9,
    ("encode tuples", "kafka-python"): 4.0,
    ("decode objects", "aiokafka"): 0.5,
    ("decode objects", "kafka-python"): 2.0,
    ("decode columns", "aiokafka"): 1.3,
    ("decode arrow", "aiokafka"): 1.0,
}
_COLUMN_FLOORS_FROM = 8000


class Row(NamedTuple):
    """One operation on one shape: nanoseconds per record of kclient and of each peer."""

    operation: str
    shape: Shape
    ours: float
    peers: dict[str, float]

    def ratio(self, peer: str) -> float:
        """How many times as fast as the peer."""
        return self.peers[peer] / self.ours

    def floor(self, peer: str) -> float | None:
        """What `ratio` must at least be, where anything was promised."""
        columnar = self.operation in ("decode columns", "decode arrow")
        if self.shape.name != "100 B" or self.shape.records < (_COLUMN_FLOORS_FROM if columnar else 1000):
            return None
        return FLOORS.get((self.operation, peer))


def run(shapes: Iterable[Shape] = SHAPES, rounds: int = 15) -> list[Row]:
    """Measure every operation on every shape."""
    rows: list[Row] = []
    for shape in shapes:
        rows += _encode_rows(shape, rounds)
        rows += _decode_rows(shape, rounds)
    return rows


def behind(rows: Iterable[Row]) -> list[str]:
    """A sentence for every floor that is not held."""
    return [
        f"{row.operation}, {row.shape.records} x {row.shape.name}: {row.ratio(peer):.2f} {peer}, not {floor}"
        for row in rows
        for peer in row.peers
        if (floor := row.floor(peer)) is not None and row.ratio(peer) < floor
    ]


def table(rows: Iterable[Row]) -> str:
    """The rows as text, peers as ratios: 2.00 means kclient took half the time."""
    head = (
        f"{'operation':<15} {'records':>7} {'shape':<18} {'kclient':>8} {'aiokafka':>8} {'ratio':>6}  others"
    )
    lines = [head, "-" * len(head)]
    for row in rows:
        others = ", ".join(f"{row.ratio(peer):.2f} {peer}" for peer in row.peers if peer != "aiokafka")
        lines.append(
            f"{row.operation:<15} {row.shape.records:>7} {row.shape.name:<18} {row.ours:>8.0f} "
            f"{row.peers['aiokafka']:>8.0f} {row.ratio('aiokafka'):>6.2f}  {others}"
        )
    return "\n".join(lines)


def _encode_rows(shape: Shape, rounds: int) -> list[Row]:
    records = shape.make()
    flat: list[Any] = [field for record in records for field in record]
    headers = flat[3::4] if shape.headers else None
    fields = Fields(flat[0::4], flat[1::4], flat[2::4], headers)
    codec, level = shape.codec, shape.level
    return _race(
        shape,
        rounds,
        {
            "encode tuples": lambda: encode_batch(records, codec=codec, level=level),
            "encode flat": lambda: encode_flat(flat, codec=codec, level=level),
            "encode columns": lambda: encode_fields(fields, codec=codec, level=level),
        },
        {
            "aiokafka": lambda: _peer_encode(AioBuilder, records, codec),
            "kafka-python": lambda: _peer_encode(KafkaPythonBuilder, records, codec),
        },
    )


def _decode_rows(shape: Shape, rounds: int) -> list[Row]:
    data = shape.encoded()
    return _race(
        shape,
        rounds,
        {
            "decode objects": lambda: [batch.records("topic", 0) for batch in read_batches(data)],
            "decode columns": lambda: [batch.columns() for batch in read_batches(data)],
            "decode arrow": lambda: [batch.arrow("topic", 0) for batch in read_batches(data)],
        },
        {
            "aiokafka": lambda: _peer_decode(AioRecords, data),
            "aiokafka ConsumerRecord": lambda: _aiokafka_consumer_records(data),
            "kafka-python": lambda: _peer_decode(KafkaPythonRecords, data),
        },
    )


def _race(shape: Shape, rounds: int, ours: Contestants, peers: Contestants) -> list[Row]:
    """Median nanoseconds per record of each, taking turns of at least 8,000 records."""
    if shape.codec > Codec.GZIP:
        # kafka-python wants a package of its own for each codec.
        peers = {name: peer for name, peer in peers.items() if name != "kafka-python"}
    contestants = ours | peers
    repeats = max(1, 8000 // shape.records)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for contestant in contestants.values():
        contestant()
    order = list(contestants.items())
    for _ in range(rounds):
        # Whoever comes first finds the caches cold.
        order.append(order.pop(0))
        for name, contestant in order:
            begin = thread_time()
            for _ in range(repeats):
                contestant()
            times[name].append((thread_time() - begin) / (shape.records * repeats) * 1e9)
    medians = {name: statistics.median(measured) for name, measured in times.items()}
    return [Row(name, shape, medians[name], {peer: medians[peer] for peer in peers}) for name in ours]


def _peer_encode(builder: Any, records: list[Any], codec: int) -> object:
    batch = builder(2, int(codec), 0, -1, -1, -1, 1 << 30)
    for offset, (key, value, timestamp, headers) in enumerate(records):
        batch.append(offset, timestamp, key, value, list(headers) if headers else [])
    return batch.build()


def _peer_decode(reader: Any, data: bytes) -> list[Any]:
    batches = reader(data)
    records: list[Any] = []
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        records += batch
    return records


def _aiokafka_consumer_records(data: bytes) -> list[object]:
    """What aiokafka hands to its users, made as its fetcher makes it."""
    return [
        ConsumerRecord(
            "topic",
            0,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.key,
            record.value,
            record.checksum,
            len(record.key) if record.key is not None else -1,
            len(record.value) if record.value is not None else -1,
            tuple(record.headers),
        )
        for record in _peer_decode(AioRecords, data)
    ]


def main() -> int:
    """Print the table; the number of floors that are not held is the exit status."""
    rows = run()
    print("nanoseconds per record; ratios above 1 are in kclient's favour\n")
    print(table(rows))
    failures = behind(rows)
    print("\nbehind its floors:", *(failures or ["nowhere"]), sep="\n  ")
    slower = [
        f"{row.operation} {row.shape.records} x {row.shape.name}" for row in rows if row.ratio("aiokafka") < 1
    ]
    print("slower than aiokafka:", *(slower or ["nowhere"]), sep="\n  ")
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
