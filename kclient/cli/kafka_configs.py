"""Words of Kafka's `kafka-configs` as ours: `--entity-type topics --entity-name orders` is `topic orders`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kclient.cli.errors import UsageError

_KINDS = {
    "topics": "topic",
    "brokers": "broker",
    "groups": "group",
    "client-metrics": "client-metrics",
    "broker-loggers": "broker-logger",
}
_SHORT = {f"--{kind}": kind for kind in _KINDS.values()}
_VALUED = ("--entity-type", "--entity-name", "--add-config", "--add-config-file", "--delete-config", *_SHORT)
_FLAGS = ("--describe", "--alter", "--entity-default", "--broker-defaults")
# Between settings, but not in a list in brackets.
_BETWEEN = re.compile(r",(?![^\[]*\])")


def our_words(words: list[str]) -> list[str]:
    """The same in our words, if one of the script's options is among them."""
    said: dict[str, str] = {}
    rest: list[str] = []
    left = iter(words[1:])
    for word in left:
        name, equals, value = word.partition("=")
        if name in _FLAGS:
            said[name] = ""
        elif name in _VALUED:
            said[name] = value if equals else next(left, "")
        else:
            rest.append(word)
    if "--describe" not in said and "--alter" not in said:
        return words
    return ["configs", *_verb(said), *rest]


def _verb(said: Mapping[str, str]) -> list[str]:
    what = _resource(said)
    if "--describe" in said:
        return ["describe", *what]
    if ("--add-config" in said or "--add-config-file" in said) == ("--delete-config" in said):
        raise UsageError("one thing at a time: `kclient configs set …` or `kclient configs delete …`")
    if "--delete-config" in said:
        return ["delete", *what, *said["--delete-config"].split(",")]
    file = ["--file", said["--add-config-file"]] if "--add-config-file" in said else []
    settings = _BETWEEN.split(said["--add-config"]) if "--add-config" in said else []
    return ["set", *file, *what, *(re.sub(r"=\[(.*)\]$", r"=\1", each) for each in settings)]


def _resource(said: Mapping[str, str]) -> list[str]:
    for option, kind in _SHORT.items():
        if option in said:
            return [kind, said[option]]
    given = said.get("--entity-type", "brokers" if "--broker-defaults" in said else "")
    if given not in _KINDS:
        raise UsageError(
            f"--entity-type {given or 'is missing: it'} must be one of {', '.join(_KINDS)}; "
            "users and quotas have no commands yet"
        )
    return [_KINDS[given], *([said["--entity-name"]] if "--entity-name" in said else [])]
