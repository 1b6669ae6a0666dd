"""Handlers, one module per family; importing a module registers its handlers."""

from __future__ import annotations

import importlib

_FAMILIES = (
    "cluster",
    "configs",
    "connection",
    "fetch",
    "groups",
    "log_dirs",
    "metadata",
    "modern_groups",
    "offsets",
    "produce",
    "quorum",
    "reassignments",
    "topics",
)


def load() -> None:
    """Register every handler."""
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
