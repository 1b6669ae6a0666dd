"""The page about the command runs as a whole: its blocks one after another, in this process, on one broker.

A process for every one of its lines would take longer than all of them do. Two words of the shell are enough
for the page, `|` and `>`, and they are done here.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from kclient.cli.main import NOUNS
from kclient.cli.properties import parse_properties
from kclient.config import ClientConfig
from kclient.properties import translated
from kclient.testing import RunningBroker
from tests.docs.pages import COMMAND_PAGE, PAGES, Block, blocks
from tests.unit.cli.calling import call

LINES = [
    (block, line)
    for block in blocks("sh")
    if block.page == COMMAND_PAGE
    for line in block.code.splitlines()
    if line
]


def test_every_line_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with RunningBroker() as kafka:
        monkeypatch.setenv("KCLIENT_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
        for block, line in LINES:
            _run(block, line.replace("localhost:9092", kafka.bootstrap_servers))
    assert (tmp_path / "copy.jsonl").read_text().count("\n") == 5
    assert (tmp_path / "saved.csv").read_text().count("\n") == 4


def _run(block: Block, line: str) -> None:
    """One line of the page; every part of it must succeed."""
    parser = shlex.shlex(line, posix=True, punctuation_chars="|>")
    parser.whitespace_split = True
    words = list(parser)
    target = Path(words.pop()) if words[-2:-1] == [">"] else None
    if target is not None:
        words.pop()
    data = b""
    for stage in _stages(words):
        if stage[0] == "kclient":
            done = call(*stage[1:], stdin=data)
            assert done.code == 0, f"{block.name}: {line}: {done.err}"
            data = done.out
        else:
            data = subprocess.run(stage, capture_output=True, check=True, timeout=30).stdout
    if target is not None:
        target.write_bytes(data)


def _stages(words: list[str]) -> list[list[str]]:
    stages: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            stages.append([])
        else:
            stages[-1].append(word)
    return stages


def test_the_properties_on_the_page_are_understood() -> None:
    (block,) = blocks("properties")
    options = translated(parse_properties(block.code, block.name)).options
    config = ClientConfig.from_options(options)
    assert (config.sasl_mechanism, config.sasl_plain_username) == ("SCRAM-SHA-512", "alice")


def test_the_page_names_every_command() -> None:
    assert [noun for noun in NOUNS if f"| `kclient {noun}` |" not in PAGES[COMMAND_PAGE]] == []
