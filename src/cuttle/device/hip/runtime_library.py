"""The HIP library in this process: loaded once, one major version, every function with its types.

Two HIP runtimes in one process crash, also when a second one is pulled in by a library such as rocBLAS. So a process takes one
file, refuses every other, and looks whether one was there before.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from typing import Any

from cuttle.abi import hip
from cuttle.device.hip.refusals import LIBRARY_MISSING, NO_DRIVER, NO_GPU, NoAmdDevice
from cuttle.errors import DeviceError

_KINDS: dict[str, Any] = {
    "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "size": ctypes.c_size_t, "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16, "f32": ctypes.c_float, "handle": ctypes.c_void_p, "device": ctypes.c_uint64, "host": ctypes.c_void_p,
    "text": ctypes.c_char_p, "function": ctypes.c_void_p,
}  # fmt: skip


def argument_type(kind: str) -> Any:
    """The ctypes type of an argument kind of `abi/hip.py`."""
    return ctypes.POINTER(_KINDS[kind[1:]]) if kind.startswith("*") else _KINDS[kind]


class Hip:
    """A loaded HIP library. `call` is the only way to its functions."""

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self.path = path
        self._library = library
        self._functions: dict[str, Callable[..., Any]] = {}
        self._rows = {row.name: row for row in hip.FUNCTIONS}
        self.version = hip.split_version(self._version_number())
        self.major = self.version[0]
        if self.major not in hip.MAJORS:
            raise DeviceError("DEV-0203", f"{path} is HIP {self.version_text}; Cuttle knows HIP 5, 6 and 7")
        missing = [row.name for row in hip.FUNCTIONS if row.exists_in(self.major) and not hasattr(library, row.name)]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DeviceError("DEV-0203", f"{path} (HIP {self.version_text}) has no function {missing[0]}{more}")

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))

    def _version_number(self) -> int:
        number = ctypes.c_int32()
        try:
            result = self.result("hipRuntimeGetVersion", ctypes.byref(number))
        except AttributeError:
            raise DeviceError("DEV-0203", f"{self.path} is no HIP library: it has no hipRuntimeGetVersion") from None
        if result != hip.SUCCESS or number.value <= 0:
            raise DeviceError("DEV-0203", f"{self.path} does not say its version (hipRuntimeGetVersion: {result})")
        return number.value

    def _function(self, name: str) -> Callable[..., Any]:
        function = self._functions.get(name)
        if function is None:
            row = self._rows[name]
            function = getattr(self._library, name)
            function.argtypes = [argument_type(kind) for kind in row.arguments]
            function.restype = ctypes.c_char_p if row.result == "text" else ctypes.c_int32
            self._functions[name] = function
        return function

    def result(self, name: str, *arguments: Any) -> int:
        """Calls a function and returns its hipError_t."""
        return int(self._function(name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function; raises DEV-0204 with HIP's name of the error."""
        result = self.result(name, *arguments)
        if result != hip.SUCCESS:
            raise DeviceError("DEV-0204", f"{name} failed: {self.error_text(result)}")

    def error_text(self, result: int) -> str:
        """`hipErrorNoDevice (100)`: our name for the number, else the library's."""
        name = hip.ERRORS.get(result)
        if name is None:
            text = self._function("hipGetErrorName")(result)
            name = (text or b"unknown error").decode("ascii", "replace")[:80]
        return f"{name} ({result})"

    def start(self) -> int:
        """hipInit and the number of devices, at least 1. Raises NoAmdDevice, or DEV-0204 for any other failure."""
        nothing = (hip.NO_DEVICE, hip.INVALID_DEVICE)
        result = self.result("hipInit", 0)
        if result in nothing:
            message = f"HIP {self.version_text} finds no AMD GPU driver (hipInit: {self.error_text(result)})"
            raise NoAmdDevice(NO_DRIVER, message)
        if result != hip.SUCCESS:
            raise DeviceError("DEV-0204", f"hipInit failed: {self.error_text(result)}")
        count = ctypes.c_int32()
        result = self.result("hipGetDeviceCount", ctypes.byref(count))
        if result in nothing:
            message = f"HIP {self.version_text} sees no GPU (hipGetDeviceCount: {self.error_text(result)})"
            raise NoAmdDevice(NO_GPU, message)
        if result != hip.SUCCESS:
            raise DeviceError("DEV-0204", f"hipGetDeviceCount failed: {self.error_text(result)}")
        if count.value <= 0:
            raise NoAmdDevice(NO_GPU, f"HIP {self.version_text} counts {count.value} GPUs")
        return count.value


_lock = threading.Lock()
_opened: list[Hip | str] = []


def mapped_libraries(stem: str) -> list[str]:
    """Files mapped into this process whose name begins with `stem.so`; on Windows nothing."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line[line.index("/") :].strip() for line in file if "/" in line}
    except OSError:
        return []
    return sorted(path for path in paths if re.match(re.escape(stem) + r"\.so(\.|$)", os.path.basename(path)))


def open_hip(path: str) -> Hip:
    """Loads the HIP library at `path`, or returns it if it is the one that is loaded.

    Raises NoAmdDevice if it cannot be loaded, DEV-0203 if it is unusable or another one is or was in this process.
    """
    with _lock:
        real = os.path.realpath(path)
        for other in _opened:
            if isinstance(other, Hip) and other.path == real:
                return other
            first = other.path if isinstance(other, Hip) else other
            if first == real:
                raise DeviceError("DEV-0203", f"{real} was loaded before and could not be used")
            raise DeviceError("DEV-0203", f"{first} is loaded; {real} would be a second HIP in this process")
        for mapped in mapped_libraries("libamdhip64"):
            if os.path.realpath(mapped) != real:
                raise DeviceError("DEV-0203", f"{mapped} is in this process; {real} would be a second HIP")
        if not os.path.isfile(real):
            raise NoAmdDevice(LIBRARY_MISSING, f"there is no file {path}")
        try:
            library = ctypes.CDLL(real)
        except OSError as error:
            raise NoAmdDevice(LIBRARY_MISSING, f"{path} cannot be loaded: {error}") from None
        _opened.append(real)  # from here on it is in the process, whatever becomes of it
        _opened[0] = loaded = Hip(library, real)
        return loaded
