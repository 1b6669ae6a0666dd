"""What people type who know Kafka's scripts or kcat, as words of our own command line.

`kclient consume --bootstrap-server kafka:9092 --topic orders --max-messages 10` does what it says. What has
no counterpart is refused with our way. Called by `main` before argparse sees the words; pure.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kclient.cli import kafka_configs, kcat
from kclient.cli.errors import UsageError, close_to
from kclient.cli.grammar import Place, Role
from kclient.cli.times import is_moment

Words = tuple[str, ...]

_SCRIPTS = {
    "topics": "topics",
    "console-consumer": "consume",
    "console-producer": "produce",
    "consumer-groups": "groups",
    "groups": "groups",
    "configs": "configs",
    "server-start": "broker",
}
_SCRIPT = re.compile(r"(?:kafka-)?([a-z-]+?)(?:\.sh|\.bat)?")
_VERBS: Mapping[str, Mapping[str, str]] = {
    "topics": {f"--{verb}": verb for verb in ("list", "describe", "create", "alter", "delete")},
    "groups": {
        **{f"--{verb}": verb for verb in ("list", "describe", "delete", "delete-offsets")},
        "--reset-offsets": "reset",
    },
}
# Ours behind theirs; `{}` is the value. An empty one means what we do anyway.
_TAKEN: Mapping[str, Mapping[str, Words]] = {
    "": {
        **dict.fromkeys(("--bootstrap-server", "--broker-list"), ("-b", "{}")),
        **dict.fromkeys(("--consumer.config", "--producer.config"), ("-c", "{}")),
        **dict.fromkeys(("--consumer-property", "--producer-property", "--command-property"), ("-X", "{}")),
    },
    "consume": {
        **dict.fromkeys(("--topic", "-t"), ("{}",)),
        "--max-messages": ("-n", "{}"),
        "--isolation-level": ("-X", "isolation.level={}"),
        "-J": ("-o", "jsonl"),
        **dict.fromkeys(("-q", "-u"), ()),
    },
    "produce": {
        "--topic": ("{}",),
        **dict.fromkeys(("--compression-codec", "--compression-type"), ("-z", "{}")),
        **dict.fromkeys(("--request-required-acks", "--producer-acks"), ("-X", "acks={}")),
        "--batch-size": ("-X", "batch.size={}"),
        "--max-block-ms": ("-X", "max.block.ms={}"),
        "--request-timeout-ms": ("-X", "request.timeout.ms={}"),
        "--message-send-max-retries": ("-X", "retries={}"),
        "--sync": (),
    },
    "topics": {
        "--topic": ("{}",),
        "--under-replicated-partitions": ("--under-replicated",),
        "--unavailable-partitions": ("--unavailable",),
        "--exclude-internal": (),
    },
    "groups": {
        "--group": ("{}",),
        **dict.fromkeys(("--all-groups", "--offsets", "--dry-run", "--verbose"), ()),
    },
    "lag": {"--group": ("{}",), "--all-groups": ()},
}
_REFUSED: Mapping[str, Mapping[str, str]] = {
    "": {"--zookeeper": "brokers are asked, not ZooKeeper: -b HOST:PORT"},
    "consume": {
        "--timeout-ms": "-e ends at the end of the topic, `timeout 10 kclient consume …` after a time",
        "--formatter": "records are laid out with -f and decoded with --decode",
        "--value-deserializer": "values are decoded with --decode: string, json, msgpack, hex or base64",
        "--key-deserializer": "keys are decoded with --decode-key: string, json, msgpack, hex or base64",
        **dict.fromkeys(
            ("--include", "--whitelist"), "topics are named one by one: kclient consume TOPIC TOPIC"
        ),
        "-s": "values are decoded with --decode: string, json, msgpack, hex or base64",
    },
    "produce": {"--line-reader": "lines are read with -K, --parse-headers or -i jsonl"},
    "topics": {
        "--delete-config": "`kclient configs delete topic NAME SETTING` does it",
        "--config": "`kclient configs set topic NAME SETTING=VALUE` changes a topic that exists",
        "--replica-assignment": "replicas are placed by the cluster: -r says how many",
    },
    "groups": {"--all-topics-and-groups": "name the group"},
}
# Properties of the scripts' readers and printers, which `--property` sets there.
_PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")
_LETTERS = dict(zip(_PRINTED, ("CreateTime:%T", "Partition:%p", "Offset:%o", "%h", "%k", "%s"), strict=True))
_STARTS = ("--offset", "--from")
_ENDS = {"earliest": "beginning", "latest": "end", "beginning": "beginning", "end": "end"}
_PROPERTIES = ("--property", "--formatter-property", "--reader-property")


def our_command(given: Sequence[str]) -> list[str]:
    """The words with noun and verb as we have them; their options may still be others' (`our_words`).

    Raises `UsageError` for what has no counterpart.
    """
    words = list(given)
    if kcat.is_meant(words):
        words = kcat.our_words(words)
    words = _with_verb(_without_script(words))
    return kafka_configs.our_words(words) if words[:1] == ["configs"] else words


def our_words(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """The words with options as we have them; raises `UsageError` for those that have no counterpart."""
    return _checked(parser, _options_taken(parser, _properties_taken(words)))


def _without_script(words: list[str]) -> list[str]:
    """`kafka-topics.sh` is `topics`."""
    script = _SCRIPT.fullmatch(words[0]) if words else None
    noun = _SCRIPTS.get(script[1]) if script else None
    return words if noun is None else [noun, *words[1:]]


def _with_verb(words: list[str]) -> list[str]:
    """`topics --bootstrap-server kafka:9092 --create` is `topics create -b kafka:9092`."""
    verbs = _VERBS.get(words[0], {}) if words else {}
    flag = next((word for word in words[1:] if word in verbs), None)
    if flag is None or (len(words) > 1 and words[1] in verbs.values()):
        return words
    at = words.index(flag)
    return [words[0], verbs[flag], *words[1:at], *words[at + 1 :]]


def _options_taken(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    place, noun, found = Place(parser), "", list[str]()
    left = iter(words)
    for word in left:
        if word == "--":
            return [*found, word, *left]
        name, equals, value = word.partition("=")
        known = place.awaited is not None or name in place.options
        ours = None if known else _habit(noun, name)
        if ours is None:
            place.step(word)
            noun = noun or (word if word in _TAKEN or word in _REFUSED else "")
            found += _kcat_start(noun, word, found)
        else:
            if not equals and any("{}" in each for each in ours):
                value = next(left, "")
            found += [each.replace("{}", value) for each in ours]
    return found


def _habit(noun: str, name: str) -> Words | None:
    for scope in (noun, ""):
        if name in _REFUSED.get(scope, {}):
            raise UsageError(f"there is no {name} here: {_REFUSED[scope][name]}")
        if name in _TAKEN.get(scope, {}):
            return _TAKEN[scope][name]
    return None


def _kcat_start(noun: str, word: str, before: list[str]) -> list[str]:
    """`consume orders -o beginning -c 10`: letters that mean something else here, with values that tell."""
    if noun == "produce" and before[-1:] == ["-t"] and not is_moment(word):
        raise UsageError(
            f"-t {word}: -t is the time of records; write the topic alone: kclient produce {word}"
        )
    if noun != "consume" or not before:
        return [word]
    option, equals, value = word.partition("=")
    if equals and option in _STARTS and value in _ENDS:
        return ["--from", _ENDS[value]]
    if before[-1] in _STARTS and word in _ENDS:
        before.pop()
        return ["--from", _ENDS[word]]
    if before[-1] == "-o" and (start := kcat.start_words(word)) is not None:
        before.pop()
        return start
    if before[-1] == "-c" and word.isascii() and word.isdigit() and not Path(word).exists():
        before[-1] = "-n"
    return [word]


def _properties_taken(words: list[str]) -> list[str]:
    """`--property print.key=true` and its like say how records are laid out."""
    if not words or words[0] not in ("consume", "produce"):
        return words
    said: dict[str, str] = {}
    found: list[str] = []
    left = iter(words)
    for word in left:
        option, equals, text = word.partition("=")
        if option not in _PROPERTIES:
            found.append(word)
            continue
        name, _, value = (text if equals else next(left, "")).partition("=")
        if name.startswith(("print.", "parse.")) or name in ("key.separator", "null.marker", "null.literal"):
            said[name] = value
        else:
            found += ["-X", f"{name}={value}"]
    return [*found, *(_layout(said) if words[0] == "consume" else _reader(said))] if said else found


def _layout(said: Mapping[str, str]) -> list[str]:
    """As Kafka's console consumer prints records, with its own separator."""
    shown = [
        _LETTERS[name]
        for name in _PRINTED
        if said.get(f"print.{name}", str(name == "value")).lower() == "true"
    ]
    null = said.get("null.literal")
    return [
        *("-f", said.get("key.separator", "\\t").replace("%", "%%").join(shown) + "\\n"),
        *([] if null is None else ["--null", null]),
    ]


def _reader(said: Mapping[str, str]) -> list[str]:
    found = []
    if said.get("parse.key", "").lower() == "true":
        found += ["-K", said.get("key.separator", "\\t")]
    if said.get("parse.headers", "").lower() == "true":
        found.append("--parse-headers")
    if "null.marker" in said:
        found += ["--null", said["null.marker"]]
    return found


def _checked(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Refuse an option that there is not, with the nearest."""
    place = Place(parser)
    for word in words:
        if word == "--":
            break
        if place.awaited is not None or not word.startswith("-") or word == "-" or word[1].isdigit():
            parser = place.parser
            if place.step(word) is Role.COMMAND and place.parser is parser:
                break  # argparse says that there is no such command, whatever its options are
            continue
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if name not in place.options:
            raise UsageError(_unknown(place, name))
        place.step(word)
    return words


def _unknown(place: Place, name: str) -> str:
    prog = place.parser.prog
    for action in place.positionals:
        if isinstance(action, argparse._SubParsersAction):
            having = [each for each, verb in action.choices.items() if name in verb._option_string_actions]
            if having:
                return f"{name} stands behind the command: {prog} {having[0]} {name} …"
    known = [option for option in place.options if option.startswith("--")]
    hint = close_to(name, known) if name.startswith("--") else ""
    return f"{prog} has no option {name}{hint or f'; `{prog} --help` shows those it has'}"
