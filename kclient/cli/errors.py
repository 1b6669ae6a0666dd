"""What a command says when it fails: one sentence and, where there is one, a hint.

`UsageError` is a mistake in how the command was called (exit code 2); everything else is a failure (1). Only
`main` prints; the others raise.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kclient.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ConfigurationError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NonEmptyGroupError,
    RecordTooLargeError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

FAILURE, USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143

_CONNECT = (
    "is it running? -b HOST:PORT (or KCLIENT_BOOTSTRAP_SERVERS) names another, `kclient broker` starts one"
)
# The first that fits: what to do about it.
_HINTS: tuple[tuple[type[KafkaError], str], ...] = (
    (TopicAuthorizationFailedError, "this user needs an ACL for the topic"),
    (GroupAuthorizationFailedError, "this user needs an ACL for the group"),
    (AuthorizationError, "this user needs an ACL for it"),
    (AuthenticationError, "check the user, the password and security.protocol in the file given with -c"),
    (NonEmptyGroupError, "stop its members first"),
    (TopicAlreadyExistsError, "--if-not-exists accepts that"),
    (GroupIdNotFoundError, "`kclient groups list` shows what there is"),
    (UnknownTopicOrPartitionError, "`kclient topics list` shows what there is"),
    (RecordTooLargeError, "-X max.request.size=… lets larger ones through, if the topic takes them too"),
)


class Terminated(KeyboardInterrupt):
    """SIGTERM came, and ends a command as Ctrl-C does."""


class CommandError(KafkaError):
    """A command cannot do what it was told; the message is for people and says what to do."""


class UsageError(CommandError):
    """A command was called in a way that makes no sense."""


def sentence(error: BaseException) -> str:
    """The error in one line for people, with its hint."""
    text = _told(error)
    hint = _hint(error)
    if hint is None or hint in text:
        return text
    return f"{text.rstrip('.')}; {hint}"


def exit_code(error: BaseException) -> int:
    return USAGE if isinstance(error, (UsageError, ConfigurationError)) else FAILURE


def close_to(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?` for a name that is nearly one of those known."""
    close = difflib.get_close_matches(name, list(known), 2, 0.6)
    return f"; did you mean {' or '.join(repr(each) for each in close)}?" if close else ""


def _told(error: BaseException) -> str:
    if isinstance(error, BrokerError):
        said = error.message or (error.__doc__ or "").strip().partition("\n")[0]
        if isinstance(error, AuthorizationError):
            said = error.reason  # the broker does not say which right it is
        text = f"{f'{error.about}: ' if error.about else ''}{said.rstrip('.')} ({error.name})"
    elif isinstance(error, OSError) and not isinstance(error, KafkaError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = str(error) or type(error).__name__
    return " ".join(text.split())


def _hint(error: BaseException) -> str | None:
    if isinstance(error, KafkaTimeoutError) and isinstance(error.__cause__, KafkaConnectionError):
        return _CONNECT
    if isinstance(error, AuthenticationError) and "certificate" in str(error):
        return None  # no password is wrong, and the error says what to do about the certificate
    return next((hint for kind, hint in _HINTS if isinstance(error, kind)), None)


def no_broker(servers: object, reason: BaseException, seconds: float) -> CommandError:
    """None of the bootstrap servers let us in."""
    why = str(reason).removeprefix("no broker can be reached: ")
    if "closed the connection" in why:
        return CommandError(
            f"{servers} does not understand us ({why}): say how to talk to it, with "
            "-X security.protocol=… or in a file for -c"
        )
    return CommandError(f"no broker answers at {servers} ({why}, tried for {seconds:g} s): {_CONNECT}")
