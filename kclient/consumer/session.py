"""Incremental fetches (KIP-227), the client's side: only what changed since the last fetch travels.

Pure. `fetcher` asks for the next request's share of it and reports how that went. The broker answers with a
session id to the first, full fetch; from then on requests carry changed partitions and the forgotten ones,
always both. Whatever goes wrong, the next fetch is a full one, which also ends the broker's old session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from kclient.wire.messages.fetch import FetchRequest, FetchResponse

FIRST_WITH_SESSIONS = 7
FIRST_BY_ID = 13
_FULL = 0
_FINAL = -1
_LAST_EPOCH = 0x7FFFFFFF

Topic = FetchRequest.FetchTopic
Partition = Topic.FetchPartition
Forgotten = FetchRequest.ForgottenTopic


class Key(NamedTuple):
    """A partition as requests name it: by topic id, or by name where the id is not known or not spoken."""

    topic: str | UUID
    partition: int


class Wanted(NamedTuple):
    """What is asked of a partition."""

    offset: int
    leader_epoch: int
    max_bytes: int


class FetchSession:
    """The session with one broker."""

    def __init__(self) -> None:
        self._session_id = 0
        self._epoch = _FULL
        self._told: dict[Key, Wanted] = {}
        self._telling: dict[Key, Wanted] = {}
        self._turn = 0

    def __repr__(self) -> str:
        return f"<FetchSession {self._session_id} epoch {self._epoch}, {len(self._told)} partitions>"

    def fill(self, request: FetchRequest, wanted: Mapping[Key, Wanted], version: int) -> None:
        """Make a request say that these partitions are wanted, and no others."""
        self._telling = dict(wanted)
        if version < FIRST_WITH_SESSIONS or self._epoch == _FULL:
            request.session_id = self._session_id
            request.session_epoch = _FULL if version >= FIRST_WITH_SESSIONS else _FINAL
            request.topics = _topics(self._in_turn(wanted))
            return
        request.session_id, request.session_epoch = self._session_id, self._epoch
        request.topics = _topics({key: want for key, want in wanted.items() if self._told.get(key) != want})
        request.forgotten_topics_data = _forgotten([key for key in self._told if key not in wanted])

    def knows(self, key: Key) -> bool:
        """Whether the broker has answered about a partition, and tells only what changes from now on."""
        return key in self._told

    def answered(self, response: FetchResponse) -> None:
        """The broker did as asked."""
        self._told = self._telling
        self._session_id = response.session_id
        if not response.session_id:  # it keeps no session: every fetch is a full one
            self._epoch = _FULL
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def lost(self, *, forgotten: bool = False) -> None:
        """What the broker knows is not known any more; `forgotten` if it said that it knows nothing."""
        self._epoch = _FULL
        self._told = {}
        if forgotten:
            self._session_id = 0

    def end(self) -> FetchRequest | None:
        """A last request, with which the broker can let the session go."""
        if not self._session_id:
            return None
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=self._session_id,
            session_epoch=_FINAL,
            topics=[],
        )

    def _in_turn(self, wanted: Mapping[Key, Wanted]) -> dict[Key, Wanted]:
        """Brokers fill answers in the order of the request: without a session, each goes first some time."""
        keys = list(wanted)
        self._turn = (self._turn + 1) % max(1, len(keys))
        return {key: wanted[key] for key in keys[self._turn :] + keys[: self._turn]}


def _topics(wanted: Mapping[Key, Wanted]) -> list[Topic]:
    found: dict[str | UUID, list[Partition]] = defaultdict(list)
    for (topic, number), (offset, epoch, most) in wanted.items():
        found[topic].append(
            Partition(
                partition=number, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=most
            )
        )
    return [
        Topic(topic_id=topic, partitions=partitions)
        if isinstance(topic, UUID)
        else Topic(topic=topic, partitions=partitions)
        for topic, partitions in found.items()
    ]


def _forgotten(keys: list[Key]) -> list[Forgotten]:
    found: dict[str | UUID, list[int]] = defaultdict(list)
    for topic, number in keys:
        found[topic].append(number)
    return [
        Forgotten(topic_id=topic, partitions=numbers)
        if isinstance(topic, UUID)
        else Forgotten(topic=topic, partitions=numbers)
        for topic, numbers in found.items()
    ]
