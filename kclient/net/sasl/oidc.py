"""Tokens from an OpenID provider by client credentials (RFC 6749, section 4.4): a source for `OAuthBearer`.

The token endpoint is an address from the configuration that gets a secret sent to it: it must be https unless
said otherwise, redirects are not followed, proxies of the environment are not used, and what it answers is
bounded and never shown.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote_plus

from kclient.config import shown_half_made
from kclient.errors import AuthenticationError, ConfigurationError, KafkaConnectionError, KafkaError
from kclient.net.sasl.exchange import is_text, shown
from kclient.net.sasl.oauth import Token
from kclient.net.tls import Location, make_context
from kclient.net.tls_files import TlsFiles, trusted_by_default
from kclient.types import Secret, Url

if TYPE_CHECKING:
    import httpx

MAX_ANSWER = 1_000_000
_LONGEST_LIFE = 365 * 24 * 3600
# The only words of an answer that are repeated: RFC 6749 defines them, so they cannot carry a secret.
_ERROR_CODES = (
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "invalid_scope",
    "unauthorized_client",
    "unsupported_grant_type",
)


class ClientCredentials:
    """Fetches a token each time it is called: `OAuthBearer(ClientCredentials(url, client_id, secret))`.

    `parameters` are further fields of the form, for providers that want them. `urlencode` applies RFC 6749's
    encoding to id and secret in the header; off, as in Kafka's own client, because many providers do not
    expect it. `timeout` is in seconds and spans everything.
    """

    def __init__(  # noqa: PLR0913 - one parameter per thing that providers differ in
        self,
        url: str,
        client_id: str,
        client_secret: Secret,
        *,
        scope: str | None = None,
        audience: str | None = None,
        parameters: Mapping[str, str] | None = None,
        urlencode: bool = False,
        allow_http: bool = False,
        cafile: Location | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout: float = 10.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        url = Url(url)  # under its name, too: reports show what variables hold
        self._url = _checked_url(url, allow_http)
        self._client_id = client_id
        self._client_secret = client_secret
        if not client_id or not client_secret.reveal() or not is_text(client_id + client_secret.reveal()):
            raise ConfigurationError(
                "client id or secret is empty, or has characters that UTF-8 cannot carry"
            )
        optional = {"scope": scope, "audience": audience, **(parameters or {})}
        self._form = {"grant_type": "client_credentials"}
        self._form |= {name: value for name, value in optional.items() if value is not None}
        self._urlencode = urlencode
        self._timeout = timeout
        self._transport = transport
        files = [cafile] if cafile or ssl_context else trusted_by_default()
        self._tls = TlsFiles(partial(make_context, cafile=cafile, context=ssl_context), files)

    @shown_half_made
    def __repr__(self) -> str:
        return f"<ClientCredentials {self._client_id!r} at {self._endpoint}>"

    @property
    def _endpoint(self) -> str:
        """The address without query, which may hold a key."""
        return str(self._url.copy_with(query=None, fragment=None))

    async def __call__(self) -> Token:
        import httpx  # noqa: PLC0415 - an extra, checked for when this object was made

        # Raised after the handlers, so not chained: httpx's errors carry the request, and that the secret.
        failure: KafkaError
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._post()
        except TimeoutError:
            failure = KafkaConnectionError(f"{self._endpoint} gave no token within {self._timeout:g} s")
        except httpx.HTTPError as error:
            reason = shown(str(error) or type(error).__name__, self._client_secret)
            failure = KafkaConnectionError(f"no token from {self._endpoint}: {reason}")
        else:
            if answer.token is not None:
                return answer.token
            failure = self._refusal(answer)
        raise failure

    async def _post(self) -> _Answer:
        import httpx  # noqa: PLC0415

        encode = quote_plus if self._urlencode else str
        auth = httpx.BasicAuth(encode(self._client_id), encode(self._client_secret.reveal()))
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        client = httpx.AsyncClient(
            verify=self._tls.context(),
            transport=self._transport,
            trust_env=False,
            follow_redirects=False,
            timeout=self._timeout,
        )
        async with (
            client,
            client.stream("POST", self._url, data=self._form, headers=headers, auth=auth) as response,
        ):
            if response.is_redirect:
                return _Answer(response.status_code, "it redirects elsewhere, which is not followed")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                return _Answer(response.status_code, "it compressed its answer, which was not asked for")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_ANSWER:
                    return _Answer(response.status_code, f"its answer is larger than {MAX_ANSWER} bytes")
            return _read(response.status_code, bytes(body))

    def _refusal(self, answer: _Answer) -> KafkaError:
        text = f"no token from {self._endpoint}: {answer.problem} (HTTP status {answer.status})"
        busy = answer.status == 429 or answer.status >= 500
        return KafkaConnectionError(text) if busy else AuthenticationError(text)


class _Answer(NamedTuple):
    status: int
    problem: str
    token: Token | None = None


def _read(status: int, body: bytes) -> _Answer:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return _Answer(status, "its answer is no JSON object")
    if status != 200:
        error = content.get("error")
        return _Answer(status, error if error in _ERROR_CODES else "it refuses the request")
    value = content.get("access_token")
    if not isinstance(value, str) or not value:
        return _Answer(status, "its answer has no access_token")
    if str(content.get("token_type", "bearer")).lower() != "bearer":
        return _Answer(status, "its token is not of the type 'Bearer'")
    return _Answer(status, "", Token(Secret(value), _lifetime(content.get("expires_in"))))


def _lifetime(seconds: object) -> float | None:
    """Some providers write the number as a string; without a sensible number the token is not kept."""
    if isinstance(seconds, str) and seconds.isdecimal() and len(seconds) < 12:
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_LIFE:
        return None
    return float(seconds)


def _checked_url(url: str, allow_http: bool) -> httpx.URL:
    try:
        import httpx  # noqa: PLC0415 - an extra: most users need no OpenID provider
    except ImportError as error:
        raise ConfigurationError(
            "OIDC tokens need the Python package httpx: pip install 'kclient-kafka[oauth]'"
        ) from error
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = httpx.URL("")
    if parsed.userinfo:
        del parsed  # reports show what variables hold
        raise ConfigurationError(
            "the token endpoint's URL has a user or password: use client_id and client_secret"
        )
    shown_url = shown(str(parsed.copy_with(query=None, fragment=None)))
    scheme, host = parsed.scheme, parsed.host
    if scheme not in ("https", "http") or not host:
        del parsed
        raise ConfigurationError(f"the token endpoint's URL must be https://host/…, not {shown_url!r}")
    if scheme == "http" and not allow_http:
        del parsed
        raise ConfigurationError(
            f"the token endpoint {shown_url!r} is not https, so others can read the client secret: "
            "use https, or allow http explicitly"
        )
    return parsed
