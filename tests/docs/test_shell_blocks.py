"""Every command on every page can be given; those of `docs/cli.md` are given in `test_command_page`.

Commands of `kclient`, and what they are piped to, run in a shell on an embedded broker; `kclient broker`, and
lines whose comment speaks of Ctrl-C, run until they say something and are interrupted then. What would
take minutes or the network (make, pip) is compared with what there is.
"""

from __future__ import annotations

import importlib.util
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kclient import Consumer, Producer
from kclient.testing import RunningBroker
from tests.docs.pages import ADDRESS, COMMAND_PAGE, ROOT, Block, blocks, by_name

PATIENCE = 60
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
SHELL = [block for block in blocks("sh") if block.page != COMMAND_PAGE]


@dataclass
class Commands:
    """The lines of a block, by what is done with them."""

    make: list[list[str]] = field(default_factory=list)
    pip: list[list[str]] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    endless: list[list[str]] = field(default_factory=list)
    script: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, code: str) -> Commands:
        commands = cls()
        for line in code.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                commands._sort(line, words)
        return commands

    def _sort(self, line: str, words: list[str]) -> None:
        if words[0] == "make":
            self.make.append(words[1:])
        elif words[:2] == ["pip", "install"]:
            self.pip.append(words[2:])
        elif Path(words[0]).name == "python" and words[1] == "-m":
            self.modules.append(words[2])
        elif words[:2] == ["kclient", "broker"] or "Ctrl-C" in line:
            self.endless.append([word for word in words if word != "&"])
        else:
            self.script.append(line)


@by_name(SHELL)
def test_what_is_made_installed_and_run_exists(block: Block) -> None:
    commands = Commands.of(block.code)
    assert {word for words in commands.make for word in words if "=" not in word} <= TARGETS
    for wanted in (word for words in commands.pip for word in words if not word.startswith("-")):
        name, _, extras = wanted.rstrip("]").partition("[")
        assert name == PROJECT["name"]
        assert set(filter(None, extras.split(","))) <= PROJECT["optional-dependencies"].keys()
    assert [name for name in commands.modules if importlib.util.find_spec(name) is None] == []


@by_name([block for block in SHELL if Commands.of(block.code).script])
def test_the_commands_of_a_block_run_one_after_another(block: Block, tmp_path: Path) -> None:
    script = "\n".join(Commands.of(block.code).script)
    with RunningBroker() as kafka:
        if "topics create" not in script:
            _write_orders(kafka.bootstrap_servers)
        _have_a_group(kafka.bootstrap_servers)
        done = subprocess.run(
            ["sh", "-eu", "-c", script.replace(ADDRESS, kafka.bootstrap_servers)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=_environment(tmp_path, kafka.bootstrap_servers),
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=f"{block.name} {' '.join(words)}")
        for block in SHELL
        for words in Commands.of(block.code).endless
    ],
)
def test_a_command_without_end_works_until_ctrl_c(words: list[str], tmp_path: Path) -> None:
    if words[:2] == ["kclient", "broker"]:  # not on a port that may be taken
        words = [*words, "--port", "0"]
    with RunningBroker() as kafka:
        _write_orders(kafka.bootstrap_servers)
        code, said = _interrupted(
            [word.replace(ADDRESS, kafka.bootstrap_servers) for word in words],
            tmp_path,
            _environment(tmp_path, kafka.bootstrap_servers),
        )
    assert code == 130, said


def _interrupted(words: list[str], directory: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command until its first output and press Ctrl-C: how it ended, and what it complained of."""
    complaints = directory / "complaints"
    with (
        complaints.open("w") as errors,
        subprocess.Popen(
            [str(directory / "bin" / words[0]), *words[1:]],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=directory,
            env=environment,
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        assert process.stdout is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        try:
            assert selector.select(PATIENCE), f"{words} says nothing: {complaints.read_text()}"
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return process.returncode, complaints.read_text()


def _environment(directory: Path, address: str) -> dict[str, str]:
    """One in which `kclient` is this checkout's, and its default cluster the test's."""
    (directory / "bin").mkdir()
    command = directory / "bin" / "kclient"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kclient.cli.main "$@"\n')
    command.chmod(0o755)
    return os.environ | {
        "PATH": f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "KCLIENT_BOOTSTRAP_SERVERS": address,
    }


def _write_orders(address: str) -> None:
    with Producer(bootstrap_servers=address) as producer:
        producer.send_many("orders", [b'{"item": "teapot"}'] * 12)


def _have_a_group(address: str) -> None:
    """`billing`, with offsets to be looked at; of another topic, as a block may make `orders` itself."""
    deadline = time.monotonic() + PATIENCE
    with Producer(bootstrap_servers=address) as producer:
        producer.send_and_wait("payments", b"12 EUR")
    with Consumer(
        "payments", bootstrap_servers=address, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        while not consumer.poll(timeout_ms=1_000):
            assert time.monotonic() < deadline
        consumer.commit()
