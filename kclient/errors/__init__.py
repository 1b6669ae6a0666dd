"""The exception tree of kclient: everything it raises on purpose derives from `KafkaError`."""

from __future__ import annotations

from kclient.errors.base import (
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    CorruptBatchError,
    DecompressionLimitError,
    EncodeError,
    FrameTooLargeError,
    IncompatibleBrokerError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    UnsupportedCodecError,
)

__all__ = [
    "AuthenticationError",
    "ClientClosedError",
    "ConfigurationError",
    "CorruptBatchError",
    "DecompressionLimitError",
    "EncodeError",
    "FrameTooLargeError",
    "IncompatibleBrokerError",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeoutError",
    "ProtocolError",
    "UnsupportedCodecError",
]
