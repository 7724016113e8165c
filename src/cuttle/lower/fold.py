"""Folding of integer operations on constants while text is emitted.

LLVM would fold them too; doing it here lets the target see which lane indices are constant (`shfl.bfly` with an immediate
becomes one `shufflevector`) and keeps the text short.
"""

from __future__ import annotations

from collections.abc import Callable


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


BINARY: dict[str, Callable[[int, int, int], int | None]] = {
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "mul": lambda a, b, n: a * b,
    "and": lambda a, b, n: a & b,
    "or": lambda a, b, n: a | b,
    "xor": lambda a, b, n: a ^ b,
    "shl": lambda a, b, n: a << b if b < n else None,
    "lshr": lambda a, b, n: a >> b if b < n else None,
    "ashr": lambda a, b, n: signed(a, n) >> b if b < n else None,
    "udiv": lambda a, b, n: a // b if b else None,
    "urem": lambda a, b, n: a % b if b else None,
}

COMPARE: dict[str, Callable[[int, int, int], bool]] = {
    "eq": lambda a, b, n: a == b,
    "ne": lambda a, b, n: a != b,
    "ult": lambda a, b, n: a < b,
    "ule": lambda a, b, n: a <= b,
    "ugt": lambda a, b, n: a > b,
    "uge": lambda a, b, n: a >= b,
    "slt": lambda a, b, n: signed(a, n) < signed(b, n),
    "sle": lambda a, b, n: signed(a, n) <= signed(b, n),
    "sgt": lambda a, b, n: signed(a, n) > signed(b, n),
    "sge": lambda a, b, n: signed(a, n) >= signed(b, n),
}
