"""What keeps a member out of its group for now: when to try again, and when to tell the application.

The coordinator, or a broker on the way to it, answers with a no: a password that was just changed, a token
service that is down, an ACL that was taken away, a certificate that has run out, a group that is full. Most
of that passes without this client: so it is tried again, slowly enough for those who lock accounts. Only what
no later attempt of the same client can change is in `FINAL`. Both protocols of membership use this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kclient.cluster.client import Cluster
from kclient.cluster.retry import Backoff
from kclient.cluster.rights import lacking
from kclient.errors import (
    ClientClosedError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    IncompatibleBrokerError,
    InvalidGroupIdError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    InvalidSessionTimeoutError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from kclient.reminders import Reminders, Rhythm

log: logging.Logger = logging.getLogger(__name__)

# Two processes with one instance id would throw each other out for ever. The others are about what this
# client was told to be: only another configuration, or another cluster, changes the answer.
FINAL = (
    FencedInstanceIdError,
    IncompatibleBrokerError,
    InvalidGroupIdError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    InvalidSessionTimeoutError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
# Not retriable to others, but no refusals either: the network, the group and a link that was replaced.
_NO_ANSWER = (ClientClosedError, KafkaTimeoutError, RebalanceInProgressError)
# `Cluster` says these for all who meet them, and a rebalance is no trouble.
_TOLD_ELSEWHERE = (*_NO_ANSWER, CoordinatorNotAvailableError, KafkaConnectionError)

_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 1_000, 5_000
# What passes within half a minute is raised once.
_IN_CALLS = Rhythm(grace=0.0, pause=30.0, longest=300.0)
# A coordinator that has just moved reads the offsets of all its groups first.
_IN_LOG = Rhythm(grace=10.0, pause=60.0, longest=600.0)
_AT_ONCE = Rhythm(grace=0.0, pause=60.0, longest=600.0)


def is_refusal(error: KafkaError) -> bool:
    """Whether somebody said no, and did not only fail to answer."""
    return not error.retriable and not isinstance(error, _NO_ANSWER)


class Refusals:
    """The refusals that one member meets until it is taken again. `show` tells the application."""

    def __init__(self, cluster: Cluster, show: Callable[[KafkaError], None]) -> None:
        self.error: KafkaError | None = None  # the last one, while they last
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._config = config = cluster.config
        self._backoff = Backoff(
            max(_FIRST_WAIT_MS, config.retry_backoff_ms),
            max(_LONGEST_WAIT_MS, config.retry_backoff_max_ms),
            cluster.random,
        )
        self._reminders = Reminders(_IN_CALLS)
        self._lasting = Reminders(_IN_LOG)
        self._waiting = Reminders(_AT_ONCE)

    def met(self, error: KafkaError) -> float:
        """Note a refusal; returns how many seconds to wait before the next attempt.

        The application is told at once and then with growing pauses: one that catches the error and calls
        again gets records, or waits, and is not thrown out of its loop by every attempt.
        """
        self.error = lacking(error, "Read", self._config)
        if self._reminders.due(type(error), self._loop.time()):
            log.warning("the group does not take this member now, it tries again: %s", error)
            self._show(error)
        return self._backoff.next()

    def delayed(self, error: KafkaError) -> None:
        """Note what passes by itself as a rule: the log says so if it does not."""
        if isinstance(error, _TOLD_ELSEWHERE):
            return
        if self._lasting.due(type(error), self._loop.time()):
            self.error = error
            log.warning("the group has not answered this member for long, it tries again: %s", error)

    def waits(self, error: KafkaError, what: str) -> None:
        """Note what the end of another member's session may end: the log and `health` say so at once."""
        self.error = error
        if self._waiting.due(type(error), self._loop.time()):
            log.warning("this member waits for its place: %s: %s", what, error)

    def over(self) -> None:
        """The coordinator has taken this member."""
        self._lasting.keep(())
        self._waiting.keep(())
        if self.error is None:
            return
        log.info("the group takes this member again")
        self.error = None
        self._reminders.keep(())
        self._backoff.reset()
