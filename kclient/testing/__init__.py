"""Test an application without Kafka: pytest fixtures with an embedded broker, and simulation on virtual time.

The names below are imported when they are first used: pytest imports this package in every session of
everyone who has kclient installed. See docs/testing.md.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # see `kclient`
if TYPE_CHECKING:
    from kclient.testing.clock import VirtualClock
    from kclient.testing.errors import (
        DeadlockError,
        EndlessLoopError,
        LeftoverError,
        SimulationError,
        UnsupportedError,
    )
    from kclient.testing.loop import VirtualLoop
    from kclient.testing.network import Network
    from kclient.testing.paths import Conditions
    from kclient.testing.running import RunningBroker
    from kclient.testing.simulation import Simulation, simulate, until

__all__ = [
    "Conditions",
    "DeadlockError",
    "EndlessLoopError",
    "LeftoverError",
    "Network",
    "RunningBroker",
    "Simulation",
    "SimulationError",
    "UnsupportedError",
    "VirtualClock",
    "VirtualLoop",
    "simulate",
    "until",
]

_HOMES = {
    "Conditions": "paths",
    "DeadlockError": "errors",
    "EndlessLoopError": "errors",
    "LeftoverError": "errors",
    "Network": "network",
    "RunningBroker": "running",
    "Simulation": "simulation",
    "SimulationError": "errors",
    "UnsupportedError": "errors",
    "VirtualClock": "clock",
    "VirtualLoop": "loop",
    "simulate": "simulation",
    "until": "simulation",
}


if not TYPE_CHECKING:  # a checker that saw it would take every misspelt name for one of these

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'kclient.testing' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"kclient.testing.{_HOMES[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
