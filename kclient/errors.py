"""The exception tree of kclient.

Everything kclient raises on purpose derives from `KafkaError`. Two families matter to callers: what the
other side got wrong (`ProtocolError`: the connection or the batch is given up, never the process) and what
was asked of us that cannot be done (`EncodeError`, `IncompatibleBrokerError`).
"""

from __future__ import annotations


class KafkaError(Exception):
    """Base of every error raised by kclient. `retriable` says whether trying again can help."""

    retriable = False


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
    """A frame announces more bytes than the limit allows; nothing of it was read."""


class CorruptBatchError(ProtocolError):
    """A record batch whose checksum, lengths or counts do not fit its bytes."""


class UnsupportedCodecError(ProtocolError):
    """A record batch compressed with a codec number that Kafka does not define."""


class DecompressionLimitError(ProtocolError):
    """Compressed data that would expand beyond the configured size or ratio."""


class EncodeError(KafkaError, ValueError):
    """A value that the wire format, or the negotiated version of a message, cannot carry."""


class IncompatibleBrokerError(KafkaError):
    """Client and broker have no version of an API in common."""
