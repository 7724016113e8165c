"""How integer instructions carry shapes: one rule per opcode.

A rule gets the shapes of the source operands and answers the shape of the result, or None where the generic rule (all
sources uniform: uniform) has to do. The emission side applies the op function to the *bases* alone; so a rule may only give
offsets for which `op(bases) + offsets` equals the op on the lane values modulo 2**bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cuttle.lower.passes.shape import (
    LANES,
    NO_OFFSETS,
    VECTOR,
    Shape,
    constant,
    join_kinds,
    make,
    segment_constant,
    trailing_zeros,
)
from cuttle.ptx.ir import TYPE_BITS, Instruction


@dataclass(frozen=True, slots=True)
class Operands:
    """`bits` is the width of the instruction type, `segment` the lanes per segment."""

    instruction: Instruction
    shapes: list[Shape]
    bits: int
    segment: int

    def within(self, bounds: tuple[int, int] | None, bits: int) -> tuple[int, int] | None:
        """The bounds, if they are those of a signed number of that width."""
        if bounds is None or bounds[0] < -(1 << (bits - 1)) or bounds[1] >= 1 << (bits - 1):
            return None
        return bounds


Rule = Callable[[Operands], Shape | None]


def bounds_of(shape: Shape) -> tuple[int, int] | None:
    return None if shape.low is None or shape.high is None else (shape.low, shape.high)


def checked(
    operands: Operands, bits: int, kind: str, offsets: tuple[int, ...], zeros: int, bounds: tuple[int, int] | None
) -> Shape:
    """The result with its bounds kept only if no lane can have wrapped."""
    if bounds is not None:
        total = (bounds[0] + min(offsets), bounds[1] + max(offsets))
        if operands.within(total, bits) is None or operands.within(bounds, bits) is None:
            bounds = None
    return make(kind, offsets, min(zeros, 64), bounds)


def move(operands: Operands) -> Shape | None:
    return operands.shapes[0] if len(operands.shapes) == 1 else None


def add(operands: Operands) -> Shape | None:
    a, b = operands.shapes[:2]
    if a.is_vector or b.is_vector or operands.instruction.has("cc"):
        return None
    offsets = tuple(x + y for x, y in zip(a.offsets, b.offsets, strict=True))
    left, right = bounds_of(a), bounds_of(b)
    bounds = None if left is None or right is None else (left[0] + right[0], left[1] + right[1])
    return checked(operands, operands.bits, join_kinds(a, b), offsets, min(a.zeros, b.zeros), bounds)


def sub(operands: Operands) -> Shape | None:
    a, b = operands.shapes[:2]
    if a.is_vector or b.is_vector or operands.instruction.has("cc"):
        return None
    offsets = tuple(x - y for x, y in zip(a.offsets, b.offsets, strict=True))
    left, right = bounds_of(a), bounds_of(b)
    bounds = None if left is None or right is None else (left[0] - right[1], left[1] - right[0])
    return checked(operands, operands.bits, join_kinds(a, b), offsets, min(a.zeros, b.zeros), bounds)


def neg(operands: Operands) -> Shape | None:
    (a,) = operands.shapes
    if a.is_vector:
        return None
    bounds = bounds_of(a)
    flipped = None if bounds is None else (-bounds[1], -bounds[0])
    return checked(operands, operands.bits, a.kind, tuple(-x for x in a.offsets), a.zeros, flipped)


def narrow_bounds(shape: Shape, bits: int) -> Shape:
    """The shape with bounds as those of a signed number of that width: a constant may be written as unsigned."""
    if shape.low is None or shape.high is None:
        return shape
    if -(1 << (bits - 1)) <= shape.low and shape.high < 1 << (bits - 1):
        return shape
    shape = narrow_constant(shape, bits)
    if shape.constant is not None and shape.constant < 0:
        return shape
    return make(shape.kind, shape.offsets, shape.zeros)


def rule_operands(instruction: Instruction, shapes: list[Shape], segment: int) -> Operands:
    """What a rule gets: shapes of the sources in an instruction whose type is that wide."""
    bits = TYPE_BITS.get(instruction.type, 32)
    wide = 2 * bits if instruction.has("wide") else bits
    return Operands(
        instruction,
        [narrow_bounds(shape, wide if index == 2 else bits) for index, shape in enumerate(shapes)],
        bits,
        segment,
    )


def factors(operands: Operands) -> tuple[Shape, Shape]:
    """The two factors of `mul` and `mad`, as they are multiplied."""
    a, b = operands.shapes[:2]
    if not widening(operands):
        return a, b
    signed = operands.instruction.type.startswith("s")
    return widened(a, operands.bits, signed), widened(b, operands.bits, signed)


def folds_factors(operands: Operands) -> bool:
    """Whether a product with scalar bases comes from two factors that have the offsets of each segment in their bases."""
    if operands.instruction.opcode not in ("mul", "mad") or operands.instruction.has("hi"):
        return False
    a, b = factors(operands)
    return a.constant is None and b.constant is None and not (a.flat and b.flat)


def product(operands: Operands, a: Shape, b: Shape, bits: int) -> Shape | None:
    """Shape of a*b computed without loss modulo 2**bits."""
    if a.is_vector or b.is_vector:
        return None
    left, right = bounds_of(a), bounds_of(b)
    bounds = None
    if left is not None and right is not None:
        corners = [x * y for x in left for y in right]
        bounds = (min(corners), max(corners))
    zeros = a.zeros + b.zeros
    if a.flat and b.flat:
        return checked(operands, bits, join_kinds(a, b), NO_OFFSETS, zeros, bounds)
    for scaled, factor in ((a, b), (b, a)):
        if factor.constant is not None:
            offsets = tuple(x * factor.constant for x in scaled.offsets)
            return checked(operands, bits, scaled.kind, offsets, zeros, bounds)
    if operands.segment < LANES and all(segment_constant(x.offsets, operands.segment) for x in (a, b)):
        return Shape("segmented")
    return None


def widening(operands: Operands) -> bool:
    return operands.instruction.has("wide")


def narrow_constant(shape: Shape, bits: int) -> Shape:
    """A constant written as an unsigned number (`0xFFFFFFF0`) as the signed number of the same bits."""
    value = shape.constant
    if value is None or not (1 << (bits - 1)) <= value < (1 << bits):
        return shape
    return constant(value - (1 << bits))


def mul(operands: Operands) -> Shape | None:
    instruction = operands.instruction
    if instruction.has("hi"):
        return None
    return product(operands, *factors(operands), 2 * operands.bits if widening(operands) else operands.bits)


def widened(shape: Shape, bits: int, signed: bool) -> Shape:
    """The shape of a value extended from `bits` to more.

    By sign: kept; that no lane wrapped is proved or checked at run time (`needs_wrap_check`). By zero: a lane below zero
    is legal there (`a[tid - 1]` with an unsigned index and a guard), so what is not proved becomes a vector.
    """
    if shape.is_vector:
        return shape
    if signed:
        return narrow_constant(shape, bits)
    total = shape.total()
    proved = total is not None and total[0] >= 0 and total[1] < 1 << (bits if shape.flat else bits - 1)
    if proved:
        return shape
    return make(shape.kind, NO_OFFSETS, min(shape.zeros, bits)) if shape.flat else VECTOR


def mad(operands: Operands) -> Shape | None:
    instruction = operands.instruction
    if instruction.has("hi") or instruction.has("cc"):
        return None
    bits = 2 * operands.bits if widening(operands) else operands.bits
    middle = product(operands, *factors(operands), bits)
    if middle is None:
        return None
    return add(Operands(operands.instruction, [middle, operands.shapes[2]], bits, operands.segment))


def shl(operands: Operands) -> Shape | None:
    a, amount = operands.shapes
    count = amount.constant
    if a.is_vector or count is None or not 0 <= count < operands.bits:
        return None
    bounds = bounds_of(a)
    scaled = None if bounds is None else (bounds[0] << count, bounds[1] << count)
    return checked(operands, operands.bits, a.kind, tuple(x << count for x in a.offsets), a.zeros + count, scaled)


def low_part(shape: Shape, bits: int) -> bool:
    """Whether offsets never carry into bit `bits` or above: bases are multiples of 2**bits, offsets below it."""
    return shape.zeros >= bits and min(shape.offsets) >= 0 and max(shape.offsets) < (1 << bits)


def shr(operands: Operands) -> Shape | None:
    a, amount = operands.shapes
    count = amount.constant
    if a.is_vector or count is None or not 0 <= count < operands.bits:
        return None
    bounds = bounds_of(a)
    if bounds is not None and operands.instruction.type.startswith(("u", "b")) and bounds[0] < 0:
        bounds = None
    shifted = None if bounds is None else (bounds[0] >> count, bounds[1] >> count)
    if a.flat:
        return make(a.kind, NO_OFFSETS, max(0, a.zeros - count), shifted)
    carry_bits = max(max(a.offsets).bit_length(), 0)
    if min(a.offsets) < 0 or not low_part(a, carry_bits):
        return None
    return make(a.kind, tuple(x >> count for x in a.offsets), max(0, a.zeros - count), shifted)


def and_(operands: Operands) -> Shape | None:
    a, b = operands.shapes
    for value, mask in ((a, b), (b, a)):
        bits_kept = narrow_constant(mask, operands.bits).constant
        if value.is_vector or bits_kept is None:
            continue
        if bits_kept < 0 and value.flat:
            return make(value.kind, NO_OFFSETS, max(value.zeros, trailing_zeros(bits_kept)))
        if bits_kept < 0:
            continue
        if value.flat:
            return make(value.kind, NO_OFFSETS, max(value.zeros, trailing_zeros(bits_kept)), (0, bits_kept))
        width = max(value.offsets).bit_length()
        if low_part(value, width):
            # The bases have no bits below `width`, the offsets none above.
            return make(
                value.kind, tuple(x & bits_kept for x in value.offsets), value.zeros,
                (0, 0) if bits_kept.bit_length() <= value.zeros else (0, bits_kept),
            )  # fmt: skip
    return None


def or_(operands: Operands) -> Shape | None:
    """An addition where the operands have no bit in common."""
    a, b = operands.shapes
    for high, low in ((a, b), (b, a)):
        total = low.total()
        if high.is_vector or low.is_vector or total is None or total[0] < 0:
            continue
        width = total[1].bit_length()
        if high.zeros >= width and all(x % (1 << width) == 0 for x in high.offsets):
            return add(operands)
    return None


def cvt(operands: Operands) -> Shape | None:
    instruction = operands.instruction
    if len(instruction.types) != 2 or set(instruction.modifiers) - set(instruction.types):
        return None
    to_type, from_type = instruction.types
    to_bits, from_bits = TYPE_BITS[to_type], TYPE_BITS[from_type]
    (a,) = operands.shapes
    if a.is_vector or to_bits < 32 or from_bits < 32:
        return None
    if to_bits > from_bits:
        a = widened(a, from_bits, from_type.startswith("s"))
        if a.is_vector:
            return a
    bounds = bounds_of(a)
    if to_bits < from_bits and operands.within(a.total(), to_bits) is None:
        bounds = None
    return make(a.kind, a.offsets, a.zeros, bounds)


def min_max(operands: Operands) -> Shape | None:
    a, b = operands.shapes[:2]
    if a.flat and b.flat:
        left, right = bounds_of(a), bounds_of(b)
        bounds = None if left is None or right is None else (min(left[0], right[0]), max(left[1], right[1]))
        return make(join_kinds(a, b), NO_OFFSETS, min(a.zeros, b.zeros), bounds)
    return None


def flat_only(operands: Operands) -> Shape | None:
    if all(shape.flat for shape in operands.shapes):
        return Shape(join_kinds(*operands.shapes))
    return None


def selp(operands: Operands) -> Shape | None:
    a, b, predicate = operands.shapes
    if predicate.is_uniform and not a.is_vector and not b.is_vector and a.offsets == b.offsets:
        return make(join_kinds(a, b), a.offsets, min(a.zeros, b.zeros))
    return None


AFFINE: dict[str, Rule] = {
    "mov": move, "add": add, "sub": sub, "neg": neg, "mul": mul, "mad": mad, "shl": shl, "shr": shr,
    "and": and_, "or": or_, "xor": flat_only, "not": flat_only, "cvt": cvt, "min": min_max, "max": min_max, "selp": selp,
}  # fmt: skip
"""Opcodes whose results may have offsets or segments, by rule."""


def needs_wrap_check(instruction: Instruction, sources: list[Shape], index: int) -> int:
    """Width in bits of source `index` if it is extended by sign here although its lanes might have wrapped; else 0.

    Only values with offsets are at risk: base + offset computed in the wide type must equal the narrow sum extended.
    """
    source = sources[index]
    if source.is_vector or source.flat:
        return 0
    opcode = instruction.opcode
    if opcode == "cvt" and len(instruction.types) == 2:
        to_type, from_type = instruction.types
        if TYPE_BITS[to_type] <= TYPE_BITS[from_type]:
            return 0
    elif opcode in ("mul", "mad") and instruction.has("wide") and index < 2:
        from_type = instruction.type
    else:
        return 0
    if not from_type.startswith("s"):
        return 0
    bits = TYPE_BITS[from_type]
    total = source.total()
    proved = total is not None and -(1 << (bits - 1)) <= total[0] and total[1] < 1 << (bits - 1)
    return 0 if proved else bits
