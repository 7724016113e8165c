"""The registry of what instructions do: one `Operation` for each mnemonic, made by the decorators below.

`@vector` and `@scalar` take pure functions of typed arrays; operands, modifiers and results are the compiler's affair (`compile.py`). `@special` takes a
function that builds the closure itself. Signatures read `result = sources`: `u32 m = u32 u32` has a vector and a lane-mask result, `+f32` is the old
value of the destination.

Each operation is the one of its mnemonic in AMD's "RDNA3 Instruction Set Architecture" or "RDNA4 Instruction Set Architecture", chapter
"Instructions", in the section of its encoding (`SECTIONS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuttle.device.rdna.decode import Instruction
from cuttle.device.rdna.waves import View

Run = Callable[[View], Any]
Build = Callable[[Instruction, str], Run]

SECTIONS = {
    "SOP2": "SOP2 Instructions", "SOPK": "SOPK Instructions", "SOP1": "SOP1 Instructions", "SOPC": "SOPC Instructions",
    "SOPP": "SOPP Instructions", "SMEM": "SMEM Instructions", "VOP2": "VOP2 Instructions", "VOP1": "VOP1 Instructions",
    "VOPC": "VOPC Instructions", "VOP3P": "VOP3P Instructions", "VOPDX": "VOPD Instructions", "VOPDY": "VOPD Instructions",
    "VOP3": "VOP3 & VOP3SD Instructions", "DS": "LDS Instructions", "FLAT": "FLAT, Scratch and Global Instructions",
    "SCRATCH": "FLAT, Scratch and Global Instructions", "GLOBAL": "FLAT, Scratch and Global Instructions",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """What a mnemonic does. `kind`: vector, scalar or special. `mode`: the function takes the MODE register first.
    `carry`: a scalar function returns (result, SCC). `saturating`: the function for integer instructions with clamp.
    `approximate`: hardware's last bit differs."""

    mnemonic: str
    kind: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    function: Callable[..., Any]
    mode: bool = False
    condition: str = ""
    saturating: Callable[..., Any] | None = None
    approximate: bool = False


OPERATIONS: dict[str, Operation] = {}


def add(operation: Operation) -> None:
    if operation.mnemonic in OPERATIONS:
        raise AssertionError(f"{operation.mnemonic} is defined twice")
    OPERATIONS[operation.mnemonic] = operation


def _parse(signature: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    left, _, right = signature.partition("=")
    return tuple(left.split()), tuple(right.split())


def vector(
    mnemonics: str, signature: str, *, mode: bool = False, saturating: Callable[..., Any] | None = None, approximate: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """Registers a function of arrays for these mnemonics (separated by spaces)."""
    results, sources = _parse(signature)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for mnemonic in mnemonics.split():
            add(Operation(mnemonic, "vector", results, sources, function, mode, "", saturating, approximate))
        return function

    return register


def scalar(
    mnemonics: str, signature: str, *, scc: str = "", mode: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """Registers a scalar function. `scc`: `nonzero` sets SCC to whether the result is not 0, `returned` takes it as second
    value, `only` makes it the only result."""
    results, sources = _parse(signature)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for mnemonic in mnemonics.split():
            add(Operation(mnemonic, "scalar", results, sources, function, mode, scc))
        return function

    return register


def special(mnemonics: str) -> Callable[[Build], Build]:
    """Registers a builder: (instruction, target) to the closure that executes it."""

    def register(build: Build) -> Build:
        for mnemonic in mnemonics.split():
            add(Operation(mnemonic, "special", (), (), build))
        return build

    return register
