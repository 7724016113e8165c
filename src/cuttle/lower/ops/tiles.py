"""The register layouts of warp matrix instructions and the product of two register tiles (PTX ISA 9.0, 9.7.14).

All dense shapes but Volta's m8n8k4 follow one rule. With E elements to a 32-bit register (one for f64 and tf32), lane
= 4 * group + t holds of A the rows `group + 8 * mh` and the k `t * E + i + 4 * E * kh`, of B the column `group` and the
same k, of the accumulator the rows `group + 8 * mh` and the columns `2 * t`, `2 * t + 1`. Registers of A count mh
fastest, those of B kh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.math.convert import small_to_half
from cuttle.lower.ops.common import widen_bf16

# Bits of an element in a register; what it is computed as.
ELEMENT_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 32, "e4m3": 8, "e5m2": 8,
}  # fmt: skip
INTEGERS = ("s8", "u8", "s4", "u4", "b1")


def per_register(kind: str) -> int:
    """E: k elements that one register holds. A word of b1 counts as one element."""
    return 1 if kind == "f64" else 32 // ELEMENT_BITS[kind]


def unpack_register(emitter: Emitter, register: Value, kind: str) -> list[Value]:
    """The elements of a register in the type of the products: float, double or i32 (b1: the word)."""
    if kind == "f64":
        return [emitter.bitcast(register, "double")]
    if kind == "tf32":
        # The multiplier does not see the low 13 bits.
        return [emitter.bitcast(emitter.and_(register, emitter.const("i32", 0xFFFFE000)), "float")]
    if kind == "b1":
        return [register]
    bits = ELEMENT_BITS[kind]
    parts: list[Value] = []
    for index in range(32 // bits):
        if kind in INTEGERS:
            parts.append(_integer_part(emitter, register, index * bits, bits, kind.startswith("s")))
            continue
        shifted = emitter.lshr(register, emitter.const("i32", index * bits)) if index else register
        part = emitter.cast("trunc", shifted, f"i{bits}")
        if kind == "bf16":
            parts.append(widen_bf16(emitter, part))
        else:
            half = emitter.bitcast(part, "half") if kind == "f16" else small_to_half(emitter, part, kind)
            parts.append(emitter.cast("fpext", half, "float"))
    return parts


def _integer_part(emitter: Emitter, register: Value, shift: int, bits: int, signed: bool) -> Value:
    if signed:
        left = emitter.shl(register, emitter.const("i32", 32 - shift - bits))
        return emitter.ashr(left, emitter.const("i32", 32 - bits))
    moved = emitter.lshr(register, emitter.const("i32", shift)) if shift else register
    return emitter.and_(moved, emitter.const("i32", (1 << bits) - 1))


@dataclass(frozen=True, slots=True)
class Product:
    """What is multiplied: element kinds of A and B, and for b1 the bit operation (`and`, `xor`)."""

    a_kind: str
    b_kind: str
    bit_operation: str = "xor"

    def accumulate(self, emitter: Emitter, total: Value, x: Value, y: Value) -> Value:
        """total + x * y: fused for floats, popc(x op y) for b1."""
        if self.a_kind == "b1":
            bits = emitter.binary(self.bit_operation, x, y)
            return emitter.add(total, emitter.intrinsic("llvm.ctpop", [bits]))
        if self.a_kind in INTEGERS:
            return emitter.add(total, emitter.mul(x, y))
        return emitter.intrinsic("llvm.fma", [x, y, total])


def _spread(machine: Machine, registers: Sequence[Value], source: Value, kind: str) -> list[list[Value]]:
    """The registers of another lane, unpacked."""
    return [unpack_register(machine.emitter, machine.shuffle(register, source), kind) for register in registers]


def multiply_tile(
    machine: Machine, product: Product, a: Sequence[Value], b: Sequence[Value], accumulators: Sequence[Value]
) -> list[Value]:
    """One tile of 8 columns: accumulators (mh slowest, two columns each) plus A * B, k ascending.

    `a` has row_halves * k_halves registers, `b` k_halves. Every lane computes its own accumulators from the registers
    of its row's four lanes and its two columns' four lanes each.
    """
    e = machine.emitter
    k_halves = len(b)
    row_halves = len(a) // k_halves
    lane = machine.lane_index()
    row = e.and_(lane, e.const("i32", 28))
    column = e.shl(e.and_(lane, e.const("i32", 3)), e.const("i32", 3))
    totals = list(accumulators)
    a_parts: dict[int, list[list[Value]]] = {}
    b_parts: dict[tuple[int, int], list[list[Value]]] = {}
    for t in range(4):
        a_parts[t] = _spread(machine, a, e.or_(row, e.const("i32", t)), product.a_kind)
        for n in range(2):
            b_parts[t, n] = _spread(machine, b, e.or_(column, e.const("i32", 4 * n + t)), product.b_kind)
    for kh in range(k_halves):
        for t in range(4):
            for index in range(per_register(product.a_kind)):
                for mh in range(row_halves):
                    x = a_parts[t][kh * row_halves + mh][index]
                    for n in range(2):
                        y = b_parts[t, n][kh][index]
                        totals[2 * mh + n] = product.accumulate(e, totals[2 * mh + n], x, y)
    return totals
