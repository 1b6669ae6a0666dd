"""Every option of a consumer, the group's included, with its limits.

Names are aiokafka's where it has the option, and Kafka's dotted names are accepted too. The defaults are
those of the Java consumer, except where a comment says why not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kclient.config import ClientConfig, option
from kclient.consumer.hooks import ConsumerHook
from kclient.consumer.seam import GroupSettings
from kclient.errors import ConfigurationError
from kclient.options import ClientOptions
from kclient.records.limits import DECOMPRESSED_BATCH_MAX_BYTES, Limits

_INT32 = 2_147_483_647
# What an answer has beside its records: a few bytes for each partition, some for an aborted transaction.
_AROUND_RECORDS = 65_536
_RESETS = ("earliest", "latest", "none")
_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class ConsumerOptions(ClientOptions, total=False):
    """Keyword arguments of a consumer but its deserializers, for `**options: Unpack[ConsumerOptions]`.

    A test holds them to be those of `ConsumerConfig`.
    """

    group_id: str | None
    group_protocol: str
    group_instance_id: str | None
    group_remote_assignor: str | None
    partition_assignment_strategy: Any
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    rebalance_timeout_ms: int | None
    revoke_at_once: bool
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    prefetch_max_bytes: int
    max_poll_records: int | None
    check_crcs: bool
    decompressed_batch_max_bytes: int
    client_rack: str | None
    exclude_internal_topics: bool
    on_poison: Any
    hooks: Sequence[ConsumerHook]
    consumer_timeout_ms: int | None
    io_thread: bool


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """What a consumer needs to read, alone or in a group."""

    group_id: str | None = option(None)
    group_protocol: str = option("classic", choices=("classic", "consumer"))
    group_instance_id: str | None = option(None)
    group_remote_assignor: str | None = option(None)
    # Names, or assignors of one's own: classes or objects. Several are offered, the group agrees on one.
    partition_assignment_strategy: Any = option(("range", "cooperative-sticky"))
    session_timeout_ms: int = option(45_000, least=1)
    heartbeat_interval_ms: int = option(3_000, least=1)
    max_poll_interval_ms: int = option(300_000, least=1)
    # How long a rebalance waits for this member; None is as long as it may go without polling.
    rebalance_timeout_ms: int | None = option(None, least=1)
    # Partitions go at a rebalance though the application still works on their records.
    revoke_at_once: bool = option(False)
    enable_auto_commit: bool = option(True)
    auto_commit_interval_ms: int = option(5_000, least=1)

    # earliest, latest, none, or by_duration: and an ISO 8601 duration, as in by_duration:PT1H (KIP-1106)
    auto_offset_reset: str = option("latest")
    isolation_level: str = option("read_uncommitted", choices=("read_uncommitted", "read_committed"))
    fetch_min_bytes: int = option(1, least=0, most=_INT32)
    fetch_max_wait_ms: int = option(500, least=0, most=_INT32)
    fetch_max_bytes: int = option(52_428_800, least=1, most=_INT32)
    max_partition_fetch_bytes: int = option(1_048_576, least=1, most=_INT32)
    # What was fetched and not handed out yet, of all partitions together: fetching waits for room.
    prefetch_max_bytes: int = option(64 * 1024 * 1024, least=1)
    # Of a call that gives records as objects; None is all that was fetched. Arrow has bounds of its own.
    max_poll_records: int | None = option(500, least=1)
    check_crcs: bool = option(True)
    # What a compressed record batch may become: more is refused as a bomb.
    decompressed_batch_max_bytes: int = option(DECOMPRESSED_BATCH_MAX_BYTES, least=1_000, most=_INT32)
    client_rack: str | None = option(None)
    exclude_internal_topics: bool = option(True)

    # Called with bytes; null stays None.
    key_deserializer: Callable[[bytes], Any] | None = option(None)
    value_deserializer: Callable[[bytes], Any] | None = option(None)
    # For records that a deserializer fails on: "raise", "skip", or a callable, which gets the error with the
    # raw record in it and lets reading go on by returning.
    on_poison: Any = option("raise")
    # See records when they are handed out, and commits: see `ConsumerHook`.
    hooks: Sequence[ConsumerHook] = option(())
    # A loop over the consumer ends when no record came for so long; None waits on.
    consumer_timeout_ms: int | None = option(None, least=0)
    # The client works on a thread of its own: heartbeats go on while the application blocks its event loop.
    io_thread: bool = option(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reset_age()
        for name in ("key_deserializer", "value_deserializer"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise ConfigurationError(f"{name}={given!r} must be callable with bytes")
        if not callable(self.on_poison) and self.on_poison not in ("raise", "skip"):
            raise ConfigurationError(f'on_poison={self.on_poison!r} must be "raise", "skip" or a callable')
        self._check_sizes()
        self._check_hooks()
        self._check_group()

    def reset_age(self) -> float | None:
        """How many milliseconds before now reading starts without a position, for `by_duration:`."""
        policy = self.auto_offset_reset
        if policy in _RESETS:
            return None
        found = _DURATION.fullmatch(policy.removeprefix(_BY_DURATION))
        if policy.startswith(_BY_DURATION) and found is not None and any(found.groups()):
            days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
            return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
        raise ConfigurationError(
            f"auto_offset_reset={policy!r} is not one of {', '.join(_RESETS)} or by_duration:PT…, "
            "with a duration as in PT1H30M or P3D"
        )

    @property
    def limits(self) -> Limits:
        return Limits(self.decompressed_batch_max_bytes)

    def group_settings(self) -> GroupSettings | None:
        """What the group's half needs; None for a consumer without a group."""
        if self.group_id is None:
            return None
        strategy = self.partition_assignment_strategy
        return GroupSettings(
            group_id=self.group_id,
            group_protocol=self.group_protocol,
            group_instance_id=self.group_instance_id,
            group_remote_assignor=self.group_remote_assignor,
            client_rack=self.client_rack,
            partition_assignment_strategy=strategy if _is_several(strategy) else (strategy,),
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.max_poll_interval_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            revoke_at_once=self.revoke_at_once,
            enable_auto_commit=self.enable_auto_commit,
            auto_commit_interval_ms=self.auto_commit_interval_ms,
            hooks=self.hooks,
        )

    def _check_hooks(self) -> None:
        hooks: Any = self.hooks
        if not isinstance(hooks, Sequence) or isinstance(hooks, str):
            raise ConfigurationError(f"hooks={hooks!r} must be a list of hooks")
        for hook in hooks:
            if not (
                callable(getattr(hook, "on_consume", None)) and callable(getattr(hook, "on_commit", None))
            ):
                raise ConfigurationError(f"the hook {hook!r} needs the methods on_consume and on_commit")

    def _check_sizes(self) -> None:
        if self.fetch_max_bytes + _AROUND_RECORDS > self.receive_message_max_bytes:
            raise ConfigurationError(
                f"fetch_max_bytes={self.fetch_max_bytes} and receive_message_max_bytes="
                f"{self.receive_message_max_bytes} contradict each other: what brokers may send would be "
                f"refused. The second one must be larger by {_AROUND_RECORDS}"
            )

    def _check_group(self) -> None:
        if self.group_id == "":
            raise ConfigurationError("group_id is empty: name the group, or leave it out to consume alone")
        if self.group_id is None and self.group_instance_id is not None:
            raise ConfigurationError("group_instance_id needs a group_id: it names a member of a group")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigurationError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be below "
                f"session_timeout_ms={self.session_timeout_ms}, best a third of it"
            )


def _is_several(strategy: object) -> bool:
    return isinstance(strategy, Sequence) and not isinstance(strategy, str)
