"""The secured listeners a cluster can have, the identities they know, and how a client connects to each.

A cluster without security never imports this file, so plain brokers need no `cryptography`. A further kind
of listener is one more entry in `_BUILDERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.kafka.certificates import PASSWORD, Certificates
from tools.kafka.config import SCRAM_MECHANISMS, Listener
from tools.kafka.kerberos import REALM, SERVICE, SERVICE_HOST, Kdc
from tools.kafka.oidc import AUDIENCE, TokenIssuer, TokenServer
from tools.kafka.versions import KafkaVersion
from tools.kafka.workspace import Workspace

USERS: Mapping[str, str] = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER")
REAUTHENTICATION_MS = 4000

_MODULES = "org.apache.kafka.common.security"
_OAUTH_LOGIN = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"


class Security:
    """Which secured listeners the brokers of one cluster have: `Security("TLS", "SASL_SSL", acls=True)`.

    | listener | what it is |
    |---|---|
    | TLS | TLS, clients need no certificate |
    | MTLS | TLS, clients must show a certificate |
    | BADHOST | TLS with a certificate for another host name |
    | SASL_PLAINTEXT, SASL_SSL | PLAIN, SCRAM-SHA-256/512, OAUTHBEARER with unsecured tokens |
    | REAUTH | SASL in plain text; a session ends after four seconds unless renewed (KIP-368) |
    | OIDC | OAUTHBEARER in plain text with signed tokens, as handed out by `token_server` |
    | KRB | GSSAPI in plain text with tickets of `kdc`; needs krb5kdc, and is called localhost |

    With `acls`, everything is forbidden but to `admin` and to the PLAINTEXT listener (which the brokers
    themselves use).
    """

    def __init__(self, *listeners: str, acls: bool = False) -> None:
        unknown = [name for name in listeners if name not in _BUILDERS]
        if unknown:
            raise ValueError(
                f"no secured listener is called {unknown[0]!r}; there are {', '.join(_BUILDERS)}"
            )
        self.names = tuple(dict.fromkeys(listeners))
        self.acls = acls
        self.token_issuer = TokenIssuer()
        self._certificates: Certificates | None = None
        self._token_server: TokenServer | None = None
        self._kdc: Kdc | None = None
        self._directory: Path | None = None

    @classmethod
    def everything(cls, *, acls: bool = False) -> Security:
        """Every listener that needs no further software."""
        return cls(*(name for name in _BUILDERS if name != "KRB"), acls=acls)

    @property
    def certificates(self) -> Certificates:
        if self._certificates is None:
            raise RuntimeError("the certificates are made when the cluster starts: start it first")
        return self._certificates

    @property
    def token_server(self) -> TokenServer:
        if self._token_server is None:
            raise RuntimeError("there is a token server only while a cluster with the OIDC listener runs")
        return self._token_server

    @property
    def kdc(self) -> Kdc:
        if self._kdc is None:
            raise RuntimeError("there is a KDC only while a cluster with the KRB listener runs")
        return self._kdc

    def prepare(self, workspace: Workspace, version: KafkaVersion) -> None:
        """Make certificates and keys, start helpers; the cluster calls it before it writes configurations."""
        if "OIDC" in self.names and not version.has_oidc:
            raise ValueError(f"the OIDC listener needs Kafka 3.4 or newer, not {version}")
        if self._offers_scram() and not version.has_scram:
            raise ValueError(f"SCRAM needs Kafka 3.5 or newer, or one with ZooKeeper, not {version}")
        self._directory = directory = workspace.directory / "security"
        self._certificates = Certificates(directory)
        if "OIDC" in self.names:
            self._jwks().write_text(self.token_issuer.jwks())
            self._token_server = TokenServer(self.token_issuer, USERS)
        if "KRB" in self.names:
            self._kdc = Kdc(directory / "kerberos", workspace)

    def close(self) -> None:
        if self._kdc is not None:
            self._kdc.close()
            self._kdc = None
        if self._token_server is not None:
            self._token_server.close()
            self._token_server = None

    def listeners(self, version: KafkaVersion) -> list[Listener]:
        return [_BUILDERS[name](self, name, version) for name in self.names]

    def properties(self, version: KafkaVersion) -> dict[str, str]:
        """What belongs to the broker and not to one listener."""
        files = self.certificates
        properties = {
            **_keystore(files.broker_keystore_pem, files.broker_keystore_p12, version),
            **_truststore(files, version),
            # The name is searched anywhere in the subject: Java prints its parts in the reverse order.
            "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        }
        if self.acls:
            authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            if version.uses_zookeeper:
                authorizer = "kafka.security.authorizer.AclAuthorizer"
            properties["authorizer.class.name"] = authorizer
            properties["super.users"] = "User:ANONYMOUS;User:admin"
            properties["allow.everyone.if.no.acl.found"] = "false"
        return properties

    def jvm_flags(self) -> list[str]:
        flags = []
        if "OIDC" in self.names:
            # Kafka reads a key set only from places it is told to trust.
            allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
            flags += [f"{allowed}.urls=file://{self._jwks()}", f"{allowed}.files={self._jwks()}"]
        if "KRB" in self.names:
            flags += [f"-Djava.security.krb5.conf={self.kdc.config}"]
        return flags

    def scram_users(self) -> Mapping[str, str]:
        """Users whose SCRAM credentials the cluster has to store."""
        return USERS if self._offers_scram() else {}

    def client_properties(
        self, listener: str, *, user: str = "alice", password: str | None = None, mechanism: str | None = None
    ) -> dict[str, str]:
        """How librdkafka connects to a listener (the names are the Java client's wherever it has them)."""
        properties = {"security.protocol": _PROTOCOLS[listener]}
        if "SSL" in _PROTOCOLS[listener]:
            properties["ssl.ca.location"] = str(self.certificates.ca)
        if listener == "MTLS":
            properties["ssl.certificate.location"] = str(self.certificates.client_certificate)
            properties["ssl.key.location"] = str(self.certificates.client_key)
        if "SASL" in _PROTOCOLS[listener]:
            chosen = mechanism or _OWN_MECHANISM.get(listener, "PLAIN")
            properties["sasl.mechanism"] = chosen
            properties |= self._sasl_client(listener, chosen, user, password or USERS.get(user, ""))
        return properties

    def describe(self) -> list[tuple[str, str]]:
        """Identities and files, for people."""
        files = self.certificates
        rows = [("users (SASL)", " ".join(f"{name}:{password}" for name, password in USERS.items()))]
        rows += [("SASL mechanisms", " ".join(MECHANISMS))]
        rows += [
            ("certificate authority", str(files.ca)),
            ("client certificate", str(files.client_certificate)),
        ]
        rows += [("client key", str(files.client_key))]
        rows += [("client key, encrypted", f"{files.client_key_encrypted} (password {files.password})")]
        if self._token_server is not None:
            rows += [("token endpoint (OIDC)", self._token_server.url)]
        if self._kdc is not None:
            rows += [("environment (KRB)", f"KRB5_CONFIG={self._kdc.config}")]
            rows += [("keytab (KRB)", str(self._kdc.user_keytab))]
        return rows

    def _sasl_client(self, listener: str, mechanism: str, user: str, password: str) -> dict[str, str]:
        if listener == "OIDC":
            return {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": user,
                "sasl.oauthbearer.client.secret": password,
                "sasl.oauthbearer.token.endpoint.url": self.token_server.url,
            }
        if mechanism == "GSSAPI":
            return {"sasl.kerberos.service.name": SERVICE}
        if mechanism == "OAUTHBEARER":
            return {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={user}",
            }
        return {"sasl.username": user, "sasl.password": password}

    def _offers_scram(self) -> bool:
        return any(name in ("SASL_PLAINTEXT", "SASL_SSL", "REAUTH") for name in self.names)

    def _jwks(self) -> Path:
        assert self._directory is not None, "prepare() comes first"
        return self._directory / "jwks.json"

    def _tls_listener(self, name: str, _: KafkaVersion) -> Listener:
        return Listener(name, "SSL", {"ssl.client.auth": "required" if name == "MTLS" else "none"})

    def _badhost_listener(self, name: str, version: KafkaVersion) -> Listener:
        files = self.certificates
        store = _keystore(files.badhost_keystore_pem, files.badhost_keystore_p12, version)
        return Listener(name, "SSL", {"ssl.client.auth": "none", **store})

    def _sasl_listener(self, name: str, _: KafkaVersion) -> Listener:
        return Listener(name, _PROTOCOLS[name], {"ssl.client.auth": "none", **_login_modules()})

    def _reauth_listener(self, name: str, _: KafkaVersion) -> Listener:
        limits = {
            f"{mechanism.lower()}.connections.max.reauth.ms": str(REAUTHENTICATION_MS)
            for mechanism in MECHANISMS
        }
        return Listener(name, _PROTOCOLS[name], {**_login_modules(), **limits})

    def _oidc_listener(self, name: str, _: KafkaVersion) -> Listener:
        properties = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": _OAUTH_LOGIN,
            "oauthbearer.sasl.server.callback.handler.class": (
                f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{self._jwks()}",
            "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        return Listener(name, _PROTOCOLS[name], properties)

    def _kerberos_listener(self, name: str, _: KafkaVersion) -> Listener:
        login = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self.kdc.service_keytab}" principal="{SERVICE}/{SERVICE_HOST}@{REALM}";'
        )
        properties = {
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "gssapi.sasl.jaas.config": login,
        }
        return Listener(name, _PROTOCOLS[name], properties, advertised_host=SERVICE_HOST)


_PROTOCOLS = {
    "TLS": "SSL",
    "MTLS": "SSL",
    "BADHOST": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "REAUTH": "SASL_PLAINTEXT",
    "OIDC": "SASL_PLAINTEXT",
    "KRB": "SASL_PLAINTEXT",
}
_OWN_MECHANISM = {"OIDC": "OAUTHBEARER", "KRB": "GSSAPI"}
_BUILDERS: Mapping[str, Callable[[Security, str, KafkaVersion], Listener]] = {
    "TLS": Security._tls_listener,
    "MTLS": Security._tls_listener,
    "BADHOST": Security._badhost_listener,
    "SASL_PLAINTEXT": Security._sasl_listener,
    "SASL_SSL": Security._sasl_listener,
    "REAUTH": Security._reauth_listener,
    "OIDC": Security._oidc_listener,
    "KRB": Security._kerberos_listener,
}


def _login_modules() -> dict[str, str]:
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    modules = {
        "plain": f"{_MODULES}.plain.PlainLoginModule required {users};",
        "oauthbearer": _OAUTH_LOGIN,  # with no handler named, tokens need no signature
        **{
            mechanism.lower(): f"{_MODULES}.scram.ScramLoginModule required;"
            for mechanism in SCRAM_MECHANISMS
        },
    }
    return {f"{mechanism}.sasl.jaas.config": module for mechanism, module in modules.items()}


def _keystore(pem: Path, p12: Path, version: KafkaVersion) -> dict[str, str]:
    if version.reads_plain_pem_stores:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem)}
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(p12),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
    }


def _truststore(files: Certificates, version: KafkaVersion) -> dict[str, str]:
    if version.reads_plain_pem_stores:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(files.ca)}
    return {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(files.ca_p12),
        "ssl.truststore.password": PASSWORD,
    }
