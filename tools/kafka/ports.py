"""Free TCP ports on the loopback address."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

HOST = "127.0.0.1"
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 15000
_random = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now. Another process may still take one first: the caller must be ready to
    ask again.

    They lie below the range that the kernel hands out to outgoing connections. A port from that range (what
    binding port 0 gives) breaks tests that kill a broker: a client that keeps dialling the dead port is in
    the end given that very port as its own source, connects to itself, and the restarted broker finds its
    port in use.
    """
    with ExitStack() as held:
        return [_bind_one(held) for _ in range(count)]


def _bind_one(held: ExitStack) -> int:
    ceiling = _first_ephemeral_port()
    for _ in range(200):
        # Port 0 (any) only where the kernel's own range leaves no room below it.
        candidate = _random.randrange(_LOWEST, ceiling) if ceiling > _LOWEST else 0
        sock = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        try:
            sock.bind((HOST, candidate))
        except OSError:
            continue
        port: int = sock.getsockname()[1]
        return port
    raise OSError(f"no free TCP port on {HOST} between {_LOWEST} and {ceiling} after 200 tries")


def _first_ephemeral_port() -> int:
    try:
        return int(_RANGE_FILE.read_text().split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return 32768
