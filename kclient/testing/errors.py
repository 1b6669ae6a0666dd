"""What a simulation raises about itself; what the code under test raises comes out as it is, with a note."""

from __future__ import annotations


class SimulationError(RuntimeError):
    """The simulation cannot go on, or found something wrong at its end."""


class DeadlockError(SimulationError):
    """Nothing can run any more: every task waits, and no timer and no packet is under way."""


class EndlessLoopError(SimulationError):
    """The loop went round more often than it was allowed to."""


class LeftoverError(SimulationError):
    """Tasks, timers, connections or servers were still there at the end, or an exception reached nobody."""


class UnsupportedError(SimulationError, NotImplementedError):
    """The code under test asked for something that a simulation does not have, such as a thread or TLS."""
