"""Every block of Python on every page runs: as a test where it has one, as a program where not.

Programs run in this process, on an embedded broker; those for Spark in `tests/spark/test_pages.py`, which has
one. A block of ARCHITECTURE.md shows how the code is written, and is looked up there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kclient import Admin
from tests.docs.pages import PAGES, ROOT, Block, blocks, by_name, languages
from tests.docs.programs import SECURED, cluster_for, execute
from tests.unit.testing.pytest_runs import run_pytest

PYTHON = blocks("python")
QUOTED = [block for block in PYTHON if block.page == "ARCHITECTURE.md"]
TESTS = [block for block in PYTHON if "def test_" in block.code]
PROGRAMS = [
    block for block in PYTHON if block not in QUOTED and block not in TESTS and "pyspark" not in block.code
]


def test_every_block_is_of_a_kind_that_is_tried() -> None:
    """Blocks without a language are pictures made of letters."""
    assert languages() <= {"python", "sh", "properties", ""}


def test_no_fence_is_overlooked() -> None:
    fences = sum(len(re.findall(r"^\s*```", text, re.MULTILINE)) for text in PAGES.values())
    assert fences == 2 * sum(len(blocks(language)) for language in languages())


@by_name(QUOTED)
def test_a_block_of_the_architecture_is_code_of_this_project(block: Block) -> None:
    first = block.code.partition("\n")[0]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "kclient").rglob("*.py")]
    assert [text for text in sources if first in text]
    assert any(block.code in text for text in sources)


@by_name(TESTS)
def test_a_test_on_a_page_passes(block: Block, tmp_path: Path) -> None:
    outcome = run_pytest(tmp_path, {"test_documented.py": block.code})
    assert outcome.returncode == 0, outcome.stdout


@by_name(PROGRAMS)
def test_a_program_on_a_page_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with cluster_for(block, tmp_path) as code:
        left = execute(block, code)
        for client in (each for each in left.values() if isinstance(each, Admin) and SECURED in block.code):
            with client:  # made to show how; here it has to get in
                assert client.list_topics() == {}
