"""The device process on Windows itself: it greets the client and refuses, with the reason.

Never run on Windows so far; its parts are tested on Linux. Kernels run in the executor, which is a Linux program: there is none
for Windows yet. Windows programs are served where they run under Wine, by the device process of Linux.
"""

from __future__ import annotations

import mmap
import os
import socket
import sys
from collections.abc import Callable
from struct import pack, pack_into
from typing import Any

from cuttle.abi import wire_layout as wire
from cuttle.runtime import results
from cuttle.runtime.connection import GREETING_FORMAT, NoConnection, take_invitation

REASON = (
    "error[DEV-0022]: kernels cannot run on Windows itself yet: the executor of the CPU device is a Linux program\n"
    "  hint: run the program under Wine on Linux, or use `cuttle stack` for an AMD GPU"
)


def named_memory(secret: bytes, name: str, size: int) -> mmap.mmap:
    """Memory of the page file that the client opens by its name."""
    options: dict[str, Any] = {"tagname": f"Local\\cuttle-{secret.hex()}-{name}"}  # mmap has it on Windows only
    return mmap.mmap(-1, size, **options)


def main(
    environment: dict[str, str] | None = None, make_memory: Callable[[bytes, str, int], mmap.mmap] = named_memory
) -> int:
    """Answers cuInit with CUDA_ERROR_NOT_SUPPORTED; returns the exit code."""
    try:
        port, secret = take_invitation(os.environ if environment is None else environment)
        control = make_memory(secret, "control", wire.CONTROL_BYTES)
        status = make_memory(secret, "status", wire.STATUS_BYTES)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
            link.sendall(pack(GREETING_FORMAT, secret, os.getpid(), 0, 0, 0))
            if link.recv(1):
                text = REASON.encode()[:250]
                status[wire.STATUS_END_TEXT_AT : wire.STATUS_END_TEXT_AT + len(text) + 1] = text + b"\0"
                pack_into("<I", control, wire.CONTROL_READY_ERROR_AT, results.NOT_SUPPORTED)
                pack_into("<I", control, wire.CONTROL_MAGIC_AT, wire.READY_MAGIC)
                link.sendall(b"r")
                link.recv(1)  # the client has read it when it closes
    except (NoConnection, OSError) as error:
        sys.stderr.write(f"cuttle: {error}\n")
        return 1
    sys.stderr.write(f"cuttle: {REASON}\n")
    return 1
