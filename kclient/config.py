"""Configuration: frozen, checked once, the same options under Kafka's dotted names and ours.

A config class says which options there are, and the row of an option what it may be. Admin clients take their
keyword arguments from it (`configured_by`); producers and consumers, whose types depend on them, from a
`TypedDict` beside it (`options`). `from_options` reads dotted names and strings, as in a `.properties` file.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

from kclient.errors import ConfigurationError
from kclient.types import Secret, Url

if TYPE_CHECKING:
    import ssl

P = ParamSpec("P")
C = TypeVar("C", bound="ClientConfig")
S = TypeVar("S")

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
DEFAULT_PORT = 9092
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")
# The annotations, as written, of options whose values are looked at; a file may be a path too.
_TEXT: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "str | None": str,
    "str | os.PathLike[str] | None": (str, os.PathLike),
}
_WHOLE = ("int", "int | None")
_MAPPING = ("Mapping[str, str] | None",)


class Endpoint(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Row(NamedTuple):
    """What an option may be, and what Kafka calls it where that is not our name with dots."""

    least: float | None
    most: float | None
    choices: tuple[str, ...]
    kafka: str | None


def option(
    default: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    kafka: str | None = None,
) -> Any:
    """Declare one option."""
    return dataclasses.field(default=default, metadata={"row": Row(least, most, choices, kafka)})


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """What every client needs to reach a cluster. Durations are in milliseconds and end in `_ms`."""

    bootstrap_servers: str | Sequence[str] = option("localhost:9092")
    client_id: str = option("kclient")
    security_protocol: str = option("PLAINTEXT", choices=SECURITY_PROTOCOLS)

    ssl_context: ssl.SSLContext | None = option(None)
    ssl_cafile: str | os.PathLike[str] | None = option(None, kafka="ssl.truststore.location")
    ssl_capath: str | os.PathLike[str] | None = option(None)
    ssl_cadata: str | None = option(None, kafka="ssl.truststore.certificates")
    ssl_certfile: str | os.PathLike[str] | None = option(None, kafka="ssl.keystore.location")
    ssl_certdata: str | None = option(None, kafka="ssl.keystore.certificate.chain")
    ssl_keyfile: str | os.PathLike[str] | None = option(None)
    ssl_keydata: str | Secret | None = option(None, kafka="ssl.keystore.key")
    ssl_password: str | Secret | None = option(None, kafka="ssl.key.password")
    ssl_check_hostname: bool = option(True)

    sasl_mechanism: str | None = option(None, choices=SASL_MECHANISMS)
    sasl_plain_username: str | None = option(None, kafka="sasl.username")
    sasl_plain_password: str | Secret | None = option(None, kafka="sasl.password")
    # The user is a delegation token's id and the password its HMAC.
    sasl_delegation_token: bool = option(False)
    # Kafka salts passwords as they are; other brokers may follow RFC 5802 and prepare them.
    sasl_scram_saslprep: bool = option(False)
    sasl_kerberos_service_name: str = option("kafka")
    sasl_kerberos_domain_name: str | None = option(None)
    sasl_oauth_token_provider: Any = option(None)
    sasl_oauthbearer_token_endpoint_url: str | None = option(None)
    sasl_oauthbearer_client_id: str | None = option(None)
    sasl_oauthbearer_client_secret: str | Secret | None = option(None)
    sasl_oauthbearer_scope: str | None = option(None)
    sasl_oauthbearer_audience: str | None = option(None)
    sasl_oauthbearer_extensions: Mapping[str, str] | None = option(None)
    sasl_oauthbearer_allow_http: bool = option(False)

    # A broker that has not answered by then is taken for dead: the connection is closed.
    request_timeout_ms: int = option(30_000, least=1)
    # The one deadline of a call, with all its retries.
    default_api_timeout_ms: int = option(60_000, least=1)
    retry_backoff_ms: int = option(100, least=0)
    retry_backoff_max_ms: int = option(1_000, least=0)
    reconnect_backoff_ms: int = option(50, least=0)
    reconnect_backoff_max_ms: int = option(1_000, least=0)
    socket_connection_setup_timeout_ms: int = option(10_000, least=1)
    connections_max_idle_ms: int = option(540_000, least=-1)
    metadata_max_age_ms: int = option(300_000, least=1)
    # None leaves the kernel's automatic sizing on, which is what Kafka's -1 means.
    send_buffer_bytes: int | None = option(None, least=-1, most=2_147_483_647)
    receive_buffer_bytes: int | None = option(None, least=-1, most=2_147_483_647)
    # Larger answers are refused at their first four bytes: nothing is allocated on a stranger's word.
    receive_message_max_bytes: int = option(100_000_000, least=1_000, most=2_147_483_647)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # before anything can fail: reports show what variables hold
            object.__setattr__(self, field.name, _covered(field, getattr(self, field.name)))
        for field in dataclasses.fields(self):
            name, value, annotation = field.name, getattr(self, field.name), str(field.type)
            _check_type(name, value, annotation)
            if value is not None and not isinstance(value, Secret):
                _check_row(name, value, field.metadata["row"])
        if self.security_protocol.startswith("SASL") and self.sasl_mechanism is None:
            raise ConfigurationError(
                f"security_protocol={self.security_protocol} needs a sasl_mechanism: "
                f"one of {', '.join(SASL_MECHANISMS)}"
            )
        self.endpoints()

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The bootstrap servers, parsed."""
        given = self.bootstrap_servers
        items: Any = given.split(",") if isinstance(given, str) else given
        if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
            raise ConfigurationError(
                f"bootstrap_servers={given!r} must be text, or a list of texts: host:port"
            )
        endpoints = tuple(parse_endpoint(item.strip()) for item in items if item.strip())
        if not endpoints:
            raise ConfigurationError(
                f"bootstrap_servers={given!r} names no broker: give host:port, host:port"
            )
        return endpoints

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """Read options under our names or Kafka's, with values as strings where they come from a file.

        >>> ClientConfig.from_options({"request.timeout.ms": "5000"}).request_timeout_ms
        5000
        """
        options = dict(options)
        cover(options, cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        kafka_names = {field.metadata["row"].kafka: name for name, field in fields.items()}
        values: dict[str, Any] = {}
        named: dict[str, str] = {}
        for given, value in options.items():
            name = kafka_names.get(given) or given.replace(".", "_").replace("-", "_")
            if name not in fields:
                raise ConfigurationError(_unknown(given, cls))
            if named.setdefault(name, given) != given:
                raise ConfigurationError(
                    f"{given!r} and {named[name]!r} are the same option: give one of them"
                )
            values[name] = (
                _from_text(name, value, str(fields[name].type)) if isinstance(value, str) else value
            )
        return cls(**values)


def configured_by(
    config: Callable[P, C],
) -> Callable[[Callable[[S, C], None]], Callable[Concatenate[S, P], None]]:
    """Decorates `__init__(self, config)`: callers pass the options of the config class by name."""

    def decorate(initialise: Callable[[S, C], None]) -> Callable[Concatenate[S, P], None]:
        def initialise_with(self: S, /, *args: P.args, **options: P.kwargs) -> None:
            cover(options, config)  # type: ignore[arg-type]
            if args:
                raise TypeError("options are given by name: bootstrap_servers=…")
            initialise(self, config.from_options(options))  # type: ignore[attr-defined]

        initialise_with.__doc__ = initialise.__doc__
        return initialise_with

    return decorate


def cover(options: dict[str, Any], config: type[ClientConfig]) -> None:
    """Cover what may be secret, where crash reports would show it as the value of a variable."""
    fields = {field.name: field for field in dataclasses.fields(config)}
    kafka_names = {field.metadata["row"].kafka: field for field in fields.values()}
    for given, value in options.items():
        field = kafka_names.get(given) or fields.get(given.replace(".", "_").replace("-", "_"))
        if field is not None:
            options[given] = _covered(field, value)
        elif isinstance(value, str):  # it is refused, and may be a password under a misspelt name
            options[given] = Secret(value)


def _covered(field: dataclasses.Field[Any], value: object) -> object:
    if not isinstance(value, str):
        return value
    if "Secret" in str(field.type):
        return Secret(value)
    return Url(value) if field.name.endswith("_url") else value


def shown_half_made(show: Callable[[S], str]) -> Callable[[S], str]:
    """Decorates a `__repr__` that crash reports may ask of an object whose constructor has failed."""

    def show_anyway(self: S) -> str:
        try:
            return show(self)
        except AttributeError:
            return f"<{type(self).__name__} half made>"

    return show_anyway


# A name or an IPv4 address, an IPv6 address in brackets, each with or without a port; or a bare IPv6 address.
_ADDRESS = re.compile(
    r"(?:([^:\[\]\s]+)|\[([^\[\]\s]+)\])(?::([0-9]{1,5}))?|([0-9A-Fa-f.]*(?::[0-9A-Fa-f.]*){2,}(?:%\S+)?)"
)


def checks_hostname(name: str, algorithm: str) -> bool:
    """Whether Java's `ssl.endpoint.identification.algorithm` asks for broker names to be checked.

    Only an empty value switches the check off: a misspelt one must not.
    """
    wanted = algorithm.strip()
    if wanted and wanted.lower() != "https":
        raise ConfigurationError(
            f"{name}={algorithm!r} must be https, or empty to accept brokers under any name"
        )
    return bool(wanted)


def token_auth(name: str, value: str) -> bool:
    """Whether the `tokenauth` of a JAAS line says that user and password are a delegation token."""
    if value.lower() not in ("true", "false"):
        raise ConfigurationError(f"{name}: tokenauth must be true or false")
    return value.lower() == "true"


def parse_endpoint(text: str) -> Endpoint:
    """Read `host`, `host:port`, `[ipv6]:port`; a listener name in front (`SSL://host:port`) is dropped."""
    found = _ADDRESS.fullmatch(text.rpartition("://")[2])
    if found is not None:
        name, bracketed, port, bare = found.groups(default="")
        number = int(port or DEFAULT_PORT)
        if bare:
            _refuse_port_without_brackets(text, bare)
        if 0 < number < 65536:
            return Endpoint(name or bracketed or bare, number)
    raise ConfigurationError(f"{text!r} is no broker address: write host:port, with a port from 1 to 65535")


def _refuse_port_without_brackets(text: str, bare: str) -> None:
    """An IPv6 address, or one and a port: `::1:9092` is either."""
    host, _, port = bare.rpartition(":")
    if port.isdecimal() and _is_ipv6(host):
        other = f", and [{bare}]:{DEFAULT_PORT} if {port} belongs to the address" if _is_ipv6(bare) else ""
        raise ConfigurationError(
            f"{text!r} is not clear: write the address in brackets, [{host}]:{port}{other}"
        )
    if not _is_ipv6(bare):
        raise ConfigurationError(f"{text!r} is no IPv6 address, nor host:port")


def _is_ipv6(text: str) -> bool:
    import ipaddress  # noqa: PLC0415 - most addresses are names

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _check_type(name: str, value: Any, annotation: str) -> None:
    """What Python would not notice before it hurts; a secret of the wrong type is not shown."""
    if value is None:
        if "None" not in annotation and annotation != "Any":
            raise ConfigurationError(f"{name} must have a value, not None")
    elif "Secret" in annotation and not isinstance(value, (str, Secret)):
        raise ConfigurationError(f"{name} must be text, not {type(value).__name__}")
    elif annotation == "bool" and not isinstance(value, bool):
        raise ConfigurationError(f"{name}={value!r} must be true or false")
    elif annotation in _WHOLE and isinstance(value, float):
        raise ConfigurationError(f"{name}={value!r} must be a whole number")
    elif annotation in _TEXT and not isinstance(value, _TEXT[annotation]):
        raise ConfigurationError(f"{name}={value!r} must be text, not {type(value).__name__}")
    elif annotation == "ssl.SSLContext | None" and not hasattr(
        value, "wrap_bio"
    ):  # `ssl` is not imported here
        raise ConfigurationError(f"{name} must be an ssl.SSLContext, not {type(value).__name__}")
    elif annotation in _MAPPING and not _is_mapping_of_texts(value):
        raise ConfigurationError(f"{name} must be a mapping of text to text")


def _is_mapping_of_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(each, str) for pair in value.items() for each in pair
    )


def _check_row(name: str, value: Any, row: Row) -> None:
    if row.choices and value not in row.choices:
        close = difflib.get_close_matches(str(value).upper(), row.choices, 1, 0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigurationError(f"{name}={value!r} is not one of {', '.join(row.choices)}{hint}")
    if row.least is None and row.most is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{name}={value!r} must be a number, not {type(value).__name__}")
    if row.least is not None and not value >= row.least:  # in these words NaN is refused too
        raise ConfigurationError(f"{name}={value!r} is below its least value, {row.least}")
    if row.most is not None and value > row.most:
        raise ConfigurationError(f"{name}={value!r} is above its greatest value, {row.most}")


def _unknown(given: str, config: type[ClientConfig]) -> str:
    names = [field.name for field in dataclasses.fields(config)]
    dotted = [
        field.metadata["row"].kafka or field.name.replace("_", ".") for field in dataclasses.fields(config)
    ]
    close = difflib.get_close_matches(given, names + dotted, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(names))}"
    return f"there is no option {given!r}: {hint}"


def _from_text(name: str, text: str, annotation: str) -> object:
    """A value from a file or the command line, by the type that the option has."""
    kinds = annotation.replace(" ", "").split("|")
    if not {"bool", "int", "float"}.intersection(kinds):
        return text
    if "bool" in kinds:
        if text.lower() not in _TRUE + _FALSE:
            raise ConfigurationError(f"{name}={text!r} must be true or false")
        return text.lower() in _TRUE
    try:
        return int(text) if "int" in kinds else float(text)
    except ValueError as error:
        raise ConfigurationError(f"{name}={text!r} must be a number") from error
