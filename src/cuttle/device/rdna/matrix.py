"""v_wmma: products of 16 x 16 matrices spread over a wave.

Layouts: AMD, RDNA3 Instruction Set Architecture, section "Wave Matrix Multiply Accumulate", and the same of RDNA4. Sums are computed in f64 and
rounded once to the result's format; hardware's order and inner rounding are not published, so the last bits may differ.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.atomics import f32_to_bfloat
from cuttle.device.rdna.decode import VECTOR, Instruction
from cuttle.device.rdna.errors import IllegalInstruction
from cuttle.device.rdna.operands import constant_bits
from cuttle.device.rdna.packed import halves_as_f32
from cuttle.device.rdna.semantics import Run, special
from cuttle.device.rdna.waves import LANES, View

Array = NDArray[Any]
U16, U32 = np.uint16, np.uint32
_LANES = np.arange(LANES)


def _elements(w: View, register: int, count: int, kind: str, is_signed: bool) -> Array:
    """(waves, lanes, elements) of `count` registers, in order, as f64 or int64."""
    words = np.stack([w.vector(register + n) for n in range(count)], axis=2)
    if kind in ("f16", "bf16"):
        low, high = halves_as_f32(words, kind)
        pairs = np.stack([low, high], axis=3).astype(np.float64)
        return pairs.reshape(w.count, LANES, 2 * count)
    size = int(kind[2:])
    fields = [(words >> U32(size * n)) & U32((1 << size) - 1) for n in range(32 // size)]
    values = np.stack(fields, axis=3).reshape(w.count, LANES, -1).astype(np.int64)
    return np.where(values >> (size - 1) != 0, values - (1 << size), values) if is_signed else values


class _Layout:
    """Where matrix elements lie. `inputs(x)`: (waves, lanes, elements) to (waves, 16, k): rows of A, columns of B."""

    def __init__(self, target: str) -> None:
        self.new = target == "gfx12"

    def inputs(self, x: Array) -> Array:
        if not self.new:
            return x[:, :16]  # the upper lanes hold a copy
        # Lanes 16 to 31 hold the second half of each row.
        return np.concatenate([x[:, :16], x[:, 16:]], axis=2)

    def row(self, index: Array) -> Array:
        """Row of element `index` of a lane in C and D; the column is lane % 16."""
        upper = (_LANES >= 16)[:, None]
        return index + 8 * upper if self.new else 2 * index + upper


@special(
    "v_wmma_f32_16x16x16_f16 v_wmma_f32_16x16x16_bf16 v_wmma_f16_16x16x16_f16 v_wmma_bf16_16x16x16_bf16 "
    "v_wmma_i32_16x16x16_iu8 v_wmma_i32_16x16x16_iu4 v_wmma_i32_16x16x32_iu4"
)
def build_wmma(instruction: Instruction, target: str) -> Run:
    match = re.fullmatch(r"v_wmma_(\w+)_16x16x(\d+)_(\w+)", instruction.mnemonic)
    assert match is not None
    result, depth, kind = match[1], int(match[2]), match[3]
    layout = _Layout(target)
    if kind[0] != "i" and (instruction.neg & 3 or instruction.neg_hi):
        raise IllegalInstruction(f"{instruction.mnemonic} with neg is not executed")
    if any(code < VECTOR for code in instruction.sources[:2]):
        raise IllegalInstruction(f"{instruction.mnemonic} of a scalar operand")
    bits = {"f16": 16, "bf16": 16, "iu8": 8, "iu4": 4}[kind]
    registers = max(1, depth * bits // 32 // (2 if layout.new else 1))
    a, b = (code - VECTOR for code in instruction.sources[:2])
    c, d = instruction.sources[2], instruction.destination - VECTOR
    signs = bool(instruction.neg & 1), bool(instruction.neg & 2)
    narrow = result in ("f16", "bf16")
    packed = narrow and layout.new
    upper = instruction.op_sel >> 2 & 1  # gfx11: which half of each register the narrow C and D are
    index = np.arange(8)[None, :]
    rows, columns = layout.row(index), np.broadcast_to((_LANES % 16)[:, None], (LANES, 8))

    def read_c(w: View) -> Array:
        dtype = np.int32 if result == "i32" else np.float32
        if c < VECTOR:
            pattern = constant_bits(c, "f32" if not narrow else "f16", instruction.literal)
            if pattern is None:
                raise IllegalInstruction(f"{instruction.mnemonic} with C in scalar registers")
            words = np.full((w.count, LANES, 8), pattern, U32)
        elif packed:
            pairs = np.stack([w.vector(c - VECTOR + n) for n in range(4)], axis=2)
            words = np.stack([pairs & U32(0xFFFF), pairs >> U32(16)], axis=3).reshape(w.count, LANES, 8)
        else:
            words = np.stack([w.vector(c - VECTOR + n) for n in range(8)], axis=2)
            if narrow and upper:
                words = words >> U32(16)
        return halves_as_f32(words, result)[0] if narrow else words.view(dtype)

    def run(w: View) -> None:
        if w.mask is not None:
            raise IllegalInstruction(f"{instruction.mnemonic} with inactive lanes")
        left = layout.inputs(_elements(w, a, registers, kind, signs[0]))
        right = layout.inputs(_elements(w, b, registers, kind, signs[1]))
        product = np.einsum("wik,wjk->wij", left, right)  # both hold k last
        total = product[:, rows, columns] + read_c(w).astype(product.dtype)
        if result == "i32":
            limits = np.iinfo(np.int32)
            limited = np.clip(total, limits.min, limits.max) if instruction.clamp else total
            words = limited.astype(np.int32).view(U32)
        elif result == "f32":
            words = total.astype(np.float32).view(U32)
        elif result == "f16":
            words = total.astype(np.float16).view(U16).astype(U32)
        else:
            words = f32_to_bfloat(total.astype(np.float32))
        for n in range(4 if packed else 8):
            word = words[:, :, 2 * n] | words[:, :, 2 * n + 1] << U32(16) if packed else words[:, :, n]
            if narrow and not packed:
                old = w.vector(d + n)
                word = (old & U32(0xFFFF)) | word << U32(16) if upper else (old & U32(0xFFFF0000)) | word
            w.set_vector(d + n, word)

    return run
