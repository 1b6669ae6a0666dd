"""Frames: four bytes of size, a header, a message. Functions on bytes and one buffer, no sockets.

Request headers are version 2 in flexible versions of a request and 1 before, response headers 1 and 0.
ApiVersions is the exception: its response always has header 0, and a broker that does not know the asked
version answers in version 0, so that both sides can begin without knowing each other.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from kclient.errors import EncodeError, FrameTooLargeError, ProtocolError
from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.messages import request_class
from kclient.wire.messages.headers import RequestHeader, ResponseHeader

R = TypeVar("R", bound=Response)

DEFAULT_MAX_FRAME = 100_000_000
_SIZE = struct.Struct(">i")
_HEADER_START = struct.Struct(">hhi")
_UNSUPPORTED_VERSION = 35
_SCRATCH = 64 * 1024
# Buffers beyond this are not kept: so many bytes that nobody reads would be felt.
_KEPT = 8 << 20
_GROWTH = 4


def encode_request(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A whole frame, ready to be written."""
    before, after = _around_correlation_id(type(request), version, client_id)
    try:
        pieces: list[bytes] = [b"", before, _SIZE.pack(correlation_id), after]
    except struct.error as error:
        raise EncodeError(f"correlation_id={correlation_id} does not fit into 32 bits") from error
    request.encode_into(pieces.append, version)
    pieces[0] = _SIZE.pack(sum(map(len, pieces)))
    return b"".join(pieces)


@lru_cache(maxsize=256)
def _around_correlation_id(
    request: type[Request[Any]], version: int, client_id: str | None
) -> tuple[bytes, bytes]:
    """The header of a request: all but the correlation id is the same for all of its kind."""
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=0,
        client_id=client_id,
    )
    pieces: list[bytes] = []
    header.encode_into(pieces.append, 2 if version in request.flexible else 1)
    encoded = b"".join(pieces)
    return encoded[:4], encoded[8:]


def encode_response(response: Response, version: int, correlation_id: int) -> bytes:
    """A whole frame, ready to be written."""
    header_version = _response_header_version(type(response), version)
    pieces: list[bytes] = [b""]
    ResponseHeader(correlation_id=correlation_id).encode_into(pieces.append, header_version)
    response.encode_into(pieces.append, version)
    pieces[0] = _SIZE.pack(sum(map(len, pieces)))
    return b"".join(pieces)


class IncomingRequest(NamedTuple):
    """The header of a request frame and where its body starts."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: int


def decode_request_header(frame: bytes | memoryview) -> IncomingRequest:
    """Read a request's header; an unknown API or version is for the caller to answer."""
    try:
        key, version, correlation_id = _HEADER_START.unpack_from(frame)
    except struct.error as error:
        raise ProtocolError(f"request of {len(frame)} bytes is shorter than a request header") from error
    header, body = RequestHeader.decode_from(frame, 0, 2 if _has_flexible_header(key, version) else 1)
    return IncomingRequest(key, version, correlation_id, header.client_id, body)


def decode_request(frame: bytes | memoryview) -> tuple[IncomingRequest, Request[Any]]:
    """Header and body of a request frame."""
    header = decode_request_header(frame)
    declaration = request_class(header.key)
    if header.version not in declaration.versions:
        raise ProtocolError(
            f"{declaration.__name__} v{header.version} is unknown, known are {declaration.versions}"
        )
    request, end = declaration.decode_from(frame, header.body, header.version)
    if end != len(frame):
        raise ProtocolError(f"{declaration.__name__} v{header.version}: {len(frame) - end} bytes left over")
    return header, request


def correlation_id_of(frame: bytes | memoryview) -> int:
    """Which request a response frame answers."""
    try:
        (correlation_id,) = _SIZE.unpack_from(frame)
    except struct.error as error:
        raise ProtocolError(f"response of {len(frame)} bytes is shorter than a response header") from error
    return int(correlation_id)


def decode_response(frame: bytes | memoryview, request: type[Request[R]], version: int) -> R:
    """The body of a response frame. Bytes after it are ignored, as Kafka's own clients do."""
    declaration = request.response
    body = 4
    if _response_header_version(declaration, version):
        # Most likely without a tagged field, and then a 0 is all that follows the correlation id.
        body = 5 if len(frame) > 4 and frame[4] == 0 else ResponseHeader.decode_from(frame, 0, 1)[1]
    if declaration.api_key == ApiKey.API_VERSIONS and frame[body : body + 2] == _UNSUPPORTED_VERSION.to_bytes(
        2
    ):
        version = 0
    message, _ = declaration.decode_from(frame, body, version)
    return message  # type: ignore[return-value]


@lru_cache(maxsize=512)
def _response_header_version(response: type[Response], version: int) -> int:
    return 1 if version in response.flexible and response.api_key != ApiKey.API_VERSIONS else 0


def _has_flexible_header(key: int, version: int) -> bool:
    try:
        return version in request_class(key).flexible
    except ProtocolError:
        return False


class FrameBuffer:
    """Cuts a byte stream into frames: the socket's owner reads into `writable()` and reports to `written()`.

    Small frames pass through one scratch buffer and come out as `bytes`. A frame that does not fit it is read
    into a buffer of its own and comes out as a `memoryview` of that, so that records are never copied. Such a
    buffer starts at `eager` bytes at most, or at what the frame before had, and grows as bytes arrive: a size
    field alone allocates nothing. While large frames follow each other, their buffers are used again as soon
    as nobody has a view of them. The scratch buffer, of `scratch` bytes, is not made before the first byte
    comes.
    """

    __slots__ = (
        "_came",
        "_eager",
        "_filled",
        "_handed_out",
        "_large",
        "_scratch",
        "_scratch_size",
        "_size",
        "max_frame",
    )

    def __init__(
        self, max_frame: int = DEFAULT_MAX_FRAME, eager: int = 1 << 20, scratch: int = _SCRATCH
    ) -> None:
        self.max_frame: int = max_frame
        self._eager = eager
        self._scratch_size = scratch
        self._scratch = bytearray()
        self._large: bytearray | None = None
        self._size = 0  # of the large frame under way
        self._came = 0  # bytes of the large frame before
        self._handed_out: list[bytearray] = []  # what the last large frames are views of
        self._filled = 0  # bytes in whichever buffer is in use

    def __repr__(self) -> str:
        under_way = f" of a frame of {self._size}" if self._large is not None else ""
        return f"<FrameBuffer {self._filled} bytes waiting{under_way}>"

    @property
    def begun(self) -> bool:
        """Whether a part of a frame is there."""
        return self._filled > 0

    def discard(self) -> None:
        """Let go of all memory: nothing more is read."""
        self._scratch, self._large, self._filled = bytearray(), None, 0
        self._handed_out.clear()

    def writable(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._filled : self._size]
        if not self._scratch:
            self._scratch = bytearray(self._scratch_size)
        return memoryview(self._scratch)[self._filled :]

    def written(self, count: int) -> list[bytes | memoryview]:
        """Take note of `count` new bytes; returns the frames that are now complete, without their sizes."""
        self._filled += count
        return self._cut_scratch() if self._large is None else self._cut_large(self._large)

    def _cut_scratch(self) -> list[bytes | memoryview]:
        scratch, filled = self._scratch, self._filled
        frames: list[bytes | memoryview] = []
        start = 0
        while filled - start >= 4:
            size = self._frame_size(start)
            end = start + 4 + size
            if end > filled:
                if size + 4 > len(scratch):
                    self._begin_large(size, scratch[start + 4 : filled])
                    return frames
                break
            frames.append(bytes(scratch[start + 4 : end]))
            start = end
        self._filled = filled - start
        if start:
            self._handed_out.clear()
            scratch[: self._filled] = scratch[start:filled]
        return frames

    def _frame_size(self, start: int) -> int:
        size: int = _SIZE.unpack_from(self._scratch, start)[0]
        if size < 0:
            raise ProtocolError(f"frame with the negative size {size}: the other side does not speak Kafka")
        if size > self.max_frame:
            error = FrameTooLargeError(
                f"frame of {size} bytes is over the limit of {self.max_frame}: "
                f"raise the limit if that is expected, else the other side does not speak Kafka"
            )
            error.size = size
            raise error
        return size

    def _begin_large(self, size: int, received: bytearray) -> None:
        large = self._unused(size)
        if large is None:
            large = received.ljust(min(size, max(self._eager, self._came, len(received) + 1)), b"\0")
        else:
            large[: len(received)] = received
        self._large = large
        self._size = size
        self._filled = len(received)

    def _unused(self, size: int) -> bytearray | None:
        """A buffer of so many bytes that was handed out, and of which there is no view any more."""
        for place, buffer in enumerate(self._handed_out):
            if len(buffer) >= size:
                try:
                    buffer.pop()  # which a buffer with a view does not allow
                except BufferError:
                    continue
                buffer.append(0)
                return self._handed_out.pop(place)
        return None

    def _cut_large(self, large: bytearray) -> list[bytes | memoryview]:
        if self._filled < min(len(large), self._size):
            return []
        if self._filled < self._size:
            self._large = large.ljust(min(self._size, len(large) * _GROWTH), b"\0")
            return []
        self._large = None
        self._filled = 0
        self._came = self._size
        if len(large) <= _KEPT:
            self._handed_out = [*self._handed_out[-1:], large]
        return [memoryview(large)[: self._size]]
