"""SCRAM: the vectors of the RFCs, a server half of our own, and servers that mean harm."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import AuthenticationError, ConfigurationError, SaslAuthenticationFailedError
from kclient.net.sasl import Conversation, Scram
from kclient.types import Secret

_NONCE = "rOprNGfwEbeRWgbNEkqO"  # of RFC 7677
_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def _fixed_nonce(_: int) -> bytes:
    return base64.b64decode(_NONCE)


def _scram(
    user: str = "user", password: str = "pencil", mechanism: str = "SCRAM-SHA-256", **options: Any
) -> Scram:
    return Scram(mechanism, user, Secret(password), **options)


def _talk(scram: Scram) -> Conversation:
    return Conversation(asyncio.run(scram.exchange("broker")))


class Server:
    """The other side, written from RFC 5802 without looking at the client."""

    def __init__(
        self,
        password: str,
        hash_name: str = "sha256",
        iterations: int = 4096,
        salt: bytes = b"salt of the server",
    ) -> None:
        self.hash_name = hash_name
        self.iterations = iterations
        self.salt = salt
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        self.stored_key = hashlib.new(hash_name, self._hmac(salted, b"Client Key")).digest()
        self.server_key = self._hmac(salted, b"Server Key")
        self.user = self.bare = self.first = b""

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self.hash_name).digest()

    def challenge(self, client_first: bytes) -> bytes:
        assert client_first.startswith(b"n,,")
        self.bare = client_first[3:]
        fields = dict(part.split(b"=", 1) for part in self.bare.split(b","))
        self.user = fields[b"n"]
        salt = base64.b64encode(self.salt)
        self.first = b"r=" + fields[b"r"] + b"server,s=" + salt + b",i=" + str(self.iterations).encode()
        return self.first

    def verdict(self, client_final: bytes) -> bytes:
        without_proof, _, proof = client_final.rpartition(b",p=")
        said = b",".join((self.bare, self.first, without_proof))
        signature = self._hmac(self.stored_key, said)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.hash_name, key).digest() != self.stored_key:
            return b"e=invalid-proof"
        return b"v=" + base64.b64encode(self._hmac(self.server_key, said))


def _log_in(scram: Scram, server: Server) -> Conversation:
    talk = _talk(scram)
    final = talk.answer(server.challenge(talk.start()))
    assert final is not None
    assert talk.answer(server.verdict(final)) is None
    return talk


def test_the_exchange_of_rfc_7677_is_reproduced_byte_by_byte() -> None:
    talk = _talk(_scram(random_bytes=_fixed_nonce))
    assert talk.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert talk.answer(_SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert talk.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize(
    ("mechanism", "hash_name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")]
)
def test_client_and_server_convince_each_other(mechanism: str, hash_name: str) -> None:
    assert _log_in(_scram(mechanism=mechanism), Server("pencil", hash_name, 5000)).done


def test_every_exchange_has_a_nonce_of_its_own() -> None:
    scram = _scram()
    assert len({_talk(scram).start() for _ in range(50)}) == 50


def test_commas_and_equals_signs_in_names_are_escaped() -> None:
    server = Server("pencil")
    _log_in(_scram("a,b=c"), server)
    assert server.user == b"a=2Cb=3Dc"


def test_a_delegation_token_is_announced_as_one() -> None:
    talk = _talk(_scram(random_bytes=_fixed_nonce, delegation_token=True))
    assert talk.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO,tokenauth=true"
    assert _log_in(_scram(delegation_token=True), Server("pencil")).done


def test_the_password_is_prepared_only_where_that_is_asked_for() -> None:
    assert _log_in(_scram(password="pen\u00adcil", saslprep=True), Server("pencil")).done
    assert _log_in(_scram(password="\uff50encil"), Server("\uff50encil")).done


def test_a_refused_password_that_preparation_changed_gets_a_hint() -> None:
    for password, hinted in (("\uff50encil", True), ("pencil", False)):
        talk = _talk(_scram(password=password, saslprep=True))
        talk.answer(Server("pencil").challenge(talk.start()))
        error = talk.refused(SaslAuthenticationFailedError("no"))
        assert isinstance(error, AuthenticationError)
        assert ("SASLprep" in str(error)) is hinted


@pytest.mark.parametrize("password", ["", "bell\u0007", "\u00ad", "half\ud800"])
def test_a_password_that_cannot_be_used_is_a_configuration_error(password: str) -> None:
    with pytest.raises(ConfigurationError, match="password for SCRAM"):
        _scram(password=password, saslprep=True)


def test_an_unknown_mechanism_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="SCRAM-SHA-256, SCRAM-SHA-512"):
        _scram(mechanism="SCRAM-SHA-1")


def test_keys_are_derived_once_per_salt_and_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[bytes] = []
    original = hashlib.pbkdf2_hmac

    def counting(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        derived.append(salt)
        return original(name, password, salt, iterations)

    servers = [Server("pencil", salt=b"salt %d" % number) for number in range(6)]
    scram = _scram()
    monkeypatch.setattr("kclient.net.sasl.scram.hashlib.pbkdf2_hmac", counting)
    for server in servers:
        _log_in(scram, server)
        _log_in(scram, server)
    assert derived == [server.salt for server in servers]
    assert len(scram._derived) == 4


_GOOD = b"r=" + _NONCE.encode() + b"x,s=c2FsdA==,i=4096"


@pytest.mark.parametrize(
    ("first", "complaint"),
    [
        (b"", "malformed"),
        (b"r=other-nonce,s=c2FsdA==,i=4096", "nonce"),
        (b"r=" + _NONCE.encode() + b",s=c2FsdA==,i=4096", "nonce"),
        (_GOOD.replace(b"i=4096", b"i=4095"), "asks for 4095"),
        (_GOOD.replace(b"i=4096", b"i=0"), "asks for 0"),
        (_GOOD.replace(b"i=4096", b"i=1000001"), "asks for 1000001"),
        (_GOOD.replace(b"i=4096", b"i=" + b"9" * 100_000), "asks for 9999999999"),
        (_GOOD.replace(b"i=4096", b"i=-4096"), "malformed"),
        (_GOOD.replace(b"i=4096", b"i=0x1000"), "malformed"),
        (_GOOD.replace(b",i=4096", b""), "malformed"),
        (_GOOD.replace(b"s=c2FsdA==,", b""), "malformed"),
        (_GOOD.replace(b"c2FsdA==", b"c2FsdA="), "malformed"),
        (_GOOD.replace(b"c2FsdA==", b""), "malformed"),
        (b"m=must-understand," + _GOOD, "malformed"),
        (b"\xff\xfe" + _GOOD, "malformed"),
        (b"r=" + _NONCE.encode() + b"\xff,s=c2FsdA==,i=4096", "malformed"),
        (b"e=unknown-user", "refuses the SCRAM login: unknown-user"),
        (b"r=" * 200_000, "malformed"),
    ],
)
def test_a_bad_first_answer_is_refused(first: bytes, complaint: str) -> None:
    talk = _talk(_scram(random_bytes=_fixed_nonce))
    talk.start()
    with pytest.raises(AuthenticationError, match=complaint) as caught:
        talk.answer(first)
    assert type(caught.value) is AuthenticationError


@pytest.mark.parametrize(
    ("forge", "complaint"),
    [
        (lambda _: b"", "malformed"),
        (lambda _: b"v=", "malformed"),
        (lambda _: b"v=not base64", "malformed"),
        (lambda _: b"v=AAA", "malformed"),
        (lambda _: b"\x80\x81", "malformed"),
        (lambda verdict: verdict[:-8] + b"AAAAAAA=", "may be an impostor"),
        (lambda _: b"v=AAAA", "may be an impostor"),
        (lambda _: b"e=invalid-proof", "refuses the SCRAM login: invalid-proof"),
        (lambda _: b"e=\x1b[31m\xff\n" + b"x" * 1000, r"refuses the SCRAM login: \?\[31m"),
        (lambda _: _GOOD, "malformed"),
    ],
)
def test_a_bad_final_answer_is_refused(forge: Callable[[bytes], bytes], complaint: str) -> None:
    server = Server("pencil")
    talk = _talk(_scram())
    final = talk.answer(server.challenge(talk.start()))
    assert final is not None
    with pytest.raises(AuthenticationError, match=complaint) as caught:
        talk.answer(forge(server.verdict(final)))
    assert type(caught.value) is AuthenticationError
    assert len(str(caught.value)) < 300


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    server = Server("something else")
    talk = _talk(_scram())
    final = talk.answer(server.challenge(talk.start()))
    assert final is not None
    server.stored_key = b""  # it pretends to be convinced
    said = b",".join((server.bare, server.first, final.rpartition(b",p=")[0]))
    with pytest.raises(AuthenticationError, match="impostor"):
        talk.answer(b"v=" + base64.b64encode(server._hmac(server.server_key, said)))


def test_extensions_of_the_server_are_passed_over() -> None:
    server = Server("pencil")
    talk = _talk(_scram())
    server.first = server.challenge(talk.start()) + b",x=future"
    final = talk.answer(server.first)
    assert final is not None
    assert talk.answer(server.verdict(final) + b",y=more") is None


def test_the_most_iterations_that_are_accepted_take_bounded_time() -> None:
    talk = _talk(_scram(mechanism="SCRAM-SHA-512", random_bytes=_fixed_nonce))
    talk.start()
    began = time.monotonic()
    talk.answer(_GOOD.replace(b"i=4096", b"i=1000000"))
    assert time.monotonic() - began < 20


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda noise: _GOOD + noise))
def test_no_first_answer_raises_anything_but_an_authentication_error(answer: bytes) -> None:
    talk = _talk(_scram(random_bytes=_fixed_nonce))
    talk.start()
    try:
        assert talk.answer(answer) is not None
    except AuthenticationError:
        assert talk.done
