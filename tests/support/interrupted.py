"""Programs that real SIGINTs interrupt at random moments, and that say what became of everything.

Run in a process of its own by `tests/integration/test_interrupts.py`, which sends the signals:

    python -m tests.support.interrupted STORY BOOTSTRAP_SERVERS TOPIC INTERRUPTS

An interrupt is raised only inside of a story's `work`, so that what it did not finish can be counted.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from kclient import Consumer, Producer, TopicPartition
from kclient.producer import core
from kclient.runtime import brief_lock

# Seconds after which a story ends however often it was interrupted.
LONGEST = 60.0
PATIENCE_MS = 30_000


# What a hook notes must be all of it.
HOOKS = ("on_send", "on_delivery")


class Hook:
    """Notes what becomes of each number."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.refused: list[int] = []

    def on_send(self, _: object) -> None:
        return

    def on_delivery(self, record: Any, _: object, error: object) -> None:
        (self.written if error is None else self.refused).append(int(record.value))


class Interrupts:
    """Counts signals, and raises where `work` is running."""

    def __init__(self, wanted: int) -> None:
        self.left = wanted
        self.ends = time.monotonic() + LONGEST
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, _: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_name not in HOOKS:
            if frame.f_code.co_name == "work":
                self.left -= 1
                raise KeyboardInterrupt
            frame = frame.f_back

    def more(self) -> bool:
        return self.left > 0 and time.monotonic() < self.ends

    def through(self, work: Callable[[], None], mend: Callable[[], None] = lambda: None) -> None:
        """Repeat `work`, which returns by itself when there are no `more`."""
        print("begun", flush=True)
        while self.more():
            try:
                work()
            except KeyboardInterrupt:
                mend()
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def sending(servers: str, topic: str, interrupts: Interrupts, kind: str) -> dict[str, Any]:
    """One producer; the numbers whose `send` returned, each with its fate."""
    kind, _, python = kind.partition(" on ")
    if python == "3.14":  # as if this were that version
        core.brief_lock = partial(brief_lock, (3, 14))  # type: ignore[attr-defined]
    kept: list[tuple[int, Any]] = []
    number = 0
    hook = Hook()
    producer = Producer(
        bootstrap_servers=servers,
        linger_ms=5 if kind == "lingering" else 0,
        hooks=[hook] if kind == "hooks" else [],
    )
    producer.start()

    def work() -> None:
        nonlocal number
        while interrupts.more():
            number += 1
            mine = number
            value = b"%d" % mine
            if kind == "headers":
                kept.append((mine, producer.send(topic, value, headers={"h": value})))
            elif kind == "many":
                kept.append((mine, producer.send_many(topic, [value])))
            else:
                kept.append((mine, producer.send(topic, value, value)))
            if mine % 501 == 0:
                kept[-1][1].add_done_callback(lambda *_: None)
            if mine % 777 == 0:
                kept[-1][1].result(PATIENCE_MS / 1000)
            if mine % 2_000 == 0:
                producer.flush(PATIENCE_MS)

    interrupts.through(work)
    producer.flush(PATIENCE_MS)
    held = producer._core.accumulator.memory_used
    producer.close(PATIENCE_MS)
    unsettled = sum(not delivery.done() for _, delivery in kept)
    return {
        "kept": [mine for mine, _ in kept],
        "unsettled": unsettled,
        "memory": held,
        "told of": {"written": hook.written, "refused": hook.refused},
    }


def reading(servers: str, topic: str, interrupts: Interrupts, kind: str) -> dict[str, Any]:
    """One consumer of partition 0; the offsets that came, in their order, and what is committed for them."""
    records: list[int] = []
    polls: list[Any] = []
    commits = 0
    grouped = kind.startswith("group")
    consumer = Consumer(
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        group_id=f"{topic}-{kind}",
        consumer_timeout_ms=2_000,
        max_poll_records=37,
        prefetch_max_bytes=200_000,
        enable_auto_commit=grouped,
    )
    consumer.start()
    if grouped:
        consumer.subscribe([topic])
    else:
        consumer.assign([TopicPartition(topic, 0)])

    def work() -> None:
        nonlocal commits
        while interrupts.more():
            if kind.endswith("iterating"):
                for record in consumer:
                    records.append(record.offset)
                    if not interrupts.more():
                        return
            else:
                polls.append(consumer.poll(timeout_ms=500))
                if len(polls) % 20 == 0:
                    consumer.commit()
                    commits += 1

    interrupts.through(work)
    here = TopicPartition(topic, 0)
    for poll in polls:
        records += [record.offset for record in poll.get(here, [])]
    consumer.commit()
    position, committed = consumer.position(here), consumer.committed(here)
    consumer.close(PATIENCE_MS)
    return {
        "records": records,
        "position": position,
        "committed": None if committed is None else committed.offset,
        "commits": commits,
    }


def closing(servers: str, topic: str, interrupts: Interrupts, kind: str) -> dict[str, Any]:
    """Clients that live for a moment; where one was interrupted, it is closed once more."""
    clients: list[Any] = []
    made = 0

    def work() -> None:
        nonlocal made
        while interrupts.more():
            made += 1
            if kind == "producers":
                clients.append(Producer(bootstrap_servers=servers))
                clients[-1].start()
                clients[-1].send(topic, b"closing")
            else:
                clients.append(Consumer(bootstrap_servers=servers, group_id=f"{topic}-{made % 5}"))
                clients[-1].start()
                clients[-1].subscribe([topic])
                clients[-1].poll(timeout_ms=3)
            clients[-1].close()
            clients.clear()

    def mend() -> None:
        for client in clients:
            client.close()
        clients.clear()

    interrupts.through(work, mend)
    gc.collect()
    ends = time.monotonic() + PATIENCE_MS / 1000
    while _threads() and time.monotonic() < ends:
        time.sleep(0.05)  # a client that was interrupted as it was made ends by itself
    return {"made": made, "threads": _threads(), "files": len(list(Path("/proc/self/fd").iterdir()))}


def _threads() -> list[str]:
    """Those of clients; the ones that clients share end by themselves when nobody needs them."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith(("kclient producer", "kclient consumer"))]


STORIES: dict[str, Any] = {"sending": sending, "reading": reading, "closing": closing}


if __name__ == "__main__":
    name, servers, topic, wanted = sys.argv[1:]
    story, _, kind = name.partition("-")
    interrupts = Interrupts(int(wanted))
    told = STORIES[story](servers, topic, interrupts, kind)
    print(json.dumps({**told, "interrupts": int(wanted) - interrupts.left}), flush=True)
