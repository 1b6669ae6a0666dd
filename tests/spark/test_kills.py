"""Executors, brokers and drivers are killed with SIGKILL under queries: a standalone cluster, real Kafka.

A story is a number of kills at random moments of the writing, at least one of each kind, a driver's last;
then the queries go on from their checkpoints to the end. `KCLIENT_SPARK_KILLS=10` tells a longer one,
`KCLIENT_SPARK_SEED` another; `pytest -s` shows what they came to.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.spark.support import standalone
from kclient import Consumer, Producer
from kclient.types import TopicPartition
from tests.spark.killable_query import FORGETFUL, PARQUET, SOURCE, TARGET, Job
from tests.support.marked import VARIABLE, marked
from tests.support.numbered import verdict_of_java
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import StartCluster
from tools.kafka.waiting import poll

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("KCLIENT_SPARK_KILLS", "3"))
SEED = int(os.environ.get("KCLIENT_SPARK_SEED", "8"))
KEYS = 20
PARTITIONS = 3
BATCH = 1_000
# A machine with other work may take a minute for what takes seconds.
_PATIENCE = 120.0


class Verdict(NamedTuple):
    """Counts of records."""

    rows: int
    missing: int
    duplicates: int


def verdict_of_parquet(directory: Path, keys: int, each: int) -> Verdict:
    """What the finished batches hold of `each` numbers of each of `keys` keys."""
    seen: Counter[tuple[int, int]] = Counter()
    for finished in directory.glob("batch=*/_SUCCESS"):
        for file in finished.parent.glob("*.parquet"):
            table = pq.ParquetFile(file).read()
            seen.update((row["key"], row["number"]) for row in table.to_pylist())
    missing = sum((key, number) not in seen for key in range(keys) for number in range(each))
    return Verdict(seen.total(), missing, seen.total() - len(seen))


class Story:
    """The queries, what they read, and those who are killed."""

    def __init__(self, kafka: KafkaCluster, master: str, directory: Path, random: Random) -> None:
        self.each = 0
        self._began = time.monotonic()
        self.kills: Counter[str] = Counter()
        self._kafka = kafka
        self._master = master
        self._directory = directory
        self._random = random
        self._runs = 0
        self._driver: subprocess.Popen[bytes] | None = None
        self._producer = Producer(bootstrap_servers=kafka.bootstrap())
        self._reader = Consumer(bootstrap_servers=kafka.bootstrap())
        self._reader.start()

    def __repr__(self) -> str:
        return f"<Story of {self.each * KEYS} records, run {self._runs}, killed {dict(self.kills)}>"

    @property
    def parquet(self) -> Path:
        return self._directory / PARQUET

    def feed(self, rows: int) -> None:
        """Write more numbers of all keys, each acknowledged."""
        numbers = range(self.each, self.each + rows // KEYS)
        self.each = numbers.stop
        values = [b"%d" % number for number in numbers for _ in range(KEYS)]
        keys = [b"%d" % key for _ in numbers for key in range(KEYS)]
        self._producer.send_many(SOURCE, values, keys).result(_PATIENCE)

    def start(self, *, last: bool = False) -> None:
        """A driver, which goes on where the one before was killed. The last one ends by itself."""
        job = Job(
            master=self._master,
            servers=self._kafka.bootstrap(),
            directory=str(self._directory),
            run=self._runs,
            rows=None if last else BATCH,
            forgetful=last or not self._runs,
        )
        self._runs += 1
        command = [sys.executable, "-W", "ignore", "-m", "tests.spark.killable_query", job.to_json()]
        with self._log().open("wb") as log:
            self._driver = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, VARIABLE: str(self._directory)},
            )

    def finish(self) -> None:
        """Let the queries read all that is left."""
        self.start(last=True)
        assert self._driver is not None
        assert self._driver.wait(_PATIENCE) == 0, self._log().read_text()[-3_000:]

    def advance(self, *topics: str) -> None:
        """Until every query has got somewhere since, and topics have random numbers of rows more."""
        before = {topic: self._written(topic) for topic in topics}
        batches = self._batches()
        self.feed(4 * BATCH)
        wanted = {topic: self._random.randrange(1, 2 * BATCH) for topic in topics}

        def attempt() -> bool:
            assert self._driver is not None
            assert self._driver.poll() is None, f"the driver has ended: {self._log().read_text()[-3_000:]}"
            return self._batches() > batches and all(
                self._written(topic) >= before[topic] + wanted[topic] for topic in topics
            )

        poll(attempt, timeout=_PATIENCE, failure=lambda: f"a query gets no further in {self}")
        self.say(f"{sum(wanted.values())} rows further")

    def kill(self, kind: str) -> None:
        kinds: dict[str, Callable[[], None]] = {
            "executor": self._kill_executor,
            "broker": self._kill_broker,
            "driver": self._kill_driver,
        }
        self.kills[kind] += 1
        self.say(f"kill a {kind}")
        kinds[kind]()

    def close(self) -> None:
        if self._driver is not None and self._driver.poll() is None:
            self._kill_driver()
        self._producer.close()
        self._reader.close()

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:5.1f} s: {what}")

    def _kill_executor(self) -> None:
        os.kill(self._random.choice(self._processes("CoarseGrainedExecutorBackend")), signal.SIGKILL)

    def _kill_driver(self) -> None:
        assert self._driver is not None
        for process in self._processes("deploy.SparkSubmit"):
            os.kill(process, signal.SIGKILL)
        self._driver.kill()
        self._driver.wait()

    def _kill_broker(self) -> None:
        """The leader of a partition that is read or written; it comes back when the others do its work."""
        topic = self._random.choice([SOURCE, TARGET])
        node = self._kafka.leader(topic, self._random.randrange(PARTITIONS))
        self._kafka.kill(node)
        self.advance(TARGET)
        self._kafka.restart(node)
        poll(self._all_in_sync, timeout=_PATIENCE, failure=lambda: f"{node!r} does not catch up")

    def _all_in_sync(self) -> bool:
        topics = (SOURCE, TARGET)
        return all(
            len(self._kafka.in_sync(topic, partition)) == len(self._kafka.nodes)
            for topic in topics
            for partition in range(PARTITIONS)
        )

    def _processes(self, name: str) -> list[int]:
        """Ours, of a class of Spark's. There may be none for a moment: what was killed is being replaced."""

        def find() -> list[int] | None:
            found = [process for process, command in marked(str(self._directory)).items() if name in command]
            return sorted(found) or None

        return poll(find, timeout=_PATIENCE, failure=lambda: f"there is no {name}")

    def _written(self, topic: str) -> int:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(self._reader.end_offsets(partitions).values())

    def _batches(self) -> int:
        return len(list(self.parquet.glob("batch=*/_SUCCESS")))

    def _log(self) -> Path:
        return self._directory / f"driver-{self._runs}.log"


@contextmanager
def story(kafka: KafkaCluster, directory: Path) -> Iterator[Story]:
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, str(directory))  # not for brokers, which the cluster ends
            master = stack.enter_context(standalone(str(directory)))
        told = Story(kafka, master, directory, Random(SEED))
        try:
            yield told
        finally:
            told.close()


def kinds(random: Random) -> list[str]:
    """Who is killed, in this order."""
    order = ["executor", "broker", *random.choices(["executor", "broker", "driver"], k=max(0, KILLS - 3))]
    random.shuffle(order)
    return [*order, "driver"]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything goes; and the environment of all that is started."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    given = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    for name, value in (given | {"SPARK_LOCAL_DIRS": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.mark.timeout(300 + 60 * KILLS)
def test_nothing_is_missing_and_batches_are_there_once_whoever_is_killed(
    kafka_cluster: StartCluster, directory: Path
) -> None:
    began = time.monotonic()
    kafka = kafka_cluster(nodes=3)
    for topic in (SOURCE, TARGET, FORGETFUL):
        kafka.create_topic(topic, PARTITIONS, configs={"min.insync.replicas": "2"})
    with story(kafka, directory) as told:
        told.feed(4 * BATCH)
        told.start()
        told.advance(TARGET, FORGETFUL)
        *early, last = kinds(Random(SEED))
        for kind in early:
            told.kill(kind)
            if kind == "driver":
                told.start()
            told.advance(TARGET)
        told.kill(last)
        told.feed(BATCH)
        told.finish()
        told.say("all is read")
        written, forgetful = (verdict_of_java(kafka, name, KEYS, told.each) for name in (TARGET, FORGETFUL))
        parquet = verdict_of_parquet(told.parquet, KEYS, told.each)
    seconds = time.monotonic() - began
    print(f"\n{told}, seed {SEED}: {written}, Parquet {parquet}, forgetful {forgetful}, {seconds:.0f} s")
    assert (written.missing, written.disorder) == (0, 0)
    assert parquet == Verdict(KEYS * told.each, 0, 0)
    assert forgetful.missing > 0, "the control: without its checkpoint, a query must be seen to lose records"
    poll(
        lambda: not marked(str(directory)) or None,
        timeout=_PATIENCE,
        failure=lambda: f"these were left behind: {marked(str(directory))}",
    )


def test_a_batch_that_is_gone_or_there_twice_is_found_out(tmp_path: Path) -> None:
    for batch in range(3):
        place = tmp_path / f"batch={batch}"
        place.mkdir()
        numbers = range(batch * 10, batch * 10 + 10)
        pq.write_table(pa.table({"key": [0] * 10, "number": list(numbers)}), place / "part.parquet")
        (place / "_SUCCESS").touch()
    assert verdict_of_parquet(tmp_path, 1, 30) == Verdict(30, 0, 0)
    shutil.copytree(tmp_path / "batch=1", tmp_path / "batch=3")
    assert verdict_of_parquet(tmp_path, 1, 30) == Verdict(40, 0, 10)
    (tmp_path / "batch=0" / "_SUCCESS").unlink()
    assert verdict_of_parquet(tmp_path, 1, 30) == Verdict(30, 10, 10)
