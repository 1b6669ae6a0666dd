"""The orders of the demo: a seeded stream in which a few customers order most of the time, and its JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import NamedTuple

TOPIC, REVENUE_TOPIC = "orders", "revenue"
CATEGORIES = ("books", "garden", "kitchen", "music", "toys")
HOT_CUSTOMERS, HOT_SHARE = 3, 0.4
CUSTOMERS = 10_000
# The same as Spark reads it.
SCHEMA = "number bigint, customer string, category string, cents bigint, time_ms bigint"


class Order(NamedTuple):
    """One purchase. Money is in cents, so that sums are exact wherever they are made."""

    number: int
    customer: str
    category: str
    cents: int
    time_ms: int

    @property
    def key(self) -> bytes:
        return self.customer.encode()

    @property
    def value(self) -> bytes:
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


def make_orders(count: int, seed: int = 17) -> Iterator[Order]:
    """Orders without a time: whoever sends one stamps it."""
    chance = random.Random(seed)
    for number in range(count):
        hot = chance.random() < HOT_SHARE
        customer = chance.randrange(HOT_CUSTOMERS) if hot else chance.randrange(HOT_CUSTOMERS, CUSTOMERS)
        yield Order(
            number, f"customer-{customer}", chance.choice(CATEGORIES), chance.randrange(100, 20_000), 0
        )
