"""The sum of products of a tensor core, bit by bit (PTX ISA 9.0, 9.7.14; recorded on an H200 by tools/record_mma.py).

The manual leaves the precision open. What the hardware does, for all float kinds alike (docs/design/tensor_cores.md):

1. Every product is exact. Its exponent is the sum of its factors' exponents, significands in [1, 4): not normalised,
   and a subnormal factor has the exponent of the least normal number. Zeros have no exponent.
2. All products of the instruction and the accumulator are aligned to the largest exponent among them (at least 7 below
   the least normal exponent of the result) and cut, toward zero and each by itself, below 2**-25 of that.
3. Their sum is exact; it is cut to f32, or rounded to nearest even to f16. What becomes zero is +0.
4. NaN and infinity go their IEEE way; every NaN is the canonical one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.math.convert import float_to_half, power, small_to_half
from cuttle.lower.math.exact import narrow_double_to_odd
from cuttle.lower.ops.element_types import force_canonical
from cuttle.lower.ops.policy import policy

WINDOW = 25  # bits kept below the largest exponent
LEAST_EXPONENT = {"float": -133, "half": -21}  # of the alignment, by the type of the accumulator
NO_EXPONENT = -1000  # of zeros: below every other, also in sums
_FAR = -60  # alignment shifts beyond which nothing is left
# Below these exponents no product of halves lies; alone with zero products, the accumulator needs no finer scale.
_LEAST_HALF = -100
_GROUP = 8  # aligned terms below 2**27 whose sum fits in 32 bits together with the accumulator


@dataclass(frozen=True, slots=True)
class Element:
    """A factor: `value` (float, double or i32); for floats also its exponent (i16).

    Halves keep their value; kinds with the exponents of f32 are scaled to significands in [0, 2) (infinity and NaN
    stay as they are).
    """

    value: Value
    exponent: Value | None = None

    def map(self, function: Callable[[Value], Value]) -> Element:
        """The same done to value and exponent (a shuffle, say)."""
        return Element(function(self.value), None if self.exponent is None else function(self.exponent))


def zero_element(emitter: Emitter) -> Element:
    return Element(emitter.const("float", 0), emitter.const("i16", NO_EXPONENT))


def half_element(emitter: Emitter, bits: Value) -> Element:
    """An f16 (i16)."""
    field = emitter.and_(emitter.lshr(bits, emitter.const("i16", 10)), emitter.const("i16", 31))
    exponent = emitter.sub(emitter.intrinsic("llvm.umax", [field, emitter.const("i16", 1)]), emitter.const("i16", 15))
    zero = emitter.icmp("eq", emitter.shl(bits, emitter.const("i16", 1)), emitter.const("i16", 0))
    exponent = emitter.select(zero, emitter.const("i16", NO_EXPONENT), exponent)
    return Element(emitter.cast("fpext", emitter.bitcast(bits, "half"), "float"), exponent)


def float_element(emitter: Emitter, bits: Value) -> Element:
    """An f32 (i32), or bf16 or tf32 widened to one, as significand and exponent."""

    def const(number: int) -> Value:
        return emitter.const("i32", number)

    value = emitter.bitcast(bits, "float")
    field = emitter.and_(emitter.lshr(bits, const(23)), const(255))
    scaled = emitter.or_(emitter.and_(bits, const(0x807FFFFF)), const(0x3F800000))
    lifted = emitter.binary("fmul", value, power(emitter, "float", 126))
    number = emitter.select(emitter.icmp("eq", field, const(0)), lifted, emitter.bitcast(scaled, "float"))
    number = emitter.select(emitter.icmp("eq", field, const(255)), value, number)
    exponent = emitter.sub(emitter.intrinsic("llvm.umax", [field, const(1)]), const(127))
    zero = emitter.icmp("eq", emitter.shl(bits, const(1)), const(0))
    exponent = emitter.select(zero, const(NO_EXPONENT), exponent)
    return Element(number, emitter.cast("trunc", exponent, "i16"))


def plain_floats(emitter: Emitter, register: Value, kind: str) -> list[Element]:
    """The elements of a register of A or B as floats, for sums in ordinary arithmetic (`policy.fast_math`)."""
    if kind == "tf32":
        return [Element(emitter.bitcast(emitter.and_(register, emitter.const("i32", 0xFFFFE000)), "float"))]
    bits = 8 if kind in ("e4m3", "e5m2") else 16
    parts: list[Element] = []
    for index in range(32 // bits):
        if kind == "bf16":
            wide = (
                emitter.and_(register, emitter.const("i32", -1 << 16))
                if index
                else emitter.shl(register, emitter.const("i32", 16))
            )
            parts.append(Element(emitter.bitcast(wide, "float")))
            continue
        shifted = emitter.lshr(register, emitter.const("i32", index * bits)) if index else register
        part = emitter.cast("trunc", shifted, f"i{bits}")
        half = small_to_half(emitter, part, kind) if bits == 8 else emitter.bitcast(part, "half")
        parts.append(Element(emitter.cast("fpext", half, "float")))
    return parts


def unpack_floats(emitter: Emitter, register: Value, kind: str) -> list[Element]:
    """The elements of a register of A or B."""
    if policy.fast_math:
        return plain_floats(emitter, register, kind)
    if kind == "tf32":
        # The multiplier does not see the low 13 bits.
        return [float_element(emitter, emitter.and_(register, emitter.const("i32", 0xFFFFE000)))]
    if kind == "bf16":
        low = emitter.shl(register, emitter.const("i32", 16))
        return [
            float_element(emitter, low),
            float_element(emitter, emitter.and_(register, emitter.const("i32", -1 << 16))),
        ]
    bits = 16 if kind == "f16" else 8
    parts: list[Element] = []
    for index in range(32 // bits):
        shifted = emitter.lshr(register, emitter.const("i32", index * bits)) if index else register
        part = emitter.cast("trunc", shifted, f"i{bits}")
        if kind != "f16":
            # No tensor core instruction takes 8-bit floats here: they are converted to f16 first.
            part = emitter.bitcast(small_to_half(emitter, part, kind), "i16")
        parts.append(half_element(emitter, part))
    return parts


def accumulator(emitter: Emitter, value: Value) -> Element:
    """The accumulator (float or half) as significand and exponent."""
    if value.type == "float":
        return float_element(emitter, emitter.bitcast(value, "i32"))
    element = half_element(emitter, emitter.bitcast(value, "i16"))
    assert element.exponent is not None
    wide = emitter.cast("sext", element.exponent, "i32")
    zero = emitter.icmp("eq", wide, emitter.const("i32", NO_EXPONENT))
    exponent = emitter.select(zero, emitter.const("i32", 0), wide)
    return Element(emitter.binary("fmul", element.value, _power_of(emitter, emitter.neg(exponent))), element.exponent)


def _power_of(emitter: Emitter, exponent: Value) -> Value:
    """2**exponent (i32, of a normal float)."""
    field = emitter.add(exponent, emitter.const("i32", 127))
    return emitter.bitcast(emitter.shl(field, emitter.const("i32", 23)), "float")


def _maximum(emitter: Emitter, a: Value, b: Value) -> Value:
    return emitter.intrinsic("llvm.smax", [a, b])


@dataclass(frozen=True, slots=True)
class Sum:
    """The exact sum of the aligned terms (double), and a float that is not finite where the result is not."""

    value: Value
    special: Value


def add_products(
    emitter: Emitter, pairs: Sequence[tuple[Element, Element]], addend: Element, result_type: str, halves: bool
) -> Sum:
    """The aligned sum of the products and the accumulator, for a `float` or `half`. `halves`: the factors are f16."""
    e = emitter
    assert addend.exponent is not None
    exponents = [e.add(x.exponent, y.exponent) for x, y in pairs if x.exponent and y.exponent]
    largest = _maximum(e, addend.exponent, e.const("i16", LEAST_EXPONENT[result_type]))
    for exponent in exponents:
        largest = _maximum(e, largest, exponent)
    wide = e.cast("sext", largest, "i32")
    # Biased exponents of the power of two that brings each term to units of 2**(largest - WINDOW).
    base = e.sub(e.const("i16", 127 + WINDOW), largest)

    def aligned(number: Value, exponent: Value) -> Value:
        field = _maximum(e, e.add(exponent, base), e.const("i16", 127 + WINDOW + _FAR))
        scale = e.shl(e.cast("zext", field, "i32"), e.const("i32", 23))
        return e.cast("fptosi", e.binary("fmul", number, e.bitcast(scale, "float")), "i32")

    common: Value | None = None
    if halves:
        floor = _maximum(e, wide, e.const("i32", _LEAST_HALF))
        common = _power_of(e, e.sub(e.const("i32", WINDOW), floor))
    special = addend.value
    total: Value | None = None
    group = aligned(addend.value, addend.exponent)
    for index, ((x, y), exponent) in enumerate(zip(pairs, exponents, strict=True)):
        product = e.binary("fmul", x.value, y.value)
        special = e.binary("fadd", special, product)
        if common is not None:
            term = e.cast("fptosi", e.binary("fmul", product, common), "i32")
        else:
            term = aligned(product, exponent)
        group = e.add(group, term)
        if index % _GROUP == _GROUP - 1 or index == len(pairs) - 1:
            part = e.cast("sitofp", group, "double")
            total = part if total is None else e.binary("fadd", total, part)
            group = e.const("i32", 0)
    assert total is not None
    field = e.cast("sext", e.add(wide, e.const("i32", 1023 - WINDOW)), "i64")
    scale = e.bitcast(e.shl(field, e.const("i64", 52)), "double")
    return Sum(e.binary("fmul", total, scale), special)


def to_float(emitter: Emitter, total: Sum, halves: bool) -> Value:
    """The sum cut to float; beyond its range it is infinite."""
    e = emitter
    bits = e.and_(e.bitcast(total.value, "i64"), e.const("i64", -1 << 29))
    result = e.cast("fptrunc", e.bitcast(bits, "double"), "float")
    if not halves:
        # Products of halves do not reach the subnormals, and the accumulator alone needs no cutting.
        magnitude = e.intrinsic("llvm.fabs", [total.value])
        tiny = e.fcmp("olt", magnitude, power(e, "double", -126))
        count = e.select(tiny, e.binary("fmul", total.value, power(e, "double", 149)), e.const("double", 0))
        number = e.cast("fptosi", count, "i32")
        sign = e.and_(number, e.const("i32", 1 << 31))
        subnormal = e.or_(e.select(e.icmp("slt", number, e.const("i32", 0)), e.neg(number), number), sign)
        result = e.select(tiny, e.bitcast(subnormal, "float"), result)
    return e.select(_finite(e, total), result, force_canonical(e, total.special))


def to_half(emitter: Emitter, total: Sum) -> Value:
    """The sum rounded to half; what rounds to zero is +0."""
    finite = float_to_half(emitter, narrow_double_to_odd(emitter, total.value), "rn")
    zero = emitter.const("half", 0)
    finite = emitter.select(emitter.fcmp("oeq", finite, zero), zero, finite)
    special = force_canonical(emitter, emitter.cast("fptrunc", total.special, "half"))
    return emitter.select(_finite(emitter, total), finite, special)


def _finite(emitter: Emitter, total: Sum) -> Value:
    bits = emitter.and_(emitter.bitcast(total.special, "i32"), emitter.const("i32", 0x7F800000))
    return emitter.icmp("ne", bits, emitter.const("i32", 0x7F800000))
