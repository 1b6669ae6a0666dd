"""What comes out is what went in, wherever one begins to read, before and after the log is opened again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kclient.broker.log import segment as segment_module
from kclient.broker.log.partition_log import LogConfig, PartitionLog
from kclient.errors import OffsetOutOfRangeError
from kclient.records import read_batches
from tests.unit.broker.log.building import SetClock, batch, contents, open_log


@pytest.fixture(params=["memory", "files"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> PartitionLog:
    return open_log(None if request.param == "memory" else tmp_path / "topic-0")


def test_reading_at_the_end_gives_nothing_and_outside_an_error(log: PartitionLog) -> None:
    assert log.read(0, 100) == b""
    log.append(batch(b"a", b"b"), leader_epoch=0)
    assert log.read(2, 100) == b""
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset}, but .* 0 to 2"):
            log.read(offset, 100)


def test_a_batch_is_read_from_any_of_its_offsets(log: PartitionLog) -> None:
    log.append(batch(b"a"), leader_epoch=0)
    log.append(batch(b"b", b"c", b"d"), leader_epoch=0)
    for offset in (1, 2, 3):
        (found,) = read_batches(log.read(offset, 1))
        assert (found.base_offset, found.last_offset) == (1, 3)


def test_only_whole_batches_are_read_and_at_least_one_if_wanted(log: PartitionLog) -> None:
    one = batch(b"a")
    for _ in range(3):
        log.append(one, leader_epoch=0)
    size = len(one)
    lengths = [len(log.read(0, wanted)) for wanted in (0, size - 1, size, 2 * size - 1, 2 * size, 9 * size)]
    assert lengths == [size, size, size, size, 2 * size, 3 * size]
    assert log.read(0, size - 1, at_least_one=False) == b""
    assert len(log.read(0, size, at_least_one=False)) == size


def test_batches_beyond_a_bound_are_left_out(log: PartitionLog) -> None:
    one = batch(b"a", b"b")
    for _ in range(3):
        log.append(one, leader_epoch=0)
    lengths = [len(log.read(0, 10_000, up_to=bound)) // len(one) for bound in range(8)]
    assert lengths == [0, 0, 1, 1, 2, 2, 3, 3]
    assert log.read(4, 10_000, up_to=4) == b""


def test_a_read_ends_with_its_segment_and_the_next_goes_on(log: PartitionLog) -> None:
    one = batch(b"a")
    log.config = LogConfig(segment_bytes=2 * len(one))
    for _ in range(5):
        log.append(one, leader_epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert [len(log.read(offset, 10_000)) // len(one) for offset in range(5)] == [2, 1, 2, 1, 1]


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 900), min_size=1, max_size=60),
    interval=st.integers(0, 1500),
    wanted=st.integers(0, 3000),
    segment_bytes=st.integers(1000, 9000),
)
def test_consumers_that_follow_each_other_read_everything(
    sizes: list[int], interval: int, wanted: int, segment_bytes: int
) -> None:
    log = open_log(index_interval_bytes=interval, segment_bytes=segment_bytes)
    for size in sizes:
        log.append(batch(b"x" * size), leader_epoch=0)
    for _ in range(2):
        offset, values = 0, []
        while offset < log.end_offset:
            data = log.read(offset, wanted)
            found = list(read_batches(data))
            assert sum(one.size for one in found) == len(data) > 0
            assert len(found) == 1 or len(data) <= wanted
            values += [record.value for one in found for record in one.records("topic", 0)]
            offset = found[-1].next_offset
        assert values == [b"x" * size for size in sizes]


def test_hints_of_where_readers_are_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "_MOST_HINTS", 4)
    log = open_log()
    for _ in range(20):
        log.append(batch(), leader_epoch=0)
    size = len(log.read(0, 1))
    for offset in range(19):
        log.read(offset, size + 20)
    assert len(log.active._hints) <= 4


class LogMachine(RuleBasedStateMachine):
    """A log next to a list of records; both must say the same after anything."""

    directory: Path | None = None

    @initialize(interval=st.sampled_from([0, 100, 4096]), segment_bytes=st.sampled_from([300, 1000, 1 << 30]))
    def begin(self, interval: int, segment_bytes: int) -> None:
        import tempfile  # noqa: PLC0415 - hypothesis makes many of these, pytest's tmp_path only one

        self.folder = tempfile.TemporaryDirectory()
        self.directory = Path(self.folder.name) / "topic-0"
        self.config = LogConfig(index_interval_bytes=interval, segment_bytes=segment_bytes)
        self.log = PartitionLog.open(self.directory, self.config, SetClock())
        self.model: list[bytes] = []

    @rule(values=st.lists(st.binary(max_size=60), min_size=1, max_size=3))
    def append(self, values: list[bytes]) -> None:
        appended = self.log.append(batch(*values), leader_epoch=len(self.model) // 5)
        assert appended.base_offset == len(self.model)
        self.model += values

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        epochs = repr(self.log.epochs)
        if clean:
            self.log.close()
        self.log = PartitionLog.open(self.directory, self.config, SetClock(), clean=clean)
        assert epochs in ("LeaderEpochs({})", repr(self.log.epochs))

    @rule(share=st.floats(0, 1))
    def delete_before(self, share: float) -> None:
        span = self.log.end_offset - self.log.start_offset
        offset = self.log.start_offset + int(span * share)
        assert self.log.delete_before(offset) == offset

    @rule(share=st.floats(0.5, 1))
    def truncate(self, share: float) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        self.log.truncate(start + int((end - start) * share))
        del self.model[self.log.end_offset :]

    @invariant()
    def says_the_same(self) -> None:
        log = self.log
        assert log.end_offset == len(self.model)
        assert contents(log) == [
            (offset, b"key", self.model[offset]) for offset in range(log.start_offset, len(self.model))
        ]

    def teardown(self) -> None:
        if self.directory is not None:
            self.log.close()
            self.folder.cleanup()


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
