"""The options of a producer, and what follows from them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Never

from kclient.config import ClientConfig, cover, option
from kclient.errors import ConfigurationError, EncodeError
from kclient.options import ClientOptions
from kclient.producer.partitioner import make_partitioner
from kclient.producer.records import ProducerHook
from kclient.records.compression import Codec, check_level
from kclient.records.limits import DECOMPRESSED_BATCH_MAX_BYTES, Limits
from kclient.records.sizes import BATCH_OVERHEAD
from kclient.usercode import name_of

_ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1, 0: 0, 1: 1, -1: -1}
_CODECS = {None: Codec.NONE, "none": Codec.NONE} | {codec.name.lower(): codec for codec in Codec}
MOST_IN_FLIGHT = 5


class ProducerOptions(ClientOptions, total=False):
    """Keyword arguments of a producer but its serializers, for `**options: Unpack[ProducerOptions]`.

    A test holds them to be those of `ProducerConfig`.
    """

    acks: Any
    enable_idempotence: bool | None
    partitioner: Any
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    compression_type: str | None
    compression_level: int | None
    decompressed_batch_max_bytes: int
    delivery_timeout_ms: int
    retries: int
    max_in_flight_requests_per_connection: int
    clock: Any
    hooks: Sequence[ProducerHook]


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """What a producer can be told, beside what every client can."""

    # How many brokers must have a record before it counts as delivered: 0, 1 or "all". None: all, or what is
    # left to say when idempotence is off, which is all too.
    acks: Any = option(None)
    # Each record is written once and in order, whatever is sent again. None: on where acks allows it.
    enable_idempotence: bool | None = option(None)
    key_serializer: Callable[[Any], bytes | None] | None = option(None)
    value_serializer: Callable[[Any], bytes | None] | None = option(None)
    # A name, or a callable or object of your own: see `kclient.producer.partitioner`.
    partitioner: Any = option(None)
    # Records without a key go rather to partitions whose queues are short (KIP-794).
    partitioner_adaptive_partitioning_enable: bool = option(True)
    partitioner_availability_timeout_ms: int = option(0, least=0)

    # A batch of this many bytes leaves at once; records that do not fill one wait `linger_ms` for more.
    batch_size: int = option(262_144, least=1, most=1 << 30)
    linger_ms: float = option(0, least=0, most=3_600_000)
    # Bytes of records that are not delivered yet; when they are as many, `send` waits up to `max_block_ms`.
    buffer_memory: int = option(67_108_864, least=1)
    max_block_ms: int = option(60_000, least=0)
    max_request_size: int = option(1_048_576, least=1, most=1 << 30)
    compression_type: str | None = option(None, choices=("none", "gzip", "snappy", "lz4", "zstd"))
    compression_level: int | None = option(None)
    # Consumers refuse compressed batches that become larger as bombs, so none is written.
    decompressed_batch_max_bytes: int = option(DECOMPRESSED_BATCH_MAX_BYTES, least=1_000, most=(1 << 31) - 1)

    # The one promise: by then a record is delivered, or has failed and says why.
    delivery_timeout_ms: int = option(120_000, least=1)
    retries: int = option(2_147_483_647, least=0)
    # Without idempotence records keep their order only if this is 1.
    max_in_flight_requests_per_connection: int = option(MOST_IN_FLIGHT, least=1)
    # What time it is, for the timestamps of records; for tests.
    clock: Any = option(None)
    hooks: Sequence[ProducerHook] = option(())

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_acks()
        self._check_idempotence()
        self._check_times()
        try:
            check_level(self.codec, self.compression_level)
        except EncodeError as error:
            raise ConfigurationError(f"compression_level={self.compression_level}: {error}") from error
        make_partitioner(self.partitioner)
        for name in ("key_serializer", "value_serializer"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigurationError(f"{name} must be callable: it is given an object and returns bytes")
        self._check_hooks()

    @property
    def required_acks(self) -> int:
        """Acks as the protocol has them: -1 stands for all."""
        return -1 if self.acks is None else _ACKS[self.acks]

    @property
    def idempotent(self) -> bool:
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        allowed = self.max_in_flight_requests_per_connection <= MOST_IN_FLIGHT and self.retries > 0
        return self.required_acks == -1 and allowed

    @property
    def largest_batch(self) -> int:
        """The size at which a batch is full: no request may be larger than `max_request_size`.

        A compressed one has no more records than consumers take of such, however small they are.
        """
        size = min(self.batch_size, self.max_request_size - BATCH_OVERHEAD)
        if self.codec is not Codec.NONE:
            size = min(size, Limits(self.decompressed_batch_max_bytes).of_many)
        return max(1, size)

    @property
    def codec(self) -> Codec:
        return _CODECS[self.compression_type]

    def _check_acks(self) -> None:
        known = isinstance(self.acks, int | str) and not isinstance(self.acks, bool) and self.acks in _ACKS
        if self.acks is not None and not known:
            raise ConfigurationError(f"acks={self.acks!r} is not one of 0, 1, 'all'")

    def _check_hooks(self) -> None:
        hooks: Any = self.hooks
        if not isinstance(hooks, Sequence):
            raise ConfigurationError(f"hooks={hooks!r} must be a list of hooks")
        for hook in hooks:
            if not (
                callable(getattr(hook, "on_send", None)) and callable(getattr(hook, "on_delivery", None))
            ):
                raise ConfigurationError(f"the hook {hook!r} needs the methods on_send and on_delivery")
            for method in (hook.on_send, hook.on_delivery):
                if inspect.iscoroutinefunction(method):
                    raise ConfigurationError(
                        f"{name_of(method)} of the hook {hook!r} is a coroutine function: hooks are called, "
                        "not awaited, so write it with def"
                    )

    def _check_times(self) -> None:
        if self.linger_ms >= self.delivery_timeout_ms:
            raise ConfigurationError(
                f"linger_ms={self.linger_ms:g} and delivery_timeout_ms={self.delivery_timeout_ms} contradict "
                "each other: a record would fail while it waits for others"
            )

    def _check_idempotence(self) -> None:
        if not self.enable_idempotence:
            return
        if self.required_acks != -1:
            raise ConfigurationError(
                f"acks={self.acks!r} and enable_idempotence=True contradict each other: it needs acks='all'"
            )
        if self.max_in_flight_requests_per_connection > MOST_IN_FLIGHT:
            raise ConfigurationError(
                f"max_in_flight_requests_per_connection={self.max_in_flight_requests_per_connection} and "
                f"enable_idempotence=True contradict each other: brokers remember {MOST_IN_FLIGHT} batches"
            )
        if self.retries == 0:
            raise ConfigurationError("retries=0 and enable_idempotence=True contradict each other")


def config_of(names: tuple[Never, ...], options: dict[str, Any]) -> ProducerConfig:
    """The options that a producer was made with, checked; secrets are covered in them."""
    cover(options, ProducerConfig)
    if names:
        raise TypeError("options are given by name: bootstrap_servers=…")
    return ProducerConfig.from_options(options)
