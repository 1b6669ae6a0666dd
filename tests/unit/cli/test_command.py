"""The command as a whole: its help, its manners when something goes wrong, and as a process of its own."""

from __future__ import annotations

import importlib
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kclient
from kclient.cli.main import NOUNS, parser_for
from tests.unit.cli.calling import call, ok

COMMAND = [sys.executable, "-m", "kclient.cli.main"]
VERBS = [
    ["topics", "list"],
    ["topics", "describe"],
    ["topics", "create"],
    ["topics", "alter"],
    ["topics", "delete"],
    ["groups", "list"],
    ["groups", "describe"],
    ["groups", "reset"],
    ["groups", "delete"],
    ["groups", "delete-offsets"],
    ["configs", "describe"],
    ["configs", "set"],
    ["configs", "append"],
    ["configs", "subtract"],
    ["configs", "delete"],
]


@pytest.mark.parametrize("words", [*([noun] for noun in NOUNS), *VERBS], ids=" ".join)
def test_the_help_of_every_command_has_examples(words: list[str]) -> None:
    shown = ok(*words, "--help").out.decode()
    example = shown.partition("examples:\n")[2].strip().splitlines()[0]
    assert " ".join(["kclient", *words]) in example or len(words) == 1
    assert "kclient" in example


def test_the_examples_of_the_help_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the parser: what they do is tested elsewhere."""
    for noun in ("topics", "groups", "configs", "lag", "broker", "consume", "produce"):
        module = importlib.import_module(f"kclient.cli.{noun}")
        examples = module._EXAMPLES
        text = "\n".join(examples.values()) if isinstance(examples, dict) else examples
        monkeypatch.setattr(module, "run", lambda _: 0)
        for line in text.splitlines():
            command = line.partition("#")[0].partition(">")[0].partition("<")[0].split("|")[-1]
            command = line.partition("|")[2].partition("#")[0] if line.startswith("echo") else command
            words = shlex.split(command)
            if words and words[0] == "kclient":
                ok(*words[1:])


def test_without_a_command_it_says_what_there_is() -> None:
    for words, known in ((), NOUNS), (["topics"], ["list", "describe", "create", "alter", "delete"]):
        asked = call(*words)
        assert (asked.code, asked.out) == (2, b"")
        assert all(f"    {word} " in asked.err for word in known)


def test_options_may_stand_before_and_after_the_command(topic: str, servers: str) -> None:
    for words in (
        ["-b", servers, "topics", "list"],
        ["topics", "-b", servers, "list"],
        ["topics", "list", "-b", servers],
        ["-b", "localhost:1", "topics", "list", "-b", servers],
    ):
        assert topic in ok(*words).lines


def test_no_broker_is_one_sentence_with_a_hint() -> None:
    refused = call("topics", "list", "-b", "localhost:1", "--timeout", "0.2")
    assert refused.code == 1
    assert refused.out == b""
    assert refused.err.startswith("kclient: no broker answers at localhost:1 (cannot connect to localhost:1")
    assert "`kclient broker` starts one" in refused.err
    assert refused.err.count("\n") == 1


def test_a_traceback_is_shown_only_on_request() -> None:
    with pytest.raises(Exception, match="no broker answers"):
        call("topics", "list", "-b", "localhost:1", "--timeout", "0.2", "--debug")


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, topic: str, variable: dict[str, str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    assert (b"\x1b[1m" in ok("topics", "describe", topic, terminal=True).out) is not bool(variable)
    assert b"\x1b" not in ok("topics", "describe", topic).out
    assert ("\x1b[31m" in call("topics", "describe", "x", terminal=True).err) is not bool(variable)


def test_it_says_which_version_it_is() -> None:
    assert ok("--version").out.decode() == f"kclient {kclient.__version__}\n"


def test_help_imports_no_client() -> None:
    script = (
        "import sys\nfrom kclient.cli.main import main\nmain(sys.argv[1:])\n"
        "print(sorted({'asyncio', 'numpy', 'kclient.admin', 'kclient.consumer', 'kclient.producer', "
        "'kclient.broker', 'ssl'} & set(sys.modules)))"
    )
    for words in (["--help"], ["topics", "--help"], ["consume", "--help"], ["groups", "reset", "--help"]):
        ran = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, check=True, timeout=60
        )
        assert ran.stdout.splitlines()[-1] == b"[]"


def test_a_closed_pipe_is_quiet(topic: str) -> None:
    ok("produce", topic, stdin=(b"x" * 1_000 + b"\n") * 2_000)
    with subprocess.Popen(
        [*COMMAND, "consume", topic], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("words", [[], ["-g", "a-group-before-a-closed-pipe"]], ids=["alone", "group"])
def test_a_pipe_that_is_closed_while_nothing_comes_ends_the_command(topic: str, words: list[str]) -> None:
    """`| head -1` on a topic with one record: nothing will ever be written that could fail."""
    ok("produce", topic, stdin=b"x\n")
    with subprocess.Popen(
        [*COMMAND, "consume", topic, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"x\n"
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_a_line_of_json_is_whole_before_the_next_record_comes(topic: str) -> None:
    ok("produce", topic, stdin=b"x\n")
    with subprocess.Popen(
        [*COMMAND, "consume", topic, "-o", "jsonl"], stdout=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        line = os.read(process.stdout.fileno(), 10_000)
        process.send_signal(signal.SIGINT)
    assert line.endswith(b"}\n")


def test_ctrl_c_leaves_a_whole_document(topic: str) -> None:
    ok("produce", topic, stdin=b"x\n")
    with subprocess.Popen(
        [*COMMAND, "consume", topic, "-o", "json"], stdout=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        begun = os.read(process.stdout.fileno(), 10_000)
        process.send_signal(signal.SIGINT)
        assert [record["value"] for record in json.loads(begun + process.stdout.read())] == ["x"]
        assert process.wait(60) == 130


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_streams_are_no_reason_to_fail(topic: str, closed: str) -> None:
    for words in (["topics", "list"], ["consume", topic, "-e"], ["produce", topic]):
        line = f"exec {shlex.join([*COMMAND, *words])} {closed}"
        ran = subprocess.run(
            line, shell=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_commits_what_was_written_and_leaves_the_group(
    topic: str, group: str, number: signal.Signals, code: int
) -> None:
    ok("produce", topic, "-p", "0", stdin=b"1\n2\n3\n")
    with subprocess.Popen(
        [*COMMAND, "consume", topic, "-g", group, "-X", "auto.commit.interval.ms=600000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
        process.send_signal(number)
        assert process.wait(60) == code
        assert process.stderr.read() == b""
    assert ok("groups", "describe", group, "--state", "-o", "json").json[0]["members"] == 0
    assert ok("groups", "describe", group).table[1][3:6] == ["3", "3", "0"]


def test_a_person_types_records_at_a_terminal(topic: str) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "produce", topic, "-p", "0"], stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ
    ) as process:
        os.close(theirs)
        seen = _read_until(ours, b"Ctrl-D ends.")
        os.write(ours, b"typed\n")
        assert b"typed" in ok("consume", topic, "-n", "1").out  # it is there before the input ends
        os.write(ours, b"\x04")
        seen += _read_until(ours, b"Wrote 1 record to")
        assert process.wait(60) == 0
    os.close(ours)
    assert b"Traceback" not in seen


def _read_until(descriptor: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        seen += os.read(descriptor, 1_000)
    return seen


def test_a_progress_bar_is_drawn_on_a_terminal_only(topic: str, tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.write_bytes(b"line\n" * 100_000)
    assert b"writing" not in ok("produce", topic, str(many)).err.encode()
    shown = ok("produce", topic, str(many), terminal=True).err
    assert "\r\x1b[Kwriting " in shown
    assert shown.endswith(f"Wrote 100,000 records to {topic}.\n")


@pytest.mark.parametrize("setting", ["num.partitions=x", "log.retention.ms=1.5", "foo=bar", "foo"])
def test_a_broker_that_is_set_up_wrongly_does_not_start(setting: str) -> None:
    refused = call("broker", "--port", "0", "--config", setting)
    assert refused.code == 2
    assert setting.partition("=")[0] in refused.err
    assert refused.err.count("\n") == 1


def test_every_noun_has_a_module_with_the_same_two_functions() -> None:
    for noun in NOUNS:
        module = importlib.import_module(f"kclient.cli.{noun}")
        assert callable(module.add_arguments)
        assert callable(module.run)
    assert parser_for([]).prog == "kclient"
