"""`kclient produce`: records from lines, files or JSON to a topic. How they are read is for `lines`."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kclient.cli import output
from kclient.cli.connection import Connection, no_topic
from kclient.cli.errors import CommandError, UsageError, sentence
from kclient.cli.lines import InputRecord, Layout, records_from
from kclient.cli.options import add_connection, add_debug
from kclient.cli.progress import Progress
from kclient.cli.times import moment
from kclient.cli.verbs import asks, epilog
from kclient.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from kclient import Producer
    from kclient.producer import Delivery

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_EXAMPLES = """\
kclient produce orders                              # type lines, Ctrl-D ends
echo 'three apples' | kclient produce orders -k customer-17
kclient produce orders -K : lines.txt               # what is before the first colon is the key
kclient produce images --whole cat.png dog.png      # a record is a whole file
kclient produce orders -H source=import -z zstd < export.txt
kclient produce orders -i jsonl < records.jsonl     # {"key": "17", "value": {"item": "teapot"}}
kclient consume orders -o jsonl -e | kclient produce copy -i jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog(_EXAMPLES)
    asks(parser.add_argument("topic", metavar="TOPIC"), "topics")
    parser.add_argument(
        "files", nargs="*", default=[], metavar="FILE", help="what to read; - or nothing: standard input"
    )
    _add_input(parser)
    _add_record(parser)
    parser.add_argument(
        "-z", "--compression", choices=_CODECS, help="how batches are compressed (default: not at all)"
    )
    parser.add_argument("--create", action="store_true", help="make the topic if it does not exist")
    add_connection(parser)
    add_debug(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how the input is read")
    group.add_argument(
        "-i",
        "--input",
        choices=("text", "jsonl"),
        default="text",
        help="text: a record a line (default); jsonl: a line is an object with key, value (or key_base64, "
        "value_base64), headers, partition, timestamp, each of which may be missing",
    )
    group.add_argument("-K", "--key-separator", metavar="TEXT", help="a line is KEY, this, VALUE")
    group.add_argument(
        "--parse-headers",
        action="store_true",
        help="a line begins with name:value,name:value and a tab, as in Kafka's console producer",
    )
    group.add_argument(
        "-D", "--delimiter", default="\\n", metavar="TEXT", help=r"what ends a record (default: \n)"
    )
    group.add_argument("--null", metavar="TEXT", help="keys and values that are this are sent as null")
    group.add_argument("--whole", action="store_true", help="a file is one record")


def _add_record(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what every record gets")
    group.add_argument("-k", "--key", metavar="KEY", help="its key")
    group.add_argument(
        "-H", "--header", action="append", default=[], metavar="NAME=VALUE", help="a header; may be repeated"
    )
    group.add_argument("-p", "--partition", type=int, metavar="N", help="default: by the key, as Java does")
    group.add_argument(
        "-t", "--timestamp", metavar="WHEN", help="2026-11-18T10:00, ms since 1970, -1h (default: now)"
    )


def run(options: argparse.Namespace) -> int:
    import asyncio

    connection = Connection(options)
    layout = Layout.of(options)
    timestamp = None if options.timestamp is None else moment(options.timestamp)
    headers = [_header(text) for text in options.header]
    if options.key is not None and options.key_separator is not None:
        raise UsageError("-k and -K contradict each other: give one of them")
    asyncio.run(_find_topic(options, connection))
    if not options.files and output.is_terminal(sys.stdin):
        output.note("Type one record a line; Ctrl-D ends.")
    with _producer(options, connection) as producer:
        delivered = _Deliveries()
        refused: CommandError | None = None
        with Progress("writing", shown=not output.is_terminal(sys.stdin)) as progress:
            try:
                for given in records_from(options.files, layout):
                    record = given.with_defaults(options.key, options.partition, timestamp, headers)
                    _send(producer, options.topic, record, delivered)
                    progress.advance()
                    if delivered.error is not None:
                        break
            except CommandError as error:
                refused = error
        delivered.stop(producer)
    delivered.check(progress.done, refused)
    if output.is_terminal(sys.stderr):
        output.note(f"Wrote {output.counted(progress.done, 'record')} to {options.topic}.")
    return 0


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"-H {text!r} must be NAME=VALUE, or NAME for a header that is null")
    return name, value.encode(errors="surrogateescape") if equals else None


async def _find_topic(options: argparse.Namespace, connection: Connection) -> None:
    """Writing to a topic that does not exist may create it, and a misspelt one would go unnoticed."""
    from kclient.admin import NewTopic
    from kclient.errors import UnknownTopicOrPartitionError

    async with connection.admin() as admin:
        found = await admin.describe_topics(options.topic, raise_errors=False)
        error = found.errors.get(options.topic)
        if isinstance(error, UnknownTopicOrPartitionError):
            if not options.create:
                raise await no_topic(admin, options.topic, "--create") from error
            await admin.create_topics(NewTopic(options.topic))
        elif error is not None:
            raise error
        elif options.partition is not None and options.partition not in range(
            len(found[options.topic].partitions)
        ):
            raise UsageError(
                f"-p {options.partition}: topic {options.topic} has the partitions 0 to "
                f"{len(found[options.topic].partitions) - 1}"
            )


def _producer(options: argparse.Namespace, connection: Connection) -> Producer:
    from kclient import Producer
    from kclient.producer import ProducerConfig

    more: dict[str, Any] = {}
    if options.compression is not None:
        more["compression_type"] = options.compression
    given = connection.options_for(ProducerConfig)
    if "linger_ms" not in given and not output.is_terminal(sys.stdin):
        more["linger_ms"] = 5
    return Producer(**(given | more))


def _send(producer: Producer, topic: str, record: InputRecord, delivered: _Deliveries) -> None:
    from kclient.errors import KafkaError

    try:
        delivery = producer.send(
            topic, record.value, record.key, record.partition, record.timestamp, record.headers
        )
    except (KafkaError, ValueError) as error:
        raise CommandError(f"record {record.number}: {sentence(error)}") from error
    delivery.add_done_callback(partial(delivered.settled, record.number))


class _Deliveries:
    """What became of the records; called on the producer's thread."""

    def __init__(self) -> None:
        self.written = 0
        self.error: BaseException | None = None
        self._failed = 0

    def settled(self, number: int, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is None:
            self.written += 1
        elif self.error is None:
            self.error, self._failed = error, number

    def stop(self, producer: Producer) -> None:
        """Wait for what was sent; when a record could not be written, give up what has not left yet."""
        if self.error is None:
            producer.flush()
        if self.error is not None:
            with suppress(
                KafkaTimeoutError
            ):  # which says how many are given up, all of them behind the error
                producer.close(0)

    def check(self, sent: int, refused: CommandError | None) -> None:
        if self.error is not None:
            raise CommandError(
                f"record {self._failed:,}: {sentence(self.error)}; written for certain: "
                f"{self.written:,} of {sent:,} that were read, and perhaps some that were under way"
            ) from self.error
        if refused is not None:
            raise CommandError(f"{refused}; records written before it: {self.written:,}") from refused
