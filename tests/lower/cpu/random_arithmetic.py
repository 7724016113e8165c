"""What 32-bit instructions compute, on NumPy arrays of their bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
U32 = np.uint32
NAN = np.uint32(0x7FFFFFFF)

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
BINARY = [
    "add.s32", "add.s32", "add.u32", "sub.s32", "sub.u32", "mul.lo.s32", "mul.lo.s32", "mul.hi.u32", "mul.hi.s32",
    "and.b32", "or.b32", "xor.b32", "min.s32", "max.s32", "min.u32", "max.u32", "shl.b32", "shr.u32", "shr.s32",
]  # fmt: skip


def signed(a: Array) -> Array:
    return a.astype(np.uint32).view(np.int32)


def binary(name: str, a: Array, b: Array) -> Array:
    """The 32-bit integer instruction `name`."""
    if name in ("add.s32", "add.u32"):
        return a + b
    if name in ("sub.s32", "sub.u32"):
        return a - b
    if name == "mul.lo.s32":
        return a * b
    if name == "mul.hi.u32":
        return (a.astype(np.uint64) * b.astype(np.uint64) >> np.uint64(32)).astype(U32)
    if name == "mul.hi.s32":
        return (signed(a).astype(np.int64) * signed(b).astype(np.int64) >> 32).astype(np.int32).view(U32)
    if name == "and.b32":
        return a & b
    if name == "or.b32":
        return a | b
    if name == "xor.b32":
        return a ^ b
    if name == "min.s32":
        return np.minimum(signed(a), signed(b)).view(U32)
    if name == "max.s32":
        return np.maximum(signed(a), signed(b)).view(U32)
    if name == "min.u32":
        return np.minimum(a, b)
    if name == "max.u32":
        return np.maximum(a, b)
    amount = np.minimum(b, U32(32)).astype(np.uint64)
    if name == "shl.b32":
        return (a.astype(np.uint64) << amount & np.uint64(0xFFFFFFFF)).astype(U32)
    if name == "shr.u32":
        return (a.astype(np.uint64) >> amount).astype(U32)
    assert name == "shr.s32"
    return (signed(a).astype(np.int64) >> amount.astype(np.int64)).astype(np.int32).view(U32)


def float_operation(name: str, a: Array, b: Array) -> Array:
    x, y = a.view(np.float32), b.view(np.float32)
    if name in ("add", "sub", "mul"):
        function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
        result = function(x, y)
    else:
        least = name == "min"
        nan_x, nan_y = np.isnan(x), np.isnan(y)
        first = np.where((x < y) if least else (x > y), x, y)
        # -0 is below +0
        zeros = (x == 0) & (y == 0)
        zero = np.where((np.signbit(x) | np.signbit(y)) if least else (np.signbit(x) & np.signbit(y)), -0.0, 0.0)
        result = np.where(nan_x, y, np.where(nan_y, x, np.where(zeros, zero, first))).astype(np.float32)
    bits = result.astype(np.float32).view(U32)
    return np.where(np.isnan(result), NAN, bits).astype(U32)


def float_compare(name: str, a: Array, b: Array) -> Array:
    """Ordered comparisons; `ne` too is false for NaNs."""
    x, y = a.view(np.float32), b.view(np.float32)
    return np.asarray(COMPARISONS[name](x, y) & ~np.isnan(x) & ~np.isnan(y))
