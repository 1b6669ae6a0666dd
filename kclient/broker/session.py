"""One client's connection to a node: frames in, answers out, in order.

Requests of a connection are worked off one after the other, as Kafka does, so a fetch that waits holds up
what comes behind it. A connection that sends nothing costs no task and a scratch buffer; one that sends
more than it takes answers for is not read from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from kclient.errors import ProtocolError
from kclient.wire.frame import FrameBuffer

if TYPE_CHECKING:
    from kclient.broker.node import Listener, Node

_MOST_WAITING = 16
_EAGER = 64 * 1024


class Session(asyncio.BufferedProtocol):
    """A connection as the node sees it."""

    def __init__(self, node: Node, listener: Listener) -> None:
        self.node = node
        self.listener = listener
        self.sasl = listener.sasl_server()
        self.principal = "User:ANONYMOUS"
        self.client_host = ""
        self.transport: asyncio.Transport | None = None
        limit = listener.unauthenticated_max_bytes if self.sasl else listener.max_request_bytes
        self._frames = FrameBuffer(limit, _EAGER)
        self._waiting: deque[bytes | memoryview] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()

    def __repr__(self) -> str:
        return f"<Session of {self.client_host} as {self.principal}, {len(self._waiting)} requests waiting>"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else ""
        self.principal = self.listener.principal(transport)
        self.node.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._waiting.extend(self._frames.written(nbytes))
        except ProtocolError as error:
            self.node.refused(self, error)
            self.close()
            return
        self._begin_work()
        if len(self._waiting) > _MOST_WAITING and self.transport is not None:
            self.transport.pause_reading()

    def authenticated(self, principal: str) -> None:
        """The client has said who it is: from now on its requests may be large."""
        self.principal = principal
        self._frames.max_frame = self.listener.max_request_bytes

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """End the connection; what was not answered never will be."""
        if self.transport is not None:
            self.transport.abort()

    def close_after_writing(self) -> None:
        """End the connection once the last answer is on its way."""
        if self.transport is not None:
            self.transport.close()

    def _begin_work(self) -> None:
        if self._waiting and self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())
            self._worker.add_done_callback(self._worked)

    async def _work(self) -> None:
        while self._waiting:
            frame = self._waiting.popleft()
            if self.transport is not None and len(self._waiting) <= _MOST_WAITING:
                self.transport.resume_reading()
            try:
                answer = await self.node.answer(self, frame)
            except ProtocolError as error:
                self.node.refused(self, error)
                self._waiting.clear()
                if self.transport is not None and not self.transport.is_closing():
                    self.close()
                return
            if answer is not None:
                self.write(answer)
                await self._room.wait()

    def _worked(self, worker: asyncio.Task[None]) -> None:
        self._worker = None
        error = None if worker.cancelled() else worker.exception()
        if error is not None:
            self.close()
            self.node.broken(error)
            return
        # A frame may have come after the worker saw that there was none and before this was called.
        self._begin_work()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._room.set()
        self._waiting.clear()
        if self._worker is not None:
            self._worker.cancel()
        self.node.closed(self)
