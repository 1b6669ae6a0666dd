"""The small parts: times, formats, tables, the order of words, completion."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from kclient.cli import output
from kclient.cli.completion import candidates
from kclient.cli.decoding import Decoder
from kclient.cli.errors import UsageError
from kclient.cli.formats import TextFormat
from kclient.cli.grammar import in_order
from kclient.cli.main import parser_for
from kclient.cli.progress import Progress
from kclient.cli.reading import _within
from kclient.cli.times import moment, span
from kclient.types import Record, TimestampType
from tests.unit.cli.calling import call, ok

NOW = 1_700_000_000_000
RECORD: Record[bytes | None, bytes | None] = Record(
    "t", 3, 17, 5, TimestampType.CREATE_TIME, b"k", b"v\x00", (("h", b"1"), ("n", None)), 0, 1, 2
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("1234", 1234),
        ("-90s", NOW - 90_000),
        ("+1h30m", NOW + 5_400_000),
        ("-PT1H30M", NOW - 5_400_000),
        ("-1.5d", NOW - 129_600_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T01:00:00.250+01:00", 1_767_225_600_250),
        ("2026-01-01", round(datetime(2026, 1, 1).timestamp() * 1000)),  # noqa: DTZ001 - local time is meant
    ],
)
def test_times_as_people_write_them(text: str, expected: int) -> None:
    assert moment(text, NOW) == expected


@pytest.mark.parametrize(
    "text", ["yesterday", "", "-", "-1y", "2026-13-01", "1h", "1900-01-01T00:00:00Z", "٣"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no point in time|is before 1970"):
        moment(text, NOW)


def test_spans_are_kafkas_or_shorter() -> None:
    assert [span(text) for text in ("PT1H", "1h", "P1DT1S", "250ms", "1w")] == [
        3_600_000,
        3_600_000,
        86_401_000,
        250,
        604_800_000,
    ]
    with pytest.raises(UsageError, match="is no span of time"):
        span("PT")


def test_every_format_letter() -> None:
    text = r"%t %p %o %T %k %s %K %S %h %% \x41\t\r\\ä"
    assert TextFormat(text, Decoder(), terminal=False).render(RECORD) == (
        b"t 3 17 5 k v\x00 1 2 h=1,n=NULL % A\t\r\\" + "ä".encode()
    )
    assert TextFormat("%R", Decoder(), terminal=False).render(RECORD) == b"\x00\x00\x00\x02"


@pytest.mark.parametrize("text", ["%", "%x", "\\q", "\\", "\\xg"])
def test_what_is_no_format_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="-f: "):
        TextFormat(text, Decoder(), terminal=False)


def test_a_cell_is_one_line_without_control_characters() -> None:
    assert output.cell("a\nb\x1b[0m\u202e") == "a\\x0ab\\x1b[0m\\u202e"
    assert [output.cell(value) for value in (None, True, 1.25, [1, 2], ())] == ["-", "yes", "1.2", "1,2", "-"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("produce t -K : f", "produce -K : t f"),
        ("consume t --from -1h -e u", "consume --from=-1h -e t u"),
        ("produce t -t -30h", "produce -t-30h t"),
        ("lag -w 3 billing", "lag -w3 billing"),
        ("lag --watch billing", "lag --watch=2 billing"),
        ("lag --watch 5 billing", "lag --watch=5 billing"),
        ("-b x lag billing -w", "-b x lag --watch=2 billing"),
        ("lag billing --watch 10 -o jsonl", "lag --watch=10 -o jsonl billing"),
        ("lag --watch billing 5", "lag --watch=2 billing 5"),
        ("produce t -- -f", "produce -- t -f"),
        ("groups reset g --shift-by -5 --all-topics", "groups reset --shift-by=-5 --all-topics g"),
    ],
)
def test_words_are_put_into_argparses_order(given: str, expected: str) -> None:
    assert in_order(parser_for(given.split()), given.split()) == expected.split()


def test_commands_verbs_options_and_choices_are_completed() -> None:
    assert candidates(["to"]) == ["topics"]
    assert candidates(["topics", "de"]) == ["describe", "delete"]
    assert candidates(["topics", "describe", "--un"]) == ["--unavailable", "--under-replicated"]
    assert candidates(["consume", "-o", "j"]) == ["json", "jsonl"]
    assert candidates(["configs", "describe", "b"]) == ["broker", "broker-logger"]
    assert candidates(["topics", "create", "x"]) == []


def test_topics_and_groups_of_the_cluster_are_completed(topic: str, group: str) -> None:
    ok("groups", "reset", group, "--topic", topic, "--to-latest", "--execute")
    assert candidates(["consume", topic[:-2]]) == [topic]
    assert candidates(["groups", "describe", group[:-2]]) == [group]
    assert candidates(["consume", topic, "-g", group[:-2]]) == [group]
    assert ok("completion", "words", "--", "topics", "describe", topic[:-2]).lines == [topic]


def test_without_a_cluster_nothing_is_completed_and_nothing_fails() -> None:
    assert candidates(["-b", "localhost:1", "consume", "x"]) == []
    assert candidates(["-c", "/nowhere", "consume", "x"]) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(shell: str) -> None:
    assert "kclient completion words" in ok("completion", shell).out.decode()
    assert call("completion", shell, "more").code == 2


def test_a_bar_shows_share_rate_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 0.05, 2.0])
    progress = Progress("reading", 100, clock=lambda: next(times))
    progress._shown = True
    progress.advance(10)
    assert capsys.readouterr().err == ""
    progress.advance(10)
    assert (
        capsys.readouterr().err
        == "\r\x1b[Kreading 20 of 100 [#####...................]  20%, 0:08 left, 10/s"
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_hands_over_the_port_of_a_broker_and_the_word_that_is_begun(tmp_path: Path) -> None:
    """bash itself cuts words at colons."""
    (tmp_path / "kclient").write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    (tmp_path / "kclient").chmod(0o755)
    script = ok("completion", "bash").out.decode()
    for line, words in (
        ("kclient -b localhost:19092 topics describe o", "[-b][localhost:19092][topics][describe][o]"),
        ("kclient -b a:1,b:2 topics ", "[-b][a:1,b:2][topics][]"),
    ):
        ask = f"{script}\nCOMP_LINE='{line} --later'\nCOMP_POINT={len(line)}\n_kclient\necho \"$COMPREPLY\""
        asked = subprocess.run(
            ["bash", "-c", ask],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert asked.stdout.decode() == f"[completion][words][--]{words}\n"


def test_records_before_the_offset_asked_for_and_behind_the_end_are_left_out() -> None:
    records = [RECORD._replace(offset=offset) for offset in (3, 4, 6, 7)]
    assert [record.offset for record in _within(records, 4, 7)] == [4, 6]
    assert _within(records, 0, 8) is records


def test_wide_characters_take_two_columns_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    names = "注文", "cafe\u0301", "abcde"
    output.table(("group", "lag"), [{"group": name, "lag": 7} for name in names])
    assert capsys.readouterr().out.splitlines()[1:] == ["注文     7", "cafe\u0301     7", "abcde    7"]
