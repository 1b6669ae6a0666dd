"""Short ways to a connection or a link to a fake broker."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.net.connection import Connection
from kclient.net.dial import DialSettings, dial
from kclient.wire.messages.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.fake_broker import FakeBroker
from tests.support.virtual_loop import VirtualLoop

SETTINGS = DialSettings(
    protocol="PLAINTEXT",
    client_id="test",
    request_timeout=30.0,
    setup_timeout=10.0,
    max_frame=1_000_000,
    random=Random(0),
)


def settings(**changes: Any) -> DialSettings:
    return dataclasses.replace(SETTINGS, **changes)


async def connect(loop: VirtualLoop, broker: FakeBroker, **changes: Any) -> Connection:
    return await dial(Endpoint(*broker.address), settings(**changes), Deadline.after(loop, 10))


def ask(key: str) -> FindCoordinatorRequest:
    """A request whose answer repeats the key: shows which answer belongs to which request."""
    return FindCoordinatorRequest(coordinator_keys=[key])


def answered(response: FindCoordinatorResponse) -> str:
    return response.coordinators[0].key
