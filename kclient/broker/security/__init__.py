"""The broker's side of security: what listeners demand, who users are, and how clients prove it. No I/O."""

from __future__ import annotations

from kclient.broker.security.jwks import JwksVerifier
from kclient.broker.security.listeners import ListenerSpec
from kclient.broker.security.sasl_server import SaslServer
from kclient.broker.security.tokens import TokenRefusedError, TokenVerifier, UnsecuredTokens, VerifiedToken
from kclient.broker.security.users import ScramCredential, UserStore

__all__ = [
    "JwksVerifier",
    "ListenerSpec",
    "SaslServer",
    "ScramCredential",
    "TokenRefusedError",
    "TokenVerifier",
    "UnsecuredTokens",
    "UserStore",
    "VerifiedToken",
]
