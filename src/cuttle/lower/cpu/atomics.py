"""Atomic read-modify-writes of one lane, as scalar LLVM code.

Shared memory belongs to a block that runs on one OS thread: its atomics are plain loads and stores. Everything else uses
LLVM's atomics; operations without an `atomicrmw` form (float min/max, packed halves) are compare-exchange loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.ops.element_types import GENERATED_NAN, first_nan, flush, narrow_bf16, widen_bf16
from cuttle.lower.ops.policy import policy
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
    if type_name in FLOAT and operation != "exch":
        return combine_floats(e, operation, type_name, old, operand)
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


def combine_floats(e: Emitter, operation: str, type_name: str, old: Value, operand: Value) -> Value:
    """`add`, `min`, `max` of floats, as recorded on an H200; `add_ftz` flushes, `add_signaling` leaves NaNs as they are,
    with `add_old_nan` the memory's NaN wins over the operand's.

    Halves and bf16 keep subnormals; NaNs are canonical, but f64 sums carry theirs on. bf16 goes through float by hand: LLVM's
    own narrowing uses an instruction that flushes.
    """
    bits = f"i{old.bits}"
    if type_name == "bf16":
        a, b = widen_bf16(e, old), widen_bf16(e, operand)
    else:
        a, b = e.bitcast(old, FLOAT[type_name]), e.bitcast(operand, FLOAT[type_name])
    if operation == "add_ftz":
        a, b = flush(e, a), flush(e, b)
    if operation.startswith("add"):
        total = e.binary("fadd", a, b)
        if type_name == "bf16":
            return narrow_bf16(e, total)
        if operation == "add_ftz":
            total = flush(e, total)
        if operation == "add_signaling":
            kept = e.select(e.fcmp("uno", a, a), old, f64_bits(e, total, a, b, operation))
            return e.select(e.fcmp("uno", b, b), operand, kept)
        if type_name == "f64":
            return f64_bits(e, total, a, b, operation)
        nan = e.const(bits, {16: 0x7FFF, 32: 0x7FFFFFFF}[old.bits])
        return e.select(e.fcmp("uno", total, total), nan, e.bitcast(total, bits))
    if type_name == "f16":
        a, b = e.cast("fpext", a, "float"), e.cast("fpext", b, "float")
    best = e.intrinsic("llvm.minimumnum" if operation == "min" else "llvm.maximumnum", [a, b])
    if type_name == "f16":
        result = e.bitcast(e.cast("fptrunc", best, "half"), bits)
    elif type_name == "bf16":
        result = e.cast("trunc", e.lshr(e.bitcast(best, "i32"), e.const("i32", 16)), bits)
    else:
        result = e.bitcast(best, bits)
    nan = e.const(bits, {16: 0x7FFF, 32: 0x7FFFFFFF, 64: 0x7FF8000000000000}[old.bits])
    return e.select(e.and_(e.fcmp("uno", a, a), e.fcmp("uno", b, b)), nan, result)


def f64_bits(e: Emitter, total: Value, old: Value, operand: Value, operation: str) -> Value:
    """A sum whose NaN is that of an operand, or NVIDIA's own. (Processors have rules, too; but LLVM swaps operands as it likes.)"""
    if policy.generate_nan:
        total = e.select(e.fcmp("uno", total, total), e.bitcast(e.const("i64", GENERATED_NAN), "double"), total)
    order = (old, operand) if operation == "add_old_nan" else (operand, old)
    return e.bitcast(first_nan(e, total, *order), "i64")


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
