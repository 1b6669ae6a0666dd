"""What goes wrong while a producer sends, drawn from a seed: in the broker, in the cluster, on the network.

Faults that say "this batch was not written" are honest: they never meet one that was. A broker that lies
about that (or has forgotten its producers) makes any client write twice, so nothing could be checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kclient import errors
from kclient.broker import Broker
from kclient.broker.api import RequestContext
from kclient.broker.faults import Fault, Kind
from kclient.errors import BrokerError
from kclient.records.layout import HEADER, BatchHeader
from kclient.testing import Conditions, Simulation
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from kclient.wire.messages.produce import ProduceRequest

HOST = "127.0.0.1"
NODES = (1, 2, 3)
ASKED = (ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, None)


def _kinds(above: type[BrokerError]) -> list[type[BrokerError]]:
    found = above.__subclasses__()
    return found + [kind for below in found for kind in _kinds(below)]


# The broker may or may not have written what it answers so; all of them may pass.
RETRIABLE = sorted(
    (kind for kind in _kinds(BrokerError) if kind.retriable and getattr(kind, "code", None) is not None),
    key=lambda kind: kind.code,
)
FATAL = (
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.TopicAuthorizationFailedError,
    errors.UnknownServerError,
    errors.UnsupportedForMessageFormatError,
    errors.PolicyViolationError,
)
# These say that the batch is not in the log.
REFUSALS = (
    errors.OutOfOrderSequenceNumberError,
    errors.UnknownProducerIdError,
    errors.InvalidProducerEpochError,
    errors.InvalidProducerIdMappingError,
    errors.MessageTooLargeError,
    errors.RecordListTooLargeError,
)


class Honest:
    """A hook: refuses requests of which nothing is written, and calls those repeated that are."""

    def __init__(self) -> None:
        self.refusals: list[type[BrokerError]] = []
        self.repetitions = 0

    def __call__(self, context: RequestContext, request: Request[Any]) -> None:
        if not isinstance(request, ProduceRequest):
            return
        written = self._written(context, request)
        if self.refusals and not any(written):
            raise self.refusals.pop(0)
        if self.repetitions and all(written):
            self.repetitions -= 1
            raise errors.DuplicateSequenceNumberError

    @staticmethod
    def _written(context: RequestContext, request: ProduceRequest) -> list[bool]:
        found = []
        for topic in request.topic_data:
            for data in topic.partition_data:
                log = context.broker.topics.partition(topic.name, data.index, topic.topic_id).log
                header = BatchHeader(*HEADER.unpack_from(data.records or b""))
                found.append(header.producer_id >= 0 and log.producers.duplicate_of(header) is not None)
        return found


class Trouble:
    """Makes one thing after the other go wrong, and all of it right again at the end."""

    def __init__(self, sim: Simulation, broker: Broker, topic: str, partitions: int) -> None:
        self._sim = sim
        self._random = sim.random
        self._broker = broker
        self._topic = topic
        self._partitions = partitions
        self._planned: list[Fault] = []
        self._honest = Honest()
        broker.faults.hook = self._honest
        self._kinds: list[Callable[[], None]] = [
            self._answer_retriable,
            self._answer_retriable,
            self._refuse,
            self._refuse,
            self._answer_fatal,
            self._say_repeated,
            self._delay,
            self._throttle,
            self._trickle,
            self._go_half_open,
            self._drop,
            self._drop,
            self._close,
            self._close,
            self._move_leaders,
            self._change_latency,
            self._reset,
            self._silence,
            self._pause_one_way,
            self._refuse_connections,
        ]

    async def run(self, events: int, pause: float) -> None:
        """`events` things go wrong: some from the beginning, then with up to `pause` seconds between them."""
        chosen = self._random.sample(self._kinds, self._random.randint(2, 10))
        stops = self._random.random() < 0.5
        at_once = self._random.randint(0, 4)
        self._change_latency()
        for number in range(events):
            if number >= at_once:
                await asyncio.sleep(self._random.uniform(0, pause))
            if stops and self._random.random() < 0.2:
                await self._stop_or_start()
            else:
                self._random.choice(chosen)()

    async def end(self) -> None:
        """Everything is as it was."""
        network, faults = self._sim.network, self._broker.faults
        faults.clear()
        network.heal()
        for node in NODES:
            network.admit(self._place(node))
            if not self._broker.is_running(node):
                await self._broker.start_node(node)

    @property
    def met(self) -> set[Kind]:
        """What of all that was planned in the broker has come about."""
        return {fault.kind for fault in self._planned if fault.met}

    def _place(self, node: int) -> tuple[str, int]:
        return HOST, self._broker.nodes[node].listeners["PLAINTEXT"].port

    def _node(self) -> int:
        return self._random.choice(NODES)

    def _whom(self) -> dict[str, Any]:
        """How often, and to which node it happens."""
        random = self._random
        return {"times": random.randint(1, 6), "node": random.choice([None, None, *NODES])}

    # In the broker

    def _plan(self, make: Callable[..., Fault], *arguments: Any, **options: Any) -> None:
        self._planned.append(make(*arguments, **options))

    def _answer_retriable(self) -> None:
        key = self._random.choice([ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID])
        self._plan(self._broker.faults.answer_with, key, self._random.choice(RETRIABLE), **self._whom())

    def _answer_fatal(self) -> None:
        kind = self._random.choice(FATAL)
        self._plan(self._broker.faults.answer_with, ApiKey.PRODUCE, kind, **self._whom())

    def _refuse(self) -> None:
        kind = self._random.choice(REFUSALS)
        self._honest.refusals += [kind] * self._random.randint(1, 3)

    def _say_repeated(self) -> None:
        self._honest.repetitions += self._random.randint(1, 3)
        self._plan(self._broker.faults.close, ApiKey.PRODUCE, handled=True)

    def _delay(self) -> None:
        seconds = self._random.choice([0.05, 0.5, 3.0])
        self._plan(self._broker.faults.delay, self._random.choice(ASKED), seconds, **self._whom())

    def _throttle(self) -> None:
        milliseconds = self._random.choice([50, 500, 3000])
        self._plan(self._broker.faults.throttle, ApiKey.PRODUCE, milliseconds, **self._whom())

    def _trickle(self) -> None:
        pace = self._random.choice([20, 100, 1000])
        self._plan(self._broker.faults.slow, self._random.choice(ASKED), pace, **self._whom())

    def _go_half_open(self) -> None:
        self._plan(self._broker.faults.half_open, self._random.choice(ASKED), node=self._node())

    def _drop(self) -> None:
        handled = self._random.random() < 0.5
        self._plan(self._broker.faults.drop, self._random.choice(ASKED), handled=handled, **self._whom())

    def _close(self) -> None:
        handled = self._random.random() < 0.5
        self._plan(self._broker.faults.close, self._random.choice(ASKED), handled=handled, **self._whom())

    # In the cluster

    def _move_leaders(self) -> None:
        for partition in range(self._partitions):
            if self._random.random() < 0.5:
                running = [node.node_id for node in self._broker.running()]
                if running:
                    self._broker.move_leader(self._topic, partition, self._random.choice(running))

    async def _stop_or_start(self) -> None:
        node = self._node()
        if self._broker.is_running(node):
            await self._broker.stop_node(node)
        else:
            await self._broker.start_node(node)

    # On the network

    def _later(self, what: Callable[..., object], *arguments: Any) -> None:
        self._sim.loop.call_later(self._random.choice([0.1, 1.0, 5.0]), what, *arguments)

    def _change_latency(self) -> None:
        most = self._random.choice([0.001, 0.02, 0.2])
        pieces = self._random.choice([None, None, None, (20, 500)])
        self._sim.network.conditions(Conditions(latency=(0.0, most), segments=pieces))

    def _reset(self) -> None:
        self._sim.network.reset(self._place(self._node()))

    def _silence(self) -> None:
        place = self._place(self._node())
        self._sim.network.silence(place)
        self._later(self._sim.network.heal, place)

    def _pause_one_way(self) -> None:
        """Requests do not get there, or are done and the answers do not come back."""
        place = self._place(self._node())
        way = (place, None) if self._random.random() < 0.5 else (None, place)
        self._sim.network.pause(*way)
        self._later(self._sim.network.resume, *way)

    def _refuse_connections(self) -> None:
        place = self._place(self._node())
        self._sim.network.refuse(place)
        self._later(self._sim.network.admit, place)
