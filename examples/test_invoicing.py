"""Tests of an application without Kafka: `invoicing.py` on the embedded broker, faults included.

`python -m pytest examples/test_invoicing.py`. The fixture `kafka_broker` comes with kclient: a fresh broker
for every test, in milliseconds, and `kafka_broker.broker.faults` has it refuse, stall and hang up on request.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from examples.invoicing import INVOICES, ORDERS, REJECTED, Invoicing, invoice
from kclient import Consumer, Producer
from kclient.errors import CommitFailedError, GroupAuthorizationFailedError, NotLeaderOrFollowerError
from kclient.testing import RunningBroker
from kclient.wire.api import ApiKey

ORDER = {"id": 7, "cents": 500, "count": 2}
INVOICE = {"order": 7, "cents": 1_000, "vat": 159}


def place(kafka: RunningBroker, *orders: bytes) -> None:
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many(ORDERS, orders)


def work(application: Invoicing, orders: int = 1) -> None:
    """Let it take so many steps as it needs for so many orders."""
    deadline = time.monotonic() + 30
    while orders > 0:
        assert time.monotonic() < deadline
        orders -= application.step()


def written(kafka: RunningBroker, topic: str) -> list[Any]:
    """Everything that is in a topic."""
    found = []
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        partitions = None
        while partitions is None or any(consumer.lag(partition) != 0 for partition in partitions):
            found += [record.value for batch in consumer.poll(timeout_ms=1_000).values() for record in batch]
            partitions = consumer.assignment() or None
    return found


def encoded(order: Any) -> bytes:
    return json.dumps(order).encode()


def test_the_tax_is_in_the_price() -> None:
    assert invoice(ORDER) == INVOICE


def test_an_order_becomes_an_invoice(kafka_broker: RunningBroker) -> None:
    place(kafka_broker, encoded(ORDER))
    with Invoicing(kafka_broker.bootstrap_servers) as application:
        work(application)
    assert [json.loads(value) for value in written(kafka_broker, INVOICES)] == [INVOICE]


@pytest.mark.parametrize("order", [b"three apples", b"[]", b"{}", encoded(ORDER | {"count": -1})])
def test_what_is_no_order_is_set_aside_and_holds_up_nothing(
    order: bytes, kafka_broker: RunningBroker
) -> None:
    place(kafka_broker, order, encoded(ORDER))
    with Invoicing(kafka_broker.bootstrap_servers) as application:
        work(application, orders=2)
    assert written(kafka_broker, REJECTED) == [order]
    assert len(written(kafka_broker, INVOICES)) == 1


def test_an_invoice_whose_confirmation_is_lost_is_written_once(kafka_broker: RunningBroker) -> None:
    place(kafka_broker, encoded(ORDER))
    lost = kafka_broker.broker.faults.close(ApiKey.PRODUCE, handled=True)  # written, and then hung up
    with Invoicing(kafka_broker.bootstrap_servers) as application:
        work(application)
    assert lost.met == 1
    assert len(written(kafka_broker, INVOICES)) == 1


def test_a_leader_that_moves_is_followed(kafka_broker: RunningBroker) -> None:
    place(kafka_broker, encoded(ORDER))
    refusal = kafka_broker.broker.faults.answer_with(ApiKey.PRODUCE, NotLeaderOrFollowerError, times=2)
    with Invoicing(kafka_broker.bootstrap_servers) as application:
        work(application)
    assert refusal.met == 2
    assert len(written(kafka_broker, INVOICES)) == 1


def test_an_order_that_was_not_committed_is_done_again(kafka_broker: RunningBroker) -> None:
    place(kafka_broker, encoded(ORDER))
    with Invoicing(kafka_broker.bootstrap_servers) as application:
        refusal = kafka_broker.broker.faults.answer_with(
            ApiKey.OFFSET_COMMIT, GroupAuthorizationFailedError, times=None
        )
        with pytest.raises(CommitFailedError):
            work(application)
        refusal.remove()
    with Invoicing(kafka_broker.bootstrap_servers) as application:
        work(application)
    assert [json.loads(value) for value in written(kafka_broker, INVOICES)] == [INVOICE, INVOICE]
