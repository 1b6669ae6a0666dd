"""A few hand-written Kafka requests over a plain socket: is a broker up, who leads what, make a topic.

Deliberately not built on kclient: these answers judge kclient's tests.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_METADATA, _CREATE_TOPICS = 3, 19
_CREATION_TIMEOUT = 30


@dataclass(frozen=True)
class Partition:
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class Metadata:
    """What one broker believes about the cluster."""

    cluster_id: str | None
    brokers: frozenset[int]
    controller: int
    partitions: Mapping[int, Partition]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        value: int = struct.unpack_from(">" + code, self._data, self._at)[0]
        self._at += struct.calcsize(">" + code)
        return value

    def string(self) -> str | None:
        length = self.number("h")
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def numbers(self) -> tuple[int, ...]:
        return tuple(self.number("i") for _ in range(self.number("i")))


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _call(address: tuple[str, int], api_key: int, version: int, body: bytes, timeout: float) -> _Reader:
    message = struct.pack(">hhih", api_key, version, 1, -1) + body
    with socket.create_connection(address, timeout) as sock:
        sock.sendall(struct.pack(">i", len(message)) + message)
        with sock.makefile("rb") as stream:
            head = stream.read(4)
            if len(head) < 4:
                raise ConnectionError(f"{address[0]}:{address[1]} closed the connection instead of answering")
            answer = stream.read(struct.unpack(">i", head)[0])
    reader = _Reader(answer)
    reader.number("i")  # the correlation id
    return reader


def accepts(address: tuple[str, int], timeout: float = 2) -> bool:
    """Whether anything listens at an address: all one can ask of a TLS listener without certificates."""
    try:
        socket.create_connection(address, timeout).close()
    except OSError:
        return False
    return True


def metadata(address: tuple[str, int], topic: str | None = None, timeout: float = 2) -> Metadata | None:
    """The cluster as seen by the broker at `address`, with the partitions of `topic`; None when it does not
    answer.
    """
    topics = struct.pack(">i", 0) if topic is None else struct.pack(">i", 1) + _string(topic)
    body = topics + b"\x00"  # do not create the topic
    try:
        return _parse_metadata(_call(address, _METADATA, 4, body, timeout))
    except (OSError, struct.error):
        return None


def _parse_metadata(reader: _Reader) -> Metadata:
    reader.number("i")  # throttle time
    brokers = set()
    for _ in range(reader.number("i")):
        brokers.add(reader.number("i"))
        reader.string()  # host
        reader.number("i")  # port
        reader.string()  # rack
    cluster_id = reader.string()
    controller = reader.number("i")
    partitions: dict[int, Partition] = {}
    for _ in range(reader.number("i")):
        reader.number("h")  # error of the topic
        reader.string()
        reader.number("b")  # internal
        for _ in range(reader.number("i")):
            reader.number("h")  # error of the partition
            index = reader.number("i")
            partitions[index] = Partition(reader.number("i"), reader.numbers(), reader.numbers())
    return Metadata(cluster_id, frozenset(brokers), controller, partitions)


def create_topic(
    address: tuple[str, int],
    name: str,
    partitions: int,
    replicas: int,
    configs: Mapping[str, str],
) -> tuple[int, str]:
    """Ask the broker at `address` for a topic; returns its error code (0 when made) and message."""
    body = struct.pack(">i", 1) + _string(name) + struct.pack(">ihii", partitions, replicas, 0, len(configs))
    body += b"".join(_string(key) + _string(value) for key, value in configs.items())
    body += struct.pack(">ib", _CREATION_TIMEOUT * 1000, 0)
    reader = _call(address, _CREATE_TOPICS, 2, body, _CREATION_TIMEOUT)
    reader.number("i")  # throttle time
    reader.number("i")  # one topic
    reader.string()
    return reader.number("h"), reader.string() or ""
