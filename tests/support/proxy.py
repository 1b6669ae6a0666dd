"""A way to a real broker that breaks at will: it knows Kafka's frames, and what each answer is an answer to.

The broker needs a listener that advertises the proxy's port (`tools.kafka.Listener`), or clients go round it.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Self

from kclient.wire.api import ApiKey
from tools.kafka.ports import HOST

_SIZE = struct.Struct(">i")
_API_KEY = struct.Struct(">h")


class Proxy:
    """Forwards `port` to `target`. Every `cut_every`th answer to `api` gets lost, and the connection with it.

    The broker has done by then what it was asked for. 0 cuts nothing.
    """

    def __init__(self, port: int, target: tuple[str, int], api: ApiKey = ApiKey.PRODUCE) -> None:
        self.cut_every = 0
        self.cuts = 0
        self.answered = 0
        self.target = target
        self.api = api
        self._port = port
        self._server: asyncio.Server | None = None
        self._open: set[_Passage] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Near(self), HOST, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for passage in list(self._open):
            passage.cut()
        await asyncio.sleep(0)

    def opened(self, passage: _Passage) -> None:
        self._open.add(passage)

    def closed(self, passage: _Passage) -> None:
        self._open.discard(passage)

    def loses(self) -> bool:
        """Whether the next answer gets lost."""
        self.answered += 1
        if not self.cut_every or self.answered % self.cut_every:
            return False
        self.cuts += 1
        return True


class _Frames:
    """Cuts a stream of bytes into frames, each with its size in front."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._rest += data
        frames = []
        while len(self._rest) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._rest)[0]
            if len(self._rest) < end:
                break
            frames.append(bytes(self._rest[:end]))
            del self._rest[:end]
        return frames


class _Passage:
    """One connection through the proxy: two transports, and the APIs of the requests in flight."""

    def __init__(self, proxy: Proxy, near: asyncio.Transport) -> None:
        self._proxy = proxy
        self._near = near
        self._far: asyncio.Transport | None = None
        self._before: list[bytes] = []
        self._asked: deque[int] = deque()
        self._requests = _Frames()
        self._answers = _Frames()
        proxy.opened(self)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    def asked(self, data: bytes) -> None:
        for frame in self._requests.feed(data):
            self._asked.append(_API_KEY.unpack_from(frame, _SIZE.size)[0])
        if self._far is None:
            self._before.append(data)
        else:
            self._far.write(data)

    def answered(self, data: bytes) -> None:
        for frame in self._answers.feed(data):
            if self._asked.popleft() == self._proxy.api and self._proxy.loses():
                self.cut()
                return
            self._near.write(frame)

    def cut(self) -> None:
        self._proxy.closed(self)
        self._opening.cancel()
        self._near.abort()
        if self._far is not None:
            self._far.close()  # in good order: what the broker was sent before, it gets

    async def _open(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            self._far, _ = await loop.create_connection(lambda: _Far(self), *self._proxy.target)
        except OSError:
            self.cut()
            return
        self._far.writelines(self._before)


class _Near(asyncio.Protocol):
    """The client's side."""

    _passage: _Passage

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._passage = _Passage(self._proxy, transport)

    def data_received(self, data: bytes) -> None:
        self._passage.asked(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._passage.cut()


class _Far(asyncio.Protocol):
    """The broker's side."""

    def __init__(self, passage: _Passage) -> None:
        self._passage = passage

    def data_received(self, data: bytes) -> None:
        self._passage.answered(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._passage.cut()
