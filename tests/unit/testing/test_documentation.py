"""Every block of Python in docs/ runs: as a test where it has one, as a program where not."""

from __future__ import annotations

import re
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

import kclient.errors
from kclient import Producer
from kclient.consumer import ConsumerConfig, ConsumerMetrics
from kclient.producer import ProducerConfig, ProducerMetrics
from kclient.testing import RunningBroker
from tests.unit.testing.pytest_runs import run_pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
BLOCKS = {
    name: re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for name, text in PAGES.items()
}
# What a reader's own cluster is in the blocks, and an embedded one here.
ADDRESS = '"localhost:9092"'
OPTIONS: dict[str, Any] = {"producer.md": ProducerConfig, "consumer.md": ConsumerConfig}
METRICS: dict[str, Any] = {"producer.md": ProducerMetrics, "consumer.md": ConsumerMetrics}


def test_the_pages_have_blocks_of_both_kinds() -> None:
    kinds = {name: ["def test_" in block for block in blocks] for name, blocks in BLOCKS.items()}
    assert {name: (sum(of), len(of)) for name, of in kinds.items()} == {
        "consumer.md": (0, 7),
        "producer.md": (0, 8),
        "testing.md": (3, 7),
    }


@pytest.mark.parametrize(
    ("page", "number"), [(page, number) for page, blocks in BLOCKS.items() for number in range(len(blocks))]
)
def test_a_block_runs(page: str, number: int, tmp_path: Path) -> None:
    block = BLOCKS[page][number]
    if "def test_" in block:
        outcome = run_pytest(tmp_path, {"test_documented.py": block})
        assert outcome.returncode == 0, outcome.stdout
    elif ADDRESS in block:
        with RunningBroker(config={"num.partitions": "6"}) as kafka:
            if page == "consumer.md":
                _write_orders(kafka.bootstrap_servers)
            _execute(block.replace(ADDRESS, repr(kafka.bootstrap_servers)), page, number)
    else:
        _execute(block, page, number)


def _execute(block: str, page: str, number: int) -> None:
    code = compile(block, f"{page}, block {number}", "exec", dont_inherit=True)
    exec(code, {"__name__": "__main__"})


def _write_orders(address: str) -> None:
    """What there is to read: JSON, and in the first partition something else at the end."""
    with Producer(bootstrap_servers=address) as producer:
        for number in range(12):
            producer.send("orders", b'{"item": "teapot"}', partition=number % 6)
        producer.send("orders", b"three apples", partition=0)


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
    named = set(re.findall(r"`(\w+Error)`", PAGES[page])) - {"TypeError", "ValueError"}
    assert len(named) > 10
    assert [name for name in named if not hasattr(kclient.errors, name)] == []
