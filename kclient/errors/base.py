"""The root of the tree, and every error that kclient raises on its own account.

Two families matter to callers: what the other side got wrong (`ProtocolError`: the connection or the batch is
given up, never the process) and what was asked of us that cannot be done (`EncodeError`,
`ConfigurationError`, `IncompatibleBrokerError`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

if TYPE_CHECKING:
    from kclient.types import TopicPartition


class KafkaError(Exception):
    """Base of every error raised by kclient; it can be copied and pickled, and keeps its cause.

    `retriable` says whether trying again can help, `refresh_metadata` whether the cluster has to be asked
    first who leads what now.
    """

    retriable: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False

    # Exception's own pickling calls the class with `args`, which fails where the constructor takes anything
    # else, and it drops the cause.
    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, (type(self), self.args), self._state(_portable(self.__cause__))

    def __copy__(self) -> Self:
        twin = _blank(type(self), self.args)
        twin.__setstate__(self._state(self.__cause__))
        return twin

    def _state(self, cause: BaseException | None) -> dict[str, Any]:
        # Setting a cause, even None, hides the context in tracebacks as `raise … from None` does.
        return self.__dict__ | ({} if cause is None else {"__cause__": cause})


Error = TypeVar("Error", bound=KafkaError)


def _blank(kind: type[Error], args: tuple[Any, ...]) -> Error:
    return kind.__new__(kind, *args)


def _portable(cause: BaseException | None) -> BaseException | None:
    """The cause, or its text if pickle fails: a foreign exception must not break a process pool."""
    if cause is None or isinstance(cause, KafkaError):
        return cause
    import pickle  # noqa: PLC0415 - costs 7 ms; whoever pickles an error has it loaded

    try:
        pickle.loads(pickle.dumps(cause))  # noqa: S301 - bytes made on this very line
    except Exception:  # noqa: BLE001 - a foreign exception can fail in any way
        return KafkaError(f"{type(cause).__name__}: {cause}")
    return cause


class ProtocolError(KafkaError):
    """Bytes from the network or from disk that do not follow Kafka's formats.

    The place is added by whoever knows it: a codec knows only bytes, its caller knows the topic.

    >>> str(ProtocolError("crc mismatch").locate(topic="orders", partition=3, offset=17))
    'crc mismatch (topic orders, partition 3, offset 17)'
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.topic: str | None = None
        self.partition: int | None = None
        self.offset: int | None = None

    def locate(
        self, *, topic: str | None = None, partition: int | None = None, offset: int | None = None
    ) -> ProtocolError:
        """Add what is known of the place; what is known already stays."""
        if self.topic is None:
            self.topic = topic
        if self.partition is None:
            self.partition = partition
        if self.offset is None:
            self.offset = offset
        return self

    def __str__(self) -> str:
        message = super().__str__()
        known = [
            f"{name} {value}"
            for name, value in (("topic", self.topic), ("partition", self.partition), ("offset", self.offset))
            if value is not None
        ]
        return f"{message} ({', '.join(known)})" if known else message


class FrameTooLargeError(ProtocolError):
    """A frame announces `size` bytes, more than the limit allows; nothing of it was read."""

    size: int = 0


class CorruptBatchError(ProtocolError):
    """A record batch whose checksum, lengths or counts do not fit its bytes."""


class UnsupportedCodecError(ProtocolError):
    """A record batch compressed with a codec number that Kafka does not define."""


class DecompressionLimitError(ProtocolError):
    """Compressed data that would expand beyond the configured size."""


class EncodeError(KafkaError, ValueError):
    """A value that the wire format, or the negotiated version of a message, cannot carry."""


class ConfigurationError(KafkaError, ValueError):
    """A setting that is unknown, has an impossible value, or contradicts another one."""


class IncompatibleBrokerError(KafkaError):
    """Client and broker have no version of an API in common."""


class KafkaConnectionError(KafkaError):
    """A broker could not be reached, or the connection to it was lost; its partitions may have moved."""

    retriable = True
    refresh_metadata = True


class KafkaTimeoutError(KafkaError, TimeoutError):
    """A deadline passed; the message says what was awaited.

    Not retriable: the deadline spans every attempt. Like every `TimeoutError` it is an `OSError` too.
    """


class DataDirectoryError(KafkaError):
    """The embedded broker cannot use a data directory.

    It is another broker's, or in use by one, cannot be written in, or a file in it is broken.
    """


class AuthenticationError(KafkaError):
    """Client and broker could not agree on who the client is, over SASL or TLS.

    Trying again at once cannot help; later it does, when a password, token or certificate is right again.
    """


class CommitFailedError(KafkaError):
    """Offsets were not committed, or not all of them; `errors` has the reason for each partition that failed.

    A reason such as `IllegalGenerationError` or `UnknownMemberIdError` means that the partition may have
    another reader by now, which continues from what was committed before.
    """

    def __init__(self, message: str, errors: Mapping[TopicPartition, KafkaError] | None = None) -> None:
        super().__init__(message)
        self.errors: dict[TopicPartition, KafkaError] = dict(errors or {})


class ClientClosedError(KafkaError):
    """The client was used after it had been closed."""


class RecordTooLargeError(KafkaError, ValueError):
    """A record that is larger than the producer may send; nothing of it was sent."""


class BufferFullError(KafkaError):
    """The producer's buffer has no room for another record; it has when some of those in it are delivered."""

    retriable = True


class WakeupError(KafkaError):
    """`wakeup()` was called, so a waiting call ended early; no record was lost, the next call goes on."""


class IllegalStateError(KafkaError):
    """A call that the state of the client does not permit: to seek in a partition that is not assigned."""


class PositionError(KafkaError):
    """Reading a partition cannot go on by itself from `offset`; where it goes on is for `seek` to say."""

    def __init__(self, message: str, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"{message} (topic {topic}, partition {partition}, offset {offset})")
        self.topic = topic
        self.partition = partition
        self.offset = offset


class NoOffsetError(PositionError):
    """Nothing is committed for a partition, and `auto_offset_reset` is "none"; the offset is -1."""


class LogTruncationError(PositionError):
    """Records that were read are no longer in the partition, and `auto_offset_reset` is "none".

    `offset` is where the consumer was, `divergent_offset` where the partition ended when they were lost.
    """

    divergent_offset: int = -1


class PoisonRecordError(PositionError):
    """A deserializer failed; the cause is its exception, `record` the record with the bytes as they came.

    The position stays at the record: the next call meets it again, `seek(partition, offset + 1)` skips it.
    """

    record: Any = None
