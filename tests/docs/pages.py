"""The pages that readers meet, and the blocks of code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What a reader's own cluster is in the blocks, and an embedded one in the tests.
ADDRESS = "localhost:9092"
# Its blocks build on each other: see `test_command_page`.
COMMAND_PAGE = "docs/cli.md"

PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
}


@dataclass(frozen=True)
class Block:
    """What stands between two fences. `line` is where it begins, for whoever looks for it."""

    page: str
    line: int
    language: str
    code: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(language: str) -> list[Block]:
    """All blocks of one language, of all pages."""
    return [block for page in PAGES for block in _blocks_of(page) if block.language == language]


def by_name(found: list[Block]) -> pytest.MarkDecorator:
    """Run a test once for every block."""
    return pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in found])


def languages() -> set[str]:
    return {block.language for page in PAGES for block in _blocks_of(page)}


def _blocks_of(page: str) -> list[Block]:
    text = PAGES[page]
    fenced = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(page, text.count("\n", 0, each.start()) + 2, each[1], each[2]) for each in fenced]
