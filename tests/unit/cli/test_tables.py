"""Tables: what is left out of them, and how they fit a terminal that is narrow."""

from __future__ import annotations

import pytest

from kclient.cli import lag, output
from kclient.cli.output import counted
from tests.unit.cli.calling import call, ok

ROWS = [
    {"group": "billing", "topic": "orders", "partition": 0, "lag": 17, "consumer_id": None, "host": ()},
    {"group": "b", "topic": "customers", "partition": 12, "lag": None, "consumer_id": None, "host": ()},
]


def test_a_column_with_nothing_in_it_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("group", "consumer_id", "lag", "host"), ROWS)
    assert capsys.readouterr().out == "GROUP    LAG\nbilling   17\nb          -\n"


def test_a_table_of_nothing_but_empty_columns_or_without_rows_has_its_titles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.table(("consumer_id", "host"), ROWS)
    output.table(("group", "lag"), [])
    assert capsys.readouterr().out == "CONSUMER-ID\n-\n-\nGROUP  LAG\n"


def test_a_narrow_terminal_shows_a_row_in_several_lines_and_every_word_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kclient.cli.output.is_terminal", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    output.table(("group", "topic", "partition", "lag"), ROWS)
    assert capsys.readouterr().out == (
        "GROUP    TOPIC\n  PARTITION  LAG\n"
        "billing  orders\n          0   17\n"
        "b        customers\n         12    -\n"
    )


@pytest.mark.parametrize("width", range(1, 120))
def test_no_line_is_wider_than_the_terminal_unless_a_single_cell_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr("kclient.cli.output.is_terminal", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    output.table(("group", "topic", "partition", "lag"), ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)
    assert sorted(" ".join(lines).split()) == sorted(
        ["GROUP", "TOPIC", "PARTITION", "LAG", "billing", "orders", "0", "17", "b", "customers", "12", "-"]
    )


def test_a_pipe_gets_every_row_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    output.table(("group", "topic", "partition", "lag"), ROWS)
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_one_is_no_plural(servers: str) -> None:  # noqa: ARG001
    assert [counted(number, "record") for number in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert "with 1 partition.\n" in ok("topics", "create", "single", "-p", "1").err
    assert " 1 partition, " in ok("topics", "describe", "single").lines[0]
    assert "has 1 partition, and" in call("topics", "alter", "single", "-p", "1").err


def test_a_group_without_members_is_shown_without_their_columns(topic: str, group: str) -> None:
    ok("groups", "reset", group, "--topic", topic, "--to-latest", "--execute")
    titles = ok("groups", "describe", group).table[0]
    assert titles == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert "host" in ok("groups", "describe", group, "-o", "json").json[0]


def test_ctrl_c_at_a_terminal_ends_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which holds the ^C that the terminal has shown."""

    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(lag, "run", interrupted)
    assert call("lag", "--watch", terminal=True)[::2] == (130, "\n")
    assert call("lag", "--watch")[::2] == (130, "")
