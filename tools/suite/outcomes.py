"""A pytest plugin that writes down what became of every test: `-p tools.suite.outcomes --outcomes FILE`.

`tools.suite` reads the file. Where tests are spread over processes, the one that people see writes it; an end
that pytest does not survive leaves none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

_WORST_LAST = ("missing", "passed", "skipped", "failed")


class Outcomes(NamedTuple):
    """What one run of pytest came to: a word per test that was to run, and the files that did not load."""

    tests: dict[str, str]
    broken: list[str]

    def those(self, word: str) -> list[str]:
        """The tests that "passed", "failed", were "skipped", or are "missing": they never ran."""
        return [name for name, outcome in self.tests.items() if outcome == word]


def read(path: Path) -> Outcomes | None:
    """What a run wrote; None if it did not come to its end."""
    return Outcomes(**json.loads(path.read_text())) if path.exists() else None


class _Writer:
    """Notes the worst of a test's phases: one that passed and whose fixture then failed has failed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes = Outcomes({}, [])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._expect(ids)

    def _expect(self, names: Sequence[str]) -> None:
        for name in names:
            self._outcomes.tests.setdefault(name, "missing")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self._outcomes.tests.get(report.nodeid, "missing")
        self._outcomes.tests[report.nodeid] = max(before, report.outcome, key=_WORST_LAST.index)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._outcomes.broken.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(self._outcomes._asdict()))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="where to write what became of every test, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    path: Path | None = config.getoption("--outcomes")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(path))
