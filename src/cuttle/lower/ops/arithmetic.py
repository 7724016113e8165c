"""add, sub, mul, mad, fma, div, rem, abs, neg, min, max, sad and the carry chain (PTX ISA 9.0, 9.7.1 to 9.7.5)."""

from __future__ import annotations

from collections.abc import Callable

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.math import approximate, directed, division, fast, small
from cuttle.lower.ops.element_types import (
    PACKED_ELEMENT,
    as_half,
    by_halves,
    canonical,
    first_nan,
    flush,
    flush_by,
    flush_if,
    force_canonical,
    is_floating,
    is_signed,
    narrow_bf16,
    relu,
    saturate,
    scaled_up,
    second_nan,
    widen,
    widen_bf16,
)
from cuttle.lower.ops.policy import policy
from cuttle.ptx.ir import Instruction

_DIRECTED = ("rz", "rm", "rp")


def rounding(instruction: Instruction) -> str:
    """The floating-point rounding modifier, `rn` by default."""
    return next((mode for mode in _DIRECTED if mode in instruction.modifiers), "rn")


# -- floating-point helpers ------------------------------------------------------------------------------------------


def finish(emitter: Emitter, instruction: Instruction, value: Value, scaled: Value | None = None) -> Value:
    """Flush, saturate and canonicalise an arithmetic result as the modifiers ask.

    `scaled` decides what is flushed (see `flush_by`); without it, the value does.
    """
    if instruction.has("ftz"):
        value = flush(emitter, value) if scaled is None else flush_by(emitter, value, scaled)
    if instruction.has("sat"):
        return saturate(emitter, value)
    if instruction.has("relu"):
        return relu(emitter, value)
    return canonical(emitter, value)


def _float_add(emitter: Emitter, instruction: Instruction, a: Value, b: Value) -> Value:
    mode = rounding(instruction)
    a, b = (flush_if(emitter, instruction.has("ftz"), value) for value in (a, b))
    total = emitter.binary("fadd", a, b) if mode == "rn" else directed.add(emitter, a, b, mode)
    return finish(emitter, instruction, second_nan(emitter, total, a, b))


def _float_fma(emitter: Emitter, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    mode = rounding(instruction)

    def multiply_add(x: Value, y: Value, z: Value) -> Value:
        if x.type == "half":
            return small.fma_half(emitter, x, y, z)
        if mode == "rn":
            return emitter.intrinsic("llvm.fma", [x, y, z])
        return directed.fma(emitter, x, y, z, mode)

    if not instruction.has("ftz"):
        result = multiply_add(a, b, c)
        if a.type == "double":
            result = first_nan(emitter, result, b, c)
        return finish(emitter, instruction, result)
    a, b, c = (flush(emitter, value) for value in (a, b, c))
    scaled = multiply_add(scaled_up(emitter, a), b, scaled_up(emitter, c))
    return finish(emitter, instruction, multiply_add(a, b, c), scaled)


def _bf16_fma(emitter: Emitter, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    result = small.fma_bf16(emitter, a, b, c)
    if not instruction.has("relu"):
        return result
    negative = emitter.icmp("slt", result, emitter.const("i16", 0))
    return emitter.select(negative, emitter.const("i16", 0), result)


def _bf16_add(emitter: Emitter, a: Value, b: Value) -> Value:
    return narrow_bf16(emitter, emitter.binary("fadd", widen_bf16(emitter, a), widen_bf16(emitter, b)))


def _bf16_neg(emitter: Emitter, a: Value) -> Value:
    return emitter.xor(a, emitter.const("i16", 0x8000))


def _element_wise(emitter: Emitter, type_name: str, operation: Callable[..., Value], *operands: Value) -> Value:
    """Apply an operation of the element type to an operand that may be packed (f16x2: the operation sees halves)."""
    element = PACKED_ELEMENT.get(type_name)
    if element is None:
        return operation(*operands)
    if element == "f16":
        return by_halves(emitter, lambda *parts: operation(*(as_half(emitter, part) for part in parts)), *operands)
    return by_halves(emitter, operation, *operands)


# -- add, sub --------------------------------------------------------------------------------------------------------


def add(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value | tuple[Value, Value]:
    """`add`: integer (saturating, with carry out), floating, half, packed, mixed precision. 9.7.1.1, 9.7.3.3, 9.7.4.1."""
    emitter = machine.emitter
    type_name = instruction.type
    if is_floating(type_name):
        return _add_floating(emitter, instruction, a, b)
    if type_name in PACKED_ELEMENT:
        return by_halves(emitter, emitter.add, a, b)
    if instruction.has("sat"):
        return emitter.intrinsic("llvm.sadd.sat" if is_signed(type_name) else "llvm.uadd.sat", [a, b])
    total = emitter.add(a, b)
    return (total, emitter.icmp("ult", total, a)) if instruction.has("cc") else total


def sub(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value | tuple[Value, Value]:
    """`sub`: as `add`; the carry of `sub.cc` is that of a + ~b + 1, see `subc`. 9.7.1.2, 9.7.3.4, 9.7.4.2."""
    emitter = machine.emitter
    type_name = instruction.type
    if is_floating(type_name):
        return _add_floating(emitter, instruction, a, b, subtract=True)
    if type_name in PACKED_ELEMENT:
        return by_halves(emitter, emitter.sub, a, b)
    if instruction.has("sat"):
        return emitter.intrinsic("llvm.ssub.sat" if is_signed(type_name) else "llvm.usub.sat", [a, b])
    difference = emitter.sub(a, b)
    return (difference, emitter.icmp("uge", a, b)) if instruction.has("cc") else difference


def _add_floating(emitter: Emitter, instruction: Instruction, a: Value, b: Value, subtract: bool = False) -> Value:
    type_name = instruction.type
    if len(instruction.types) == 2:
        # Mixed precision: a is f16 or bf16, the addend and the result are f32.
        a = widen(emitter, a)
        return _float_add(emitter, instruction, a, emitter.fneg(b) if subtract else b)
    if type_name.startswith("bf16"):
        return _element_wise(
            emitter, type_name, lambda x, y: _bf16_add(emitter, x, _bf16_neg(emitter, y) if subtract else y), a, b
        )
    total = _element_wise(
        emitter, type_name, lambda x, y: _float_add(emitter, instruction, x, emitter.fneg(y) if subtract else y), a, b
    )
    if not (subtract and type_name == "f64"):
        return total
    # The subtrahend's NaN, with its sign, comes before the minuend's.
    return first_nan(emitter, total, b)


def _add_with_carry(
    emitter: Emitter, instruction: Instruction, a: Value, b: Value, carry: Value
) -> Value | tuple[Value, Value]:
    first = emitter.add(a, b)
    total = emitter.add(first, emitter.cast("zext", carry, a.type))
    if not instruction.has("cc"):
        return total
    return total, emitter.or_(emitter.icmp("ult", first, a), emitter.icmp("ult", total, first))


def _saturating_with_carry(emitter: Emitter, operation: str, a: Value, b: Value, carry: Value) -> Value:
    """`addc.sat.s32`, `subc.sat.s32` (in no table of the manual; recorded): the whole sum saturates."""
    wide = [emitter.cast("sext", value, "i64") for value in (a, b)]
    total = emitter.binary(operation, emitter.binary(operation, *wide), emitter.cast("zext", carry, "i64"))
    low, high = emitter.const("i64", -(1 << 31)), emitter.const("i64", (1 << 31) - 1)
    return emitter.cast(
        "trunc", emitter.intrinsic("llvm.smin", [emitter.intrinsic("llvm.smax", [total, low]), high]), "i32"
    )


def addc(machine: Machine, instruction: Instruction, a: Value, b: Value, carry: Value) -> Value | tuple[Value, Value]:
    """`addc`: a + b + CC.CF, carry out with `.cc`. 9.7.2.2."""
    emitter = machine.emitter
    if instruction.has("sat"):
        return _saturating_with_carry(emitter, "add", a, b, carry)
    return _add_with_carry(emitter, instruction, a, b, carry)


def subc(machine: Machine, instruction: Instruction, a: Value, b: Value, carry: Value) -> Value | tuple[Value, Value]:
    """`subc`: a - b less the borrow, carry out with `.cc`. 9.7.2.4.

    The manual's CC.CF is a borrow here. GPUs subtract by adding, a + ~b + CC.CF, and the flag is the adder's carry: 1 for *no*
    borrow. That shows where additions and subtractions share a flag, as in the 128-bit division that nvcc generates (`subc.cc`,
    then `addc 0, 0` to look at the sign); also njuffa's answer to stackoverflow.com/questions/66403252.
    """
    emitter = machine.emitter
    borrow = emitter.not_(carry)
    if instruction.has("sat"):
        return _saturating_with_carry(emitter, "sub", a, b, borrow)
    first = emitter.sub(a, b)
    wide = emitter.cast("zext", borrow, a.type)
    difference = emitter.sub(first, wide)
    if not instruction.has("cc"):
        return difference
    return difference, emitter.and_(emitter.icmp("uge", a, b), emitter.icmp("uge", first, wide))


# -- mul, mad, fma ---------------------------------------------------------------------------------------------------


def multiply_high(emitter: Emitter, a: Value, b: Value, signed: bool) -> Value:
    """The upper half of the double-width product."""
    bits = a.bits
    if bits == 64 and (a.lanes > 1 or b.lanes > 1):
        return _multiply_high_64(emitter, a, b, signed)
    extend = "sext" if signed else "zext"
    wide = f"i{2 * bits}"
    product = emitter.mul(emitter.cast(extend, a, wide), emitter.cast(extend, b, wide))
    return emitter.cast("trunc", emitter.lshr(product, emitter.const(wide, bits)), a.type)


def _multiply_high_64(emitter: Emitter, a: Value, b: Value, signed: bool) -> Value:
    """From 32-bit parts: a vector of i128 would be taken apart lane by lane."""
    shift, mask = emitter.const("i64", 32), emitter.const("i64", 0xFFFFFFFF)
    a_low, a_high = emitter.and_(a, mask), emitter.lshr(a, shift)
    b_low, b_high = emitter.and_(b, mask), emitter.lshr(b, shift)
    middle = emitter.add(emitter.mul(a_high, b_low), emitter.lshr(emitter.mul(a_low, b_low), shift))
    cross = emitter.add(emitter.mul(a_low, b_high), emitter.and_(middle, mask))
    high = emitter.add(emitter.mul(a_high, b_high), emitter.lshr(middle, shift))
    high = emitter.add(high, emitter.lshr(cross, shift))
    if not signed:
        return high
    sign = emitter.const("i64", 63)
    high = emitter.sub(high, emitter.and_(emitter.ashr(a, sign), b))
    return emitter.sub(high, emitter.and_(emitter.ashr(b, sign), a))


def _product(emitter: Emitter, instruction: Instruction, a: Value, b: Value) -> Value:
    """The part of the integer product that `.lo`, `.hi` or `.wide` names."""
    signed = is_signed(instruction.type)
    if instruction.has("wide"):
        extend, wide = ("sext" if signed else "zext"), f"i{2 * a.bits}"
        return emitter.mul(emitter.cast(extend, a, wide), emitter.cast(extend, b, wide))
    if instruction.has("hi"):
        return multiply_high(emitter, a, b, signed)
    return emitter.mul(a, b)


def mul(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value:
    """`mul`: integer `.lo`, `.hi`, `.wide`; floating; half and packed. 9.7.1.3, 9.7.3.5, 9.7.4.3."""
    emitter = machine.emitter
    type_name = instruction.type
    if not is_floating(type_name):
        return _product(emitter, instruction, a, b)
    if type_name.startswith("bf16"):
        minus_zero = emitter.const("i16", 0x8000)
        return _element_wise(emitter, type_name, lambda x, y: small.fma_bf16(emitter, x, y, minus_zero), a, b)

    return _element_wise(emitter, type_name, lambda x, y: _float_product(emitter, instruction, x, y), a, b)


def _float_product(emitter: Emitter, instruction: Instruction, a: Value, b: Value) -> Value:
    mode = rounding(instruction)

    def multiply(x: Value, y: Value) -> Value:
        product = emitter.binary("fmul", x, y) if mode == "rn" else directed.mul(emitter, x, y, mode)
        return second_nan(emitter, product, x, y)

    if not instruction.has("ftz"):
        return finish(emitter, instruction, multiply(a, b))
    a, b = flush(emitter, a), flush(emitter, b)
    return finish(emitter, instruction, multiply(a, b), multiply(scaled_up(emitter, a), b))


def fma(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    """`fma`: rounded once. 9.7.3.6, 9.7.4.4, 9.7.5.3."""
    emitter = machine.emitter
    type_name = instruction.type
    if instruction.has("oob"):
        return _element_wise(emitter, type_name, lambda x, y, z: _oob_fma(emitter, instruction, x, y, z), a, b, c)
    if len(instruction.types) == 2:
        return _float_fma(emitter, instruction, widen(emitter, a), widen(emitter, b), c)
    if type_name.startswith("bf16"):
        return _element_wise(emitter, type_name, lambda x, y, z: _bf16_fma(emitter, instruction, x, y, z), a, b, c)
    return _element_wise(emitter, type_name, lambda x, y, z: _float_fma(emitter, instruction, x, y, z), a, b, c)


# The NaN that marks elements outside of a tensor, in f16 and in bf16 (either sign): as recorded.
_OOB_NAN = 0x7FF7


def _oob_fma(emitter: Emitter, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    """`fma.oob`: 0 where a or b is the out-of-bounds NaN."""
    if PACKED_ELEMENT.get(instruction.type, instruction.type) == "bf16":
        result = _bf16_fma(emitter, instruction, a, b, c)
    else:
        result = _float_fma(emitter, instruction, a, b, c)
    marked = [
        emitter.icmp(
            "eq", emitter.and_(emitter.as_bits(value), emitter.const("i16", 0x7FFF)), emitter.const("i16", _OOB_NAN)
        )
        for value in (a, b)
    ]
    zero = emitter.bitcast(emitter.const("i16", 0), result.type)
    return emitter.select(emitter.or_(*marked), zero, result)


def mad(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value) -> Value | tuple[Value, Value]:
    """`mad`: integer product part plus c, saturating or with carry out; for floats the same as `fma`. 9.7.1.4."""
    emitter = machine.emitter
    if is_floating(instruction.type):
        return _float_fma(emitter, instruction, a, b, c)
    product = _product(emitter, instruction, a, b)
    if instruction.has("sat"):
        return emitter.intrinsic("llvm.sadd.sat", [product, c])
    total = emitter.add(product, c)
    return (total, emitter.icmp("ult", total, product)) if instruction.has("cc") else total


def madc(
    machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value, carry: Value
) -> Value | tuple[Value, Value]:
    """`madc`: product part + c + CC.CF, carry out with `.cc`; `.sat` changes nothing (recorded). 9.7.2.6."""
    emitter = machine.emitter
    if a.bits == 16 and instruction.has("hi"):
        # In no table of the manual; hardware takes the part above 32 bits, so nothing but the sign of the product.
        high = emitter.const("i16", 0)
        if is_signed(instruction.type):
            x, y = (emitter.cast("sext", value, "i32") for value in (a, b))
            high = emitter.cast("trunc", emitter.ashr(emitter.mul(x, y), emitter.const("i32", 31)), "i16")
        return _add_with_carry(emitter, instruction, high, c, carry)
    return _add_with_carry(emitter, instruction, _product(emitter, instruction, a, b), c, carry)


# -- div, rem, sad ---------------------------------------------------------------------------------------------------


def div(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value:
    """`div`: integer (all ones by zero), `.rn` and directed IEEE division, `.approx`, `.full`. 9.7.1.8, 9.7.3.8."""
    emitter = machine.emitter
    if not is_floating(instruction.type):
        return division.divide(emitter, a, b, is_signed(instruction.type))
    ftz = instruction.has("ftz")
    if policy.fast_math and (instruction.has("approx") or instruction.has("full")):
        return canonical(emitter, fast.quotient(emitter, a, b, ftz))
    a, b = (flush_if(emitter, ftz, value) for value in (a, b))
    if instruction.has("approx") or instruction.has("full"):
        inverse, a = approximate.quotient_operands(emitter, a, b, ftz, instruction.has("full"))
        return _float_product(emitter, instruction, inverse, a)
    mode = rounding(instruction)
    if mode == "rn":
        quotient = emitter.binary("fdiv", a, b)
        return canonical(emitter, _flush_quotient(emitter, quotient, a, b) if ftz else quotient)
    quotient = directed.div(emitter, a, b, mode)
    if ftz:
        quotient = flush_by(emitter, quotient, directed.div(emitter, scaled_up(emitter, a), b, mode))
    return canonical(emitter, quotient)


def _flush_quotient(emitter: Emitter, quotient: Value, a: Value, b: Value) -> Value:
    """Zero where |a / b| is below the least normal number, even if it rounds to that (see `flush_by`): no quotient of floats is
    so near to it that it would be rounded up to it if exponents had no lower end."""
    enlarged = emitter.binary("fmul", emitter.intrinsic("llvm.fabs", [a]), emitter.const("float", (126 + 127) << 23))
    tiny = emitter.fcmp("olt", enlarged, emitter.intrinsic("llvm.fabs", [b]))
    bits = emitter.bitcast(quotient, "i32")
    zero = emitter.and_(bits, emitter.const("i32", 1 << 31))
    return emitter.bitcast(emitter.select(tiny, zero, bits), "float")


def rem(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value:
    """`rem`: the sign of the dividend. 9.7.1.9."""
    return division.remainder(machine.emitter, a, b, is_signed(instruction.type))


def sad(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    """`sad`: c + |a - b|. 9.7.1.7."""
    emitter = machine.emitter
    predicate = "slt" if is_signed(instruction.type) else "ult"
    difference = emitter.select(emitter.icmp(predicate, a, b), emitter.sub(b, a), emitter.sub(a, b))
    return emitter.add(c, difference)


# -- abs, neg, min, max ----------------------------------------------------------------------------------------------


def abs(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`abs`: the least integer is its own absolute value. 9.7.1.10, 9.7.3.9, 9.7.4.6."""
    emitter = machine.emitter
    type_name = instruction.type
    if type_name.startswith("bf16"):
        return _element_wise(emitter, type_name, lambda x: _bf16_magnitude(emitter, x, negate=False), a)
    if is_floating(type_name):
        return _element_wise(emitter, type_name, lambda x: _magnitude(emitter, instruction, x, negate=False), a)
    return emitter.intrinsic("llvm.abs", [a, emitter.const("i1", 0)])


def neg(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`neg`. 9.7.1.11, 9.7.3.10, 9.7.4.5."""
    emitter = machine.emitter
    type_name = instruction.type
    if type_name.startswith("bf16"):
        return _element_wise(emitter, type_name, lambda x: _bf16_magnitude(emitter, x, negate=True), a)
    if is_floating(type_name):
        return _element_wise(emitter, type_name, lambda x: _magnitude(emitter, instruction, x, negate=True), a)
    return emitter.neg(a)


def _magnitude(emitter: Emitter, instruction: Instruction, value: Value, negate: bool) -> Value:
    value = flush_if(emitter, instruction.has("ftz"), value)
    result = emitter.fneg(value) if negate else emitter.intrinsic("llvm.fabs", [value])
    if value.type != "double":
        return canonical(emitter, result)
    # An addition of zero on the GPU: a NaN keeps its sign and payload and becomes quiet.
    bits = emitter.bitcast(value, "i64")
    quiet = emitter.or_(bits, emitter.const("i64", 1 << 51))
    nan = emitter.fcmp("uno", value, value)
    return emitter.bitcast(emitter.select(nan, quiet, emitter.bitcast(result, "i64")), "double")


def _bf16_magnitude(emitter: Emitter, value: Value, negate: bool) -> Value:
    magnitude = emitter.and_(value, emitter.const("i16", 0x7FFF))
    nan = emitter.icmp("ugt", magnitude, emitter.const("i16", 0x7F80))
    result = _bf16_neg(emitter, value) if negate else magnitude
    return emitter.select(nan, emitter.const("i16", 0x7FFF), result)


def _float_extreme(emitter: Emitter, instruction: Instruction, name: str, a: Value, b: Value) -> Value:
    """min or max of one float type (bf16 and f16 as float): IEEE 754-2019 minimumNumber, or minimum with `.NaN`."""
    a, b = (flush_if(emitter, instruction.has("ftz"), value) for value in (a, b))
    sign: Value | None = None
    integer = f"i{a.bits}"
    if instruction.has("xorsign"):
        sign = emitter.xor(emitter.bitcast(a, integer), emitter.bitcast(b, integer))
        a, b = emitter.intrinsic("llvm.fabs", [a]), emitter.intrinsic("llvm.fabs", [b])
    intrinsic = f"llvm.{name}imum" if instruction.has("NaN") else f"llvm.{name}imumnum"
    result = emitter.intrinsic(intrinsic, [a, b])
    if sign is not None:
        top = emitter.const(integer, 1 << (a.bits - 1))
        flipped = emitter.xor(emitter.bitcast(result, integer), emitter.and_(sign, top))
        result = emitter.bitcast(flipped, a.type)
    if a.type != "double":
        return force_canonical(emitter, result)
    # Two NaNs: the second one, made quiet.
    quiet = emitter.or_(emitter.bitcast(b, integer), emitter.const(integer, 1 << 51))
    nan = emitter.fcmp("uno", result, result)
    return emitter.bitcast(emitter.select(nan, quiet, emitter.bitcast(result, integer)), "double")


def _extreme(machine: Machine, instruction: Instruction, name: str, a: Value, b: Value) -> Value:
    emitter = machine.emitter
    type_name = instruction.type
    if type_name.startswith("bf16"):

        def extreme_bf16(x: Value, y: Value) -> Value:
            wide = _float_extreme(emitter, instruction, name, widen_bf16(emitter, x), widen_bf16(emitter, y))
            return emitter.cast("trunc", emitter.lshr(emitter.bitcast(wide, "i32"), emitter.const("i32", 16)), "i16")

        return _element_wise(emitter, type_name, extreme_bf16, a, b)
    if is_floating(type_name):
        return _element_wise(emitter, type_name, lambda x, y: _extreme_of_type(emitter, instruction, name, x, y), a, b)
    intrinsic = f"llvm.{'s' if is_signed(type_name) else 'u'}{name}"

    def extreme_integer(x: Value, y: Value) -> Value:
        result = emitter.intrinsic(intrinsic, [x, y])
        if instruction.has("relu"):
            result = emitter.intrinsic("llvm.smax", [result, emitter.const(result.type, 0)])
        return result

    return _element_wise(emitter, type_name, extreme_integer, a, b)


def _extreme_of_type(emitter: Emitter, instruction: Instruction, name: str, a: Value, b: Value) -> Value:
    if a.type != "half":
        return _float_extreme(emitter, instruction, name, a, b)
    # Flush as halves: float's subnormals are far below.
    a, b = (flush_if(emitter, instruction.has("ftz"), value) for value in (a, b))
    wide = _float_extreme(emitter, instruction, name, widen(emitter, a), widen(emitter, b))
    return force_canonical(emitter, emitter.cast("fptrunc", wide, "half"))


def min(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`min` of two or three operands: -0 below +0; a NaN loses against a number unless `.NaN`. 9.7.1.12, 9.7.3.11."""
    result = _extreme(machine, instruction, "min", a, b)
    return result if c is None else _extreme(machine, instruction, "min", result, c)


def max(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`max`, see `min`. 9.7.1.13, 9.7.3.12."""
    result = _extreme(machine, instruction, "max", a, b)
    return result if c is None else _extreme(machine, instruction, "max", result, c)
