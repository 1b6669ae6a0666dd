"""Class data sharing: a broker's classes as Java holds them in memory, recorded once, mapped by every start.

It halves the work of starting a broker or a tool. `python -m tools.kafka fetch` records; who starts Java
finds the archive by `tools.kafka.jvm.class_path_flags`. Where there is none, or Java finds that it does not
fit, classes are loaded from the jars as ever.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.kafka.cluster import KafkaCluster, quietly
from tools.kafka.config import Layout
from tools.kafka.errors import KafkaToolError
from tools.kafka.jars import Announce, JarSet
from tools.kafka.jvm import ARCHIVE_MANNERS, archive_of, installed_java
from tools.kafka.versions import KafkaVersion

_FIRST_JAVA = 13  # that can record what a program has loaded when it ends
_GRACE = 30.0


def record_classes(version: str, announce: Announce = quietly) -> Path | None:
    """The archive of a version, recorded by a broker that starts and ends; None where that cannot be done."""
    java = installed_java()
    minimum = max(KafkaVersion.parse(version).minimum_java, _FIRST_JAVA)
    if java is None or java.major < minimum:
        return None
    archive = archive_of(java, JarSet.broker(version).directory)
    if archive.is_file():
        return archive
    announce(f"recording the classes of Kafka {version} …")
    with TemporaryDirectory(prefix=".recording-", dir=archive.parent) as workplace:
        fresh = Path(workplace) / archive.name
        try:
            _Recorded(version, fresh).start().stop(_GRACE)
        except KafkaToolError as error:
            announce(f"no classes recorded, brokers will start slower: {error}")
            return None
        if not fresh.is_file():
            announce(f"no classes recorded, brokers will start slower: Java {java.build} wrote no archive")
            return None
        return fresh.rename(archive)


class _Recorded(KafkaCluster):
    """A broker that writes down what it has loaded when it ends in good order."""

    def __init__(self, version: str, archive: Path) -> None:
        super().__init__(version)
        self._flags = (f"-XX:ArchiveClassesAtExit={archive}", *ARCHIVE_MANNERS)

    def _layout(self, attempt: int) -> Layout:
        return replace(super()._layout(attempt), jvm_flags=self._flags)
