"""`kafka.*` properties as kclient's own configuration: what Java's clients write otherwise is translated.

Used on both sides, on the driver and in workers; the result is hashable by its properties, see `worker`.
kclient's configs know Kafka's dotted names already. What is left: JAAS lines, stores of certificates, the
name check of TLS, and properties that only mean something inside a Java process.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from kclient.config import ClientConfig, checks_hostname, token_auth
from kclient.errors import ConfigurationError, KafkaError

log = logging.getLogger(__name__)

C = TypeVar("C", bound=ClientConfig)

# Java's own business: leaving them out changes nothing that a query could notice.
_WITHOUT_MEANING = frozenset(
    {
        "allow.auto.create.topics",
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "enable.metrics.push",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "sasl.client.callback.handler.class",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.callback.handler.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
_JAAS = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\s*(.*?);?\s*", re.DOTALL)
# One property that stands for several of ours is named once.
_TWICE = re.compile(r"(kafka\.[\w.]+)(?:(?:,| and) \1(?![\w.]))+")
_RENAMED = {"ssl.endpoint.identification.algorithm": "ssl_check_hostname"}
_PAIR = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


def config(kind: type[C], kafka: Mapping[str, str], **fixed: Any) -> C:
    """A configuration of a kind from properties; `fixed` are our names and win over what was given."""
    translated: dict[str, Any] = {}
    for name, value in kafka.items():
        if name in _WITHOUT_MEANING:
            log.warning("kafka.%s has no meaning for kclient and is left out", name)
        else:
            translated |= _translated(name, value)
    names = {name.replace("_", "."): name for name in fixed}
    for name in list(translated):
        if name.replace("_", ".") in names:
            del translated[name]
    try:
        return kind.from_options(translated | fixed)
    except ConfigurationError as error:
        raise as_given(error, kind, kafka) from None


def _translated(name: str, value: str) -> dict[str, Any]:
    """One property as options that our configs know."""
    if name == "sasl.jaas.config":
        return _from_jaas(value)
    if name == "ssl.endpoint.identification.algorithm":
        return {"ssl_check_hostname": checks_hostname(f"kafka.{name}", value)}
    if name in ("ssl.truststore.type", "ssl.keystore.type"):
        _check_store(name, value)
        return {}
    if name in ("ssl.truststore.password", "ssl.keystore.password"):
        raise ConfigurationError(f"kafka.{name} is for Java's key stores: give PEM files, without it")
    return {name: value}


E = TypeVar("E", bound=KafkaError)


def as_given(error: E, kind: type[ClientConfig], kafka: Mapping[str, str]) -> E:
    """The same error in the words of who gave `kafka`: with `kafka.` and Kafka's names, not with ours."""
    if error.args and isinstance(error.args[0], str):
        error.args = (in_given_names(error.args[0], kind, kafka), *error.args[1:])
    return error


def in_given_names(text: str, kind: type[ClientConfig], kafka: Mapping[str, str]) -> str:
    """A text with our options called as the user did, or as Kafka does where the user named none.

    >>> in_given_names("ssl_cafile='x' is no file", ClientConfig, {"ssl.truststore.location": "x"})
    "kafka.ssl.truststore.location='x' is no file"
    """
    labels = _labels(kind, kafka)
    # A word such as `acks` may be anything: it is an option where a value follows, or in quotes.
    words = "|".join(
        re.escape(name) + ("" if "_" in name or "." in name else "(?=[='])") for name in sorted(labels)
    )
    named = re.sub(rf"(?<![\w./-])(?:{words})(?![\w/-]|\.\w)", lambda found: labels[found[0]], text)
    return _TWICE.sub(r"\1", named)


def _labels(kind: type[ClientConfig], kafka: Mapping[str, str]) -> dict[str, str]:
    """What to call each option: the property that set it, else Kafka's."""
    names = {
        field.name: field.metadata["row"].kafka or field.name.replace("_", ".")
        for field in dataclasses.fields(kind)
    }
    ours = {spelling: name for name in names for spelling in (name, names[name], name.replace("_", "."))}
    labels = {name: f"kafka.{property_}" for name, property_ in names.items()}
    set_by: dict[str, str] = {}
    for property_, value in kafka.items():
        options = (
            _from_jaas(value) if property_ == "sasl.jaas.config" else [_RENAMED.get(property_, property_)]
        )
        set_by |= dict.fromkeys([property_, *options], f"kafka.{property_}")
    return labels | {ours[name]: given for name, given in set_by.items() if name in ours} | set_by


def _check_store(name: str, value: str) -> None:
    if value.strip().upper() != "PEM":
        raise ConfigurationError(
            f"kafka.{name}={value!r} is not supported: convert the store to PEM "
            "(keytool -exportcert -rfc, openssl pkcs12) and give PEM"
        )


def _from_jaas(line: str) -> dict[str, Any]:
    """User and password, or an OAuth client, from a line of Java's login configuration; never shown."""
    found = _JAAS.fullmatch(line)
    if found is None:
        raise ConfigurationError("kafka.sasl.jaas.config is not of the form: Module required name=value …;")
    module = found[1].rpartition(".")[2]
    values = {
        name.lower(): re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _PAIR.findall(found[2])
    }
    if module in ("PlainLoginModule", "ScramLoginModule"):
        if "username" not in values or "password" not in values:
            raise ConfigurationError(f"kafka.sasl.jaas.config: {module} needs username and password")
        user: dict[str, Any] = {
            "sasl_plain_username": values["username"],
            "sasl_plain_password": values["password"],
        }
        by_token = token_auth("kafka.sasl.jaas.config", values.get("tokenauth", "false"))
        return user | ({"sasl_delegation_token": True} if by_token else {})
    if module == "OAuthBearerLoginModule":
        names = {"clientid": "client_id", "clientsecret": "client_secret", "scope": "scope"}
        return {f"sasl_oauthbearer_{ours}": values[name] for name, ours in names.items() if name in values}
    if module == "Krb5LoginModule":
        service = values.get("servicename")
        return {"sasl_kerberos_service_name": service} if service else {}
    raise ConfigurationError(
        f"kafka.sasl.jaas.config names {module}: known are PlainLoginModule, ScramLoginModule, "
        "OAuthBearerLoginModule and Krb5LoginModule"
    )
