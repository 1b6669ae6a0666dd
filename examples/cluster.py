"""A cluster for the examples: an embedded broker, or one that the command line or KCLIENT_BOOTSTRAP names.

Not an example itself. `python -m examples.producer_threads` needs nothing;
`python -m examples.producer_threads localhost:9092` runs on what listens there.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from kclient import Admin, Producer
from kclient.admin import NewTopic
from kclient.broker import Broker
from kclient.errors import TopicAlreadyExistsError
from kclient.testing import RunningBroker

NEW_YEAR_MS = 1_767_225_600_000


@contextlib.contextmanager
def cluster_with(topic: str, partitions: int = 6) -> Iterator[tuple[str, Broker | None]]:
    """The address of a cluster that has the topic, and the embedded broker where it is that."""
    named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("KCLIENT_BOOTSTRAP")
    with contextlib.ExitStack() as stack:
        embedded = None if named else stack.enter_context(RunningBroker())
        bootstrap = embedded.bootstrap_servers if embedded else str(named)
        with Admin(bootstrap_servers=bootstrap) as admin, contextlib.suppress(TopicAlreadyExistsError):
            admin.create_topics(NewTopic(topic, partitions))
        yield bootstrap, embedded.broker if embedded else None


def fill(bootstrap: str, topic: str, count: int, partitions: int = 1) -> None:
    """Write "order 0", "order 1", … to the partitions in turn, one second apart from 2026 on."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(
                topic,
                b"order %d" % number,
                partition=number % partitions,
                timestamp_ms=NEW_YEAR_MS + number * 1_000,
            )
