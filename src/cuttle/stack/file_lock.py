"""Locks on files that the system frees when a process ends, however it ends."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cuttle.errors import StackError

WAIT_SECONDS = 60.0


def try_lock(descriptor: int) -> None:
    """Takes the lock of an open file or raises OSError."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_folder() -> Path:
    """Where locks of folders lie that must hold no file of ours: the user's cache folder."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("cuttle", appauthor=False)) / "locks"


@contextlib.contextmanager
def folder_lock(folder: Path, seconds: float = WAIT_SECONDS, locks: Path | None = None) -> Iterator[None]:
    """One process of this user at a time for a folder, without a trace in it. Raises STK-0402 after `seconds`."""
    place = locks or lock_folder()
    name = hashlib.sha256(os.path.realpath(folder).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    try:
        place.mkdir(parents=True, exist_ok=True)
        file = (place / name).open("a+b")
    except OSError:
        # Without a home there is nobody to share with: go on unlocked rather than refuse.
        yield
        return
    with file:
        end = time.monotonic() + seconds
        while True:
            try:
                try_lock(file.fileno())
                break
            except OSError:
                if time.monotonic() > end:
                    raise StackError("STK-0402", f"{folder} is in use by another process") from None
                time.sleep(0.02)
        yield
