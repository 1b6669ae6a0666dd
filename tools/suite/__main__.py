"""All tests, as `make test` runs them: `python -m tools.suite`.

First everything that bears company, spread over processes; then what wants the machine for itself. What
failed is run once more, with nothing beside it. If it passes then, the run passes, and its last line names
it: `unsteady: 1: tests/…`. Unit tests are never run again, as nothing around them can make them unsteady, nor
is anything after a run that failed in another way than by its tests.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType

from tools.suite.outcomes import Outcomes, read

# More than these have one cause, which a second run would only take long to meet again.
_MOST_REPEATED = 20
_NEVER_REPEATED = "tests/unit/"
_FAILED = 1
_SHARED = ("-m", "not alone", "--dist", "loadfile", "--no-loadscope-reorder")
_ALONE = ("-m", "alone")


class Suite:
    """The runs of pytest that make up one run of all tests; `options` are for those that select tests."""

    def __init__(self, options: Sequence[str], directory: Path) -> None:
        self._options = options
        self._directory = directory
        self._runs = 0

    def __repr__(self) -> str:
        return f"<Suite after {self._runs} runs of pytest>"

    def run(self, workers: int) -> int:
        """Run everything; returns the exit code."""
        failed: list[str] = []
        for selection in ((*_SHARED, "--numprocesses", str(workers)), _ALONE):
            code, outcomes = self._pytest(*selection, *self._options)
            reason = why_final(code, outcomes)
            if reason is not None or outcomes is None:
                print(f"not run again: {reason}", file=sys.stderr)
                return code or _FAILED
            failed += outcomes.those("failed")
        if len(failed) > _MOST_REPEATED:
            print(f"not run again: {len(failed)} tests failed", file=sys.stderr)
            return _FAILED
        return self._again(failed) if failed else 0

    def _again(self, failed: Sequence[str]) -> int:
        """Run tests once more, in one process after the other; those of a module share what it starts."""
        print(f"\nonce more, with nothing beside them: {_listed(failed)}", flush=True)
        twice: list[str] = []
        for _, names in groupby(sorted(failed, key=_module_of), _module_of):
            wanted = list(names)
            code, outcomes = self._pytest(*wanted)
            reason = why_final(code, outcomes)
            passed = outcomes.those("passed") if outcomes is not None and reason is None else []
            twice += [name for name in wanted if name not in passed]
        if twice:
            print(f"failed twice: {_listed(twice)}", file=sys.stderr)
            return _FAILED
        print(f"unsteady: {len(failed)}: {_listed(failed)}")
        return 0

    def _pytest(self, *arguments: str) -> tuple[int, Outcomes | None]:
        self._runs += 1
        path = self._directory / f"outcomes-{self._runs}.json"
        reporting = ("-p", "tools.suite.outcomes", "--outcomes", str(path), "--durations=25")
        code = _run([sys.executable, "-m", "pytest", *reporting, *arguments])
        return code, read(path)


def why_final(code: int, outcomes: Outcomes | None) -> str | None:
    """Why a run that ended like this has failed for good; None if it passed, or what failed may run again."""
    if outcomes is None:
        return f"pytest ended with exit code {code} before it could say what became of the tests"
    if outcomes.broken:
        return f"these could not be collected: {_listed(outcomes.broken)}"
    if missing := outcomes.those("missing"):
        return f"pytest ended with exit code {code}, and {len(missing)} tests did not run"
    failed = outcomes.those("failed")
    if code not in (0, _FAILED) or bool(failed) != bool(code):
        return f"pytest ended with exit code {code}, and {len(failed)} tests failed"
    units = [name for name in failed if name.startswith(_NEVER_REPEATED)]
    return f"unit tests failed: {_listed(units)}" if units else None


def _module_of(name: str) -> str:
    return name.partition("::")[0]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _run(command: Sequence[str]) -> int:
    """The exit code of a command. Ctrl-C reaches it from the terminal; SIGTERM is passed on to it."""
    with subprocess.Popen(command) as process, _passing_on(process):
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                continue  # it has heard it too, and says how far it came before it ends
            return code if code >= 0 else 128 - code


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def end(number: int, _: FrameType | None) -> None:
        process.send_signal(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.suite", description=__doc__)
    cores = os.cpu_count() or 1
    parser.add_argument(
        "--workers",
        type=int,
        default=cores + 1,
        help="processes of the first run (default: one more than cores)",
    )
    parser.add_argument("options", nargs="*", help="more for pytest, after --")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kclient-suite-") as directory:
        return Suite(given.options, Path(directory)).run(given.workers)


if __name__ == "__main__":
    sys.exit(main())
