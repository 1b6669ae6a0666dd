"""The protocol classes of kafka-python and aiokafka, as independent readers of Kafka's messages."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from typing import Any

from kclient.errors import ProtocolError
from kclient.wire.message import Message
from kclient.wire.messages import request_class
from tests.support.catalogue import every_message

with warnings.catch_warnings():
    # kafka-python reads its definitions with a function of the standard library that is deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import aiokafka.protocol
    from aiokafka.protocol.struct import Struct as AiokafkaStruct
    from kafka.protocol.api_message import ApiMessage as KafkaPythonMessage


def kafka_python_class(message: type[Message]) -> Any:
    """kafka-python's class for a message, made from its copy of Kafka's definition; None if it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return type(KafkaPythonMessage)(message.__name__, (KafkaPythonMessage,), {})
        except (FileNotFoundError, AssertionError):  # not in its resources, or not a request or response
            return None


def kafka_python_pairs() -> list[tuple[type[Message], Any]]:
    pairs = ((message, kafka_python_class(message)) for message in every_message())
    return [(message, theirs) for message, theirs in pairs if theirs is not None]


def aiokafka_pairs() -> list[tuple[type[Message], int, Any]]:
    """aiokafka's hand-written classes, one per version, with the declaration and version they stand for."""
    pairs = []
    for module in pkgutil.iter_modules(aiokafka.protocol.__path__, "aiokafka.protocol."):
        for name, theirs in sorted(vars(importlib.import_module(module.name)).items()):
            is_versioned = isinstance(theirs, type) and issubclass(theirs, AiokafkaStruct) and "_v" in name
            if not is_versioned or not isinstance(getattr(theirs, "API_KEY", None), int):
                continue
            message = _declaration(theirs.API_KEY, is_response="Response" in name)
            if message is not None and theirs.API_VERSION in message.versions:
                pairs.append((message, theirs.API_VERSION, theirs))
    return pairs


def _declaration(key: int, *, is_response: bool) -> type[Message] | None:
    try:
        request = request_class(key)
    except ProtocolError:
        return None
    return request.response if is_response else request
