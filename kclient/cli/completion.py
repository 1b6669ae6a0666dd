"""`kclient completion SHELL`: what a shell needs to complete `kclient`.

The script asks `kclient completion words` for the candidates, so they are always those of the installed
version: words from the parser and, where an argument is a topic or a group, names from the cluster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from kclient.cli.errors import UsageError
from kclient.cli.grammar import Place
from kclient.cli.verbs import epilog

_EXAMPLES = """\
source <(kclient completion bash)                                     # now; in ~/.bashrc for ever
kclient completion zsh > ~/.zfunc/_kclient                            # a directory of your fpath
kclient completion fish > ~/.config/fish/completions/kclient.fish"""
# bash: COMP_WORDS would be cut at every colon too, and the port of -b be lost.
_SCRIPTS = {
    "bash": """\
_kclient() {
    local IFS words line="${COMP_LINE:0:COMP_POINT}"
    IFS=$' \\t' read -ra words <<< "$line"
    [[ $line == *[[:blank:]] ]] && words+=("")
    IFS=$'\\n'
    COMPREPLY=($(kclient completion words -- "${words[@]:1}" 2>/dev/null))
    [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _kclient kclient
""",
    "zsh": """\
#compdef kclient
_kclient() {
    local -a found
    found=("${(@f)$(kclient completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [ -n "${found[1]}" ]; then compadd -a found; else _files; fi
}
if [ "$funcstack[1]" = _kclient ]; then _kclient; else compdef _kclient kclient; fi
""",
    "fish": """\
function __kclient_words
    set -l words (commandline -opc) (commandline -ct)
    kclient completion words -- $words[2..-1] 2>/dev/null
end
complete -c kclient -a '(__kclient_words)'
""",
}
# A shell waits while we ask: a cluster that does not answer at once is not worth it.
_PATIENCE = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog(_EXAMPLES)
    parser.add_argument("shell", choices=[*_SCRIPTS, "words"], metavar="{bash,zsh,fish}")
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    if options.shell == "words":
        for word in candidates(options.words):
            print(word)
        return 0
    if options.words:
        raise UsageError(f"completion {options.shell} takes no more words")
    sys.stdout.write(_SCRIPTS[options.shell])
    return 0


def candidates(words: list[str]) -> list[str]:
    """What the last word, which may be empty, can become."""
    from kclient.cli.main import parser_for

    *before, begun = words or [""]
    place = Place(parser_for(before))
    for word in before:
        place.step(word)
    return [word for word in _possible(place, begun, before) if word.startswith(begun)]


def _possible(place: Place, begun: str, before: list[str]) -> Iterable[str]:
    if place.awaited is not None:
        return _values(place.awaited, before)
    if begun.startswith("-"):
        return sorted(place.options)
    return _values(place.positionals[0], before) if place.positionals else ()


def _values(action: argparse.Action, before: list[str]) -> Iterable[str]:
    if action.choices is not None:
        return list(action.choices)
    kind = getattr(action, "completes", None)
    return () if kind is None else _from_cluster(kind, before)


def _from_cluster(kind: str, before: list[str]) -> list[str]:
    """Names of topics or groups, as the options among the words say where; nothing if it takes too long."""
    import asyncio

    from kclient.cli.connection import Connection
    from kclient.errors import KafkaError

    async def ask() -> list[str]:
        async with asyncio.timeout(_PATIENCE), Connection(_connection_options(before)).admin() as admin:
            return list(await (admin.list_topics() if kind == "topics" else admin.list_groups()))

    try:
        return asyncio.run(ask())
    except (KafkaError, OSError, ValueError):  # there is nobody to tell: the shell completes nothing
        return []


def _connection_options(words: list[str]) -> argparse.Namespace:
    """What can be read of -b, -c and -X in a command that is not finished."""
    from kclient.cli.options import add_connection

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_connection(parser)
    try:
        return parser.parse_known_args(words)[0]
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
