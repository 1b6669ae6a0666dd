"""`kclient NOUN …`: finds the module of the noun and hands over.

A noun's module has `add_arguments(parser)` and `run(options) -> int`, and is imported only when it is used.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from kclient.errors import KafkaError

NOUNS = {"broker": "run an embedded broker, for development"}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="kclient", description="A Kafka client in pure Python.")
    nouns = parser.add_subparsers(dest="noun", required=True, metavar="COMMAND")
    chosen = next((word for word in given if not word.startswith("-")), None)
    for noun, summary in NOUNS.items():
        sub = nouns.add_parser(noun, help=summary, description=summary)
        if noun == chosen:
            importlib.import_module(f"kclient.cli.{noun}").add_arguments(sub)
    options = parser.parse_args(given)
    try:
        code: int = importlib.import_module(f"kclient.cli.{options.noun}").run(options)
    except KafkaError as error:
        print(f"kclient: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
