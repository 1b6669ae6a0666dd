"""An application to be tested: it writes an invoice for each order, and sets aside what is no order.

Its tests are beside it, in `test_invoicing.py`: they run it on the embedded broker, in health and in trouble.
It commits when its invoices are written, so a crash repeats some and loses none.
"""

from __future__ import annotations

import json
from typing import Any, Self

from examples.cluster import cluster_with
from kclient import Consumer, Producer

ORDERS, INVOICES, REJECTED = "orders", "invoices", "rejected-orders"


def invoice(order: dict[str, Any]) -> dict[str, Any]:
    """The business of it, free of Kafka; raises ValueError for an order that makes no sense."""
    cents = order["cents"] * order["count"]
    if cents <= 0:
        raise ValueError(f"an order over {cents} cents")
    return {"order": order["id"], "cents": cents, "vat": cents * 19 // 119}


class Invoicing:
    """The application. What it needs to know comes from outside, so a test can bring its own cluster."""

    def __init__(self, bootstrap: str, group: str = "invoicing") -> None:
        self._producer = Producer(bootstrap_servers=bootstrap)
        self._consumer = Consumer(
            ORDERS,
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )

    def __enter__(self) -> Self:
        self._producer.start()
        self._consumer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._producer.close()

    def step(self, timeout_ms: float = 1_000) -> int:
        """Work on what is there and commit it; tells how many orders that were. A service goes on and on."""
        batches = self._consumer.poll(timeout_ms=timeout_ms)
        records = [record for batch in batches.values() for record in batch]
        deliveries = []
        for record in records:
            value: bytes | None
            try:
                value, topic = json.dumps(invoice(json.loads(record.value or b"null"))).encode(), INVOICES
            except (ValueError, KeyError, TypeError):
                value, topic = record.value, REJECTED
            deliveries.append(self._producer.send(topic, value, record.key))
        for delivery in deliveries:
            delivery.result()
        self._consumer.commit()
        return len(records)


def main(bootstrap: str) -> None:
    orders = [b'{"id": 1, "cents": 250, "count": 4}', b"three apples", b'{"id": 2, "cents": 119, "count": 1}']
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(ORDERS, orders)
    done = 0
    with Invoicing(bootstrap) as application:
        while done < len(orders):
            done += application.step()
    with Consumer(INVOICES, REJECTED, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        results = [next(consumer) for _ in orders]
    print("\n".join(sorted(f"{each.topic}: {(each.value or b'').decode()}" for each in results)))


if __name__ == "__main__":
    with cluster_with(ORDERS) as (bootstrap, _):
        main(bootstrap)
