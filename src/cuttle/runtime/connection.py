"""How the device process finds its client: descriptors that it inherits, or a loopback connection (docs/design/clients.md)."""

from __future__ import annotations

import os
from collections.abc import MutableMapping, Sequence
from struct import pack

from cuttle.abi import wire_layout as wire

CONNECT = "connect"
VARIABLE = "CUTTLE_CONNECT"
SECRET_BYTES = 16
# secret, process number, numbers of the descriptors of control, status and arena
GREETING_FORMAT = f"<{SECRET_BYTES}s4I"
_GO_SECONDS = 60.0


class NoConnection(Exception):
    """The client cannot be reached, or what it said makes no sense."""


class Connection:
    """Descriptors of the socket and of the three shared memories. `remote`: the client is a Windows program."""

    __slots__ = ("arena", "control", "remote", "socket", "status")

    def __init__(self, socket: int, control: int, status: int, arena: int, remote: bool) -> None:
        self.socket = socket
        self.control = control
        self.status = status
        self.arena = arena
        self.remote = remote


def open_connection(arguments: Sequence[str], environment: MutableMapping[str, str]) -> Connection:
    """From the command line: four descriptor numbers, or `connect` and the variable CUTTLE_CONNECT, which is removed.

    Raises NoConnection.
    """
    if list(arguments[1:]) == [CONNECT]:
        return _connect(*take_invitation(environment))
    try:
        socket, control, status, arena = (int(text) for text in arguments[1:5])
        for descriptor in (socket, control, status, arena):
            os.set_inheritable(descriptor, False)
    except (ValueError, OSError) as error:
        raise NoConnection(f"the device process is started by the client library only ({error})") from None
    return Connection(socket, control, status, arena, False)


def take_invitation(environment: MutableMapping[str, str]) -> tuple[int, bytes]:
    """(port, secret) from CUTTLE_CONNECT=PORT:SECRET; children of ours do not get to see it."""
    port, _, secret = environment.pop(VARIABLE, "").partition(":")
    try:
        number, data = int(port), bytes.fromhex(secret)
    except ValueError:
        raise NoConnection(f"{VARIABLE} is no port and secret: the client library sets it") from None
    if not 0 < number < 65536 or len(data) != SECRET_BYTES:
        raise NoConnection(f"{VARIABLE} is no port and secret: the client library sets it")
    return number, data


def _connect(port: int, secret: bytes) -> Connection:
    """The memories are made here and opened by the client through /proc; then it fills the Control page and says go."""
    import socket as sockets

    memories = []
    for name, size in (("control", wire.CONTROL_BYTES), ("status", wire.STATUS_BYTES), ("arena", 0)):
        descriptor = os.memfd_create(f"cuttle-{name}")
        os.ftruncate(descriptor, size)
        memories.append(descriptor)
    link = sockets.socket(sockets.AF_INET, sockets.SOCK_STREAM)
    try:
        link.connect(("127.0.0.1", port))
        link.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
        link.sendall(pack(GREETING_FORMAT, secret, os.getpid(), *memories))
        link.settimeout(_GO_SECONDS)
        if link.recv(1) == b"":
            raise NoConnection("the program has ended")
    except OSError as error:
        link.close()
        raise NoConnection(f"the program does not answer on its loopback port {port}: {error}") from None
    control, status, arena = memories
    return Connection(link.detach(), control, status, arena, True)
