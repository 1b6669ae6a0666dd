"""Incremental fetches (KIP-227): the node remembers what a client fetches, so that only changes travel."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple
from uuid import UUID

from kclient.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)
from kclient.wire.messages.fetch import FetchRequest

_MOST_SESSIONS = 1000
_FINAL_EPOCH = -1
_FIRST_EPOCH = 0
_LAST_EPOCH = 0x7FFFFFFF


class Key(NamedTuple):
    """A partition as the client names it: by topic name or by topic id."""

    topic: str
    topic_id: UUID
    partition: int


class Sent(NamedTuple):
    """What the client was last told of a partition."""

    high_watermark: int
    log_start_offset: int


@dataclass
class Session:
    """One client's fetch. `told` is empty for partitions that must be mentioned in the next answer."""

    session_id: int
    by_id: bool = False
    epoch: int = _FIRST_EPOCH
    wanted: OrderedDict[Key, FetchRequest.FetchTopic.FetchPartition] = field(default_factory=OrderedDict)
    told: dict[Key, Sent] = field(default_factory=dict)

    @property
    def incremental(self) -> bool:
        """Whether the answer may leave out what has not changed."""
        return self.session_id != 0 and self.epoch > _FIRST_EPOCH


class FetchSessions:
    """The sessions of one node; the oldest makes room when there are too many."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def enter(self, request: FetchRequest, *, by_id: bool) -> Session:
        """The session of a request, brought up to date with it; `by_id` where it names topics by id."""
        if request.session_epoch in (_FINAL_EPOCH, _FIRST_EPOCH):
            self._sessions.pop(request.session_id, None)
            session = Session(0)
            if request.session_epoch == _FIRST_EPOCH:
                session = self._new(by_id)
            session.wanted.update(_asked(request))
            return session
        known = self._sessions.get(request.session_id)
        if known is None:
            raise FetchSessionIdNotFoundError(about=f"session {request.session_id}")
        if known.by_id != by_id:
            raise FetchSessionTopicIdError(about=f"session {request.session_id}")
        expected = 1 if known.epoch == _LAST_EPOCH else known.epoch + 1
        if request.session_epoch != expected:
            raise InvalidFetchSessionEpochError(
                about=f"session {request.session_id}: epoch {request.session_epoch}, expected {expected}"
            )
        known.epoch = expected
        self._sessions.move_to_end(known.session_id)
        for key, partition in _asked(request):
            known.wanted[key] = partition
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                key = Key(topic.topic, topic.topic_id, index)
                known.wanted.pop(key, None)
                known.told.pop(key, None)
        return known

    def _new(self, by_id: bool) -> Session:
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randrange(1, _LAST_EPOCH)
        session = self._sessions[session_id] = Session(session_id, by_id)
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session


def _asked(request: FetchRequest) -> Iterable[tuple[Key, FetchRequest.FetchTopic.FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield Key(topic.topic, topic.topic_id, partition.partition), partition
