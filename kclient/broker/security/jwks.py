"""Verifies signed tokens with the public keys of their issuer (RFC 7515, 7517): RS256 and ES256.

The algorithm is taken from a table, never from what the token asks for alone: a key serves the one
algorithm of its kind. Needs the `cryptography` package, which is imported when a verifier is made and not
before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from kclient.broker.security.tokens import Jwt, TokenRefusedError, VerifiedToken, base64url, check_times
from kclient.clock import Clock, SystemClock
from kclient.errors import ConfigurationError
from kclient.types import Secret

_MIN_RSA_BITS = 2048
_ES256_BYTES = 64
_NO_CRYPTOGRAPHY = (
    "OAUTHBEARER listeners verify signatures with the cryptography package, which is not installed: "
    "pip install 'kclient-kafka[broker]'"
)


_Check: TypeAlias = Callable[[bytes, bytes], bool]  # whether the key made this signature of these bytes


class _Key(NamedTuple):
    kid: str | None
    algorithm: str
    signed_by: _Check


class JwksVerifier:
    """Accepts tokens that one of `jwks`'s keys signed, for this audience and from this issuer.

    `jwks` is the key set or the path of a file with it. `audience` and `issuer` have no default: None
    accepts tokens for whomever, or from whomever, the keys are used, and has to be said.
    """

    def __init__(
        self,
        jwks: Mapping[str, Any] | str | PathLike[str],
        *,
        audience: str | Sequence[str] | None,
        issuer: str | None,
        clock: Clock | None = None,
    ) -> None:
        self._keys = _read_keys(jwks)
        self._audiences = (audience,) if isinstance(audience, str) else audience
        self._issuer = issuer
        self._clock = clock or SystemClock()
        if audience is not None and not audience:
            raise ConfigurationError("audience is empty: name one, or say None to accept tokens for anybody")

    def __repr__(self) -> str:
        return f"<JwksVerifier {len(self._keys)} keys, audience {self._audiences}, issuer {self._issuer!r}>"

    def verify(self, token: Secret, /) -> VerifiedToken:
        jwt = Jwt.parse(token)
        algorithm, kid = jwt.algorithm, jwt.header.get("kid")
        fitting = [
            key for key in self._keys if key.algorithm == algorithm and (kid is None or kid == key.kid)
        ]
        if not any(key.signed_by(jwt.signed, jwt.signature) for key in fitting):
            raise TokenRefusedError(f"none of {len(fitting)} fitting keys signed the token")
        self._check_parties(jwt)
        return check_times(jwt, self._clock.wall())

    def _check_parties(self, jwt: Jwt) -> None:
        if self._issuer is not None and jwt.claims.get("iss") != self._issuer:
            raise TokenRefusedError("the token is from another issuer")
        if self._audiences is not None:
            given = jwt.claims.get("aud")
            intended = [given] if isinstance(given, str) else given if isinstance(given, list) else []
            if not any(audience in intended for audience in self._audiences):
                raise TokenRefusedError("the token is for another audience")


def _read_keys(jwks: Mapping[str, Any] | str | PathLike[str]) -> list[_Key]:
    if not isinstance(jwks, Mapping):
        try:
            jwks = json.loads(Path(jwks).read_bytes())
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"no JSON key set can be read from {str(jwks)!r}") from error
    entries = jwks.get("keys") if isinstance(jwks, Mapping) else None
    if not isinstance(entries, (list, tuple)):
        raise ConfigurationError("a JSON key set is an object with a list of 'keys'")
    crypto = _cryptography()
    keys = [key for entry in entries if (key := _read_key(crypto, entry)) is not None]
    if not keys:
        raise ConfigurationError(
            f"none of the {len(entries)} keys verifies RS256 "
            f"(RSA, {_MIN_RSA_BITS} bits or more) or ES256 (P-256)"
        )
    return keys


def _read_key(crypto: Any, entry: Any) -> _Key | None:
    """The key, or None for one of another kind or purpose: sets hold such as well."""
    if not isinstance(entry, Mapping) or entry.get("use", "sig") != "sig":
        return None
    algorithm, reader = _KINDS.get(entry.get("kty"), ("", _rsa))
    if not algorithm or entry.get("alg", algorithm) != algorithm:
        return None
    try:
        signed_by = reader(crypto, entry)
    except (KeyError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"the key {entry.get('kid')!r} of the key set is malformed") from error
    return None if signed_by is None else _Key(entry.get("kid"), algorithm, signed_by)


def _rsa(crypto: Any, entry: Mapping[str, Any]) -> _Check | None:
    numbers = crypto.rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"]))
    if numbers.n.bit_length() < _MIN_RSA_BITS:
        return None
    key = numbers.public_key()

    def signed_by(signed: bytes, signature: bytes) -> bool:
        try:
            key.verify(signature, signed, crypto.padding.PKCS1v15(), crypto.hashes.SHA256())
        except crypto.InvalidSignature:
            return False
        return True

    return signed_by


def _p256(crypto: Any, entry: Mapping[str, Any]) -> _Check | None:
    if entry.get("crv") != "P-256":
        return None
    curve = crypto.ec.SECP256R1()
    key = crypto.ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), curve).public_key()

    def signed_by(signed: bytes, signature: bytes) -> bool:
        if len(signature) != _ES256_BYTES:
            return False
        half = _ES256_BYTES // 2
        r, s = int.from_bytes(signature[:half]), int.from_bytes(signature[half:])
        try:
            key.verify(crypto.encode_dss_signature(r, s), signed, crypto.ec.ECDSA(crypto.hashes.SHA256()))
        except crypto.InvalidSignature:
            return False
        return True

    return signed_by


_KINDS: Mapping[Any, tuple[str, Callable[[Any, Mapping[str, Any]], _Check | None]]] = {
    "RSA": ("RS256", _rsa),
    "EC": ("ES256", _p256),
}


def _number(text: str) -> int:
    data = base64url(text)
    if data is None:
        raise ValueError("not base64url")
    return int.from_bytes(data)


def _cryptography() -> Any:
    try:
        from kclient.broker.security import _cryptography as found  # noqa: PLC0415 - an optional package
    except ImportError as error:
        raise ConfigurationError(_NO_CRYPTOGRAPHY) from error
    return found
