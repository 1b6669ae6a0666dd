"""`kclient produce` and `kclient consume`, each as the other's witness."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kclient import Consumer, Producer
from kclient.cli import produce, reading
from kclient.cli.lines import InputRecord, _pieces
from kclient.producer import Delivery
from tests.unit.cli.calling import call, ok

GARBAGE = b"\xff\xfe\x00\x1b[31m\r\nred"


def values(topic: str, *words: str) -> list[str]:
    return ok("consume", topic, "-e", *words).lines


def test_a_line_is_a_record(topic: str) -> None:
    ok("produce", topic, "-p", "0", stdin=b"one\n\ntwo without an end")
    assert values(topic) == ["one", "", "two without an end"]


def test_what_is_before_the_separator_is_the_key(topic: str) -> None:
    ok("produce", topic, "-p", "0", "-K", "::", stdin=b"a::1\nb::2::3\n")
    assert values(topic, "-f", r"%k=%s\n") == ["a=1", "b=2::3"]


def test_a_line_without_the_separator_is_refused_by_its_number(topic: str) -> None:
    refused = call("produce", topic, "-K", ":", stdin=b"a:1\nnothing\n")
    assert refused.code == 1
    told = "kclient: standard input, record 2: there is no key separator ':' in it; "
    assert refused.err == f"{told}records written before it: 1\n"
    assert values(topic) == ["1"]


def test_every_record_gets_key_headers_partition_and_timestamp(topic: str) -> None:
    words = ["-k", "K", "-H", "a=1", "-H", "b=x=y", "-H", "none", "-p", "1", "-t", "2026-01-01T00:00:00Z"]
    ok("produce", topic, *words, stdin=b"v\n")
    assert values(topic, "-f", r"%t %p %o %k %s %h %T %K %S %%\n") == [
        f"{topic} 1 0 K v a=1,b=x=y,none=NULL 1767225600000 1 1 %"
    ]


def test_headers_are_parsed_as_kafkas_console_producer_does(topic: str) -> None:
    ok("produce", topic, "--parse-headers", "-K", "\\t", stdin=b"a:1,b:2\tkey\tvalue\n")
    assert values(topic, "-f", r"%h|%k|%s\n") == ["a=1,b=2|key|value"]


@pytest.mark.parametrize("delimiter", [b"\n", b";", b"<->"])
def test_a_record_that_a_pipe_has_brought_does_not_wait_for_the_next(delimiter: bytes) -> None:
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb") as stream, os.fdopen(writes, "wb", buffering=0) as source:
        pieces = _pieces(stream, delimiter)
        for word in (b"one", b"two"):
            source.write(word + delimiter)
            assert next(pieces) == word
        source.write(b"three" + delimiter[:1])
        source.write(delimiter[1:] + b"four")
        assert next(pieces) == b"three"
        source.close()
        assert list(pieces) == [b"four"]


def test_files_are_read_line_by_line_or_as_a_whole(topic: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"1\n2\n")
    second.write_bytes(GARBAGE)
    ok("produce", topic, "-p", "0", str(first), "-", stdin=b"3\n")
    assert values(topic) == ["1", "2", "3"]
    ok("produce", topic, "-p", "1", "--whole", str(first), str(second))
    assert ok("consume", topic, "-e", "-p", "1", "-f", "%s|").out == b"1\n2\n|" + GARBAGE + b"|"


def test_another_delimiter_ends_records(topic: str) -> None:
    ok("produce", topic, "-p", "0", "-D", "\\0", stdin=b"one\ntwo\0three\0")
    assert ok("consume", topic, "-e", "-f", "<%s>").out == b"<one\ntwo><three>"


def test_null_is_sent_and_shown_as_told(topic: str) -> None:
    ok("produce", topic, "-p", "0", "-K", ":", "--null", "NULL", stdin=b"a:NULL\nNULL:b\n")
    assert values(topic, "-f", r"%k,%s,%K,%S\n", "--null", "-") == ["a,-,1,-1", "-,b,-1,1"]
    assert [json.loads(line)["value"] for line in values(topic, "-o", "jsonl")] == [None, "b"]


def test_json_lines_go_around_without_loss(topic: str, servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, GARBAGE, GARBAGE, 1, 1_000, [("h", GARBAGE), ("h", b"twice"), ("n", None)])
        producer.send(topic, "täxt".encode(), None, 1, 2_000)
    lines = ok("consume", topic, "-e", "-o", "jsonl").out
    ok("topics", "create", f"{topic}-copy", "-p", "2")
    ok("produce", f"{topic}-copy", "-i", "jsonl", stdin=lines)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic, f"{topic}-copy"])
        found: dict[str, list[object]] = {topic: [], f"{topic}-copy": []}
        while sum(map(len, found.values())) < 4:
            for record in (each for batch in consumer.poll(timeout_ms=5_000).values() for each in batch):
                found[record.topic].append(record[1:4] + record[5:8])
    assert found[topic] == found[f"{topic}-copy"]


def test_json_values_that_are_objects_are_written_as_json(topic: str) -> None:
    ok(
        "produce",
        topic,
        "-i",
        "jsonl",
        stdin=b'{"key": 17, "value": {"item": "teapot"}, "headers": {"a": "b"}}',
    )
    assert values(topic, "-f", r"%k %s %h\n") == ['17 {"item":"teapot"} a=b']


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"[1]", 'must be an object such as {"key": "17", "value": "three apples"}'),
        (b"{oops", "is no JSON: "),
        (b"\xff", "is no JSON: "),
        (b'{"vlaue": 1}', "'vlaue' is not one of "),
        (b'{"partition": "x"}', "partition must be a whole number, not 'x'"),
        (b'{"value_base64": "?"}', "value_base64 is no base64"),
        (b'{"headers": [1]}', "headers must be "),
        (b'{"value": NaN}', "NaN is not in JSON"),
        (b'{"value": "\\ud800"}', "'\\ud800' is half a character"),
    ],
)
def test_bad_json_is_refused_with_its_line(topic: str, line: bytes, complaint: str) -> None:
    refused = call("produce", topic, "-i", "jsonl", stdin=b'{"value": "good"}\n' + line + b"\n")
    assert refused.code == 1
    assert refused.err.startswith("kclient: standard input, record 2")
    assert complaint in refused.err
    assert "records written before it: 1" in refused.err
    assert refused.err.count("\n") == 1


def test_records_are_compressed_as_told(topic: str, servers: str) -> None:
    ok("produce", topic, "-z", "zstd", stdin=b"x" * 500_000 + b"\n")
    with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        assert len(next(consumer).value or b"") == 500_000
        assert consumer.metrics().bytes_fetched < 5_000


def test_a_record_that_is_too_large_says_what_to_do(topic: str) -> None:
    refused = call("produce", topic, stdin=b"x" * 2_000_000)
    assert refused.code == 1
    assert "record 1: " in refused.err
    assert "-X max.request.size=" in refused.err


def test_produce_makes_a_topic_only_when_told(servers: str) -> None:  # noqa: ARG001
    refused = call("produce", "never-made", stdin=b"x\n")
    assert refused.code == 1
    assert refused.err.startswith("kclient: there is no topic 'never-made'")
    assert refused.err.count("makes it") == 1
    assert "--create makes it" in refused.err
    assert "never-made" not in ok("topics", "list").lines
    ok("produce", "made", "--create", stdin=b"x\n")
    assert values("made") == ["x"]


def test_a_partition_that_there_is_not_is_refused(topic: str) -> None:
    assert call("produce", topic, "-p", "2", stdin=b"x\n").err == (
        f"kclient: -p 2: topic {topic} has the partitions 0 to 1\n"
    )
    refused = call("consume", topic, "-p", "7", "-e")
    assert refused.code == 2
    assert "there is no partition 7" in refused.err


def test_reading_begins_and_ends_where_told(topic: str) -> None:
    ok("produce", topic, "-p", "0", stdin=b"".join(b"%d\n" % number for number in range(10)))
    ok("produce", topic, "-p", "1", stdin=b"other\n")
    assert values(topic, "-p", "0", "--offset", "7") == ["7", "8", "9"]
    assert values(topic, "-p", "0", "--offset", "-2") == ["8", "9"]
    assert sorted(values(topic, "--offset", "-1")) == ["9", "other"]
    assert ok("consume", topic, "-p", "0", "-n", "3").lines == ["0", "1", "2"]
    assert values(topic, "--from", "end") == []
    assert values(topic, "-p", "1", "--from-beginning") == ["other"]


def test_an_offset_that_is_yet_to_come_is_waited_for(topic: str) -> None:
    ok("produce", topic, "-p", "0", stdin=b"0\n1\n")
    assert ok("consume", topic, "-p", "0", "--offset", "9", "--until", "+1s").lines == []
    assert values(topic, "-p", "0", "--offset", "9") == []


def test_reading_by_time(topic: str) -> None:
    hour = 3_600_000
    now = int(time.time() * 1000)
    for age in (3, 2, 1):
        ok("produce", topic, "-p", "0", "-t", str(now - age * hour), stdin=b"%d hours ago\n" % age)
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime((now - 2.5 * hour) / 1000))
    assert values(topic, "--from", "-90m") == ["1 hours ago"]
    assert values(topic, "--from", since) == ["2 hours ago", "1 hours ago"]
    assert values(topic, "--from", str(now - hour)) == ["1 hours ago"]
    assert ok("consume", topic, "--until", "-90m").lines == ["3 hours ago", "2 hours ago"]
    assert ok("consume", topic, "--from", "-150m", "--until", "-90m").lines == ["2 hours ago"]
    assert ok("consume", topic, "--from", "now", "--until", "+100ms").lines == []


def test_a_time_to_come_is_read_up_to_however_long_it_takes(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok("produce", topic, "-p", "0", stdin=b"".join(b"%d\n" % number for number in range(5_000)))
    # The time is over before the first batch is written, as behind a slow reader of our output.
    moments = iter([time.time()])
    late = time.time() + 7_200
    clock = SimpleNamespace(time=lambda: next(moments, late), monotonic=time.monotonic)
    monkeypatch.setattr(reading, "time", clock)
    assert len(ok("consume", topic, "--until", "+1h").lines) == 5_000


def test_an_empty_topic_ends_at_once(topic: str) -> None:
    assert ok("consume", topic, "-e").out == b""
    assert ok("consume", topic, "-e", "-o", "json").json == []


def test_json_output_is_one_document(topic: str) -> None:
    ok("produce", topic, "-p", "0", "-K", ":", stdin=b"a:1\nb:2\n")
    first, second = ok("consume", topic, "-e", "-o", "json").json
    assert (first["key"], first["value"], first["offset"], second["offset"]) == ("a", "1", 0, 1)


@pytest.mark.parametrize(
    ("kind", "data", "text", "document"),
    [
        ("json", b'{"a":  [1]}', '{"a":[1]}', {"a": [1]}),
        ("msgpack", b"\x82\xa1a\x01\xa1b\xc4\x02\xff\xfe", '{"a":1,"b":"//4="}', {"a": 1, "b": "//4="}),
        ("json", b'"\\ud800"', '"\\ud800"', "\ud800"),
        ("msgpack", b"\xcb\x7f\xf0" + b"\0" * 6, '"inf"', "inf"),
        ("hex", b"\xff\x00", "ff00", "ff00"),
        ("base64", b"\xff\x00", "/wA=", "/wA="),
    ],
)
def test_values_are_decoded(topic: str, kind: str, data: bytes, text: str, document: object) -> None:
    ok("produce", topic, "--whole", stdin=data)
    assert values(topic, "-d", kind) == [text]
    assert ok("consume", topic, "-e", "-d", kind, "-o", "json").json[0]["value"] == document


@pytest.mark.parametrize("kind", ["json", "msgpack"])
def test_a_value_that_cannot_be_decoded_is_named(topic: str, kind: str) -> None:
    ok("produce", topic, "-p", "1", stdin=b"\xc1\n")
    refused = call("consume", topic, "-e", "-d", kind)
    assert refused.code == 1
    assert f"the value of {topic}, partition 1, offset 0 is no {kind}" in refused.err
    assert "--decode hex shows what it is" in refused.err


def test_a_value_that_only_python_takes_for_json_is_named(topic: str) -> None:
    ok("produce", topic, stdin=b"[NaN]\n")
    assert "NaN is not in JSON" in call("consume", topic, "-e", "-d", "json").err


def test_a_group_goes_on_where_it_was(topic: str, group: str) -> None:
    ok("produce", topic, "-p", "0", stdin=b"1\n2\n3\n")
    assert ok("consume", topic, "-g", group, "-n", "2").lines == ["1", "2"]
    assert ok("consume", topic, "-g", group, "-e").lines == ["3"]
    assert ok("consume", topic, "-g", group, "-e").lines == []


def test_a_new_group_begins_where_told(topic: str, group: str) -> None:
    ok("produce", topic, "-p", "0", stdin=b"old\n")
    assert ok("consume", topic, "-g", group, "--from", "end", "-e").lines == []
    ok("produce", topic, "-p", "0", stdin=b"new\n")
    assert ok("consume", topic, "-g", group, "-e").lines == ["new"]


@pytest.mark.parametrize(
    "words", [["-p", "0"], ["--offset", "3"], ["--until", "-1h"], ["-f", "%s", "-o", "json"], ["-f", "%q"]]
)
def test_options_that_contradict_each_other_are_refused(words: list[str]) -> None:
    refused = call("consume", "any", "-g", "group", *words)
    assert refused.code == 2
    assert refused.err.startswith("kclient: ")


def test_a_terminal_is_protected_from_what_records_hold(topic: str, tmp_path: Path) -> None:
    (tmp_path / "value").write_bytes("\x1b]0;owned\x07 \u202eabc \x9b1m täxt\n".encode() + b"\xff")
    ok("produce", topic, "--whole", "-k", "\x1bkey", "-H", "h\x1b=\x1b", str(tmp_path / "value"))
    seen = ok("consume", topic, "-e", "-f", r"\x1b[1m%k %s %h", terminal=True).out.decode()
    assert seen == "\x1b[1m\\x1bkey \\x1b]0;owned\\x07 \\u202eabc \\x9b1m täxt\n\\xff h\\x1b=\\x1b"
    assert "\x1b" in ok("consume", topic, "-e").out.decode(errors="replace")
    document = ok("consume", topic, "-e", "-o", "jsonl", terminal=True).out
    assert document.isascii()
    assert b"\x1b" not in document


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_new_group_begins_at_the_very_millisecond_it_is_told(topic: str, group: str, protocol: str) -> None:
    lines = [
        json.dumps({"value": str(at), "timestamp": at, "partition": at % 2}) for at in range(1_000, 1_030)
    ]
    ok("produce", topic, "-i", "jsonl", stdin="\n".join(lines).encode())
    words = ("consume", topic, "-e", "-X", f"group.protocol={protocol}", "-g")
    for begin in (1_000, 1_007, 1_029, 1_030):
        read = ok(*words, f"{group}-{begin}", "--from", str(begin)).lines
        assert sorted(map(int, read)) == list(range(begin, 1_030))
    assert ok(*words, f"{group}-1007", "--from", "1000").lines == []  # it goes on where it was


def test_nothing_is_sent_any_more_once_a_record_could_not_be_written(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first fills a batch, and is refused for its time; the others wait for more when that is known."""
    known = threading.Event()
    settled = produce._Deliveries.settled

    def tell(deliveries: produce._Deliveries, number: int, delivery: Delivery) -> None:
        settled(deliveries, number, delivery)
        known.set()

    def records(*_: object) -> Iterator[InputRecord]:
        yield InputRecord(1, None, b"x" * 1_000, timestamp=7_258_118_400_000)
        yield from (InputRecord(number, None, b"y") for number in range(2, 12))
        assert known.wait(60)
        yield InputRecord(12, None, b"z")
        raise AssertionError("it went on reading")

    monkeypatch.setattr(produce._Deliveries, "settled", tell)
    monkeypatch.setattr(produce, "records_from", records)
    failed = call("produce", topic, "-p", "0", "-X", "batch.size=500", "-X", "linger.ms=60000")
    assert failed.code == 1
    assert failed.err.startswith("kclient: record 1: ")
    assert "written for certain: 0 of 12 that were read" in failed.err
    assert "INVALID_TIMESTAMP" in failed.err
    assert ok("consume", topic, "-e").lines == []
