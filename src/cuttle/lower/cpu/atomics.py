"""Atomic read-modify-writes of one lane, as scalar LLVM code.

Shared memory belongs to a block that runs on one OS thread: its atomics are plain loads and stores. Everything else uses
LLVM's atomics; operations without an `atomicrmw` form (float min/max, packed halves) are compare-exchange loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.ops.common import narrow_bf16, widen_bf16
from cuttle.ptx.ir import TYPE_BITS

RMW = {
    "add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap",
}  # fmt: skip
ORDERINGS = {
    "weak": "monotonic",
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}
FLOAT = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def combine(e: Emitter, operation: str, type_name: str, old: Value, operand: Value) -> Value:
    """`old op operand` on integers of the type's width, as the atomic computes it."""
    signed = type_name.startswith("s")
    if type_name in ("f16x2", "bf16x2"):
        return packed(e, operation, type_name[:-2], old, operand)
    if type_name == "bf16":
        # By way of f32 and our own rounding: the processor's conversion to bfloat takes subnormal numbers for zero.
        wide_a, wide_b = widen_bf16(e, old), widen_bf16(e, operand)
        if operation == "add":
            return narrow_bf16(e, e.binary("fadd", wide_a, wide_b))
        name = "llvm.minimumnum" if operation == "min" else "llvm.maximumnum"
        return narrow_bf16(e, e.intrinsic(name, [wide_a, wide_b]))
    if type_name in FLOAT:
        element = FLOAT[type_name]
        a, b = e.bitcast(old, element), e.bitcast(operand, element)
        if operation == "add":
            total = e.binary("fadd", a, b)
            unordered = e.fcmp("uno", total, total)
            bits = f"i{old.bits}"
            nan = {16: 0x7FFF, 32: 0x7FFFFFFF, 64: 0x7FF8000000000000}[old.bits]
            return e.select(unordered, e.const(bits, nan), e.bitcast(total, bits))
        name = "llvm.minimumnum" if operation == "min" else "llvm.maximumnum"
        return e.bitcast(e.intrinsic(name, [a, b]), f"i{old.bits}")
    zero, one = e.const(old.type, 0), e.const(old.type, 1)
    if operation in ("min", "max"):
        name = f"llvm.{'s' if signed else 'u'}{operation}"
        return e.intrinsic(name, [old, operand])
    if operation == "inc":
        return e.select(e.icmp("uge", old, operand), zero, e.add(old, one))
    if operation == "dec":
        out = e.or_(e.icmp("eq", old, zero), e.icmp("ugt", old, operand))
        return e.select(out, operand, e.sub(old, one))
    if operation == "exch":
        return operand
    return e.binary(operation, old, operand)


def packed(e: Emitter, operation: str, half: str, old: Value, operand: Value) -> Value:
    parts = []
    for shift in (0, 16):
        a = e.cast("trunc", e.lshr(old, e.const("i32", shift)), "i16")
        b = e.cast("trunc", e.lshr(operand, e.const("i32", shift)), "i16")
        part = combine(e, operation, half, a, b)
        parts.append(e.shl(e.cast("zext", part, "i32"), e.const("i32", shift)))
    return e.or_(parts[0], parts[1])


def scalar_atomic(
    e: Emitter,
    operation: str,
    type_name: str,
    pointer: Value,
    operands: Sequence[Value],
    *,
    plain: bool,
    ordering: str,
    label: Callable[[str], str],
    allocate: Callable[[str], str],
) -> Value:
    """One lane's atomic; returns the old value. `plain`: no other thread can see the location."""
    bits = TYPE_BITS[type_name]
    element = f"i{bits}"
    size = bits // 8
    if plain:
        old = e.emit(element, 1, f"load {element}, {pointer.typed}, align {size}")
        if operation == "cas":
            new = e.select(e.icmp("eq", old, operands[0]), operands[1], old)
        else:
            new = combine(e, operation, type_name, old, operands[0])
        e.line(f"store {new.typed}, {pointer.typed}, align {size}")
        return old
    order = ORDERINGS.get(ordering, "seq_cst")
    if operation == "cas":
        pair = e.name()
        failure = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
        e.line(
            f"{pair} = cmpxchg {pointer.typed}, {operands[0].typed}, {operands[1].typed} {order} {failure}, align {size}"
        )
        return e.emit(element, 1, f"extractvalue {{ {element}, i1 }} {pair}, 0")
    rmw = RMW.get(operation)
    if type_name not in FLOAT and type_name not in ("f16x2", "bf16x2"):
        if operation in ("min", "max"):
            rmw = operation if type_name.startswith("s") else f"u{operation}"
        if rmw is not None:
            return e.emit(element, 1, f"atomicrmw {rmw} {pointer.typed}, {operands[0].typed} {order}, align {size}")
    # Compare-exchange loop.
    guess = allocate(element)
    first = e.emit(element, 1, f"load atomic {element}, {pointer.typed} monotonic, align {size}")
    e.line(f"store {first.typed}, ptr {guess}")
    again, done = label("cas"), label("cas.done")
    e.line(f"br label %{again}")
    e.lines.append(f"{again}:")
    old = e.emit(element, 1, f"load {element}, ptr {guess}")
    new = combine(e, operation, type_name, old, operands[0])
    pair = e.name()
    e.line(f"{pair} = cmpxchg {pointer.typed}, {old.typed}, {new.typed} seq_cst monotonic, align {size}")
    seen = e.emit(element, 1, f"extractvalue {{ {element}, i1 }} {pair}, 0")
    e.line(f"store {seen.typed}, ptr {guess}")
    success = e.emit("i1", 1, f"extractvalue {{ {element}, i1 }} {pair}, 1")
    e.line(f"br {success.typed}, label %{done}, label %{again}")
    e.lines.append(f"{done}:")
    return old
