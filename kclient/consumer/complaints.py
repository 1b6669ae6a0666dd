"""What keeps a consumer from reading, and who was told of it: the log, or the application by an error.

`Reader` says what is the matter whenever that may have changed, and is asked to look again when something has
to be said once more. Runs on the event loop, but for `take`, which the application's thread calls.

Not here: what can be the matter (`unreadable`), and how long the pauses are (`Reminders`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from copy import copy

from kclient.consumer.unreadable import Found, Key
from kclient.errors import AuthorizationError, InvalidTopicError, KafkaError
from kclient.reminders import IN_CALLS, IN_LOG, Reminders, Rhythm

log: logging.Logger = logging.getLogger(__name__)

# A group that is joined, or rebalances, has time to give something; then one line is enough.
_STANDBY = Rhythm(30.0, float("inf"), float("inf"))
_NOTHING_ASSIGNED = "nothing assigned"
# Of one kind, at one time: the topics of a broker that is gone may be hundreds.
_MOST_LINES = 5


class Complaints:
    """`wake` ends the application's waiting, `look` is to call `found` again."""

    def __init__(self, wake: Callable[[], None], look: Callable[[], None]) -> None:
        self.present: Found = {}
        self._wake = wake
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._in_log = Reminders(IN_LOG)
        self._in_calls = Reminders(IN_CALLS)
        self._standby = Reminders(_STANDBY)
        self._to_raise: dict[Key, KafkaError] = {}
        self._final: tuple[str, KafkaError] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Complaints {', '.join(key.kind for key in self.present) or 'none'}>"

    def found(self, present: Found, standby: str | None = None) -> None:
        """This is all that is the matter now; `standby` says that nothing is, and nothing is assigned."""
        now = self._loop.time()
        self._forget(present)
        raised = False
        said: dict[str, list[str]] = {}
        for key, complaint in present.items():
            if complaint.error is None:
                if self._in_log.due(key, now):
                    said.setdefault(key.kind, []).append(complaint.text)
            elif self._in_calls.due(key, now):
                self._to_raise[key] = complaint.error
                raised = True
        for texts in said.values():
            _warn(texts)
        if standby is None:
            self._standby.over(_NOTHING_ASSIGNED)
        elif self._standby.due(_NOTHING_ASSIGNED, now):
            log.info("%s", standby)
        if raised:
            self._wake()
        self._come_back()

    def take(self, wanted: Callable[[str], bool]) -> KafkaError | None:
        """What the application's call is to raise now: what is final each time, anything else once.

        Nothing about topics that are not `wanted` any more, of which nobody may have told the loop yet.
        """
        final = self._final
        if final is not None and wanted(final[0]):
            return copy(final[1])  # a traceback belongs to one caller
        while self._to_raise:
            try:
                key, error = self._to_raise.popitem()
            except KeyError:  # it has passed in this moment
                break
            complaint = self.present.get(key)
            if complaint is None or complaint.topic is None or wanted(complaint.topic):
                return copy(error)
        return None

    def check(self, topics: Collection[str]) -> None:
        """Raise what keeps a call about these topics from an answer."""
        for key, complaint in self.present.items():
            error = complaint.error
            if error is None or complaint.topic not in {None, *topics}:
                continue
            if key in self._to_raise or isinstance(error, (AuthorizationError, InvalidTopicError)):
                self._to_raise.pop(key, None)
                raise copy(error)

    def texts(self, topics: Collection[str] | None = None) -> tuple[str, ...]:
        """What is the matter now: with anything, or with these topics and the consumer as a whole."""
        return tuple(
            complaint.text
            for complaint in self.present.values()
            if topics is None or complaint.topic in {None, *topics}
        )

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _forget(self, present: Found) -> None:
        """Let go of what has passed: another time it is new."""
        for key in self.present.keys() - present.keys():
            self._to_raise.pop(key, None)
        self._in_log.keep({key for key, each in present.items() if each.error is None})
        self._in_calls.keep({key for key, each in present.items() if each.error is not None})
        self.present = present
        finals = [(each.topic, each.error) for each in present.values() if each.final]
        self._final = next(((topic, error) for topic, error in finals if topic and error), None)

    def _come_back(self) -> None:
        """Have everything looked at again when something is to be said."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        dates = [reminders.next() for reminders in (self._in_log, self._in_calls, self._standby)]
        at = min((date for date in dates if date is not None), default=float("inf"))
        if at != float("inf") and not self._closed:
            self._timer = self._loop.call_at(at, self._look)


def _warn(texts: list[str]) -> None:
    """Of many that are alike the first few, and how many more there are."""
    for text in texts[:_MOST_LINES]:
        log.warning("%s", text)
    if len(texts) > _MOST_LINES:
        log.warning("and %d more like this: health().complaints has them all", len(texts) - _MOST_LINES)
