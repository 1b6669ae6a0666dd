"""The list of topics grows by lines: however a broker ends, every change is there, and no half one."""

from __future__ import annotations

import errno
import json
import os
import uuid
from pathlib import Path

import pytest

from kclient.broker import topic_journal
from kclient.broker.topic_file import NAME, SavedTopic
from kclient.broker.topic_journal import JOURNAL, TopicJournal
from kclient.errors import KafkaStorageError


def topic(number: int, **configs: str) -> SavedTopic:
    return SavedTopic(f"t{number}", uuid.UUID(int=number), [(1,), (1,)], [0, 0], configs)


def begun(directory: Path, *topics: SavedTopic) -> TopicJournal:
    """As a broker begins: what is there is read, and written as a whole."""
    journal = TopicJournal(directory, sync=False)
    journal.replace([*journal.load(), *topics])
    return journal


def found(directory: Path) -> list[SavedTopic]:
    return TopicJournal(directory, sync=False).load()


def test_a_change_appends_one_line_and_leaves_the_list_alone(tmp_path: Path) -> None:
    journal = begun(tmp_path, *(topic(number) for number in range(1, 500)))
    listed = (tmp_path / NAME).read_bytes()
    journal.note(topic(500))
    size = (tmp_path / JOURNAL).stat().st_size
    journal.note(topic(501))
    assert (tmp_path / JOURNAL).stat().st_size - size < 200
    assert (tmp_path / NAME).read_bytes() == listed
    assert found(tmp_path) == [topic(number) for number in range(1, 502)]


def test_topics_are_changed_deleted_and_forgotten(tmp_path: Path) -> None:
    journal = begun(tmp_path, topic(1), topic(2))
    journal.note(topic(1, **{"retention.ms": "7"}))
    journal.note(topic(2)._replace(deleted=True))
    assert found(tmp_path) == [topic(1, **{"retention.ms": "7"}), topic(2)._replace(deleted=True)]
    journal.forget(topic(2).topic_id)
    assert found(tmp_path) == [topic(1, **{"retention.ms": "7"})]


def test_a_journal_cut_at_any_byte_has_the_changes_before_it(tmp_path: Path) -> None:
    journal = begun(tmp_path, topic(1))
    ends = []
    for number in (2, 3, 4):
        journal.note(topic(number))
        ends.append((tmp_path / JOURNAL).stat().st_size)
    whole = (tmp_path / JOURNAL).read_bytes()
    for cut in range(len(whole) + 1):
        (tmp_path / JOURNAL).write_bytes(whole[:cut])
        # A line is whole without its end: that is all that a kill can have taken of it.
        kept = sum(end - 1 <= cut for end in ends)
        assert found(tmp_path) == [topic(number) for number in range(1, 2 + kept)], cut


def test_what_a_broken_off_change_left_does_not_harm_those_after_it(tmp_path: Path) -> None:
    begun(tmp_path, topic(1)).note(topic(2))
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'0badc0de {"name":"t3"')
    again = begun(tmp_path)
    again.note(topic(4))
    assert found(tmp_path) == [topic(1), topic(2), topic(4)]


def test_a_line_that_is_damaged_before_others_is_refused(tmp_path: Path) -> None:
    journal = begun(tmp_path, topic(1))
    for number in (2, 3):
        journal.note(topic(number))
    path = tmp_path / JOURNAL
    path.write_bytes(path.read_bytes().replace(b'"t2"', b'"tt"'))
    with pytest.raises(KafkaStorageError, match=f"{JOURNAL} does not hold changes of topics: restore it"):
        found(tmp_path)


def test_a_journal_beside_a_newer_list_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    begun(tmp_path, topic(1)).note(topic(2))
    left = (tmp_path / JOURNAL).read_bytes()
    begun(tmp_path).replace([topic(3)])
    (tmp_path / JOURNAL).write_bytes(left)
    assert found(tmp_path) == [topic(3)]
    assert f"does not continue the {NAME} beside it" in caplog.text


def test_an_orderly_end_leaves_the_list_that_earlier_versions_read(tmp_path: Path) -> None:
    journal = begun(tmp_path, topic(1))
    journal.note(topic(2))
    journal.close()
    assert not (tmp_path / JOURNAL).exists()
    assert [row["name"] for row in json.loads((tmp_path / NAME).read_bytes())] == ["t1", "t2"]


def test_many_changes_become_a_new_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_journal, "_LEAST_CHANGES", 10)
    journal = begun(tmp_path, topic(1))
    for number in range(100):
        journal.note(topic(1, **{"retention.ms": str(number)}))
        assert len((tmp_path / JOURNAL).read_bytes().splitlines()) < 20
        assert found(tmp_path) == [topic(1, **{"retention.ms": str(number)})]


def test_a_change_that_does_not_fit_on_the_disk_is_not_made_and_the_next_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: memoryview, position: int) -> int:
        write(descriptor, data[:20], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    write = os.pwrite
    journal = begun(tmp_path, topic(1))
    for number in (2, 4):
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(KafkaStorageError, match="No space left"):
                journal.note(topic(number))
        journal.note(topic(number + 1))
    assert found(tmp_path) == [topic(1), topic(3), topic(5)]
