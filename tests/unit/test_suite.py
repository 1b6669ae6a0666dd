"""`make test` runs what failed once more, and never lets a real failure through: see `tools/suite`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.suite.__main__ import why_final
from tools.suite.outcomes import Outcomes

ROOT = Path(__file__).resolve().parents[2]
# Tests know by a file how often they have run.
_COUNT = """
import os
from pathlib import Path
import pytest

def times(name):
    with Path("runs", name).open("a") as file:
        file.write("x")
    return len(Path("runs", name).read_text())
"""
_CONFTEST = """
from tools.suite.scheduling import GroupScheduling

def pytest_xdist_make_scheduler(config, log):
    return GroupScheduling(config, log, lambda name: name.partition("::")[0])
"""
_ALONE = "@pytest.mark.alone\ndef test_alone(): times('alone')\n"
_UNITS = "def test_unit(): times('unit')\n"


def lay_out(directory: Path, broker: str, alone: str = _ALONE, units: str = _UNITS) -> None:
    """A suite of three modules."""
    (directory / "runs").mkdir()
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n    alone\ntestpaths = tests\n")
    (directory / "conftest.py").write_text(_CONFTEST)
    for folder, text in (("broker", broker), ("memory", alone), ("unit", units)):
        (directory / "tests" / folder).mkdir(parents=True)
        (directory / "tests" / folder / f"test_{folder}.py").write_text(_COUNT + text)


def started(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tools.suite", "--workers", "1", "--", "-p", "no:cacheprovider"],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "xdist.plugin",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(directory: Path) -> tuple[int, str]:
    """The exit code of a run of the suite, and what it said."""
    with started(directory) as process:
        said, _ = process.communicate(timeout=120)
        return process.returncode, said


def runs(directory: Path) -> dict[str, int]:
    return {path.name: len(path.read_text()) for path in (directory / "runs").iterdir()}


def test_a_run_in_which_all_pass_says_no_more_than_pytest_and_where_its_time_went(tmp_path: Path) -> None:
    lay_out(tmp_path, "import time\ndef test_it(): times('it'); time.sleep(0.01)\n")
    code, said = run(tmp_path)
    assert code == 0, said
    assert runs(tmp_path) == {"it": 1, "unit": 1, "alone": 1}
    assert "= 2 passed" in said
    assert "= 1 passed, 2 deselected" in said.splitlines()[-1]
    assert "slowest 25 durations" in said
    assert "test_broker.py::test_it" in said
    assert "unsteady" not in said


def test_what_fails_once_passes_when_it_is_run_again_and_is_named_at_the_end(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        """
@pytest.fixture(scope="module")
def shared():
    times("shared")

@pytest.fixture
def before():
    assert times("before") > 1

@pytest.fixture
def after():
    yield
    assert times("after") > 1

def test_steady(): times("steady")
def test_call(shared): assert times("call") > 1
def test_setup(before): times("setup")
def test_teardown(after): times("teardown")
@pytest.mark.parametrize("odd", ["a/b::c [d]", "\\u00fc \\n"])
def test_odd(shared, odd): assert times("odd-" + str(len(odd))) > 1
def test_crash():
    if times("crash") == 1:
        os._exit(3)
def test_after_the_crash(): times("after the crash")
def test_crash_at_the_end():
    if times("at the end") == 1:
        os._exit(3)
""",
        alone="@pytest.mark.alone\ndef test_alone(): assert times('alone') > 1\n",
    )
    code, said = run(tmp_path)
    assert code == 0, said
    once = ("steady", "unit", "setup", "after the crash")
    twice = (
        "call",
        "shared",
        "before",
        "after",
        "teardown",
        "odd-3",
        "odd-10",
        "crash",
        "at the end",
        "alone",
    )
    assert runs(tmp_path) == dict.fromkeys(once, 1) | dict.fromkeys(twice, 2)
    assert re.search(r"= 5 failed, \d+ passed, 2 errors in", said), "pytest's own count stays"
    last = said.rstrip().splitlines()[-1]
    assert last.startswith("unsteady: 8: ")
    for name in ("call", "setup", "teardown", "odd[a/b::c [d]]", "odd[", "crash", "crash_at_the_end"):
        assert f"tests/broker/test_broker.py::test_{name}" in last
    assert "tests/memory/test_memory.py::test_alone" in last
    assert "steady" not in last.removeprefix("unsteady")


def test_what_fails_twice_or_is_then_skipped_fails_the_run(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        """
def test_wrong(): assert not times("wrong")
def test_once(): assert times("once") > 1
def test_skipped():
    if times("skipped") > 1:
        pytest.skip("no broker")
    assert False
def test_fine(): times("fine")
""",
    )
    code, said = run(tmp_path)
    assert code == 1, said
    assert runs(tmp_path) == {"wrong": 2, "once": 2, "skipped": 2, "fine": 1, "unit": 1, "alone": 1}
    name = "tests/broker/test_broker.py::test_"
    assert f"failed twice: {name}wrong, {name}skipped\n" in said
    assert "unsteady" not in said


def test_a_unit_test_is_never_run_again(tmp_path: Path) -> None:
    lay_out(tmp_path, "def test_it(): pass\n", units="def test_unit(): assert times('unit') > 1\n")
    code, said = run(tmp_path)
    assert code == 1, said
    assert runs(tmp_path) == {"unit": 1}
    assert "not run again: unit tests failed: tests/unit/test_unit.py::test_unit" in said


@pytest.mark.parametrize(
    ("broker", "alone", "words"),
    [
        ("import no_such_module\n", _ALONE, "could not be collected: tests/broker/test_broker.py"),
        (
            "def test_it(): pass\n",
            "def test_it(): pass\n",
            "pytest ended with exit code 5, and 0 tests failed",
        ),
        (
            "def test_it(): pass\n",
            "@pytest.mark.alone\ndef test_alone(): times('alone'); os._exit(0)\n",
            "pytest ended with exit code 0 before it could say",
        ),
        (
            "@pytest.mark.parametrize('n', range(21))\ndef test_it(n): assert times('it') > 21\n",
            _ALONE,
            "not run again: 21 tests failed",
        ),
        (
            "@pytest.mark.parametrize('n', range(9))\ndef test_it(n): os._exit(3)\n",
            _ALONE,
            "tests did not run",
        ),
    ],
    ids=["not collected", "nothing to run", "an end without a word", "too many", "no more processes"],
)
def test_a_run_that_fails_in_another_way_fails_at_once(
    tmp_path: Path, broker: str, alone: str, words: str
) -> None:
    lay_out(tmp_path, broker, alone)
    code, said = run(tmp_path)
    assert code != 0, said
    assert words in said
    assert "unsteady" not in said
    assert max(runs(tmp_path).get(name, 1) for name in ("unit", "alone")) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_ends_and_is_not_run_again(tmp_path: Path, number: signal.Signals) -> None:
    os.mkfifo(tmp_path / "here")
    lay_out(
        tmp_path,
        "def test_wrong(): assert not times('wrong')\n",
        alone="import time\n@pytest.mark.alone\ndef test_alone():\n"
        "    Path('here').write_text('x')\n    time.sleep(100)\n",
    )
    with started(tmp_path) as process:
        (tmp_path / "here").read_text()
        if number == signal.SIGINT:  # as a terminal does it
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == (2 if number == signal.SIGINT else 128 + number), said
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)
    assert "not run again" in said
    assert runs(tmp_path) == {"wrong": 1, "unit": 1}


def test_only_failures_of_tests_that_may_be_unsteady_are_open() -> None:
    passed, failed = {"tests/a.py::b": "passed"}, {"tests/a.py::b": "failed"}
    assert why_final(0, Outcomes(passed, [])) is None
    assert why_final(1, Outcomes(failed, [])) is None
    for code, outcomes in (
        (0, None),
        (1, None),
        (1, Outcomes(passed, [])),  # a hook of pytest's failed, and no test did
        (0, Outcomes(failed, [])),
        (2, Outcomes(failed, [])),
        (5, Outcomes({}, [])),
        (1, Outcomes(failed, ["tests/c.py"])),
        (1, Outcomes(failed | {"tests/f.py::g": "missing"}, [])),
        (1, Outcomes(failed | {"tests/unit/d.py::e": "failed"}, [])),
    ):
        assert why_final(code, outcomes), (code, outcomes)
