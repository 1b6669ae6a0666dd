"""OAuth tokens for the OIDC listener: an issuer that signs them, a small HTTP server that hands them out."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tools.kafka.ports import HOST

AUDIENCE = "kafka"
_KEY_ID = "test-key"


class TokenIssuer:
    """Signs JSON web tokens (RS256) with a key of its own. A second issuer makes tokens that must be
    refused. `issued` are all it has made.
    """

    def __init__(self) -> None:
        self.issued: list[str] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, subject: str, *, audience: str = AUDIENCE, lifetime: float = 300) -> str:
        """A signed token; a negative lifetime makes one that has already expired."""
        expires = int(time.time() + lifetime)
        claims: dict[str, object] = {
            "sub": subject,
            "aud": audience,
            "iss": "kclient tests",
            "scope": "kafka",
        }
        times: dict[str, object] = {"iat": min(int(time.time()), expires - 1), "exp": expires}
        signed = f"{_encode({'alg': 'RS256', 'typ': 'JWT', 'kid': _KEY_ID})}.{_encode(claims | times)}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        self.issued.append(f"{signed}.{_base64(signature)}")
        return self.issued[-1]

    def jwks(self) -> str:
        """The public key in the form that brokers read."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID}
        key |= {"n": _base64(_big_endian(numbers.n)), "e": _base64(_big_endian(numbers.e))}
        return json.dumps({"keys": [key]})


def unsecured_token(subject: str, *, lifetime: float = 300) -> str:
    """A token without a signature: good for listeners that do not ask for one, and for no other."""
    expires = time.time() + lifetime
    claims = {"sub": subject, "scope": "kafka", "iat": min(time.time(), expires - 1), "exp": expires}
    return f"{_encode({'alg': 'none'})}.{_encode(claims)}."


class TokenServer:
    """POST /token (client credentials) and GET /jwks on a free port; a context manager."""

    def __init__(self, issuer: TokenIssuer, clients: Mapping[str, str]) -> None:
        handler = type("TokenHandler", (_TokenHandler,), {"issuer": issuer, "clients": dict(clients)})
        self._server = ThreadingHTTPServer((HOST, 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="token-server", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}/token"

    @property
    def jwks_url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}/jwks"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> TokenServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _TokenHandler(BaseHTTPRequestHandler):
    issuer: TokenIssuer
    clients: dict[str, str]

    def do_GET(self) -> None:
        if self.path == "/jwks":
            self._answer(200, self.issuer.jwks())
        else:
            self._answer(404, json.dumps({"error": "not_found"}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = dict(urllib.parse.parse_qsl(body))
        name, secret = self._credentials(form)
        if self.path != "/token" or form.get("grant_type") != "client_credentials":
            self._answer(400, json.dumps({"error": "unsupported_grant_type"}))
        elif name not in self.clients or self.clients[name] != secret:
            self._answer(401, json.dumps({"error": "invalid_client"}))
        else:
            token = self.issuer.token(name)
            self._answer(200, json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 300}))

    def _credentials(self, form: Mapping[str, str]) -> tuple[str, str]:
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind == "Basic":
            name, _, secret = base64.b64decode(value).decode().partition(":")
            return urllib.parse.unquote(name), urllib.parse.unquote(secret)
        return form.get("client_id", ""), form.get("client_secret", "")

    def _answer(self, status: int, body: str) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Say nothing: the test's output is not the place."""


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encode(content: Mapping[str, object]) -> str:
    return _base64(json.dumps(content).encode())


def _big_endian(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
