"""What executors that are written with NumPy ask before a device is made: an executor that cannot import it only ends."""

from __future__ import annotations

from importlib.util import find_spec

from cuttle.errors import DeviceError


def require_numpy(device: str) -> None:
    """Raises DeviceError DEV-0108 where there is no NumPy. `device`: what needs it."""
    if find_spec("numpy") is None:
        raise DeviceError("DEV-0108", f"{device} needs NumPy, and this Python has none")
