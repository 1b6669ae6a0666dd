"""A broker whose listeners demand certificates, passwords and tokens, and how a client says who it is.

A `Login` is what a client has, in no client's words; its methods put it into those of each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kclient.broker.api import RequestContext
from kclient.broker.security.jwks import JwksVerifier
from kclient.broker.security.listeners import ListenerSpec
from kclient.broker.security.tokens import UnsecuredTokens
from kclient.types import Secret
from kclient.wire.message import Request
from kclient.wire.messages.produce import ProduceRequest
from tests.broker.conftest import Stage, staged
from tools.kafka.certificates import Certificates
from tools.kafka.oidc import AUDIENCE, TokenIssuer, unsecured_token

USER, PASSWORD = "alice", "alice's secret"


@dataclass(frozen=True)
class Login:
    """Where a client knocks and what it shows. `unsecured` has librdkafka and Java make tokens themselves."""

    listener: str
    protocol: str
    mechanism: str | None = None
    password: str | None = None
    token: str | None = None
    unsecured: bool = False
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def principal(self) -> str:
        """Whom the broker takes the client for."""
        return "User:CN=client,O=kclient tests" if self.mechanism is None else f"User:{USER}"

    @property
    def reason(self) -> str:
        """What librdkafka is told when it is refused: a pattern."""
        if self.mechanism is None:
            return "certificate"
        return "invalid_token" if self.token else "authentication failed"

    def for_librdkafka(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.password and USER,
            "sasl.password": self.password,
            "ssl.ca.location": self.ca and str(self.ca),
            "ssl.certificate.location": self.certificate and str(self.certificate),
            "ssl.key.location": self.key and str(self.key),
        }
        if self.unsecured:
            config["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
            config["sasl.oauthbearer.config"] = f"principal={USER}"
        elif self.token is not None:
            config["oauth_cb"] = lambda _: (self.token, time.time() + 300)
        return {name: value for name, value in config.items() if value is not None}

    def for_kafka_python(self) -> dict[str, Any]:
        options = self.for_aiokafka() | {
            "ssl_cafile": self.ca and str(self.ca),
            "ssl_certfile": self.certificate and str(self.certificate),
            "ssl_keyfile": self.key and str(self.key),
            "token": self.token,
        }
        return {name: value for name, value in options.items() if value is not None}

    def for_aiokafka(self) -> dict[str, Any]:
        """Without what has to be an object: the TLS context, and what gives tokens."""
        options = {
            "security_protocol": self.protocol,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.password and USER,
            "sasl_plain_password": self.password,
        }
        return {name: value for name, value in options.items() if value is not None}

    def for_java(self, directory: Path) -> Path:
        """A file of properties."""
        lines = [f"security.protocol={self.protocol}"]
        if self.ca is not None:
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.ca}"]
        if self.certificate is not None and self.key is not None:
            store = directory / f"{self.listener}-keystore.pem"
            store.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())
            lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={store}"]
        if self.mechanism is not None:
            lines += [f"sasl.mechanism={self.mechanism}", f"sasl.jaas.config={self._jaas()}"]
        path = directory / f"{self.listener}-{self.mechanism}.properties"
        path.write_text("\n".join(lines))
        return path

    def _jaas(self) -> str:
        package = "org.apache.kafka.common.security"
        if self.unsecured:
            module = f"{package}.oauthbearer.OAuthBearerLoginModule"
            return f'{module} required unsecuredLoginStringClaim_sub="{USER}";'
        module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        return f'{package}.{module} required username="{USER}" password="{self.password}";'


class Secured:
    """The broker, what it takes for proof, and who produced to it so far."""

    def __init__(self, stage: Stage, certificates: Certificates, issuer: TokenIssuer) -> None:
        self.certificates = certificates
        self.issuer = issuer
        self.producers: set[tuple[str, str]] = set()
        self._broker = stage.broker
        self._broker.faults.hook = self._see

    def servers(self, login: Login) -> str:
        return self._broker.bootstrap(login.listener)

    def _see(self, context: RequestContext, request: Request[Any]) -> None:
        if isinstance(request, ProduceRequest):
            self.producers.add((context.listener, context.principal))


@contextmanager
def secured(directory: Path) -> Iterator[Secured]:
    certificates, issuer = Certificates(directory), TokenIssuer()
    tls: dict[str, Any] = {"certfile": certificates.broker_keystore_pem}
    sasl: dict[str, Any] = {
        "mechanisms": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        "users": {USER: Secret(PASSWORD)},
        "oauth": JwksVerifier(json.loads(issuer.jwks()), audience=AUDIENCE, issuer="kclient tests"),
    }
    anybody = UnsecuredTokens(i_know_these_are_not_verified=True)
    listeners = [
        ListenerSpec("MTLS", "SSL", cafile=certificates.ca, client_auth="required", **tls),
        ListenerSpec("SASL", "SASL_PLAINTEXT", **sasl),
        ListenerSpec("SASL_TLS", "SASL_SSL", **tls, **sasl),
        ListenerSpec("UNSECURED", "SASL_PLAINTEXT", mechanisms=("OAUTHBEARER",), oauth=anybody),
    ]
    with staged(listeners=listeners) as stage:
        yield Secured(stage, certificates, issuer)


RIGHT = ("certificate", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "signed token", "unsecured token")


def right(house: Secured) -> dict[str, Login]:
    """Logins that are let in, by the names in `RIGHT`."""
    pem = house.certificates
    return {
        "certificate": Login(
            "MTLS", "SSL", ca=pem.ca, certificate=pem.client_certificate, key=pem.client_key
        ),
        "PLAIN": Login("SASL", "SASL_PLAINTEXT", "PLAIN", PASSWORD),
        "SCRAM-SHA-256": Login("SASL", "SASL_PLAINTEXT", "SCRAM-SHA-256", PASSWORD),
        "SCRAM-SHA-512": Login("SASL_TLS", "SASL_SSL", "SCRAM-SHA-512", PASSWORD, ca=pem.ca),
        "signed token": Login(
            "SASL_TLS", "SASL_SSL", "OAUTHBEARER", token=house.issuer.token(USER), ca=pem.ca
        ),
        "unsecured token": Login("UNSECURED", "SASL_PLAINTEXT", "OAUTHBEARER", token=unsecured_token(USER)),
    }


WRONG = (
    *("no certificate", "another CA", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    *("somebody else's token", "expired token", "token for others", "unsecured token"),
)


def wrong(house: Secured) -> dict[str, Login]:
    """Logins that are not, by the names in `WRONG`."""
    good = right(house)
    issuer = house.issuer
    foreign = type(issuer)().token(USER)
    return {
        "no certificate": replace(good["certificate"], certificate=None, key=None),
        "another CA": replace(good["certificate"], ca=house.certificates.other_ca),
        "PLAIN": replace(good["PLAIN"], password="guess"),
        "SCRAM-SHA-256": replace(good["SCRAM-SHA-256"], password="guess"),
        "SCRAM-SHA-512": replace(good["SCRAM-SHA-512"], password="guess"),
        "somebody else's token": replace(good["signed token"], token=foreign),
        "expired token": replace(good["signed token"], token=issuer.token(USER, lifetime=-60)),
        "token for others": replace(good["signed token"], token=issuer.token(USER, audience="others")),
        "unsecured token": replace(good["signed token"], token=unsecured_token(USER)),
    }
