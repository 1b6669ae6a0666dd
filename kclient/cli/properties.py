"""Kafka's `.properties` files and property names, as the options of kclient's clients.

The format is Java's: `#` and `!` comments, `=`, `:` or a blank between name and value, `\\` escapes and lines
that go on. Names are those of Java's clients, of librdkafka where it differs, or kclient's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from kclient.cli.errors import UsageError
from kclient.config import checks_hostname, token_auth
from kclient.errors import ConfigurationError

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_SPLIT = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*(?:[=:][ \t\f]*|[ \t\f]|$)(.*)", re.DOTALL)
# What librdkafka calls what Java and we call otherwise.
_ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
}
_STORES = ("ssl.truststore.type", "ssl.keystore.type")
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')
_JAAS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
    "serviceName": "sasl.kerberos.service.name",
}


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file, as they are written."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no .properties file: byte {error.start} is not UTF-8") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    return parse_properties(text, str(path))


def parse_properties(text: str, source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _SPLIT.fullmatch(line)
        name = _unescape(match[1]) if match else ""
        if match is None or not name:
            raise UsageError(f"{source}, line {number}: there is no name before the value")
        if not match[2] and not line.rstrip().endswith(("=", ":")):
            raise UsageError(f"{source}, line {number}: {name!r} has no value; write name=value")
        found[name] = _unescape(match[2])
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """The lines that say something, with their numbers; one that ends in a backslash goes on in the next."""
    lines: list[tuple[int, str]] = []
    going_on = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip(" \t\f")
        if not going_on and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        content = line[:-1] if goes_on else line
        if going_on:
            lines[-1] = (lines[-1][0], lines[-1][1] + content)
        else:
            lines.append((number, content))
        going_on = goes_on
    return lines


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", plain, text, flags=re.DOTALL)


def our_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The same under names that kclient's options have; what only Java needs is turned into what it means."""
    options: dict[str, str] = {}
    for given, value in properties.items():
        name = _ALIASES.get(given, given)
        if name == "sasl.jaas.config":
            options |= _from_jaas(value)
        elif name == "ssl.endpoint.identification.algorithm":
            options["ssl.check.hostname"] = str(checks_hostname(name, value)).lower()
        elif name in _STORES:
            if value.upper() != "PEM":
                raise ConfigurationError(
                    f"{name}={value}: kclient reads PEM files, not Java's key stores; convert it with "
                    "`keytool -exportcert -rfc` or `openssl pkcs12`, and write PEM"
                )
        else:
            options[name] = value.strip()
    return options


def _from_jaas(text: str) -> dict[str, str]:
    """User and password out of Java's login line. It may hold secrets: no error shows it."""
    found = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted or not bare else bare
        for name, quoted, bare in _JAAS_OPTION.findall(text)
    }
    if "LoginModule" not in text:
        raise ConfigurationError(
            'sasl.jaas.config is not understood: write `…LoginModule required username="…" password="…";`'
        )
    options = {ours: found[theirs] for theirs, ours in _JAAS.items() if theirs in found}
    if token_auth("sasl.jaas.config", found.get("tokenauth", "false")):
        options["sasl.delegation.token"] = "true"
    return options
