"""What people type from habit: options of Kafka's scripts and of kcat, and words that are nearly right."""

from __future__ import annotations

import importlib
import random
import shlex

import pytest

from kclient.cli.habits import our_command, our_words
from kclient.cli.main import parser_for
from tests.unit.cli.calling import call, ok


def ours(line: str) -> str:
    words = our_command(shlex.split(line))
    return shlex.join(our_words(parser_for(words), words))


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ("topics --bootstrap-server b:1 --list", "topics list -b b:1"),
        ("--bootstrap-server b:1 topics list", "-b b:1 topics list"),
        ("kafka-topics.sh --create --topic a --partitions 3", "topics create a --partitions 3"),
        (
            "kafka-topics --describe --topic=a --under-replicated-partitions",
            "topics describe a --under-replicated",
        ),
        ("topics --delete --topic create", "topics delete create"),
        ("console-consumer --topic a --max-messages 9", "consume a -n 9"),
        ("consume --topic a --group g --from-beginning", "consume a --group g --from-beginning"),
        ("consume --topic a --offset -5 --partition 0", "consume a --offset -5 --partition 0"),
        ("consume --topic a --offset earliest --partition 0", "consume a --from beginning --partition 0"),
        ("consume a --offset=latest -e", "consume a --from end -e"),
        ("consume a --from earliest -e", "consume a --from beginning -e"),
        ("consume a --consumer-property client.id=x", "consume a -X client.id=x"),
        ("consume a -o beginning -c 3", "consume a --from beginning -n 3"),
        ("consume a -o jsonl", "consume a -o jsonl"),
        ("consume -t a -o s@1000 -q", "consume a --from 1000"),
        ("consume a --property print.key=true --property key.separator=:", "consume a -f '%k:%s\\n'"),
        ("consume a --property client.id=x", "consume a -X client.id=x"),
        ("produce --topic a --property parse.key=true --property key.separator=:", "produce a -K :"),
        ("produce --topic a --request-required-acks all --sync", "produce a -X acks=all"),
        ("produce a -t -1h", "produce a -t -1h"),
        ("-C -b b:1 -t a -o -5 -e", "consume -b b:1 a --offset=-5 -e"),
        ("-b b:1 -t a -C", "consume -b b:1 a"),
        ("kcat -CJeq -t a -p 0", "consume -o jsonl -e a -p 0"),
        ("consume -C -t a -K: -D ;", "consume -f '%k:%s;' a"),
        ("-P -t a -K: -z gzip -l lines.txt", "produce a -K : -z gzip lines.txt"),
        ("-L -J", "topics describe -o json"),
        ("-G g a b -X client.id=x", "consume -g g -X client.id=x a b"),
        ("kafka-consumer-groups --describe --group g", "groups describe g"),
        (
            "groups --reset-offsets --group g --topic a --to-earliest --dry-run",
            "groups reset g --topic a --to-earliest",
        ),
        ("groups --describe --all-groups --offsets", "groups describe"),
        ("configs --describe --entity-type brokers --entity-name 1 --all", "configs describe broker 1 --all"),
        ("configs --alter --topic a --add-config x=1,y=[p,q]", "configs set topic a x=1 y=p,q"),
        (
            "configs --alter --entity-type topics --entity-name a --delete-config x,y",
            "configs delete topic a x y",
        ),
        ("configs set topic a x=1", "configs set topic a x=1"),
        ("produce a -k -C", "produce a -k -C"),
        ("produce a -- -C", "produce a -- -C"),
    ],
)
def test_habits_mean_what_they_mean_elsewhere(theirs: str, expected: str) -> None:
    assert ours(theirs) == expected


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("topics --zookeeper z:2181 --list", "-b HOST:PORT"),
        ("consume --include a.* -e", "kclient consume TOPIC TOPIC"),
        ("consume a --formatter x", "-f"),
        ("consume a --timeout-ms 5", "-e ends"),
        ("produce -t orders", "kclient produce orders"),
        ("-Q -t a:0:1", "--from WHEN"),
        ("-C -t a -s avro", "--decode"),
        ("-C -t a -o stored", "-g GROUP"),
        ("-C -t a -y", "-y not recognized"),
        ("topics --alter --topic a --delete-config x", "kclient configs delete"),
        ("topics --alter --topic a --config x=1", "kclient configs set topic"),
        ("kafka-acls.sh --bootstrap-server b:1 --list", "no command 'kafka-acls.sh'"),
        ("configs --describe --entity-type users", "no commands yet"),
        ("configs --alter --topic a --add-config x=1 --delete-config y", "one thing at a time"),
        ("topicz list", "did you mean 'topics'"),
        ("topics lst", "did you mean 'list'"),
        ("describe orders", "kclient topics describe"),
        ("nonsense", "it has broker, topics"),
        ("consume a --frm x", "did you mean '--from'"),
        ("consume a --completely-unknown", "`kclient consume --help`"),
        ("consume a -o jsn", "did you mean 'json'"),
        ("topics -o json list", "kclient topics list -o"),
        ("produce", "required: TOPIC;"),
    ],
)
def test_what_has_no_counterpart_or_is_misspelt_is_one_sentence_with_our_way(line: str, told: str) -> None:
    refused = call(*shlex.split(line))
    assert (refused.code, refused.out) == (2, b"")
    assert refused.err.startswith("kclient: ")
    assert refused.err.count("\n") == 1
    assert told in refused.err


def test_records_are_written_and_read_with_the_words_of_others(servers: str) -> None:
    ok("topics", "--bootstrap-server", servers, "--create", "--topic", "habits", "--partitions", "1")
    ok("-P", "-b", servers, "-t", "habits", "-K", ":", stdin=b"a:1\n")
    reader = ("--property", "parse.key=true", "--property", "key.separator=:")
    ok("produce", "--broker-list", servers, "--topic", "habits", *reader, stdin=b"b:2\n")
    assert ok("-C", "-t", "habits", "-o", "beginning", "-c", "2", "-K:").lines == ["a:1", "b:2"]
    printed = ("--property", "print.key=true", "--property", "print.partition=true")
    console = ok("consume", "--topic", "habits", "--from-beginning", "--max-messages", "1", *printed)
    assert console.lines == ["Partition:0\ta\t1"]


WORDS = """
-C -P -L -Q -G -t -o -c -K -k -D -p -e -f -J -Z -X -b -F -s -- - -5 -1h % {} {0} 10 s@1 end '' kcat -Ct
kafka-topics.sh consume produce topics groups configs lag list describe create alter delete set reset
orders --topic --topic=a --create --describe
--bootstrap-server --property print.key=true parse.key=true key.separator=% --add-config a=[b,c],d=e
--entity-type --entity-name --max-messages --zookeeper --from --timeout --watch --config
"""


def test_no_words_at_all_end_in_a_traceback_or_in_a_usage_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for noun in ("consume", "produce", "topics", "groups", "configs", "lag"):
        monkeypatch.setattr(importlib.import_module(f"kclient.cli.{noun}"), "run", lambda _: 0)
    choose = random.Random(17)
    vocabulary = shlex.split(WORDS)
    for _ in range(1_000):
        words = choose.choices(vocabulary, k=choose.randint(2, 6))
        ended = call(*words)
        assert ended.code in (0, 2), words
        assert ended.err.count("\n") == (1 if ended.code else 0), words
