"""Runs what uses aiokafka, in this process but for itself.

A connection that aiokafka was refused on is sometimes left to the garbage collector, whose warning would fail
whichever test runs when it comes: such leftovers are collected here, where nobody is blamed for them.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Coroutine
from importlib import import_module
from typing import Any, TypeVar

aiokafka: Any = import_module("aiokafka")

_PATIENCE = 15.0
T = TypeVar("T")


class AiokafkaError(Exception):
    """What aiokafka raised, in its words. Its own exceptions keep the frames that hold the connections."""


def run(work: Coroutine[Any, Any, T], patience: float = _PATIENCE) -> T:
    """The result of `work` on a loop of its own; a `KafkaError` of aiokafka's comes as `AiokafkaError`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return asyncio.run(asyncio.wait_for(work, patience))
        except aiokafka.errors.KafkaError as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            gc.collect()
        gc.collect()  # the exception held frames, and is gone only now
    raise AiokafkaError(said)
