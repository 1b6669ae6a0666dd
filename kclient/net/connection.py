"""One socket to one broker: requests go out in order, answers come back in order.

`dial` makes a connection and hands it over ready; `kclient.cluster` owns it from then on. Nothing here
retries or knows what a topic is.

A connection is open, then closed, once. While it is open a gate may hold requests back: during a throttle
(KIP-219) and during re-authentication (KIP-368), when the broker would refuse anything but SASL. Held
requests keep their order and their deadlines.

Kafka answers strictly in the order of the requests, so whatever is wrong with one answer is wrong with all
that follow: a missed deadline, an unexpected correlation id or bytes that make no sense close the
connection, and every request in flight fails with an error that a caller may retry.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from kclient.clock import Deadline
from kclient.errors import AuthenticationError, KafkaConnectionError, KafkaError, ProtocolError
from kclient.wire.api import negotiate
from kclient.wire.frame import FrameBuffer, correlation_id_of, decode_response, encode_request
from kclient.wire.message import Request, Response
from kclient.wire.versions import VersionRange

R = TypeVar("R", bound=Response)
Completion = Callable[[Any], None]

_CORRELATION_IDS = 1 << 31
# Far more than any answer has before requests are allowed. Until then the other side may be anybody.
_MAX_FRAME_UNTIL_READY = 1 << 20


class InFlight(NamedTuple):
    """A request that awaits its answer, or its turn."""

    request: Request[Any]
    version: int
    deadline: Deadline
    done: Completion


class Connection(asyncio.BufferedProtocol):
    """A pipelined connection. `call` awaits one answer; `send` takes a callback and never waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, client_id: str, max_frame: int) -> None:
        self.name = name
        self.client_id = client_id
        self.versions: dict[int, VersionRange] = {}
        self.last_used: float = loop.time()
        self.throttled_until: float = 0.0
        self.error: KafkaError | None = None
        # What it would mean if the broker hung up before its next answer; forgotten with that answer.
        self.silence_means: str = ""
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._max_frame = max_frame
        self._frames = FrameBuffer(min(max_frame, _MAX_FRAME_UNTIL_READY))
        self._in_flight: deque[tuple[int, InFlight]] = deque()
        self._held: deque[InFlight] = deque()
        self._gates = 0
        self._unsent: list[bytes] = []
        self._correlation_id = 0
        self._chosen: dict[tuple[type[Request[Any]], int | None], int] = {}
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._throttle_timer: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._ungated = asyncio.Event()
        self._ungated.set()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._on_close: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        state = f"closed: {self.error}" if self.closed else f"open, {len(self._in_flight)} in flight"
        held = f", {len(self._held)} held" if self._held else ""
        return f"<Connection {self.name} {state}{held}>"

    @property
    def closed(self) -> bool:
        return self.error is not None

    @property
    def pending(self) -> int:
        """How many requests have not been answered."""
        return len(self._in_flight) + len(self._held)

    @property
    def receiving(self) -> bool:
        """Whether a part of an answer has come, and not all of it."""
        return self._frames.begun

    def version_for(self, request: type[Request[Any]], newest: int | None = None) -> int:
        """The newest version of a request that this broker and we both speak; `newest` limits ours."""
        version = self._chosen.get((request, newest))
        if version is None:
            first, last = request.versions
            last -= request.latest_unstable
            ours = VersionRange(first, last if newest is None else min(last, newest))
            version = negotiate(request.api_key, ours, self.versions.get(request.api_key))
            self._chosen[request, newest] = version
        return version

    async def call(
        self, request: Request[R], deadline: Deadline, *, version: int | None = None, past_gate: bool = False
    ) -> R:
        """Send a request and wait for its answer. Cancelling ends the waiting; the answer is then ignored."""
        answer: asyncio.Future[R] = self._loop.create_future()
        self.send(request, deadline, partial(_resolve, answer), version=version, past_gate=past_gate)
        try:
            return await answer
        finally:
            del answer  # its exception has this frame in its traceback: a cycle

    def send(
        self,
        request: Request[R],
        deadline: Deadline,
        done: Completion,
        *,
        version: int | None = None,
        past_gate: bool = False,
    ) -> None:
        """Send a request; `done` is called once, with the answer or with a `KafkaError`."""
        if self.error is not None:
            done(self._lost())
            return
        if version is None:
            try:
                version = self.version_for(type(request))
            except KafkaError as error:
                done(error)
                return
        entry = InFlight(request, version, deadline, done)
        if self._gates and not past_gate:
            self._held.append(entry)
            self._arm(deadline.at)
        else:
            self._write(entry)

    def send_unanswered(self, request: Request[Any], version: int | None = None) -> None:
        """Send a request to which the broker gives no answer: producing with acks=0."""
        if self.error is not None:
            raise self._lost()
        self._write_frame(request, self.version_for(type(request)) if version is None else version)

    @property
    def has_room(self) -> bool:
        """Whether a request would be written now: no gate holds it back, and the socket takes more bytes."""
        return not self._gates and self._room.is_set()

    async def ungated(self) -> None:
        """Wait while a gate is closed; a throttle and a re-authentication end by themselves."""
        await self._ungated.wait()

    async def writable(self, deadline: Deadline) -> None:
        """Wait while the socket takes no more bytes."""
        if self._room.is_set():
            return
        try:
            async with asyncio.timeout_at(deadline.at):
                await self._room.wait()
        except TimeoutError:
            raise KafkaConnectionError(
                f"{self.name} has taken no bytes for {deadline.seconds:g} s: it or its network is overloaded"
            ) from None

    async def written(self, deadline: Deadline) -> None:
        """Wait until the system has taken all bytes: what no answer will confirm would be lost by closing."""
        if self._unsent:
            self._flush()
        if self.error is None and self._transport is not None:
            self._transport.set_write_buffer_limits(0)  # so `_room` is there when nothing is left
            try:
                await self.writable(deadline)
            finally:
                self._transport.set_write_buffer_limits()

    def ready(self) -> None:
        """The other side is a broker, and has let us in: its answers may be as large as the client allows."""
        self._frames.max_frame = self._max_frame

    def hold(self) -> None:
        """Close the gate: requests wait until `release` has been called as often as `hold`."""
        self._gates += 1
        self._ungated.clear()

    def release(self) -> None:
        """Open the gate; what waited is written in order."""
        self._gates -= 1
        if not self._gates:
            self._ungated.set()
        while self._held and not self._gates and self.error is None:
            self._write(self._held.popleft())

    def close(self, error: KafkaError | None = None) -> None:
        """Close the socket at once; requests in flight fail with an error that names the reason."""
        if self.error is not None:
            return
        self.error = error or KafkaConnectionError(f"connection to {self.name} was closed by this client")
        for timer in (self._timer, self._throttle_timer):
            if timer is not None:
                timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._room.set()
        self._ungated.set()
        sent, unsent = list(self._in_flight), list(self._held)
        self._in_flight.clear()
        self._held.clear()
        for _, entry in sent:
            entry.done(self._lost(sent=True))
        for entry in unsent:
            entry.done(self._lost())
        self._frames.discard()
        # Each of them, like the transport, may lead back to here: what is closed must not wait for the
        # garbage collector.
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()

    def on_close(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the connection closes."""
        self._on_close.append(callback)

    async def wait_closed(self) -> None:
        """Wait until the transport has let go of the socket."""
        await asyncio.shield(self._gone)

    def _lost(self, *, sent: bool = False) -> KafkaError:
        """A new error for each request, because a traceback belongs to one of them.

        What was sent while the session lasted may have been done, so it is not refused.
        """
        refused = isinstance(self.error, AuthenticationError) and not sent
        kind = AuthenticationError if refused else KafkaConnectionError
        lost = kind(str(self.error))
        lost.__cause__ = self.error
        return lost

    # Writing

    def _write(self, entry: InFlight) -> None:
        try:
            correlation_id = self._write_frame(entry.request, entry.version)
        except KafkaError as error:  # a value that cannot be encoded harms nobody but its request
            entry.done(error)
            return
        self._in_flight.append((correlation_id, entry))
        self._arm(entry.deadline.at)

    def _write_frame(self, request: Request[Any], version: int) -> int:
        self._correlation_id = correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        frame = encode_request(request, version, correlation_id, self.client_id)
        self.last_used = self._loop.time()
        if not self._in_flight and not self._unsent and self._transport is not None:
            self._transport.write(frame)
            return correlation_id
        # Behind other requests: one write for all of this turn of the loop, as a system call costs more than
        # a request. Alone it is written at once, as then the turn is what costs.
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(frame)
        return correlation_id

    def _flush(self) -> None:
        frames, self._unsent = self._unsent, []
        if self.error is None and self._transport is not None:
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def _arm(self, at: float) -> None:
        """Have `_check_deadlines` run by then. One timer serves all requests: it fires for the earliest."""
        if self._timer is None or at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            # Its time is kept here: what uvloop gives for a moment that has come knows none.
            self._timer, self._timer_at = self._loop.call_at(at, self._check_deadlines), at

    def _check_deadlines(self) -> None:
        self._timer = None
        now = self._loop.time()
        for _, entry in self._in_flight:
            if entry.deadline.at <= now:
                what = f"{entry.request.api_key.name} to {self.name}"
                self.close(entry.deadline.expired(f"{what} ({len(self._in_flight)} requests in flight)"))
                return
        for entry in [held for held in self._held if held.deadline.at <= now]:
            self._held.remove(entry)
            what = f"{entry.request.api_key.name} to {self.name}"
            entry.done(KafkaConnectionError(f"{what} was held back for {entry.deadline.seconds:g} s"))
        rest = [entry.deadline.at for _, entry in self._in_flight] + [held.deadline.at for held in self._held]
        if rest:
            self._arm(min(rest))

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By contract it reads and writes; uvloop's does, and is no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        if self.error is not None:
            return
        try:
            for frame in self._frames.written(nbytes):
                self._answer(frame)
        except KafkaError as error:
            _forget_frames(error)
            self.close(error)

    def _answer(self, frame: bytes | memoryview) -> None:
        if not self._in_flight:
            raise ProtocolError(f"{self.name} sent {len(frame)} bytes that nothing was asked for")
        expected, entry = self._in_flight[0]
        received = correlation_id_of(frame)
        if received != expected:
            raise ProtocolError(f"{self.name} answered request {received} where {expected} was the next")
        self.last_used = self._loop.time()
        self.silence_means = ""
        try:
            response = decode_response(frame, type(entry.request), entry.version)
        except ProtocolError as error:
            _forget_frames(error)  # before a future notes them
            self._in_flight.popleft()
            entry.done(error)
            raise
        # Taken off only now: were the decoder itself defective, closing must still find the request.
        self._in_flight.popleft()
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttle(throttle_ms / 1000)
        entry.done(response)

    def _throttle(self, seconds: float) -> None:
        """The broker asks for silence; requests written before it said so are not affected."""
        until = self._loop.time() + seconds
        if until <= self.throttled_until:
            return
        self.throttled_until = until
        if self._throttle_timer is None:
            self.hold()
        else:
            self._throttle_timer.cancel()
        self._throttle_timer = self._loop.call_at(until, self._end_throttle)

    def _end_throttle(self) -> None:
        self._throttle_timer = None
        self.release()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def eof_received(self) -> bool:
        self.close(KafkaConnectionError(f"{self.name} closed the connection{self.silence_means}"))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        error = KafkaConnectionError(f"connection to {self.name} was lost: {exc or 'closed'}")
        if exc is not None:
            _forget_frames(exc)
            error.__cause__ = exc
        self.close(error)
        self._transport = None
        if not self._gone.done():
            self._gone.set_result(None)


def _resolve(answer: asyncio.Future[R], outcome: R | KafkaError) -> None:
    if answer.done():
        return
    if isinstance(outcome, KafkaError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that is kept: their frames hold the bytes that were wrong."""
    known: BaseException | None = error
    while known is not None:
        known.__traceback__ = None
        known = known.__cause__ or known.__context__
