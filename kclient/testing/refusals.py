"""What an event loop of the operating system has and a simulation has not, each refused with a reason."""

from __future__ import annotations

from typing import Any, NoReturn

from kclient.testing.errors import UnsupportedError

_SOCKETS = "a simulation has no sockets: give a host and a port"
_DESCRIPTORS = "a simulation watches no file descriptors"

# By the name of the method, which may be a coroutine function: either way the call raises.
_REASONS = {
    "start_tls": "a simulation has no TLS: its bytes would differ in every run; use plain text",
    "connect_accepted_socket": _SOCKETS,
    "sock_accept": _SOCKETS,
    "sock_recv": _SOCKETS,
    "sock_recv_into": _SOCKETS,
    "sock_recvfrom": _SOCKETS,
    "sock_recvfrom_into": _SOCKETS,
    "sock_sendall": _SOCKETS,
    "sock_sendto": _SOCKETS,
    "sock_sendfile": _SOCKETS,
    "create_unix_connection": "a simulation has no Unix sockets: give a host and a port",
    "create_unix_server": "a simulation has no Unix sockets: give a host and a port",
    "create_datagram_endpoint": "a simulation has no datagrams, only connections",
    "connect_read_pipe": "a simulation has no pipes, only connections",
    "connect_write_pipe": "a simulation has no pipes, only connections",
    "add_reader": _DESCRIPTORS,
    "remove_reader": _DESCRIPTORS,
    "add_writer": _DESCRIPTORS,
    "remove_writer": _DESCRIPTORS,
    "add_signal_handler": "a simulation gets no signals: call what would handle one",
    "remove_signal_handler": "a simulation gets no signals: call what would handle one",
    "subprocess_exec": "a simulation has no processes: hide them behind something that the test replaces",
    "subprocess_shell": "a simulation has no processes: hide them behind something that the test replaces",
}


def refuse_the_rest(loop_class: type) -> None:
    """Give an event loop a method for each of these that raises."""
    for name, reason in _REASONS.items():
        setattr(loop_class, name, _refusing(f"{reason} ({name})"))


def _refusing(message: str) -> Any:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(message)

    return refused
