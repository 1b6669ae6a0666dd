"""kafka-python in a process of its own, one scenario per process.

In one process with the other clients its tests failed now and then, why was not found out; alone they do
not. Tests call `drive`; this module, run as a program, reads what the scenario needs from stdin and prints
what came of it, both as JSON.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0
_LONGEST = 60.0

Options = dict[str, Any]
Record = dict[str, Any]


class DriverError(Exception):
    """The process failed; the message is what it said last."""


def drive(scenario: str, **given: Any) -> Any:
    """Run one scenario in a process of its own and give back what it found."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __name__, scenario],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        cwd=ROOT,
        check=False,
    )
    if done.returncode != 0:
        raise DriverError(f"{scenario} ended with {done.returncode}:\n{done.stderr[-10000:]}")
    return json.loads(done.stdout)


def _complete(options: Options) -> Options:
    """Options with the object that a token has to be wrapped in."""
    token = options.pop("token", None)
    if token is not None:
        base: Any = import_module("kafka.net.sasl.oauth").AbstractTokenProvider
        provider = type("Provider", (base,), {"token": lambda _: token})
        options["sasl_oauth_token_provider"] = provider()
    return options


def _producer(servers: str, options: Options) -> Any:
    kafka: Any = import_module("kafka")
    acks = options.get("acks", "all")
    given = {"enable_idempotence": acks == "all", "max_block_ms": 10000, **_complete(options)}
    return closing(kafka.KafkaProducer(bootstrap_servers=servers, **given))


def _reader(servers: str, options: Options) -> Any:
    kafka: Any = import_module("kafka")
    return kafka.KafkaConsumer(
        bootstrap_servers=servers,
        **{
            "group_id": "strangers",
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 100,
            "session_timeout_ms": 10000,
            "heartbeat_interval_ms": 200,
            **_complete(options),
        },
    )


def _consumer(servers: str, topic: str, options: Options) -> Any:
    made = _reader(servers, options)
    # It joins before it knows the topics, and where their partitions come to light during the join it keeps
    # the empty assignment; Kafka's delay before a first rebalance hides this. So let it look first.
    made.partitions_for_topic(topic)
    made.subscribe([topic])
    return closing(made)


def _records(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + _PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came"
        for records in consumer.poll(timeout_ms=50, max_records=count - len(found)).values():
            found.extend(records)
    return found


def _commit(consumer: Any) -> None:
    """Commit, also where the member has just thought of joining once more; it asks to be polled then."""
    errors: Any = import_module("kafka.errors")
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            consumer.commit()
        except (errors.RebalanceInProgressError, errors.CommitFailedError):
            assert time.monotonic() < deadline, "the rebalance did not end"
            consumer.poll(timeout_ms=50)
        else:
            return


def _plain(record: Any) -> Record:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "key": None if record.key is None else record.key.decode(),
        "value": record.value.decode(),
        "headers": [[name, value.decode()] for name, value in record.headers],
    }


def produce(
    servers: str, topic: str, values: list[str], partition: int = 0, **options: Any
) -> list[list[int]]:
    """Send values to one partition; where they went, by what the broker said."""
    with _producer(servers, options) as producer:
        sent = [
            producer.send(topic, value.encode(), key=b"k", headers=[("h", b"1")], partition=partition)
            for value in values
        ]
        reports = [future.get(_PATIENCE) for future in sent]
    return [[report.partition, report.offset] for report in reports]


def produce_each(servers: str, topic: str, values: list[str], jobs: list[Options]) -> None:
    """Several `produce`s in one process; a job is its options."""
    for job in jobs:
        produce(servers, topic, values, **job)


def consume(servers: str, topic: str, count: int, **options: Any) -> list[Record]:
    """So many records, as a member of a group."""
    with _consumer(servers, topic, options) as consumer:
        return [_plain(record) for record in _records(consumer, count)]


def positions(servers: str) -> Record:
    """Offsets by time, seeks and commits on a topic of ten records with known times."""
    part: Any = import_module("kafka").TopicPartition("timed", 0)
    with _producer(servers, {}) as producer:
        for number in range(10):
            producer.send("timed", b"%d" % number, timestamp_ms=1_700_000_000_000 + number).get(_PATIENCE)
    with closing(_reader(servers, {"enable_auto_commit": False})) as consumer:
        consumer.assign([part])
        _records(consumer, 10)
        by_time = consumer.offsets_for_times({part: 1_700_000_000_006})[part]
        ends = [consumer.beginning_offsets([part])[part], consumer.end_offsets([part])[part]]
        consumer.seek(part, 4)
        sought = _plain(_records(consumer, 1)[0])["value"]
        consumer.commit()
        committed = consumer.committed(part)
    with _consumer(servers, "timed", {}) as again:
        resumed = _plain(_records(again, 1)[0])["value"]
    return {
        "ends": ends,
        "by_time": [by_time.offset, by_time.timestamp],
        "sought": sought,
        "committed": committed,
        "resumed": resumed,
    }


def administer(servers: str) -> Iterator[tuple[str, Any]]:
    """What the admin client sees of a topic and a group, step by step, by name."""
    module: Any = import_module("kafka.admin")
    with closing(module.KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([module.NewTopic("made", 2, 1)])
        yield "topics", admin.list_topics()
        admin.create_partitions({"made": module.NewPartitions(3)})
        yield "partitions", len(admin.describe_topics(["made"])[0]["partitions"])
        resource = module.ConfigResource(module.ConfigResourceType.TOPIC, "made")
        yield "configs", str(admin.describe_configs([resource], config_filter="all"))
        yield "brokers", len(admin.describe_cluster()["brokers"])
        produce(servers, "made", ["a"])
        with _consumer(servers, "made", {}) as consumer:
            _records(consumer, 1)
            _commit(consumer)
            yield "group", str(admin.describe_groups(["strangers"]))
        yield "groups", str(admin.list_groups())
        yield "offsets", str(admin.list_group_offsets(["strangers"]))
        admin.delete_groups(["strangers"])
        yield "groups after", str(admin.list_groups())
        admin.delete_topics(["made"])
        yield "topics after", admin.list_topics()


_SCENARIOS: dict[str, Callable[..., Any]] = {
    "produce": produce,
    "produce_each": produce_each,
    "consume": consume,
    "positions": positions,
    "administer": lambda **given: dict(administer(**given)),
}

if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    json.dump(_SCENARIOS[sys.argv[1]](**json.load(sys.stdin)), sys.stdout)
