"""Clients in forked children: they have the memory of a client, but neither its loop nor its thread.

A record appended there would be lost without a word, and asking for the process at each would be felt. So
the children are told once, when they begin.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """A client that can be told."""

    def _forked(self) -> None:
        """This process is a child: take nothing more."""


_clients: WeakSet[Forked] = WeakSet()


def forget_in_children(client: Forked) -> None:
    """Have a client told in every process that is forked from this one."""
    _clients.add(client)


def _tell() -> None:
    for client in list(_clients):
        client._forked()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_tell)
