"""The listeners of `kclient broker`: protocols, certificates and users, as its options and files say."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kclient.cli.errors import UsageError, close_to
from kclient.cli.properties import read_properties
from kclient.types import Secret

if TYPE_CHECKING:
    from kclient.broker.security.listeners import ListenerSpec

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("listeners")
    group.add_argument(
        "--listener",
        action="append",
        default=[],
        metavar="PROTOCOL[:PORT]",
        help=f"{', '.join(PROTOCOLS)}; may be repeated; the first is on --port, others on any free port "
        "unless they say (default: PLAINTEXT)",
    )
    group.add_argument("--cert", type=Path, metavar="FILE", help="the broker's certificate in PEM, for TLS")
    group.add_argument("--key", type=Path, metavar="FILE", help="its key, if that is in another file")
    group.add_argument(
        "--client-ca", type=Path, metavar="FILE", help="clients need a certificate signed by one of these"
    )
    group.add_argument(
        "--users", type=Path, metavar="FILE", help="lines of NAME=PASSWORD: who may log in, for SASL"
    )
    group.add_argument(
        "--mechanism",
        action="append",
        default=[],
        choices=MECHANISMS,
        help="how they log in; may be repeated (default: all of these)",
    )


def listeners_of(options: argparse.Namespace) -> list[ListenerSpec]:
    """What was asked for, the first on --port."""
    from kclient.broker.security.listeners import ListenerSpec

    given = [_protocol_and_port(text) for text in options.listener] or [("PLAINTEXT", None)]
    _check_use(options, [protocol for protocol, _ in given])
    users = {} if options.users is None else read_properties(options.users)
    specs: list[ListenerSpec] = []
    for number, (protocol, port) in enumerate(given):
        more: dict[str, Any] = {}
        if protocol.endswith("SSL"):
            password = os.environ.get("KCLIENT_SSL_KEY_PASSWORD")
            more |= {"certfile": options.cert, "keyfile": options.key, "cafile": options.client_ca}
            more |= {"password": Secret(password)} if password else {}
            more |= {"client_auth": "required"} if options.client_ca else {}
        if protocol.startswith("SASL"):
            secrets = {name: Secret(password) for name, password in users.items()}
            more |= {"mechanisms": tuple(options.mechanism or MECHANISMS), "users": secrets}
        name = protocol if protocol not in [each.name for each in specs] else f"{protocol}_{number + 1}"
        at = options.port if port is None and not number else port or 0
        specs.append(ListenerSpec(name, protocol, host=options.host, port=at, **more))  # type: ignore[arg-type]
    return specs


def _protocol_and_port(text: str) -> tuple[str, int | None]:
    name, colon, port = text.partition(":")
    protocol = name.strip().upper()
    if protocol not in PROTOCOLS:
        hint = close_to(protocol, PROTOCOLS) or f", but {', '.join(PROTOCOLS)}"
        raise UsageError(f"--listener {text}: {name!r} is no protocol{hint}")
    if colon and not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(
            f"--listener {text}: {port!r} is no port; write {protocol}:9093, or 0 for a free one"
        )
    return protocol, int(port) if colon else None


def _check_use(options: argparse.Namespace, protocols: list[str]) -> None:
    """An option that no listener takes is a mistake, and so is a listener without what it needs."""
    tls = any(protocol.endswith("SSL") for protocol in protocols)
    sasl = any(protocol.startswith("SASL") for protocol in protocols)
    for name, value in (("--cert", options.cert), ("--key", options.key), ("--client-ca", options.client_ca)):
        if value is not None and not tls:
            raise UsageError(f"{name} is for TLS: add --listener SSL or --listener SASL_SSL")
    for name, value in (("--users", options.users), ("--mechanism", options.mechanism)):
        if value and not sasl:
            raise UsageError(f"{name} is for SASL: add --listener SASL_PLAINTEXT or --listener SASL_SSL")
    if tls and options.cert is None:
        raise UsageError("a TLS listener needs --cert FILE, and --key FILE if the key is in another file")
    if sasl and options.users is None:
        raise UsageError("a SASL listener needs --users FILE with lines of NAME=PASSWORD")
