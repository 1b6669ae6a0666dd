"""The page of Spark says of options what is so; `tests/spark/parity` compares it with Spark's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kclient.spark.options import TABLE, Row, Use
from tests.spark.parity import test_batches, test_refusals, test_sinks, test_streams

PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Options\n")[2].partition("\n## ")[0]
ROWS = {
    name: [cell.strip() for cell in rest.split("|")]
    for name, rest in re.findall(r"^\| `([\w.]+)` \|(.*)\|$", SECTION, re.MULTILINE)
}
USES = {
    Use.READ: "read",
    Use.BATCH_READ: "batch read",
    Use.STREAM_READ: "stream read",
    Use.WRITE: "write",
    Use.ALL: "read, write",
}


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_the_page_names_every_option_with_its_default_and_use(option: Row) -> None:
    use, default, meaning = ROWS[option.name]
    assert use == USES[option.use]
    assert _read(option, default) == option.default
    assert meaning


def _read(option: Row, said: str) -> Any:
    """A default as the page has it; in words where there is none."""
    return option.read(said.strip("`")) if said.startswith("`") and option.default is not None else None


def test_the_page_names_no_option_that_there_is_not() -> None:
    assert sorted(ROWS) == sorted(option.name for option in TABLE)


def test_every_option_of_sparks_own_connector_is_compared_with_it() -> None:
    of_spark = re.findall(r"^\| `([\w.]+)` \|", SECTION.partition("\nOurs:\n")[0], re.MULTILINE)
    cases = [
        *test_batches.CASES.values(),
        *test_refusals.MORE.values(),
        *test_refusals.REFUSED.values(),
        *test_streams.CASES.values(),
    ]
    given = [*(options for options, _ in cases), *test_batches.SPLIT.values()]
    given += [options for _, options, _ in test_sinks.REFUSED.values()]
    assert set(of_spark) - {name for options in given for name in options} == set()
