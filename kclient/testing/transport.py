"""One end of a connection in memory, with the behaviour of asyncio's own socket transports.

What does not fit into the window of the pipe waits here, `pause_writing` and `resume_writing` tell the
protocol. `close` lets it out first; `connection_lost` comes when it is out, which may be never where the
other end does not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, cast

from kclient.testing.errors import UnsupportedError
from kclient.testing.sockets import MemorySocket

if TYPE_CHECKING:
    from kclient.testing.network import Network
    from kclient.testing.pipe import Pipe

HIGH_WATER = 64 * 1024


class MemoryTransport(asyncio.Transport):
    """What a protocol gets from `create_connection` and `create_server`. Both ends are made alike."""

    def __init__(
        self,
        network: Network,
        protocol: asyncio.BaseProtocol,
        pipes: tuple[Pipe, Pipe],
        ended: Callable[[MemoryTransport], None],
        context: Context | None,
    ) -> None:
        super().__init__()
        self.lost: bool = False
        self._network = network
        self._protocol = protocol
        self._out, self._in = pipes
        self._ended = ended
        self._context = context
        self._outbox = bytearray()
        self._low, self._high = HIGH_WATER // 4, HIGH_WATER
        self._paused = False  # the protocol has been asked to write no more
        self._reading = True
        self._eof = False
        self._closing = False
        self._end_sent = False
        self._reset_sent = False
        self._socket: MemorySocket | None = None  # made for those that ask
        self._out.taken = self._make_room
        self._in.receiver = self
        self._in.context = context

    def __repr__(self) -> str:
        state = "lost" if self.lost else "closing" if self._closing else "open"
        return f"<MemoryTransport {_shown(self._out.source)} to {_shown(self._out.target)} {state}>"

    def begin(self) -> None:
        self._protocol.connection_made(self)

    # What a protocol calls

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            if self._socket is None:
                self._socket = MemorySocket(self._out.source, self._out.target)
            return self._socket
        return {"peername": self._out.target, "sockname": self._out.source}.get(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        if self.is_reading():
            self._reading = False
            self._in.read(False)

    def resume_reading(self) -> None:
        if not self._closing and not self._reading:
            self._reading = True
            self._in.read(True)

    def get_write_buffer_size(self) -> int:
        return len(self._outbox)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low, self._high = low, high
        self._ask_to_pause()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not self._closing:
            self._outbox += data
            self._pump()
            self._ask_to_pause()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Say that nothing more comes, and go on reading."""
        if not self._closing and not self._eof:
            self._eof = True
            if not self._outbox:
                self._send_end()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._in.read(True)  # what still arrives is answered with a reset
        if not self._outbox:
            self._finish()

    def abort(self) -> None:
        self.force(None)

    def sendfile(self, *_: object, **__: object) -> None:
        raise UnsupportedError("a connection in memory has no file descriptor to send a file to")

    # What the network calls

    def take(self, data: bytes) -> None:
        """Bytes have arrived. At an end that is closed nobody reads them, which the sender gets to know."""
        if self._closing:
            self._send_reset()
            return
        try:
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                self._fill(self._protocol, data)
            else:
                cast("asyncio.Protocol", self._protocol).data_received(data)
        except Exception as error:  # noqa: BLE001 - as asyncio does
            self._fail(error, "reading")

    def take_end(self) -> None:
        """The end of the stream has arrived."""
        if self._socket is not None:
            self._socket.no_more()
        if self._closing:
            return
        try:
            keep = cast("asyncio.Protocol", self._protocol).eof_received()
        except Exception as error:  # noqa: BLE001 - as asyncio does
            self._fail(error, "ending")
            return
        if not keep:
            self.close()

    def take_reset(self) -> None:
        self._reset_sent = True  # a reset is not answered
        self.force(ConnectionResetError(104, "Connection reset by peer"))

    def force(self, error: Exception | None) -> None:
        """End at once: what is unsent is lost, the other end sees a reset."""
        if not self.lost:
            self._closing = True
            self._outbox.clear()
            self._in.read(True)
            self._send_reset()
            self._network.loop.call_soon(self._lose, error, context=self._context)

    def _fill(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        while data and not self._closing:
            buffer: Any = protocol.get_buffer(-1)
            if not len(buffer):
                raise RuntimeError("get_buffer() returned an empty buffer")
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            del buffer
            protocol.buffer_updated(count)
            data = data[count:]

    def _pump(self) -> None:
        room = self._network.window - self._out.in_flight
        if self._outbox and room > 0:
            piece = bytes(self._outbox[:room])
            del self._outbox[:room]
            self._out.send(piece)

    def _make_room(self) -> None:
        """The other end has taken some bytes."""
        if self.lost:
            return
        had = bool(self._outbox)
        self._pump()
        if self._paused and len(self._outbox) <= self._low:
            self._paused = False
            self._network.loop.call_soon(self._protocol.resume_writing, context=self._context)
        if had and not self._outbox:
            if self._closing:
                self._finish()
            elif self._eof:
                self._send_end()

    def _ask_to_pause(self) -> None:
        if len(self._outbox) > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def _finish(self) -> None:
        """All is out: end in good order."""
        self._send_end()
        self._network.loop.call_soon(self._lose, None, context=self._context)

    def _send_end(self) -> None:
        if not self._end_sent:
            self._end_sent = True
            self._out.send_end()

    def _send_reset(self) -> None:
        if not self._reset_sent:
            self._reset_sent = True
            self._out.send_reset()

    def _fail(self, error: Exception, doing: str) -> None:
        context = {"message": f"Fatal error: a protocol failed in {doing}", "exception": error}
        self._network.loop.call_exception_handler({**context, "transport": self, "protocol": self._protocol})
        self.force(error)

    def _lose(self, error: Exception | None) -> None:
        if not self.lost:
            self.lost = True
            if self._socket is not None:
                self._socket.close()
            self._ended(self)
            self._protocol.connection_lost(error)


def _shown(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"
