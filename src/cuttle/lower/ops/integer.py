"""Integer opcodes without floating-point siblings (PTX ISA 9.0, 9.7.1)."""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.element_types import is_signed
from cuttle.ptx.ir import Instruction


def _low_24(emitter: Emitter, value: Value, signed: bool) -> Value:
    if not signed:
        return emitter.and_(value, emitter.const("i32", 0xFFFFFF))
    eight = emitter.const("i32", 8)
    return emitter.ashr(emitter.shl(value, eight), eight)


def _product_24(emitter: Emitter, instruction: Instruction, a: Value, b: Value) -> Value:
    """The low 32 (`.lo`) or high 32 (`.hi`) bits of the 48-bit product of the low 24 bits."""
    signed = is_signed(instruction.type)
    a, b = _low_24(emitter, a, signed), _low_24(emitter, b, signed)
    if not instruction.has("hi"):
        return emitter.mul(a, b)
    extend = "sext" if signed else "zext"
    product = emitter.mul(emitter.cast(extend, a, "i64"), emitter.cast(extend, b, "i64"))
    return emitter.cast("trunc", emitter.lshr(product, emitter.const("i64", 16)), "i32")


def mul24(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value:
    """`mul24`. 9.7.1.5."""
    return _product_24(machine.emitter, instruction, a, b)


def mad24(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    """`mad24`, with signed saturation for `.sat`. 9.7.1.6."""
    emitter = machine.emitter
    product = _product_24(emitter, instruction, a, b)
    return emitter.intrinsic("llvm.sadd.sat", [product, c]) if instruction.has("sat") else emitter.add(product, c)


def popc(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`popc`: number of set bits, as u32. 9.7.1.14."""
    emitter = machine.emitter
    return emitter.resize(emitter.intrinsic("llvm.ctpop", [a]), 32)


def clz(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`clz`: leading zeros, the width for 0. 9.7.1.15."""
    emitter = machine.emitter
    return emitter.resize(emitter.intrinsic("llvm.ctlz", [a, emitter.const("i1", 0)]), 32)


def bfind(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`bfind`: the position of the most significant non-sign bit, or 0xffffffff; `.shiftamt`: the shift to the top. 9.7.1.16."""
    emitter = machine.emitter
    if is_signed(instruction.type):
        a = emitter.xor(a, emitter.ashr(a, emitter.const(a.type, a.bits - 1)))
    zeros = emitter.resize(emitter.intrinsic("llvm.ctlz", [a, emitter.const("i1", 0)]), 32)
    none = emitter.icmp("eq", a, emitter.const(a.type, 0))
    place = zeros if instruction.has("shiftamt") else emitter.sub(emitter.const("i32", a.bits - 1), zeros)
    return emitter.select(none, emitter.const("i32", -1), place)


def fns(machine: Machine, instruction: Instruction, mask: Value, base: Value, offset: Value) -> Value:
    """`fns`: the position of the n-th set bit from `base` upward (n > 0) or downward (n < 0), or 0xffffffff. 9.7.1.17.

    n = 0 asks for the bit at `base` itself. The n-th set bit is found by a binary search over prefix counts.
    """
    emitter = machine.emitter

    def const(value: int) -> Value:
        return emitter.const("i32", value)

    # A base beyond the word leaves no bits to search.
    outside = emitter.icmp("ugt", base, const(31))
    mask = emitter.select(outside, const(0), mask)
    base = emitter.and_(base, const(31))
    downward = emitter.icmp("slt", offset, const(0))
    is_zero = emitter.icmp("eq", offset, const(0))
    # Downward search is upward search in the mirrored word.
    word = emitter.select(downward, emitter.intrinsic("llvm.bitreverse", [mask]), mask)
    start = emitter.select(downward, emitter.sub(const(31), base), base)
    word = emitter.and_(word, emitter.shl(const(-1), start))
    wanted = emitter.intrinsic("llvm.abs", [offset, emitter.const("i1", 0)])
    position, left = const(0), emitter.sub(wanted, const(1))
    for width in (16, 8, 4, 2, 1):
        part = emitter.and_(emitter.lshr(word, position), const((1 << width) - 1))
        count = emitter.intrinsic("llvm.ctpop", [part])
        beyond = emitter.icmp("uge", left, count)
        left = emitter.select(beyond, emitter.sub(left, count), left)
        position = emitter.select(beyond, emitter.add(position, const(width)), position)
    found = emitter.icmp("sle", wanted, emitter.intrinsic("llvm.ctpop", [word]))
    place = emitter.select(downward, emitter.sub(const(31), position), position)
    result = emitter.select(found, place, const(-1))
    own = emitter.icmp("ne", emitter.and_(emitter.lshr(mask, base), const(1)), const(0))
    return emitter.select(is_zero, emitter.select(own, base, const(-1)), result)


def brev(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`brev`: bits in reverse order. 9.7.1.18."""
    return machine.emitter.intrinsic("llvm.bitreverse", [a])


def _field_amount(emitter: Emitter, amount: Value, bits: int) -> Value:
    """A position or length: its low byte for the 32-bit instructions; ptxas expands 64-bit ones to clamping shifts."""
    return emitter.and_(amount, emitter.const("i32", 255)) if bits == 32 else amount


def bfe(machine: Machine, instruction: Instruction, a: Value, start: Value, length: Value) -> Value:
    """`bfe`: the field of `length` bits from `start`; bits beyond the top are the sign (0 for u). 9.7.1.19.

    32-bit words take both amounts modulo 256, 64-bit ones clamp them. A signed field is filled with the bit at min(start + length - 1, msb).
    """
    emitter = machine.emitter
    bits, signed = a.bits, is_signed(instruction.type)
    kind = a.type

    def const(value: int) -> Value:
        return emitter.const(kind, value)

    start, length = (emitter.resize(_field_amount(emitter, x, bits), bits) for x in (start, length))
    top = const(bits - 1)
    shift = emitter.intrinsic("llvm.umin", [start, top])
    beyond = emitter.icmp("ugt", start, top)
    full = emitter.icmp("uge", length, const(bits))
    short = emitter.select(full, const(0), length)
    mask = emitter.select(full, const(-1), emitter.sub(emitter.shl(const(1), short), const(1)))
    if not signed:
        field = emitter.and_(emitter.lshr(a, shift), mask)
        return emitter.select(beyond, const(0), field)
    shifted = emitter.ashr(a, shift)
    # Extend from bit length - 1 of the shifted word; where the field passes the top, ashr has done it.
    left = emitter.select(emitter.icmp("eq", short, const(0)), const(0), emitter.sub(const(bits), short))
    field = emitter.ashr(emitter.shl(shifted, left), left)
    field = emitter.select(full, shifted, field)
    field = emitter.select(beyond, emitter.ashr(a, top), field)
    return emitter.select(emitter.icmp("eq", length, const(0)), const(0), field)


def bfi(machine: Machine, instruction: Instruction, a: Value, b: Value, start: Value, length: Value) -> Value:
    """`bfi`: b with `length` bits from `start` replaced by the low bits of a; amounts as for `bfe`. 9.7.1.20."""
    emitter = machine.emitter
    bits, kind = a.bits, a.type

    def const(value: int) -> Value:
        return emitter.const(kind, value)

    start, length = (emitter.resize(_field_amount(emitter, x, bits), bits) for x in (start, length))
    full = emitter.icmp("uge", length, const(bits))
    short = emitter.select(full, const(0), length)
    mask = emitter.select(full, const(-1), emitter.sub(emitter.shl(const(1), short), const(1)))
    beyond = emitter.icmp("uge", start, const(bits))
    shift = emitter.select(beyond, const(0), start)
    field = emitter.shl(mask, shift)
    merged = emitter.or_(emitter.and_(emitter.shl(a, shift), field), emitter.and_(b, emitter.not_(field)))
    return emitter.select(beyond, b, merged)


def szext(machine: Machine, instruction: Instruction, a: Value, width: Value) -> Value:
    """`szext`: the low `width` bits, sign- or zero-extended; widths of 32 and more clamp or wrap. 9.7.1.21."""
    emitter = machine.emitter

    def const(value: int) -> Value:
        return emitter.const("i32", value)

    if instruction.has("wrap"):
        width = emitter.and_(width, const(31))
    whole = emitter.icmp("uge", width, const(32))
    none = emitter.icmp("eq", width, const(0))
    left = emitter.and_(emitter.sub(const(32), width), const(31))
    shifted = emitter.shl(a, left)
    field = emitter.ashr(shifted, left) if is_signed(instruction.type) else emitter.lshr(shifted, left)
    return emitter.select(none, const(0), emitter.select(whole, a, field))


def bmsk(machine: Machine, instruction: Instruction, start: Value, width: Value) -> Value:
    """`bmsk`: `width` ones from bit `start`; amounts clamp at or wrap by 32. 9.7.1.22."""
    emitter = machine.emitter

    def const(value: int) -> Value:
        return emitter.const("i32", value)

    if instruction.has("wrap"):
        start, width = emitter.and_(start, const(31)), emitter.and_(width, const(31))
    full = emitter.icmp("uge", width, const(32))
    short = emitter.select(full, const(0), width)
    ones = emitter.select(full, const(-1), emitter.sub(emitter.shl(const(1), short), const(1)))
    beyond = emitter.icmp("uge", start, const(32))
    mask = emitter.shl(ones, emitter.select(beyond, const(0), start))
    return emitter.select(beyond, const(0), mask)


def _part(emitter: Emitter, value: Value, shift: int, bits: int, signed: bool) -> Value:
    """Bits shift .. shift + bits - 1 of an i32, extended to i32."""
    if not signed:
        return emitter.and_(emitter.lshr(value, emitter.const("i32", shift)), emitter.const("i32", (1 << bits) - 1))
    left = emitter.shl(value, emitter.const("i32", 32 - shift - bits))
    return emitter.ashr(left, emitter.const("i32", 32 - bits))


def dp4a(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    """`dp4a`: c plus the products of four bytes each. 9.7.1.23."""
    emitter = machine.emitter
    a_signed, b_signed = (is_signed(name) for name in instruction.types)
    total = c
    for shift in (0, 8, 16, 24):
        product = emitter.mul(_part(emitter, a, shift, 8, a_signed), _part(emitter, b, shift, 8, b_signed))
        total = emitter.add(total, product)
    return total


def dp2a(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    """`dp2a`: c plus the products of a's halves with two bytes of b (`.lo`: bytes 0, 1; `.hi`: 2, 3). 9.7.1.24."""
    emitter = machine.emitter
    a_signed, b_signed = (is_signed(name) for name in instruction.types)
    first = 16 if instruction.has("hi") else 0
    total = c
    for index in (0, 1):
        left = _part(emitter, a, 16 * index, 16, a_signed)
        total = emitter.add(total, emitter.mul(left, _part(emitter, b, first + 8 * index, 8, b_signed)))
    return total


def clmad(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    """`clmad`: the low or high half of the carry-less product of a and b, xor c. 9.7.1.25.

    From the manual's definition: newer than the recorded hardware.
    """
    e = machine.emitter
    bits, high = a.bits, instruction.has("hi")
    zero = e.const(a.type, 0)
    total = c
    for index in range(bits):
        if high and index == 0:
            continue  # nothing of the first partial product is in the high half
        chosen = e.icmp("ne", e.and_(b, e.const(a.type, 1 << index)), zero)
        amount = e.const(a.type, bits - index if high else index)
        part = e.lshr(a, amount) if high else e.shl(a, amount)
        total = e.xor(total, e.select(chosen, part, zero))
    return total
