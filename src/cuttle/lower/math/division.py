"""Integer division as NVIDIA's code sequences do it: no traps, division by zero gives all ones."""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value


def divide(emitter: Emitter, a: Value, b: Value, signed: bool) -> Value:
    """The quotient toward zero; all ones where b is 0; the least integer by -1 is itself."""
    minus_one = emitter.const(b.type, -1)
    by_zero = emitter.icmp("eq", b, emitter.const(b.type, 0))
    quotient = _guarded(emitter, "div", a, b, signed)
    return emitter.select(by_zero, minus_one, quotient)


def remainder(emitter: Emitter, a: Value, b: Value, signed: bool) -> Value:
    """a - b * (a / b), the sign of a; all ones where b is 0."""
    by_zero = emitter.icmp("eq", b, emitter.const(b.type, 0))
    if b.constant is not None or b.bits == 64 or max(a.lanes, b.lanes) == 1:
        rest = _guarded(emitter, "rem", a, b, signed)
    else:
        rest = emitter.sub(a, emitter.mul(b, _guarded(emitter, "div", a, b, signed)))
    return emitter.select(by_zero, emitter.const(b.type, -1), rest)


def _guarded(emitter: Emitter, operation: str, a: Value, b: Value, signed: bool) -> Value:
    """Division without undefined behaviour: a divisor of 0 counts as 1, and least / -1 negates."""
    one = emitter.const(b.type, 1)
    safe = emitter.select(emitter.icmp("eq", b, emitter.const(b.type, 0)), one, b) if not b.constant else b
    name = ("s" if signed else "u") + operation
    if max(a.lanes, b.lanes) > 1 and b.bits <= 32 and b.constant is None and operation == "div":
        return _divide_in_double(emitter, a, safe, signed)
    if not signed:
        return emitter.binary(name, a, safe)
    least = emitter.icmp("eq", a, emitter.const(a.type, 1 << (a.bits - 1)))
    overflow = emitter.and_(least, emitter.icmp("eq", b, emitter.const(b.type, -1)))
    result = emitter.binary(name, a, emitter.select(overflow, one, safe))
    return result if operation == "div" else emitter.select(overflow, emitter.const(b.type, 0), result)


def _divide_in_double(emitter: Emitter, a: Value, b: Value, signed: bool) -> Value:
    """Vectors of up to 32 bits: the double quotient truncated is exact, as 1/b is far above its error."""
    signed_name = "s" if signed else "u"
    wide_a, wide_b = emitter.cast(f"{signed_name}itofp", a, "double"), emitter.cast(f"{signed_name}itofp", b, "double")
    quotient = emitter.binary("fdiv", wide_a, wide_b)
    # 64-bit conversion is not in AVX2; unsigned results go through the signed range in two halves.
    if signed:
        top = emitter.const("double", 0x41E0000000000000)  # 2**31: least / -1 wraps
        wrapped = emitter.fcmp("oge", quotient, top)
        safe = emitter.select(wrapped, emitter.const("double", 0), quotient)
        converted = emitter.cast("fptosi", safe, "i32")
        converted = emitter.select(wrapped, emitter.const("i32", 1 << 31), converted)
        return emitter.resize(converted, a.bits)
    return emitter.resize(emitter.cast("fptoui", quotient, "i32"), a.bits)
