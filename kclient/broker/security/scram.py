"""The server half of SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677). Driven by `sasl_server`.

A name that nobody has goes through the whole exchange, with a decoy in the place of a credential, so that
names cannot be found out. Delegation tokens (`tokenauth=true`) are not known yet and fare the same. As in
Kafka, names are ASCII.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

from kclient.broker.security.exchange import Proven, RefusedError
from kclient.broker.security.users import HASHES, ScramCredential, UserStore

_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_EXTENSIONS = rb"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_NONCE = rb"[\x21-\x2b\x2d-\x7e]+"
_FIRST = re.compile(
    rb"(?P<header>n,(?:a=(?P<act_as>" + _NAME + rb"))?,)"
    rb"(?P<bare>n=(?P<user>"
    + _NAME
    + rb"),r=(?P<nonce>"
    + _NONCE
    + rb")(?P<extensions>"
    + _EXTENSIONS
    + rb"))"
)
_FINAL = re.compile(
    rb"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/]+={0,2}),r=(?P<nonce>" + _NONCE + rb")" + _EXTENSIONS + rb")"
    rb",p=(?P<proof>[A-Za-z0-9+/]+={0,2})"
)
_MOST_BYTES = 16_384  # many times what a name, a nonce and a proof need


class _Begun(NamedTuple):
    user: str
    known: bool
    credential: ScramCredential
    header: bytes
    nonce: bytes
    said: bytes


class ScramExchange:
    """Two messages: the first names the user, the second proves that the password is known."""

    def __init__(self, mechanism: str, users: UserStore, new_nonce: Callable[[], str]) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._users = users
        self._new_nonce = new_nonce
        self._begun: _Begun | None = None

    def step(self, message: bytes, /) -> bytes | Proven:
        begun, self._begun = self._begun, None
        if len(message) > _MOST_BYTES:
            raise RefusedError
        return self._challenge(message) if begun is None else self._verdict(message, begun)

    def _challenge(self, message: bytes) -> bytes:
        found = _FIRST.fullmatch(message)
        if found is None:
            raise RefusedError
        user = _unescaped(found["user"])
        # Also for names that nobody has: Kafka says this only of names that exist, and so tells which do.
        if found["act_as"] is not None and _unescaped(found["act_as"]) != user:
            raise RefusedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        is_token = b"tokenauth=true" in found["extensions"].lower().split(b",")
        known = None if is_token else self._users.credential(user, self._mechanism)
        credential = known or self._users.decoy(user, self._mechanism)
        nonce = found["nonce"] + self._new_nonce().encode()
        salt = base64.b64encode(credential.salt)
        answer = b"r=%b,s=%b,i=%d" % (nonce, salt, credential.iterations)
        self._begun = _Begun(
            user, known is not None, credential, found["header"], nonce, b"%b,%b" % (found["bare"], answer)
        )
        return answer

    def _verdict(self, message: bytes, begun: _Begun) -> Proven:
        found = _FINAL.fullmatch(message)
        if found is None or _decoded(found["binding"]) != begun.header:
            raise RefusedError
        # Equal by the RFC, but librdkafka before 2.6.1 puts its own part in front once more, and Kafka lets
        # it. What counts against replays is there all the same: our part, fresh, and covered by the proof.
        if not found["nonce"].endswith(begun.nonce):
            raise RefusedError
        said = b"%b,%b" % (begun.said, found["unproven"])
        credential = begun.credential
        mask = hmac.digest(credential.stored_key, said, self._hash)
        proof = _decoded(found["proof"])
        if len(proof) != len(mask):
            raise RefusedError
        client_key = bytes(one ^ other for one, other in zip(proof, mask, strict=True))
        fits = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key)
        signature = hmac.digest(credential.server_key, said, self._hash)
        if not fits or not begun.known:
            raise RefusedError
        return Proven(begun.user, b"v=" + base64.b64encode(signature))


def _unescaped(name: bytes) -> str:
    return name.decode("ascii").replace("=2C", ",").replace("=3D", "=")


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise RefusedError from error
