"""Every block of Python in docs/testing.md runs: as a test where it has one, as a program where not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.testing.pytest_runs import run_pytest

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_page_has_blocks_of_both_kinds() -> None:
    assert len([block for block in BLOCKS if "def test_" in block]) == 3
    assert len([block for block in BLOCKS if "def test_" not in block]) == 4


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_runs(number: int, tmp_path: Path) -> None:
    block = BLOCKS[number]
    if "def test_" in block:
        outcome = run_pytest(tmp_path, {"test_documented.py": block})
        assert outcome.returncode == 0, outcome.stdout
    else:
        exec(
            compile(block, f"{PAGE.name}, block {number}", "exec", dont_inherit=True),
            {"__name__": "__main__"},
        )
