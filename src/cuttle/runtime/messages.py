"""What the device process says to the user: on the program's stderr, and never at the program's cost.

The program's stderr may be a pipe that nobody reads any more, or one that is full: a write would raise or wait for ever.
"""

from __future__ import annotations

import os
from select import POLLOUT, poll

_PIECE = 4096  # PIPE_BUF: a pipe that polls as writable takes so much without waiting
_PATIENCE_MS = 200


def say(text: str) -> None:
    """Writes `cuttle: text` and a line end to stderr; gives up where that is not possible."""
    from cuttle.errors import visible  # not needed to start

    data = f"cuttle: {visible(text)}\n".encode("utf-8", "backslashreplace")
    poller = poll()
    poller.register(2, POLLOUT)
    try:
        while data and poller.poll(_PATIENCE_MS):
            data = data[os.write(2, data[:_PIECE]) :]
    except OSError:
        pass
