"""The simulation of `kclient.testing`, under the names that tests use."""

from __future__ import annotations

from kclient.testing.errors import DeadlockError
from kclient.testing.loop import VirtualLoop
from kclient.testing.network import WINDOW, Network
from kclient.testing.paths import Address
from kclient.testing.simulation import until
from kclient.testing.transport import HIGH_WATER as _HIGH_WATER
from kclient.testing.transport import MemoryTransport

HIGH_WATER = WINDOW + _HIGH_WATER  # bytes that fit before a writer is asked to pause

__all__ = ["HIGH_WATER", "Address", "DeadlockError", "MemoryTransport", "Network", "VirtualLoop", "until"]
