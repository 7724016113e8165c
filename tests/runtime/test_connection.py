"""How the device process finds its client, and what it does on Windows, as far as Linux can show it."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
import threading
from struct import calcsize, unpack, unpack_from

import pytest

from cuttle.abi import wire_layout as wire
from cuttle.abi.errors import ERRORS
from cuttle.runtime import results, windows
from cuttle.runtime.connection import GREETING_FORMAT, VARIABLE, NoConnection, open_connection, take_invitation

SECRET = bytes(range(16))


@pytest.mark.parametrize(
    "text", ("", "1234", "x:" + SECRET.hex(), "0:" + SECRET.hex(), "70000:" + SECRET.hex(), "80:00ff", "80:zz")
)
def test_bad_invitations(text: str) -> None:
    environment = {VARIABLE: text}
    with pytest.raises(NoConnection):
        take_invitation(environment)
    assert environment == {}


@pytest.mark.parametrize("arguments", ((), ("3", "x", "5", "6"), ("3",), ("999", "999", "999", "999")))
def test_bad_descriptors(arguments: tuple[str, ...]) -> None:
    with pytest.raises(NoConnection):
        open_connection(("cuttle.runtime", *arguments), {})


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_connect_greets_and_waits_for_go() -> None:
    with listener() as server:
        environment = {VARIABLE: f"{server.getsockname()[1]}:{SECRET.hex()}"}
        found = []
        thread = threading.Thread(target=lambda: found.append(open_connection(("x", "connect"), environment)))
        thread.start()
        client, _ = server.accept()
        with client:
            greeting = client.recv(calcsize(GREETING_FORMAT), socket.MSG_WAITALL)
            secret, process, control, status, arena = unpack(GREETING_FORMAT, greeting)
            assert (secret, process) == (SECRET, os.getpid())
            # What the client does: opens the memory through /proc and writes into it.
            with open(f"/proc/{process}/fd/{control}", "r+b") as file:
                assert os.fstat(file.fileno()).st_size == wire.CONTROL_BYTES
            assert os.stat(f"/proc/{process}/fd/{status}").st_size == wire.STATUS_BYTES
            assert os.stat(f"/proc/{process}/fd/{arena}").st_size == 0
            assert thread.is_alive()  # it waits
            client.sendall(b"g")
            thread.join(20)
            (connection,) = found
            assert connection.remote
            assert (connection.control, connection.status, connection.arena) == (control, status, arena)
            os.write(connection.socket, b"r")
            assert client.recv(1) == b"r"
        for descriptor in (connection.socket, control, status, arena):
            os.close(descriptor)


def test_a_client_that_ends_at_once() -> None:
    with listener() as server:
        environment = {VARIABLE: f"{server.getsockname()[1]}:{SECRET.hex()}"}
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        with pytest.raises(NoConnection):
            open_connection(("x", "connect"), environment)
        thread.join()


def test_windows_refuses_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """Never run on Windows: the named memory is ours here, the rest is the code that would run there."""
    memories: dict[str, mmap.mmap] = {}

    def make(secret: bytes, name: str, size: int) -> mmap.mmap:
        assert secret == SECRET
        memories[name] = mmap.mmap(-1, size)
        return memories[name]

    with listener() as server:
        environment = {VARIABLE: f"{server.getsockname()[1]}:{SECRET.hex()}"}

        def client() -> None:
            link, _ = server.accept()
            with link:
                link.recv(calcsize(GREETING_FORMAT), socket.MSG_WAITALL)
                link.sendall(b"g")
                assert link.recv(1) == b"r"

        thread = threading.Thread(target=client)
        thread.start()
        assert windows.main(environment, make) == 1
        thread.join()
    assert unpack_from("<I", memories["control"], wire.CONTROL_MAGIC_AT) == (wire.READY_MAGIC,)
    assert unpack_from("<I", memories["control"], wire.CONTROL_READY_ERROR_AT) == (results.NOT_SUPPORTED,)
    text = capsys.readouterr().err
    assert text.startswith("cuttle: error[DEV-0022]")
    assert "DEV-0022" in {row.code for row in ERRORS}


HIDE = """
import sys
sys.platform = "win32"

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource", "pwd", "grp", "termios"):
            raise ModuleNotFoundError(name)
        return None

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hidden())
import os, select
for module, names in ((select, ("poll", "POLLIN", "POLLRDHUP")), (os, ("sched_yield", "sched_getaffinity", "memfd_create", "posix_spawn", "fork"))):
    for name in names:
        delattr(module, name)
import runpy
runpy.run_module("cuttle.runtime", run_name="__main__")
"""


def test_start_on_windows_needs_nothing_of_linux() -> None:
    """As on Windows: modules and functions of Linux are not there. Without a client it says what is missing."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run([sys.executable, "-c", HIDE], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done
    assert done.stderr == f"cuttle: {VARIABLE} is no port and secret: the client library sets it\n"
