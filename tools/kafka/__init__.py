"""Real Kafka brokers for tests and demos: fetched as jars by Maven, started as plain Java processes.

`KafkaCluster` starts brokers, `Security` (in `tools.kafka.security`) adds secured listeners, `run_java` and
`jar` serve tests that compare with Java. On the command line: `python -m tools.kafka --help`.
"""

from tools.kafka.cluster import KafkaCluster, run_java
from tools.kafka.config import Listener
from tools.kafka.errors import BrokerError, CommandError, FetchError, KafkaToolError, MissingSoftwareError
from tools.kafka.jars import jar
from tools.kafka.node import Node

__all__ = [
    "BrokerError",
    "CommandError",
    "FetchError",
    "KafkaCluster",
    "KafkaToolError",
    "Listener",
    "MissingSoftwareError",
    "Node",
    "jar",
    "run_java",
]
