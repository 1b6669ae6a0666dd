"""Tokens that are signed: keys, algorithms, audiences and issuers, and the tricks played with them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from kclient.broker.security import JwksVerifier, TokenRefusedError, VerifiedToken
from kclient.errors import ConfigurationError
from kclient.net.sasl import OAuthBearer
from kclient.types import Secret
from tests.unit.broker.security.support import NOW, FakeClock, encoded, peer, unsecured

ANY: dict[str, Any] = {"audience": None, "issuer": None}
ALICE = VerifiedToken("alice", NOW + 100)


class Issuer:
    """Signs tokens with one key, of either kind."""

    def __init__(self, algorithm: str = "RS256", kid: str | None = "k1", bits: int = 2048) -> None:
        self.algorithm = algorithm
        self.kid = kid
        self.rsa = rsa.generate_private_key(65537, bits)
        self.ec = ec.generate_private_key(ec.SECP256R1())

    def jwk(self, **changes: Any) -> dict[str, Any]:
        if self.algorithm == "RS256":
            numbers = self.rsa.public_key().public_numbers()
            key = {"kty": "RSA", "n": _big(numbers.n), "e": _big(numbers.e)}
        else:
            point = self.ec.public_key().public_numbers()
            key = {"kty": "EC", "crv": "P-256", "x": _big(point.x, 32), "y": _big(point.y, 32)}
        if self.kid is not None:
            key["kid"] = self.kid
        return {**key, **changes}

    def token(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        kid = {} if self.kid is None else {"kid": self.kid}
        body = {"sub": "alice", "aud": "kafka", "iss": "us", "exp": NOW + 100, **claims}
        signed = f"{encoded({'alg': self.algorithm, **kid, **(header or {})})}.{encoded(body)}"
        return f"{signed}.{encoded(self._sign(signed.encode()))}"

    def _sign(self, signed: bytes) -> bytes:
        if self.algorithm == "RS256":
            return self.rsa.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        r, s = decode_dss_signature(self.ec.sign(signed, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32) + s.to_bytes(32)


def _big(number: int, size: int | None = None) -> str:
    return encoded(number.to_bytes(size or (number.bit_length() + 7) // 8))


@cache
def _issuer(algorithm: str = "RS256", which: int = 1) -> Issuer:
    return Issuer(algorithm, f"k{which}")


def _verifier(*keys: dict[str, Any], **options: Any) -> JwksVerifier:
    return JwksVerifier({"keys": list(keys)}, clock=FakeClock(), **(ANY | options))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_token_signed_by_a_known_key_is_accepted(algorithm: str) -> None:
    issuer = _issuer(algorithm)
    verifier = _verifier(issuer.jwk(), audience="kafka", issuer="us")
    assert verifier.verify(Secret(issuer.token())) == ALICE


def test_a_client_logs_in_with_a_signed_token() -> None:
    issuer = _issuer()
    found = peer("OAUTHBEARER", oauth=_verifier(issuer.jwk(), audience="kafka"))
    assert found.log_in(OAuthBearer(issuer.token)).session_lifetime_ms == 100_000
    assert found.server.principal == "User:alice"
    refused = peer("OAUTHBEARER", oauth=_verifier(issuer.jwk(), audience="kafka"))
    first = asyncio.run(OAuthBearer(lambda: issuer.token(aud="other")).exchange("broker")).send(None)  # type: ignore[arg-type]
    assert refused.begin("OAUTHBEARER", first).auth_bytes == b'{"status":"invalid_token"}'
    assert not refused.server.authenticated


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_token_that_was_changed_or_signed_by_another_is_refused(algorithm: str) -> None:
    issuer, other = _issuer(algorithm), Issuer(algorithm, "k1")
    verifier = _verifier(issuer.jwk())
    header, claims, signature = issuer.token().split(".")
    forged = encoded({"sub": "admin", "exp": NOW + 100})
    raw = base64.urlsafe_b64decode(signature + "==")
    for token in (
        other.token(),
        f"{header}.{forged}.{signature}",
        f"{header}.{claims}.",
        f"{header}.{claims}.{encoded(raw[:-1])}",
        f"{header}.{claims}.{encoded(raw + b'x')}",
        f"{header}.{claims}.{encoded(bytes(len(raw)))}",
        f"{header}.{claims}.{encoded(bytes(500_000))}",
    ):
        with pytest.raises(TokenRefusedError):
            verifier.verify(Secret(token))


def test_the_algorithm_none_is_refused() -> None:
    verifier = _verifier(_issuer().jwk())
    _, claims, signature = _issuer().token().split(".")
    for algorithm in ("none", "None", "NONE", "", None, ["RS256"], 1):
        for ending in ("", signature):
            with pytest.raises(TokenRefusedError):
                verifier.verify(Secret(f"{encoded({'alg': algorithm})}.{claims}.{ending}"))
    with pytest.raises(TokenRefusedError):
        verifier.verify(Secret(unsecured()))


def test_a_public_key_is_not_taken_for_a_shared_secret() -> None:
    issuer = _issuer()
    public = issuer.rsa.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signed = f"{encoded({'alg': 'HS256', 'kid': 'k1'})}.{issuer.token().split('.')[1]}"
    forged = f"{signed}.{encoded(hmac.digest(public, signed.encode(), hashlib.sha256))}"
    with pytest.raises(TokenRefusedError):
        _verifier(issuer.jwk()).verify(Secret(forged))


def test_a_key_in_the_token_itself_is_not_believed() -> None:
    attacker = Issuer("RS256", "k1")
    for header in (
        {"jwk": attacker.jwk()},
        {"jku": "https://evil.example/jwks"},
        {"x5u": "file:///etc/passwd"},
    ):
        with pytest.raises(TokenRefusedError):
            _verifier(_issuer().jwk()).verify(Secret(attacker.token(header)))


def test_a_key_of_one_kind_does_not_serve_the_algorithm_of_another() -> None:
    token = _issuer("ES256").token({"alg": "RS256"})
    with pytest.raises(TokenRefusedError):
        _verifier(_issuer("RS256").jwk(), _issuer("ES256").jwk()).verify(Secret(token))


def test_the_key_is_chosen_by_its_id() -> None:
    first, second = _issuer(which=1), _issuer(which=2)
    verifier = _verifier(first.jwk(), second.jwk())
    assert verifier.verify(Secret(second.token())) == ALICE
    for kid in ("k1", "k3", ["k2"], {"k2": 1}, 2):
        with pytest.raises(TokenRefusedError):
            verifier.verify(Secret(second.token({"kid": kid})))


def test_without_an_id_every_key_of_the_kind_is_tried() -> None:
    nameless = Issuer("ES256", None)
    verifier = _verifier(_issuer("ES256").jwk(), _issuer().jwk(), nameless.jwk())
    assert verifier.verify(Secret(nameless.token())) == ALICE


@pytest.mark.parametrize("audience", ["other", ["other"], [], None, {"kafka": 1}, 7, ["kafk"], "kafka "])
def test_a_token_for_another_audience_is_refused(audience: object) -> None:
    with pytest.raises(TokenRefusedError, match="audience"):
        _verifier(_issuer().jwk(), audience="kafka").verify(Secret(_issuer().token(aud=audience)))


def test_one_common_audience_is_enough() -> None:
    verifier = _verifier(_issuer().jwk(), audience=["kafka", "events"])
    assert verifier.verify(Secret(_issuer().token(aud=["web", "events"]))) == ALICE
    assert verifier.verify(Secret(_issuer().token(aud="kafka"))) == ALICE


@pytest.mark.parametrize("issuer", ["them", None, ["us"], ""])
def test_a_token_from_another_issuer_is_refused(issuer: object) -> None:
    with pytest.raises(TokenRefusedError, match="issuer"):
        _verifier(_issuer().jwk(), issuer="us").verify(Secret(_issuer().token(iss=issuer)))


def test_times_are_checked_of_signed_tokens_too() -> None:
    verifier = _verifier(_issuer().jwk())
    for claims in ({"exp": NOW}, {"exp": None}, {"nbf": NOW + 31}, {"sub": ""}):
        with pytest.raises(TokenRefusedError):
            verifier.verify(Secret(_issuer().token(**claims)))


def test_a_key_set_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [_issuer().jwk()]}))
    assert JwksVerifier(path, clock=FakeClock(), **ANY).verify(Secret(_issuer().token())) == ALICE
    path.write_text("{")
    for wrong in (path, tmp_path / "absent.json", str(tmp_path)):
        with pytest.raises(ConfigurationError, match="no JSON key set"):
            JwksVerifier(wrong, **ANY)


@pytest.mark.parametrize("jwks", [{}, {"keys": None}, {"keys": {}}, {"keys": []}, {"keys": [7, None, "x"]}])
def test_a_verifier_without_keys_cannot_be_made(jwks: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        JwksVerifier(jwks, **ANY)


def test_keys_for_other_purposes_are_passed_over() -> None:
    rsa_key, ec_key = _issuer().jwk(), _issuer("ES256").jwk()
    for other in (
        rsa_key | {"use": "enc"},
        rsa_key | {"alg": "PS256"},
        ec_key | {"crv": "P-384"},
        {"kty": "oct", "k": "c2VjcmV0"},
        Issuer(bits=1024).jwk(),
    ):
        with pytest.raises(ConfigurationError, match="none of the 1 keys"):
            _verifier(other)
        assert _verifier(other, rsa_key).verify(Secret(_issuer().token())) == ALICE


@pytest.mark.parametrize("change", [{"n": "!"}, {"n": None}, {"n": 7}, {"e": "AA"}])
def test_a_malformed_key_is_named(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="'k1' of the key set is malformed"):
        _verifier(_issuer().jwk(**change))


def test_a_point_that_is_not_on_the_curve_is_no_key() -> None:
    with pytest.raises(ConfigurationError, match="malformed"):
        _verifier(_issuer("ES256").jwk(x=_big(5, 32)))


def test_an_empty_audience_is_a_mistake() -> None:
    for nobody in ("", ()):
        with pytest.raises(ConfigurationError, match="audience is empty"):
            _verifier(_issuer().jwk(), audience=nobody)


def test_without_cryptography_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kclient.broker.security._cryptography", raising=False)
    monkeypatch.delattr("kclient.broker.security._cryptography", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ConfigurationError, match=r"kclient-kafka\[broker\]"):
        _verifier(_issuer().jwk())
