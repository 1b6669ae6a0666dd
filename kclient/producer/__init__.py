"""The producer.

`client` (`AsyncProducer`) and `blocking` (`Producer`) are what users call, `core` what both are made of. A
record's way: `records`, `many` and `tables` (what callers pass) → `accumulator` (chunks) → `dispatch`,
`spread` and `partitioner` (partitions) → `outbox` and `batch` (order, numbers) → `routing` and `sender`
(brokers) → `verdicts`, `ledger` and `delivery` (what became of it). Beside it: `identities`, `metrics`,
`hashing`, `hot_keys`.
"""

from kclient.producer.blocking import Producer
from kclient.producer.client import AsyncProducer
from kclient.producer.config import ProducerConfig, ProducerOptions
from kclient.producer.delivery import Delivery
from kclient.producer.hashing.murmur2 import murmur2
from kclient.producer.hot_keys import KeyPart, OwnPartition, Salted
from kclient.producer.many import Deliveries
from kclient.producer.metrics import ProducerMetrics
from kclient.producer.partitioner import Partitioner, PartitionView
from kclient.producer.records import ProducerHook, ProducerRecord

__all__ = [
    "AsyncProducer",
    "Deliveries",
    "Delivery",
    "KeyPart",
    "OwnPartition",
    "PartitionView",
    "Partitioner",
    "Producer",
    "ProducerConfig",
    "ProducerHook",
    "ProducerMetrics",
    "ProducerOptions",
    "ProducerRecord",
    "Salted",
    "murmur2",
]
