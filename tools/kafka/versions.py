"""Which Kafka versions the tests run against, and every fact about a version that the rest of this package
asks for.

Pure: no I/O. Whatever differs between two Kafka versions is a property here, so no other file compares
numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

DEFAULT_VERSION = "4.3.1"
OLD_VERSION = "2.8.2"
SUPPORTED_VERSIONS = ("4.3.1", "4.1.2", "3.9.2", "2.8.2", "2.4.1")
CLIENTS_VERSION = "4.4.0"  # newer than any broker: parity tests read the message definitions in this jar

_PATTERN = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, order=True)
class KafkaVersion:
    """A Kafka release such as `KafkaVersion.parse("4.3.1")`."""

    number: tuple[int, int, int]
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> KafkaVersion:
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is not a Kafka version; write it like one of {', '.join(SUPPORTED_VERSIONS)}"
            )
        version = cls((int(match[1]), int(match[2]), int(match[3])), text)
        if version.number < (2, 4, 0):
            raise ValueError(f"Kafka {text} cannot be started here; the oldest that can is 2.4.1")
        return version

    def __str__(self) -> str:
        return self.text

    @property
    def uses_zookeeper(self) -> bool:
        """KRaft was first meant for production in 3.3."""
        return self.number < (3, 3, 0)

    @property
    def minimum_java(self) -> int:
        """Brokers from 4.0 need 17; 11 is the first that runs a `.java` file directly, which interop tests
        do.
        """
        return 17 if self.number >= (4, 0, 0) else 11

    @property
    def has_share_coordinator(self) -> bool:
        return self.number >= (4, 0, 0)

    @property
    def reads_plain_pem_stores(self) -> bool:
        """2.4 knows no PEM stores, 2.8 wants the key in them encrypted."""
        return self.number >= (3, 0, 0)

    @property
    def has_oidc(self) -> bool:
        """The validator class has its present name since 3.4."""
        return self.number >= (3, 4, 0)

    @property
    def has_scram(self) -> bool:
        """KRaft learned SCRAM in 3.5; ZooKeeper clusters always had it."""
        return self.uses_zookeeper or self.number >= (3, 5, 0)

    @property
    def tools_take_bootstrap_server(self) -> bool:
        """Before 2.5 some tools knew only `--broker-list`."""
        return self.number >= (2, 5, 0)

    @property
    def has_container_image(self) -> bool:
        """The `apache/kafka` image exists since 3.7."""
        return self.number >= (3, 7, 0)


def parse_versions(text: str) -> tuple[str, ...]:
    """The versions named by `--kafka-versions`: "all", or a list separated by commas."""
    if text.strip() == "all":
        return SUPPORTED_VERSIONS
    versions = tuple(part.strip() for part in text.split(",") if part.strip())
    if not versions:
        raise ValueError(
            f"no Kafka version in {text!r}; write `all` or a list such as {DEFAULT_VERSION},{OLD_VERSION}"
        )
    return tuple(KafkaVersion.parse(version).text for version in versions)
