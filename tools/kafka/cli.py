"""The command line: `python -m tools.kafka up | fetch | versions`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence

from tools.kafka.archive import record_classes
from tools.kafka.cluster import KafkaCluster
from tools.kafka.config import PLAINTEXT
from tools.kafka.errors import KafkaToolError
from tools.kafka.jars import JarSet, cache_directory, say_on_stderr
from tools.kafka.spark import ConnectorJars
from tools.kafka.versions import (
    CLIENTS_VERSION,
    DEFAULT_VERSION,
    OLD_VERSION,
    SUPPORTED_VERSIONS,
    KafkaVersion,
)

_OUR_NAMES = {
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except (KafkaToolError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.kafka",
        description="Real Kafka brokers on this machine, from jars: no Docker, loopback only, nothing kept.",
        epilog="Jars are kept in ~/.cache/kclient/kafka; KCLIENT_KAFKA_CACHE names another place.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser(
        "up",
        help="start brokers and keep them until Ctrl-C",
        description="Start brokers, print how to reach them, stop them on Ctrl-C or SIGTERM.",
        epilog="example: python -m tools.kafka up --nodes 3 --sasl --tls",
    )
    up.add_argument("--version", default=DEFAULT_VERSION, help="Kafka version (default: %(default)s)")
    up.add_argument("--nodes", type=int, default=1, help="number of brokers (default: %(default)s)")
    up.add_argument("--tls", action="store_true", help="add the listeners TLS and MTLS")
    up.add_argument(
        "--sasl", action="store_true", help="add the listener SASL_PLAINTEXT, with --tls also SASL_SSL"
    )
    up.add_argument(
        "--listener",
        action="append",
        default=[],
        metavar="NAME",
        help="add one more secured listener: TLS, MTLS, BADHOST, SASL_PLAINTEXT, SASL_SSL, REAUTH, OIDC, KRB",
    )
    up.add_argument("--acls", action="store_true", help="forbid everything that no ACL allows")
    up.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="set a broker property"
    )
    up.set_defaults(run=_up)

    fetch = commands.add_parser(
        "fetch",
        help="bring jars into the cache",
        description=(
            "Bring jars into the cache. Without options: what `make test` needs, that is "
            f"Kafka {DEFAULT_VERSION} and {OLD_VERSION}, kafka-clients {CLIENTS_VERSION}, Spark's connector. "
            "Then record each broker's classes, so that it starts with half the work."
        ),
    )
    which = fetch.add_mutually_exclusive_group()
    which.add_argument("--version", action="append", metavar="V", help="only this Kafka version (repeatable)")
    which.add_argument("--all", action="store_true", help="every version of the matrix")
    fetch.set_defaults(run=_fetch)

    versions = commands.add_parser("versions", help="list the versions the tests run against")
    versions.set_defaults(run=_versions)
    return parser


def _fetch(arguments: argparse.Namespace) -> int:
    brokers = arguments.version or (SUPPORTED_VERSIONS if arguments.all else (DEFAULT_VERSION, OLD_VERSION))
    wanted = [JarSet.broker(version) for version in brokers]
    if not arguments.version:
        wanted += [JarSet.clients(CLIENTS_VERSION), ConnectorJars.newest()]
    for jar_set in wanted:
        if jar_set.is_cached():
            say_on_stderr(f"{jar_set.title} is in {jar_set.directory}")
        jar_set.fetch()
    for version in brokers:
        record_classes(version, say_on_stderr)
    return 0


def _versions(_: argparse.Namespace) -> int:
    rows = [("VERSION", "MODE", "JAVA", "CACHED")]
    for text in SUPPORTED_VERSIONS:
        version = KafkaVersion.parse(text)
        mode = "ZooKeeper" if version.uses_zookeeper else "KRaft"
        cached = "yes" if JarSet.broker(text).is_cached() else "no"
        rows.append((text, mode, f"{version.minimum_java}+", cached))
    _print_table(rows)
    print(f"\ndefault {DEFAULT_VERSION}; cache {cache_directory()}")
    return 0


def _up(arguments: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, _as_keyboard_interrupt)
    config = {}
    for setting in arguments.config:
        key, found, value = setting.partition("=")
        if not found:
            raise ValueError(f"--config takes KEY=VALUE, not {setting!r}")
        config[key] = value
    names = _secured_listeners(arguments)
    security = None
    if names or arguments.acls:
        from tools.kafka.security import Security  # noqa: PLC0415 - only this needs `cryptography`

        security = Security(*names, acls=arguments.acls)
    cluster = KafkaCluster(arguments.version, nodes=arguments.nodes, security=security, config=config)
    try:
        cluster.start(announce=say_on_stderr)
        _print_connections(cluster)
        say_on_stderr("running; Ctrl-C stops everything")
        signal.pause()
    except KeyboardInterrupt:
        say_on_stderr("stopping …")
    finally:
        cluster.stop(grace=2)
    return 0


def _as_keyboard_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _secured_listeners(arguments: argparse.Namespace) -> list[str]:
    names = []
    if arguments.tls:
        names += ["TLS", "MTLS"]
    if arguments.sasl:
        names += ["SASL_PLAINTEXT"]
    if arguments.sasl and arguments.tls:
        names += ["SASL_SSL"]
    return [*names, *arguments.listener]


def _print_connections(cluster: KafkaCluster) -> None:
    """One table of listeners, then what their clients need to know."""
    rows = [("LISTENER", "BOOTSTRAP", "OPTIONS OF A CLIENT"), (PLAINTEXT, cluster.bootstrap(), "none")]
    security = cluster.security
    if security is not None:
        for name in security.names:
            settings = kclient_options(security.client_properties(name))
            rows.append((name, cluster.bootstrap(name), " ".join(f"{k}={v}" for k, v in settings.items())))
    _print_table(rows)
    if security is not None:
        print()
        _print_table([("FOR", "VALUE"), *security.describe()])
    print(f"\nlogs and data (removed at the end): {cluster.directory}", flush=True)


def kclient_options(properties: Mapping[str, str]) -> dict[str, str]:
    """What librdkafka calls one thing, kclient another: so that a line of the table can be pasted."""
    options = {_OUR_NAMES.get(name, name.replace(".", "_")): value for name, value in properties.items()}
    if options.pop("sasl_oauthbearer_method", None):
        options["sasl_oauthbearer_allow_http"] = "true"  # the provider is on this machine, without TLS
    return options


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
