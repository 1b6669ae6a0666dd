"""Codes about who the client is and what it may do: SASL, ACLs, delegation tokens, SCRAM."""

from __future__ import annotations

from kclient.errors.base import AuthenticationError
from kclient.errors.broker import AuthorizationError, BrokerError


class TopicAuthorizationFailedError(AuthorizationError, code=29):
    """The principal has no ACL for this operation on the topic."""


class GroupAuthorizationFailedError(AuthorizationError, code=30):
    """The principal has no ACL for this operation on the group."""


class ClusterAuthorizationFailedError(AuthorizationError, code=31):
    """The principal has no ACL for this operation on the cluster."""


class TransactionalIdAuthorizationFailedError(AuthorizationError, code=53):
    """The principal has no ACL for this operation on the transactional id."""


class DelegationTokenAuthorizationFailedError(AuthorizationError, code=65):
    """The principal may not do this with the delegation token."""


class UnsupportedSaslMechanismError(BrokerError, AuthenticationError, code=33):
    """The listener does not offer this SASL mechanism: use one that its broker has enabled."""


class IllegalSaslStateError(BrokerError, AuthenticationError, code=34):
    """The request does not fit this step of the login; listener and client may differ in protocol."""


class SaslAuthenticationFailedError(BrokerError, AuthenticationError, code=58):
    """The broker did not accept the credentials."""


class SecurityDisabledError(BrokerError, code=54):
    """The broker runs without an authorizer, so it keeps no ACLs."""


class DelegationTokenAuthDisabledError(BrokerError, code=61):
    """The broker has delegation tokens switched off."""


class DelegationTokenNotFoundError(BrokerError, code=62):
    """The broker does not know this delegation token."""


class DelegationTokenOwnerMismatchError(BrokerError, code=63):
    """The principal is neither owner nor renewer of the delegation token."""


class DelegationTokenRequestNotAllowedError(BrokerError, code=64):
    """Delegation tokens are given only to clients that logged in, and not by such a token."""


class DelegationTokenExpiredError(BrokerError, code=66):
    """The delegation token has run out: log in by other means to get a new one."""


class InvalidPrincipalTypeError(BrokerError, code=67):
    """The broker does not handle principals of this type; the usual one is User."""


class UnacceptableCredentialError(BrokerError, code=93):
    """The SCRAM credential breaks a rule, such as a minimum of iterations or a name that is not empty."""


class PrincipalDeserializationFailureError(BrokerError, code=97):
    """A forwarded request named its principal in a form that the controller cannot read."""
