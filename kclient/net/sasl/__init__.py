"""SASL: who the client is. Mechanisms without I/O; `dial` sends what they say and brings the answers."""

from __future__ import annotations

from kclient.net.sasl.exchange import Authenticator, Conversation, Exchange
from kclient.net.sasl.gssapi import Gssapi
from kclient.net.sasl.oauth import OAuthBearer, Token, TokenCallback, TokenProvider
from kclient.net.sasl.oidc import ClientCredentials
from kclient.net.sasl.plain import Plain
from kclient.net.sasl.scram import Scram

__all__ = [
    "Authenticator",
    "ClientCredentials",
    "Conversation",
    "Exchange",
    "Gssapi",
    "OAuthBearer",
    "Plain",
    "Scram",
    "Token",
    "TokenCallback",
    "TokenProvider",
]
