"""What can go wrong in the emulator: typed errors with codes of `abi/errors.py`."""

from __future__ import annotations

from cuttle.errors import CuttleError, Where


class CodeObjectError(CuttleError):
    """The bytes are no code object that can be executed here."""

    def __init__(self, message: str) -> None:
        super().__init__("DEV-0101", message)


class LaunchError(CuttleError):
    """A launch that the kernel or the emulated GPU does not allow."""

    def __init__(self, message: str) -> None:
        super().__init__("DEV-0102", message)


class RdnaFault(CuttleError):
    """Something that stopped a running kernel. `place` adds where, once that is known."""

    code_of_kind = "DEV-0103"

    def __init__(self, message: str) -> None:
        super().__init__(self.code_of_kind, message)

    def place(self, kernel: str, instruction: str, address: int) -> None:
        self.where = Where(kernel=kernel, instruction=f"{address:#x}: {instruction}")


class IllegalInstruction(RdnaFault):
    """No instruction, one that this emulator does not execute, or one that is wrong in its place."""


class IllegalAddress(RdnaFault):
    """`position` is the place of the culprit among the active lanes (for scalar loads: among the waves), -1 if unknown."""

    code_of_kind = "DEV-0104"

    def __init__(self, message: str, position: int = -1) -> None:
        super().__init__(message)
        self.position = position

    def name_lane(self, who: str) -> None:
        self.message = f"{self.message} ({who})"


class Trap(RdnaFault):
    """`number` is the trap's number: 2 is llvm.trap, 3 llvm.debugtrap."""

    code_of_kind = "DEV-0105"

    def __init__(self, number: int) -> None:
        super().__init__(f"s_trap {number}")
        self.number = number


class NoProgress(RdnaFault):
    code_of_kind = "DEV-0106"


class MissingWait(RdnaFault):
    code_of_kind = "DEV-0107"
