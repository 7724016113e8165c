"""AMD's code object manager as an optional second opinion on our code objects. Nothing of Cuttle's needs it to run kernels.

All handles are structs of 8 bytes passed by value, which the platforms' conventions pass like a 64-bit integer.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cuttle.abi.comgr import DATA_KINDS, STATUS, action_number, interface_of
from cuttle.errors import DeviceError

_HANDLE, _SIZE, _NAME = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_char_p
_OUT_HANDLE, _OUT_SIZE = ctypes.POINTER(_HANDLE), ctypes.POINTER(_SIZE)

# Name behind `amd_comgr_` → argument types.
_FUNCTIONS: dict[str, list[Any]] = {
    "create_data": [ctypes.c_int, _OUT_HANDLE],
    "release_data": [_HANDLE],
    "set_data": [_HANDLE, _SIZE, ctypes.c_char_p],
    "set_data_name": [_HANDLE, _NAME],
    "get_data": [_HANDLE, _OUT_SIZE, ctypes.c_char_p],
    "get_data_isa_name": [_HANDLE, _OUT_SIZE, ctypes.c_char_p],
    "get_data_metadata": [_HANDLE, _OUT_HANDLE],
    "destroy_metadata": [_HANDLE],
    "symbol_lookup": [_HANDLE, _NAME, _OUT_HANDLE],
    "get_isa_count": [_OUT_SIZE],
    "get_isa_name": [_SIZE, ctypes.POINTER(_NAME)],
    "create_data_set": [_OUT_HANDLE],
    "destroy_data_set": [_HANDLE],
    "data_set_add": [_HANDLE, _HANDLE],
    "create_action_info": [_OUT_HANDLE],
    "destroy_action_info": [_HANDLE],
    "action_info_set_isa_name": [_HANDLE, _NAME],
    "do_action": [ctypes.c_int, _HANDLE, _HANDLE, _HANDLE],
    "action_data_get_data": [_HANDLE, ctypes.c_int, _SIZE, _OUT_HANDLE],
}


class Comgr:
    """A loaded libamd_comgr. `version` is what it says, `interface` (2 or 3) what it speaks.

    Raises DEV-0205 if the file cannot be loaded or is no comgr.
    """

    def __init__(self, path: str, windows: bool = os.name == "nt") -> None:
        self.path = path
        try:
            self._library = ctypes.CDLL(path)
            major, minor = _SIZE(), _SIZE()
            self._library.amd_comgr_get_version.restype = None
            self._library.amd_comgr_get_version.argtypes = [_OUT_SIZE, _OUT_SIZE]
            self._library.amd_comgr_get_version(ctypes.byref(major), ctypes.byref(minor))
            for name, types in _FUNCTIONS.items():
                getattr(self._library, f"amd_comgr_{name}").argtypes = types
        except (OSError, AttributeError) as error:
            raise DeviceError("DEV-0205", f"{path} cannot be used as comgr: {error}") from None
        self.version = (major.value, minor.value)
        if self.version[0] not in (2, 3):
            raise DeviceError("DEV-0205", f"{path} is comgr {major.value}.{minor.value}; Cuttle knows comgr 2 and 3")
        self.interface = interface_of(self.version, windows)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, f"amd_comgr_{name}")(*arguments)
        if status:
            raise DeviceError("DEV-0205", f"amd_comgr_{name} failed: {STATUS.get(status, 'status')} ({status})")

    def action(self, name: str) -> int:
        """The number of an action in the interface that this comgr speaks; DEV-0205 if it has none."""
        number = action_number(name, self.interface)
        if number is None:
            raise DeviceError("DEV-0205", f"comgr's interface {self.interface} has no action {name}")
        return number

    def isa_names(self) -> list[str]:
        """`amdgcn-amd-amdhsa--gfx1030` and so on: what this comgr knows."""
        count = _SIZE()
        self._call("get_isa_count", ctypes.byref(count))
        names = []
        for index in range(min(count.value, 1 << 12)):
            name = _NAME()
            self._call("get_isa_name", index, ctypes.byref(name))
            names.append((name.value or b"").decode("ascii", "replace"))
        return names

    def check_code_object(self, code_object: bytes, symbols: tuple[str, ...]) -> str:
        """Reads a linked code object: the name of its ISA. DEV-0205 if comgr finds no metadata or one of the symbols missing."""
        with self._data("EXECUTABLE", code_object) as data:
            isa = self._text("get_data_isa_name", data)
            metadata = _HANDLE()
            self._call("get_data_metadata", data, ctypes.byref(metadata))
            self._call("destroy_metadata", metadata)
            for symbol in symbols:
                self._call("symbol_lookup", data, symbol.encode(), ctypes.byref(_HANDLE()))
        return isa.rstrip(b"\0").decode("ascii", "replace")

    def link(self, relocatable: bytes, isa: str) -> bytes:
        """Links an object as our own linker does, for comparing the two. `isa` as in `isa_names`."""
        with (
            self._data("RELOCATABLE", relocatable) as data,
            self._made("data_set") as given,
            self._made("data_set") as made,
        ):
            self._call("set_data_name", data, b"in.o")
            self._call("data_set_add", given, data)
            with self._made("action_info") as info:
                self._call("action_info_set_isa_name", info, isa.encode())
                self._call("do_action", self.action("LINK_RELOCATABLE_TO_EXECUTABLE"), info, given, made)
            result = _HANDLE()
            self._call("action_data_get_data", made, DATA_KINDS["EXECUTABLE"], 0, ctypes.byref(result))
            try:
                return self._text("get_data", result)
            finally:
                self._call("release_data", result)

    def _text(self, function: str, data: Any) -> bytes:
        size = _SIZE()
        self._call(function, data, ctypes.byref(size), None)
        buffer = ctypes.create_string_buffer(size.value)
        self._call(function, data, ctypes.byref(size), buffer)
        return buffer.raw[: size.value]

    @contextmanager
    def _data(self, kind: str, content: bytes) -> Iterator[Any]:
        handle = _HANDLE()
        self._call("create_data", DATA_KINDS[kind], ctypes.byref(handle))
        try:
            self._call("set_data", handle, len(content), content)
            yield handle
        finally:
            self._call("release_data", handle)

    @contextmanager
    def _made(self, what: str) -> Iterator[Any]:
        handle = _HANDLE()
        self._call(f"create_{what}", ctypes.byref(handle))
        try:
            yield handle
        finally:
            self._call(f"destroy_{what}", handle)
