"""The client library through ctypes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from cuttle.abi.cuda_errors import ERRORS

NAMES = {number: name for number, name, _ in ERRORS}
ADDRESS = ctypes.c_void_p


class DriverError(Exception):
    """A call that answered something else than CUDA_SUCCESS."""

    def __init__(self, function: str, result: int) -> None:
        super().__init__(f"{function}: {NAMES.get(result, result)}")
        self.result = result


class Driver:
    """`driver.cuMemFree_v2(address)`: calls, and raises DriverError when the result is not 0."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))

    def result(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.library, name)(*arguments))

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> None:
            if result := self.result(name, *arguments):
                raise DriverError(name, result)

        return call

    def get(self, name: str, kind: Any, *arguments: Any) -> Any:
        """The value that a call gives through its first parameter."""
        value = kind()
        if result := self.result(name, ctypes.byref(value), *arguments):
            raise DriverError(name, result)
        return value.value

    def address_of(self, symbol: str) -> int:
        value = ctypes.cast(getattr(self.library, symbol), ctypes.c_void_p).value
        assert value is not None
        return value
