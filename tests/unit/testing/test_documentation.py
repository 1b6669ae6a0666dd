"""What pages say of options, metrics and errors is so. Their blocks of code run in `tests/docs`."""

from __future__ import annotations

import re
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

import kclient.errors
from kclient.consumer import ConsumerConfig, ConsumerMetrics
from kclient.producer import ProducerConfig, ProducerMetrics

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
OPTIONS: dict[str, Any] = {"producer.md": ProducerConfig, "consumer.md": ConsumerConfig}
METRICS: dict[str, Any] = {"producer.md": ProducerMetrics, "consumer.md": ConsumerMetrics}


def _rows(page: str) -> dict[str, list[str]]:
    """The rows of a page's tables that begin with one name, by that name."""
    return {
        name: [cell.strip() for cell in rest.split("|")]
        for name, rest in re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGES[page], re.MULTILINE)
    }


@pytest.mark.parametrize(
    ("page", "option"),
    [
        pytest.param(page, option, id=f"{page} {option.name}")
        for page, of in OPTIONS.items()
        for option in fields(of)
    ],
)
def test_a_page_names_every_option_with_its_default(page: str, option: Field[Any]) -> None:
    said, meaning = _rows(page)[option.name]
    assert _plain(said.strip("`")) == _plain(str(option.default))
    assert meaning


def _plain(value: str) -> str:
    return re.sub("[,'\"]", "", value)


@pytest.mark.parametrize("page", OPTIONS)
def test_a_page_names_no_option_that_there_is_not(page: str) -> None:
    table = PAGES[page].partition("## Options")[2]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(named) == sorted(option.name for option in fields(OPTIONS[page]))


@pytest.mark.parametrize("page", METRICS)
def test_a_page_names_every_metric(page: str) -> None:
    section = PAGES[page].partition("## Metrics")[2].partition("\n## ")[0]
    named = [name for row in re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE) for name in row.split(", ")]
    assert [name.strip("`") for name in named] == sorted(
        (metric.name for metric in fields(METRICS[page])), key=lambda name: section.index(f"`{name}`")
    )


@pytest.mark.parametrize("page", OPTIONS)
def test_the_errors_that_a_page_names_exist(page: str) -> None:
    named = set(re.findall(r"`(\w+Error)`", PAGES[page])) - {"CancelledError", "TypeError", "ValueError"}
    assert len(named) > 10
    assert [name for name in named if not hasattr(kclient.errors, name)] == []
