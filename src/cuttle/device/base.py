"""The device contract: what the runtime asks of whatever runs kernels.

A device takes *jobs* (ring records of `abi/wire.py`) and runs them strictly in order. Everything that has to do with
order between streams is decided before, in `runtime/streams.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol
else:
    Protocol = object  # `typing` costs 5 ms of the device process's 30 ms to readiness


class DeviceLost(Exception):
    """The device cannot take jobs: it has faulted, or cannot be started."""


class Fault:
    """What stopped a device: a CUresult and one line of text; and for faults of kernels what is known beyond that.

    `address` is the one that was accessed, -1 if none is known. `more` are further lines for the user: place and hint.
    """

    __slots__ = ("address", "image", "more", "result", "text")

    def __init__(self, result: int, text: str, image: int = -1, address: int = -1, more: Sequence[str] = ()) -> None:
        self.result = result
        self.text = text
        self.image = image
        self.address = address
        self.more = tuple(more)


class Device(Protocol):
    """One device. Jobs are numbered by *positions* in its ring: `position` is where the next one goes."""

    position: int
    # Asked while `submit` waits for room: true ends the wait with DeviceLost.
    interrupted: Callable[[], bool]

    # How code is made for it: options of `lower/amdgpu` (`target`, ...), empty for the CPU.
    code_options: dict[str, Any]
    # What programs see as its name; empty for the CPU. And its own memory in bytes, 0 if it uses the machine's.
    title: str
    memory_bytes: int

    @property
    def running(self) -> bool:
        """Whether it is ready for jobs."""

    def start(self) -> None:
        """Makes it ready for jobs; does nothing if it is. Raises DeviceLost."""

    def set_limits(self, heap_base: int, heap_bytes: int, local_bytes: int) -> None:
        """Where device malloc takes its memory from, and the local memory (stack) a thread may take."""

    def cover(self, address: int, size: int) -> None:
        """Jobs submitted from now on may access this part of the arena. It stays so."""

    def submit(self, record: bytes | memoryview, slots: int) -> None:
        """Queues one job; waits for room if there is none. Raises DeviceLost."""

    def submit_launch(self, record: memoryview, slots: int, image: int) -> None:
        """Queues a LAUNCH record of the client's ring as a job that runs `image`."""

    def load(self, path: str, symbols: int) -> int:
        """Queues the loading of an image file; returns the index that launches name."""

    def unload(self, image: int) -> None: ...

    def wake(self) -> None:
        """Tells a sleeping device that there are jobs. `submit` alone does not."""

    def finished(self) -> int:
        """All jobs at positions before this one are done."""

    def descriptors(self) -> Sequence[int]:
        """Descriptors that become readable when the device's state has changed."""

    def look(self) -> Fault | None:
        """To be called when a descriptor is readable: what stopped the device, or None if it is well."""

    def reset(self) -> None:
        """Ends it with all its jobs and images. `start` makes a fresh one."""
