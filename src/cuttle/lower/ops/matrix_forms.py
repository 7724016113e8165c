"""What the spelling of a matrix instruction says: shape, element kinds, registers of each operand (PTX ISA 9.0, 9.7.14).

The op functions, the recorder (`tools/record_mma.py`) and the tests read forms through this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Bits of an element as it lies in a register and in memory.
ELEMENT_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "e4m3": 8, "e5m2": 8,
    "f32": 32, "s32": 32,
}  # fmt: skip
INTEGERS = ("s8", "u8", "s4", "u4", "b1")


@dataclass(frozen=True, slots=True)
class MatrixForm:
    """Shape and element kinds of an mma or wmma.mma: D (m x n) = A (m x k) * B (k x n) + C.

    `k` counts the elements of B; a sparse A holds half as many. `opcode` is the root (`mma`, `mma.sp`, `wmma.mma`).
    """

    opcode: str
    m: int
    n: int
    k: int
    d_kind: str
    a_kind: str
    b_kind: str
    c_kind: str

    @property
    def sparse(self) -> bool:
        return self.opcode.startswith("mma.sp")

    @property
    def volta(self) -> bool:
        """The four 8x8x4 products of quad pairs, whose layout is its own."""
        return (self.m, self.n, self.k) == (8, 8, 4) and self.a_kind == "f16"

    @property
    def stored_k(self) -> int:
        """Elements in a row of A's registers."""
        return self.k // 2 if self.sparse else self.k


def shape_of(modifiers: Sequence[str]) -> tuple[int, int, int]:
    """(m, n, k) of the shape modifier."""
    for modifier in modifiers:
        found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", modifier)
        if found:
            return int(found[1]), int(found[2]), int(found[3])
    raise ValueError("no matrix shape")


def kinds_after_shape(modifiers: Sequence[str]) -> list[str]:
    """The element kinds, all of which stand after the shape."""
    at = next(index for index, name in enumerate(modifiers) if re.fullmatch(r"m\d+n\d+(k\d+)?", name))
    return [name for name in modifiers[at + 1 :] if name in ELEMENT_BITS]


def form_of(opcode: str, modifiers: Sequence[str]) -> MatrixForm | None:
    """The form of an mma or wmma.mma; None if the element kinds are not understood."""
    kinds = kinds_after_shape(modifiers)
    if opcode == "wmma.mma" and len(kinds) == 2:
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    if len(kinds) != 4 or any("::" in name for name in modifiers):
        return None
    return MatrixForm(opcode, *shape_of(modifiers), *kinds)


def registers(kind: str, elements: int) -> int:
    """32-bit registers (64-bit for f64) of each lane that hold so many elements of a matrix."""
    return max(1, elements // 32 if kind == "f64" else elements * ELEMENT_BITS[kind] // 1024)


def wmma_registers(role: str, shape: tuple[int, int, int], kind: str) -> int:
    """Registers of a wmma fragment: f16 A and B always take 8, which hold every element twice or more. 9.7.14.4.1."""
    m, n, k = shape
    if kind == "f16" and role in "ab":
        return 8
    return registers(kind, {"a": m * k, "b": k * n}.get(role, m * n))


def operand_registers(form: MatrixForm) -> dict[int, int]:
    """Registers of each operand of an mma or wmma.mma, by its position: d, a, b, c and the metadata."""
    shape = (form.m, form.n, form.k)
    if form.opcode == "wmma.mma":
        pairs = (("d", form.d_kind), ("a", form.a_kind), ("b", form.b_kind), ("c", form.c_kind))
        return {index: wmma_registers(role, shape, kind) for index, (role, kind) in enumerate(pairs)}
    if form.volta:
        return {0: 4 if form.d_kind == "f16" else 8, 1: 2, 2: 2, 3: 4 if form.c_kind == "f16" else 8}
    return {
        0: registers(form.d_kind, form.m * form.n),
        1: registers(form.a_kind, form.m * form.stored_k),
        2: registers(form.b_kind, form.n * form.k),
        3: registers(form.c_kind, form.m * form.n),
    }


def selectors(form: MatrixForm) -> int:
    """Values that the sparsity selector of a sparse mma takes: which lanes of a quad hold the metadata. 9.7.14.6.2."""
    bits = form.m * form.stored_k * 2  # two bits for each stored element
    if form.a_kind == "tf32":
        bits = form.m * form.stored_k * 4
    if form.a_kind in ("s4", "u4"):
        bits //= 2
    return max(1, 1024 // bits)
