"""Options: every row, both spellings, and what is said about what cannot be."""

from __future__ import annotations

import dataclasses
import ssl
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kclient.config import (
    SASL_MECHANISMS,
    SECURITY_PROTOCOLS,
    ClientConfig,
    Endpoint,
    Row,
    configured_by,
    option,
    parse_endpoint,
)
from kclient.errors import ConfigurationError
from kclient.types import Secret

FIELDS = {field.name: field for field in dataclasses.fields(ClientConfig)}
ROWS: dict[str, Row] = {name: field.metadata["row"] for name, field in FIELDS.items()}
SECRETS = [name for name, field in FIELDS.items() if "Secret" in str(field.type)]
NUMBERS = [name for name, row in ROWS.items() if row.least is not None]
TEXTS = [
    name
    for name, field in FIELDS.items()
    if str(field.type) in ("str", "str | None", "str | os.PathLike[str] | None")
]
SWITCHES = [name for name, field in FIELDS.items() if field.type == "bool"]
PLANTED = "pl4nted-s3cret"


def made(**options: Any) -> ClientConfig:
    return ClientConfig.from_options(options)


# Rows


def test_every_option_has_a_row_and_its_default_is_allowed() -> None:
    assert all(isinstance(row, Row) for row in ROWS.values())
    config = ClientConfig()
    for name, field in FIELDS.items():
        assert getattr(config, name) == field.default


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_has_its_bounds_checked(name: str) -> None:
    row = ROWS[name]
    assert row.least is not None
    assert getattr(made(**{name: int(row.least)}), name) == row.least
    with pytest.raises(ConfigurationError, match=f"{name}=.* is below its least value, {row.least}"):
        made(**{name: int(row.least) - 1})
    if row.most is not None:
        assert getattr(made(**{name: int(row.most)}), name) == row.most
        with pytest.raises(ConfigurationError, match=f"{name}=.* is above its greatest value, {row.most}"):
            made(**{name: int(row.most) + 1})


@pytest.mark.parametrize("value", [True, [1], {}, b"1"])
@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_must_be_one(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}=.* must be a number, not {type(value).__name__}"):
        made(**{name: value})


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_not_a_number_is_no_number(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        made(**{name: float("nan")})


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_is_whole(name: str) -> None:
    for value in (7000.5, 7000.0, float("inf")):
        with pytest.raises(ConfigurationError, match=f"{name}=.* must be a whole number"):
            made(**{name: value})


@pytest.mark.parametrize("value", [5, b"text", ["text"], True])
@pytest.mark.parametrize("name", TEXTS)
def test_every_text_must_be_one(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}=.* must be text, not {type(value).__name__}"):
        made(**{name: value})


def test_a_tls_context_must_be_one() -> None:
    with pytest.raises(ConfigurationError, match=r"ssl_context must be an ssl\.SSLContext, not str"):
        made(ssl_context="default")
    context = ssl.create_default_context()
    assert made(ssl_context=context).ssl_context is context


@pytest.mark.parametrize("value", [["a"], "a=b", {"a": 1}, {1: "a"}])
def test_extensions_are_texts_by_name(value: object) -> None:
    with pytest.raises(ConfigurationError, match="sasl_oauthbearer_extensions must be a mapping of text to"):
        made(sasl_oauthbearer_extensions=value)
    assert made(sasl_oauthbearer_extensions={"a": "b"}).sasl_oauthbearer_extensions == {"a": "b"}


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.choices])
def test_every_choice_is_accepted_and_others_are_refused_with_what_there_is(name: str) -> None:
    for choice in ROWS[name].choices:
        assert getattr(made(**{"sasl_mechanism": "PLAIN"} | {name: choice}), name) == choice
    with pytest.raises(
        ConfigurationError, match=f"{name}='CARRIER-PIGEON' is not one of {ROWS[name].choices[0]}, "
    ):
        made(**{name: "CARRIER-PIGEON"})


def test_a_choice_nearly_right_is_suggested() -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean SASL_SSL\?"):
        made(security_protocol="sasl-ssl", sasl_mechanism="PLAIN")
    with pytest.raises(ConfigurationError, match=r"did you mean SCRAM-SHA-512\?"):
        made(sasl_mechanism="scram-sha512")


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_is_on_or_off(name: str) -> None:
    for text, value in (("true", True), ("No", False), ("1", True), ("FALSE", False)):
        assert getattr(made(**{name: text}), name) is value
    with pytest.raises(ConfigurationError, match=f"{name}='maybe' must be true or false"):
        made(**{name: "maybe"})
    with pytest.raises(ConfigurationError, match=f"{name}=1 must be true or false"):
        made(**{name: 1})


@pytest.mark.parametrize("name", FIELDS)
def test_nothing_is_a_value_only_where_the_type_says_so(name: str) -> None:
    if "None" in str(FIELDS[name].type) or FIELDS[name].type == "Any":
        assert getattr(made(**{name: None}), name) is None
    else:
        with pytest.raises(ConfigurationError, match=f"{name} must have a value"):
            made(**{name: None})


@pytest.mark.parametrize("protocol", [name for name in SECURITY_PROTOCOLS if name.startswith("SASL")])
def test_sasl_needs_a_mechanism(protocol: str) -> None:
    with pytest.raises(ConfigurationError, match="needs a sasl_mechanism: one of PLAIN"):
        made(security_protocol=protocol)
    for mechanism in SASL_MECHANISMS:
        made(security_protocol=protocol, sasl_mechanism=mechanism)


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ClientConfig().client_id = "other"  # type: ignore[misc]


# Names


@pytest.mark.parametrize("name", FIELDS)
def test_every_option_is_known_under_kafkas_name_too(name: str) -> None:
    kafka = ROWS[name].kafka or name.replace("_", ".")
    value: Any = {"bootstrap_servers": "a:1", "sasl_mechanism": "PLAIN", "security_protocol": "SSL"}.get(name)
    if name in NUMBERS:
        value = 7000
    assert getattr(ClientConfig.from_options({kafka: value} if value else {}), name) == (
        value or FIELDS[name].default
    )


def test_values_may_be_the_texts_of_a_properties_file() -> None:
    config = ClientConfig.from_options(
        {
            "request.timeout.ms": "5000",
            "send.buffer.bytes": "-1",
            "client.id": "42",
            "ssl.check.hostname": "false",
        }
    )
    assert (config.request_timeout_ms, config.send_buffer_bytes) == (5000, -1)
    assert (config.client_id, config.ssl_check_hostname) == ("42", False)
    with pytest.raises(ConfigurationError, match="request_timeout_ms='soon' must be a number"):
        ClientConfig.from_options({"request.timeout.ms": "soon"})


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("bootstrap_server", "did you mean 'bootstrap_servers'?"),
        ("bootstrap.server", "did you mean 'bootstrap.servers'?"),
        ("request.timeout", "did you mean 'request.timeout.ms'?"),
        ("sasl.user.name", "did you mean 'sasl.username'?"),
        ("colour", "known are bootstrap_servers, client_id"),
    ],
)
def test_an_unknown_option_is_refused_with_a_suggestion(given: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ClientConfig.from_options({given: "value"})
    assert str(caught.value).startswith(f"there is no option {given!r}: {hint}")
    assert "value" not in str(caught.value).replace("values", "")


def test_one_option_under_two_names_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'request\.timeout\.ms' and 'request_timeout_ms' are the same option"
    ):
        ClientConfig.from_options({"request_timeout_ms": 1, "request.timeout.ms": 2})


# Addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", Endpoint("localhost", 9092)),
        ("localhost", Endpoint("localhost", 9092)),
        ("127.0.0.1:1", Endpoint("127.0.0.1", 1)),
        ("broker.example.com:65535", Endpoint("broker.example.com", 65535)),
        ("[::1]:9093", Endpoint("::1", 9093)),
        ("[fe80::1%eth0]", Endpoint("fe80::1%eth0", 9092)),
        ("::1", Endpoint("::1", 9092)),
        ("SSL://broker:9093", Endpoint("broker", 9093)),
        ("SASL_SSL://[2001:db8::7]:9093", Endpoint("2001:db8::7", 9093)),
    ],
)
def test_addresses_are_read_in_every_form(text: str, expected: Endpoint) -> None:
    assert parse_endpoint(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":9092",
        "host:0",
        "host:65536",
        "host:-1",
        "host:port",
        "host:9092:9093",
        "[::1",
        "[::1]9092",
        "[]:1",
        "h:²",
        "h:٣",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no broker address: write host:port"):
        parse_endpoint(text)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "::1:9092",
            r"write the address in brackets, \[::1\]:9092, and \[::1:9092\]:9092 if 9092 belongs to",
        ),
        ("fe80::7:19092", r"in brackets, \[fe80::7\]:19092$"),
        ("2001:db8:0:0:0:0:0:1:9092", r"in brackets, \[2001:db8:0:0:0:0:0:1\]:9092$"),
        ("fe80::1%eth0:9092", r"in brackets, \[fe80::1%eth0\]:9092"),
        ("1:2:3", "is no IPv6 address, nor host:port"),
    ],
)
def test_an_ipv6_address_that_may_end_in_a_port_is_refused_with_how_to_write_it(
    text: str, advice: str
) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        parse_endpoint(text)


@pytest.mark.parametrize(
    "text", ["::1", "fe80::abcd", "2001:db8:0:0:0:0:0:1", "::ffff:10.0.0.1", "fe80::1%eth0"]
)
def test_an_ipv6_address_that_cannot_end_in_a_port_needs_no_brackets(text: str) -> None:
    assert parse_endpoint(text) == Endpoint(text, 9092)


@pytest.mark.parametrize("given", ["a:1, b:2,,c", ["a:1", " b:2", "c"], ("a:1", "b:2", "c:9092")])
def test_servers_come_as_one_text_or_several(given: Any) -> None:
    assert ClientConfig(bootstrap_servers=given).endpoints() == (
        Endpoint("a", 1),
        Endpoint("b", 2),
        Endpoint("c", 9092),
    )


@pytest.mark.parametrize("given", ["", " , ", []])
def test_no_server_at_all_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="names no broker: give host:port"):
        ClientConfig(bootstrap_servers=given)


@pytest.mark.parametrize("given", [[("localhost", 9092)], 9092, [b"localhost:9092"]])
def test_servers_that_are_no_text_are_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap_servers=.* must be text"):
        ClientConfig(bootstrap_servers=given)


def test_an_endpoint_is_shown_as_it_is_written() -> None:
    assert str(Endpoint("broker", 1)) == "broker:1"
    assert str(Endpoint("::1", 9092)) == "[::1]:9092"


# Secrets


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("wrap", [str, Secret])
def test_a_secret_is_in_no_text_of_the_config(name: str, wrap: type) -> None:
    config = made(**{name: wrap(PLANTED)})
    assert getattr(config, name) == Secret(PLANTED)
    for text in (repr(config), str(config), f"{config}", str(dataclasses.asdict(config)), repr(vars(config))):
        assert PLANTED not in text


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_of_the_wrong_type_is_refused_without_being_shown(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be text, not bytes") as caught:
        made(**{name: PLANTED.encode()})
    assert PLANTED not in "".join(traceback.format_exception(caught.value))


def test_an_error_about_another_option_does_not_show_a_secret() -> None:
    with pytest.raises(ConfigurationError) as caught:
        made(sasl_plain_password=PLANTED, request_timeout_ms=0)
    assert PLANTED not in "".join(traceback.format_exception(caught.value))


# Clients


@dataclass(frozen=True, kw_only=True)
class ShopConfig(ClientConfig):
    """A client's own options on top of all clients' options."""

    opening_hours: int = option(8, least=0, most=24)
    door_code: str | Secret | None = option(None)


class Shop:
    @configured_by(ShopConfig)
    def __init__(self, config: ShopConfig) -> None:
        """Open a shop."""
        self.config = config


def test_a_client_takes_the_options_of_its_config_by_name() -> None:
    shop = Shop(client_id="shop", opening_hours=24, door_code=PLANTED)
    assert (shop.config.client_id, shop.config.opening_hours) == ("shop", 24)
    assert PLANTED not in repr(shop.config)
    assert Shop.__init__.__doc__ == "Open a shop."


def test_a_client_refuses_what_its_config_refuses() -> None:
    with pytest.raises(ConfigurationError, match="opening_hours=25 is above"):
        Shop(opening_hours=25)
    with pytest.raises(ConfigurationError, match="did you mean 'opening_hours'"):
        Shop(opening_hour=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="options are given by name"):
        Shop("localhost:9092")  # type: ignore[call-arg]


def test_a_path_is_as_good_as_its_text() -> None:
    path = Path("ca.pem")
    assert ClientConfig(ssl_cafile=path).ssl_cafile == path
