"""GSSAPI, with a security context made up for the purpose."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest

from kclient.errors import AuthenticationError, ConfigurationError, KafkaConnectionError, KafkaError
from kclient.net.sasl import Conversation, Gssapi

_OFFER = b"\x07\x01\x00\x00"  # every layer, at most 65536 bytes


class Context:
    """Completes after it has been fed some tokens; wraps by a prefix."""

    def __init__(self, answers: int = 1, last: bytes | None = None) -> None:
        self.complete = answers == 0
        self._answers = answers
        self._last = last
        self.seen: list[bytes] = []

    def step(self, token: bytes | None = None) -> bytes | None:
        if token is None:
            return b"ticket"
        if token == b"forged":
            raise ValueError("message stream modified")
        self.seen.append(token)
        self.complete = len(self.seen) == self._answers
        return self._last if self.complete else b"more"

    def wrap(self, message: bytes, encrypt: bool) -> SimpleNamespace:
        assert not encrypt
        return SimpleNamespace(message=b"signed:" + message)

    def unwrap(self, message: bytes) -> SimpleNamespace:
        if not message.startswith(b"signed:"):
            raise ValueError("invalid signature")
        return SimpleNamespace(message=message.removeprefix(b"signed:"))


def _talk(context: Context, **options: str) -> Conversation:
    gssapi = Gssapi(open_context=lambda _service, _host: context, **options)
    return Conversation(asyncio.run(gssapi.exchange("broker-1.example.com")))


def test_client_and_broker_prove_themselves_then_agree_on_no_security_layer() -> None:
    context = Context()
    talk = _talk(context)
    assert talk.start() == b"ticket"
    assert talk.answer(b"proof of the broker") == b""
    assert talk.answer(b"signed:" + _OFFER) == b"signed:\x01\x00\x00\x00"
    assert talk.answer(b"") is None
    assert context.seen == [b"proof of the broker"]


def test_a_last_token_of_the_client_is_sent_before_the_layers_are_settled() -> None:
    talk = _talk(Context(last=b"last token"))
    talk.start()
    assert talk.answer(b"proof") == b"last token"
    assert talk.answer(b"signed:" + _OFFER) == b"signed:\x01\x00\x00\x00"


def test_a_context_that_is_complete_at_once_needs_no_proof() -> None:
    talk = _talk(Context(answers=0), authzid="alice")
    assert talk.start() == b"ticket"
    assert talk.answer(b"signed:" + _OFFER) == b"signed:\x01\x00\x00\x00alice"


@pytest.mark.parametrize(("domain", "host"), [({}, "broker-1.example.com"), ({"domain_name": "all"}, "all")])
def test_the_ticket_is_for_the_service_on_the_brokers_host(domain: dict[str, str], host: str) -> None:
    asked: list[tuple[str, str]] = []

    def open_context(service: str, name: str) -> Context:
        asked.append((service, name))
        return Context()

    asyncio.run(Gssapi("kafka-prod", open_context=open_context, **domain).exchange("broker-1.example.com"))
    assert asked == [("kafka-prod", host)]


@pytest.mark.parametrize(
    ("offer", "complaint"),
    [
        (b"\x07\x01\x00\x00", "not genuine: invalid signature"),
        (b"signed:\x06\x01\x00\x00", "insists on a GSSAPI security layer"),
        (b"signed:", "has 0 bytes"),
        (b"signed:\x07\x00", "has 2 bytes"),
        (b"", "not genuine"),
    ],
)
def test_a_bad_offer_of_layers_is_refused(offer: bytes, complaint: str) -> None:
    talk = _talk(Context())
    talk.start()
    talk.answer(b"proof")
    with pytest.raises(AuthenticationError, match=complaint):
        talk.answer(offer)


def test_a_forged_proof_is_refused() -> None:
    talk = _talk(Context())
    talk.start()
    with pytest.raises(AuthenticationError, match="not acceptable: message stream modified"):
        talk.answer(b"forged")


def test_a_broker_that_never_comes_to_an_end_is_given_up() -> None:
    talk = _talk(Context(answers=1000))
    talk.start()
    for _ in range(8):
        assert talk.answer(b"and then?") == b"more"
    with pytest.raises(AuthenticationError, match="do not agree after 8 messages"):
        talk.answer(b"and then?")


class _GssError(Exception):
    def __init__(self, text: str, min_code: int) -> None:
        super().__init__(text)
        self.min_code = min_code


@pytest.mark.parametrize(
    ("code", "kind"), [(2529639053, AuthenticationError), (2529639068, KafkaConnectionError)]
)
def test_a_missing_ticket_is_final_but_an_unreachable_kdc_is_not(code: int, kind: type[KafkaError]) -> None:
    def open_context(_service: str, _host: str) -> Context:
        raise _GssError("No Kerberos credentials available", code)

    with pytest.raises(kind, match="No Kerberos credentials available"):
        asyncio.run(Gssapi(open_context=open_context).exchange("broker"))


@pytest.mark.parametrize(
    ("code", "advice"),
    [(2529638919, "sasl_kerberos_service_name"), (2529639053, "run kinit"), (0, "KRB5_CLIENT_KTNAME")],
)
def test_a_refused_ticket_comes_with_advice(code: int, advice: str) -> None:
    def open_context(_service: str, _host: str) -> Context:
        raise _GssError("no", code)

    with pytest.raises(AuthenticationError, match=rf"no ticket for kafka/broker \(.*{advice}.*\): no"):
        asyncio.run(Gssapi(open_context=open_context).exchange("broker"))


@pytest.mark.parametrize("missing", [True, False])
def test_without_the_gssapi_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    def broken(_name: str) -> None:
        raise OSError("libgssapi_krb5.so.2: cannot open shared object file")

    if missing:
        monkeypatch.setitem(sys.modules, "gssapi", None)
    else:
        monkeypatch.setattr("kclient.net.sasl.gssapi.importlib.import_module", broken)
    with pytest.raises(ConfigurationError, match=r"pip install 'kclient-kafka\[gssapi\]'"):
        Gssapi()
