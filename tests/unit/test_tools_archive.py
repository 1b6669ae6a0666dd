"""Where recorded classes are looked for, and who does without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.kafka import archive
from tools.kafka.archive import record_classes
from tools.kafka.jvm import Java, archive_of, class_path_flags

JAVA = Java("java", 17, "17.0.15")


def test_jars_whose_classes_were_never_recorded_are_only_named(tmp_path: Path) -> None:
    assert class_path_flags(JAVA, f"{tmp_path}/jars/*") == ["-cp", f"{tmp_path}/jars/*"]


def test_recorded_classes_are_given_to_the_java_that_recorded_them(tmp_path: Path) -> None:
    recorded = archive_of(JAVA, tmp_path / "jars")
    recorded.touch()
    flags = class_path_flags(JAVA, f"{tmp_path}/jars/*")
    assert flags[0] == f"-XX:SharedArchiveFile={recorded}"
    assert flags[-2:] == ["-cp", f"{tmp_path}/jars/*"]
    assert class_path_flags(Java("java", 17, "17.0.16"), f"{tmp_path}/jars/*")[0] == "-cp"


@pytest.mark.parametrize("java", [None, Java("java", 12, "12.0.1")], ids=["no Java", "an old Java"])
def test_nothing_is_recorded_with_a_java_that_cannot(
    java: Java | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCLIENT_KAFKA_CACHE", str(tmp_path))
    monkeypatch.setattr(archive, "installed_java", lambda: java)
    assert record_classes("2.8.2") is None
    assert not list(tmp_path.iterdir())
