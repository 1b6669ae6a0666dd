"""One client's connection to a node: frames in, answers out, in order.

Requests of a connection are worked off one after the other, as Kafka does, so a fetch that waits holds up
what comes behind it. A connection that sends nothing costs no task and no buffer; one that sends more than
it takes answers for is not read from; one that neither completes a request nor takes an answer for
`connections.max.idle.ms` is closed by its node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from kclient.errors import ProtocolError
from kclient.wire.api import ApiKey
from kclient.wire.frame import FrameBuffer

if TYPE_CHECKING:
    from kclient.broker.node import Listener, Node
    from kclient.broker.security.sasl_server import SaslServer

_MOST_WAITING = 16
_EAGER = 4 * 1024
_SCRATCH = 1 * 1024
_SLICES = 10  # a slow answer goes out in so many pieces a second


class Session(asyncio.BufferedProtocol):
    """A connection as the node sees it.

    `busy` while a request is being handled, `silent` once a fault has made it so.
    """

    def __init__(self, node: Node, listener: Listener) -> None:
        self.node = node
        self.listener = listener
        self.sasl: SaslServer | None = listener.sasl_server()
        self.principal: str = "User:ANONYMOUS"
        self.client_host: str = ""
        self.transport: asyncio.Transport | None = None
        self.active_at: float = 0.0
        self.busy: bool = False
        limit = listener.unauthenticated_max_bytes if self.sasl else listener.max_request_bytes
        self._frames = FrameBuffer(limit, _EAGER, _SCRATCH)
        self._waiting: deque[bytes | memoryview] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.silent: bool = False
        self._ended = False  # by us: what is left is not worth handling
        self._gone = False  # the client, or its network
        self._pace: int | None = None
        self._rest = 0.0

    def __repr__(self) -> str:
        return f"<Session of {self.client_host} as {self.principal}, {len(self._waiting)} requests waiting>"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By contract it reads and writes; uvloop's does, and is no subclass of asyncio's.
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else ""
        self.principal = self.listener.principal(self.transport)
        self.node.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._frames.written(nbytes)
        except ProtocolError as error:
            self.node.refused(self, error)
            self.close()
            return
        if not frames or self.silent:
            return
        self.node.touched(self)
        self._waiting.extend(frames)
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
        self._ended = True
        if self.transport is not None:
            self.transport.abort()

    def close_after_writing(self) -> None:
        """End the connection once the last answer is on its way."""
        self._ended = True
        if self.transport is not None:
            self.transport.close()

    def close_idle(self) -> None:
        """Say goodbye, but do not wait for a client that does not take what was sent."""
        self._ended = True
        if self.transport is not None and not self.transport.get_write_buffer_size():
            self.transport.close()
        else:
            self.close()

    # Faults

    def fall_silent(self) -> None:
        """Neither answer nor close from now on, whatever comes: what a client has of a node that vanished."""
        self.silent = True

    def slow_down(self, bytes_per_second: int) -> None:
        """Let the answer to the request under way trickle."""
        self._pace = bytes_per_second

    def rest(self, seconds: float) -> None:
        """Look at no further request until some time after the answer, as Kafka does when it throttles."""
        self._rest = seconds

    # The work

    def _begin_work(self) -> None:
        if self._waiting and self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())
            self._worker.add_done_callback(self._worked)

    async def _work(self) -> None:
        # A fault may have ended the connection, which is told to us no sooner than in the loop's next turn.
        while self._waiting and not self.silent and not self._ended:
            frame = self._waiting.popleft()
            if self.transport is not None and len(self._waiting) <= _MOST_WAITING:
                self.transport.resume_reading()
            self.busy = True
            try:
                answer = await self.node.answer(self, frame)
            except ProtocolError as error:
                self.node.refused(self, error)
                self._waiting.clear()
                if not self._ended:
                    self.close()
                return
            self.busy = False
            self.node.touched(self)
            if answer is not None:
                await self._send(answer)
            if self._rest:
                seconds, self._rest = self._rest, 0.0
                await asyncio.sleep(seconds)

    async def _send(self, answer: bytes) -> None:
        if self._pace is None:
            self.write(answer)
        else:
            pace, self._pace = self._pace, None
            size = max(1, pace // _SLICES)
            for start in range(0, len(answer), size):
                await asyncio.sleep(size / pace)
                self.write(answer[start : start + size])
                self.node.touched(self)
        await self._room.wait()

    def _worked(self, worker: asyncio.Task[None]) -> None:
        self._worker = None
        self.busy = False
        error: BaseException | None
        if worker.cancelled():
            # By us, where the client has gone; else somebody who waits would never be answered.
            error = None if self._gone else asyncio.CancelledError(f"the work of {self!r} was cancelled")
        else:
            error = worker.exception()
        if error is not None:
            self.close()
            self.node.broken(error)
            return
        # A frame may have come after the worker saw that there was none and before this was called.
        if not self.silent and not self._ended:
            self._begin_work()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.set()
        self._gone = True
        # A client that waits for no answer (acks=0) may leave when it has sent everything: what came before
        # an orderly end is written, as by Kafka. Whatever else it asked for has nobody to be told.
        left = [] if exc or self._ended else [frame for frame in self._waiting if _is_produce(frame)]
        self._waiting = deque(left)
        if self._worker is not None:
            self._worker.cancel()
        else:
            self._begin_work()
        self.node.closed(self)


def _is_produce(frame: bytes | memoryview) -> bool:
    return int.from_bytes(frame[:2]) == ApiKey.PRODUCE
