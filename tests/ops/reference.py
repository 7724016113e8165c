"""What each pure opcode gives, from the PTX manual and, where it is silent or wrong, from an H200.

`expect(form, operands)` returns result bits or None.

Written apart from the op functions: integers by Python arithmetic, floats by exact fractions.
"""

from __future__ import annotations

from collections.abc import Callable

import softfloat as soft
from softfloat import NAN, Number

from cuttle.lower.ops.forms import Form
from cuttle.ptx.ir import TYPE_BITS, Instruction

Result = int | tuple[int, ...]
ELEMENT = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16"}


def width(type_name: str) -> int:
    return TYPE_BITS[type_name]


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def number(value: int, type_name: str) -> int:
    """Register bits as the integer the type says."""
    bits = width(type_name)
    return signed(value, bits) if type_name.startswith("s") else value & (1 << bits) - 1


def clamp(value: int, type_name: str) -> int:
    bits = width(type_name)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_name.startswith("s") else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def is_float(type_name: str) -> bool:
    return type_name in ("f16", "f32", "f64", "bf16", "f16x2", "bf16x2")


def mode_of(i: Instruction) -> str:
    return next((m for m in ("rz", "rm", "rp", "rna") if m in i.modifiers), "rn")


def by_halves(function: Callable[..., int], *operands: int) -> int:
    low = function(*(o & 0xFFFF for o in operands))
    high = function(*(o >> 16 & 0xFFFF for o in operands))
    return low | high << 16


# -- floating arithmetic ---------------------------------------------------------------------------------------------


def finish(i: Instruction, value: Number, name: str) -> int:
    """Round, flush, saturate."""
    if i.has("ftz") and name != "f64":
        value = soft.flush_unrounded(value, name, mode_of(i))
    bits = soft.encode(value, name, mode_of(i))
    if i.has("sat"):
        bits = soft.encode(soft.saturate(soft.decode(bits, name)), name)
    if i.has("relu"):
        decoded = soft.decode(bits, name)
        bits = bits if decoded.kind == "nan" or not decoded.negative else 0
    return bits


def float_arithmetic(i: Instruction, operands: tuple[int, ...]) -> int:
    name = i.types[0] if len(i.types) == 2 else i.type
    element = ELEMENT.get(name, name)

    flush = i.has("ftz") and element != "f64"  # rcp.ftz.f64 flushes nothing, as recorded

    def one(*parts: int) -> int:
        numbers = []
        if i.has("oob") and any(part & 0x7FFF == 0x7FF7 for part in parts[:2]):
            return 0
        for index, part in enumerate(parts):
            mixed = len(i.types) == 2 and index < len(parts) - 1
            value = soft.decode(part, i.type if mixed else element)
            numbers.append(soft.flush(value, element) if flush else value)
        mode = mode_of(i)
        match i.opcode:
            case "add":
                result = soft.add(numbers[0], numbers[1], mode)
            case "sub":
                flipped = Number(numbers[1].kind, not numbers[1].negative, numbers[1].magnitude)
                result = soft.add(numbers[0], flipped, mode)
            case "mul":
                result = soft.mul(numbers[0], numbers[1])
            case "fma" | "mad":
                result = soft.fma(numbers[0], numbers[1], numbers[2], mode)
            case "div":
                result = soft.div(numbers[0], numbers[1])
            case "rcp":
                result = soft.div(soft.decode(0x3F800000, "f32"), numbers[0])
            case "sqrt":
                result = soft.sqrt(numbers[0])
            case _:
                raise AssertionError(i.opcode)
        return finish(i, result, element)

    return by_halves(one, *operands) if name in ELEMENT else one(*operands)


def float_extreme(i: Instruction, a: int, b: int) -> int:
    name = ELEMENT.get(i.type, i.type)

    def one(x: int, y: int) -> int:
        left, right = soft.decode(x, name), soft.decode(y, name)
        if i.has("ftz"):
            left, right = soft.flush(left, name), soft.flush(right, name)
        flip = left.negative != right.negative
        sign = x >> (width(name) - 1) ^ y >> (width(name) - 1)
        if left.kind == "nan" and right.kind == "nan" or (i.has("NaN") and "nan" in (left.kind, right.kind)):
            return soft.CANONICAL[name]
        if i.has("xorsign"):
            flip = bool(sign)
            left = Number(left.kind, False, left.magnitude)
            right = Number(right.kind, False, right.magnitude)
        if left.kind == "nan":
            best = right
        elif right.kind == "nan":
            best = left
        else:
            best = left if soft.less(left, right) == (i.opcode == "min") else right
        if i.has("xorsign"):
            best = Number(best.kind, flip, best.magnitude)
        return soft.encode(best, name)

    return by_halves(one, a, b) if i.type in ELEMENT else one(a, b)


def float_sign(i: Instruction, a: int) -> int:
    name = ELEMENT.get(i.type, i.type)
    top = 1 << (width(name) - 1)

    def one(x: int) -> int:
        value = soft.decode(x, name)
        if i.has("ftz") and value.kind != "nan":
            x = soft.encode(soft.flush(value, name), name)
        if value.kind == "nan":
            return soft.CANONICAL[name]
        return x ^ top if i.opcode == "neg" else x & ~top

    return by_halves(one, a) if i.type in ELEMENT else one(a)


# -- integer arithmetic ----------------------------------------------------------------------------------------------


def integer_arithmetic(i: Instruction, operands: tuple[int, ...], carry: int) -> Result:
    t = i.type
    if t in ELEMENT:
        part = Instruction(
            i.opcode, (*(m for m in i.modifiers if m != t), ELEMENT[t]), (ELEMENT[t],), (), None, i.location
        )
        return by_halves(lambda *x: int(integer_arithmetic(part, x, 0)), *operands)  # type: ignore[arg-type]
    bits = width(t)
    mask = (1 << bits) - 1
    n = [number(o, t) for o in operands]
    raw = [o & mask for o in operands]
    if i.opcode in ("mul", "mad", "madc"):
        product = n[0] * n[1]
        if i.has("wide"):
            wide = (1 << 2 * bits) - 1
            return (product + (operands[2] if i.opcode == "mad" else 0)) & wide
        # madc.hi of 16 bits and madc.hi.sat stand in no table of the manual: as recorded.
        above = 32 if i.opcode == "madc" and bits == 16 else bits
        part = product >> above if i.has("hi") else product
        if i.opcode == "mul":
            return part & mask
        if i.has("sat") and i.opcode == "mad":
            return clamp(part + n[2], t) & mask
        total = (part & mask) + raw[2] + (carry if i.opcode == "madc" else 0)
        return (total & mask, total >> bits) if i.has("cc") else total & mask
    match i.opcode:
        case "add" | "addc":
            if i.has("sat"):
                return clamp(n[0] + n[1] + (carry if i.opcode == "addc" else 0), t) & mask
            total = raw[0] + raw[1] + (carry if i.opcode == "addc" else 0)
            return (total & mask, total >> bits) if i.has("cc") else total & mask
        case "sub" | "subc":
            if i.has("sat"):
                return clamp(n[0] - n[1] - (carry if i.opcode == "subc" else 0), t) & mask
            total = raw[0] - raw[1] - (carry if i.opcode == "subc" else 0)
            return (total & mask, int(total < 0)) if i.has("cc") else total & mask
        case "sad":
            return (n[2] + abs(n[0] - n[1])) & mask
        case "div" | "rem":
            if n[1] == 0:
                return mask
            quotient = abs(n[0]) // abs(n[1])
            quotient = -quotient if (n[0] < 0) != (n[1] < 0) else quotient
            return (quotient if i.opcode == "div" else n[0] - quotient * n[1]) & mask
        case "abs":
            return abs(n[0]) & mask
        case "neg":
            return -n[0] & mask
        case "min" | "max":
            best = min(n[:2]) if i.opcode == "min" else max(n[:2])
            return (max(best, 0) if i.has("relu") else best) & mask
    raise AssertionError(i.opcode)


def integer_other(i: Instruction, operands: tuple[int, ...]) -> Result | None:
    t = i.type
    a = operands[0]
    b = operands[1] if len(operands) > 1 else 0
    c = operands[2] if len(operands) > 2 else 0
    m32 = 0xFFFFFFFF
    match i.opcode:
        case "mul24" | "mad24":
            x, y = (signed(v, 24) if t == "s32" else v & 0xFFFFFF for v in (a, b))
            part = x * y >> 16 if i.has("hi") else x * y
            if i.opcode == "mul24":
                return part & m32
            if i.has("sat"):
                return clamp(signed(part, 32) + signed(c, 32), "s32") & m32
            return part + c & m32
        case "popc":
            return a.bit_count()
        case "clz":
            return width(t) - a.bit_length()
        case "bfind":
            value = number(a, t)
            value = ~value if value < 0 else value
            if value == 0:
                return m32
            place = value.bit_length() - 1
            return width(t) - 1 - place if i.has("shiftamt") else place
        case "fns":
            base, offset = b, signed(c, 32)
            if offset == -(1 << 31):
                return 0  # ptxas negates it to itself
            if base > 31:
                return m32
            if offset == 0:
                return base if a >> base & 1 else m32
            order = range(base, 32) if offset > 0 else range(base, -1, -1)
            hits = [p for p in order if a >> p & 1]
            return hits[abs(offset) - 1] if len(hits) >= abs(offset) else m32
        case "brev":
            return int(f"{a:0{width(t)}b}"[::-1], 2)
        case "bfe":
            start, length = (b & 255, c & 255) if width(t) == 32 else (min(b, 255), min(c, 255))
            top = width(t) - 1
            if length == 0:
                sign = 0
            else:
                sign = a >> min(start + length - 1, top) & 1 if t.startswith("s") else 0
            bits = [(a >> (start + k) & 1) if k < length and start + k <= top else sign for k in range(width(t))]
            return sum(bit << k for k, bit in enumerate(bits))
        case "bfi":
            start, length = c, operands[3]
            start, length = (min(x, 255) if width(t) == 64 else x & 255 for x in (start, length))
            result = b
            for k in range(length):
                if start + k > width(t) - 1:
                    break
                result = result & ~(1 << (start + k)) | (a >> k & 1) << (start + k)
            return result
        case "szext":
            count = b & 31 if i.has("wrap") else min(b, 32)
            if count == 0:
                return 0
            return (signed(a, count) if t == "s32" else a & (1 << count) - 1) & m32
        case "bmsk":
            start, count = (a & 31, b & 31) if i.has("wrap") else (min(a, 32), min(b, 32))
            return ((1 << count) - 1) << start & m32
        case "dp4a" | "dp2a":
            at, bt = i.types
            total = c
            size = 8 if i.opcode == "dp4a" else 16
            first = 2 if i.has("hi") else 0
            for k in range(32 // size):
                x = a >> size * k & (1 << size) - 1
                x = signed(x, size) if at == "s32" else x
                y = b >> 8 * (first + k) & 255
                y = signed(y, 8) if bt == "s32" else y
                total += x * y
            return total & m32
    return None


# -- logic -----------------------------------------------------------------------------------------------------------


def logic(i: Instruction, operands: tuple[int, ...]) -> Result | None:
    t = i.type
    mask = (1 << width(t)) - 1
    a = operands[0]
    b = operands[1] if len(operands) > 1 else 0
    c = operands[2] if len(operands) > 2 else 0
    match i.opcode:
        case "and":
            return a & b
        case "or":
            return a | b
        case "xor":
            return a ^ b
        case "not":
            return ~a & mask
        case "cnot":
            return int(a == 0)
        case "lop3":
            table = operands[3]
            result = 0
            for k in range(32):
                index = (a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1
                result |= (table >> index & 1) << k
            if not (i.has("or") or i.has("and")):
                return result
            q = operands[4]
            return result, int(result != 0) | q if i.has("or") else int(result != 0) & q
        case "shf":
            n = c & 31 if i.has("wrap") else min(c, 32)
            pair = b << 32 | a
            return pair << n >> 32 & 0xFFFFFFFF if i.has("l") else pair >> n & 0xFFFFFFFF
        case "shl":
            return a << min(b, width(t)) & mask
        case "shr":
            return number(a, t) >> min(b, width(t)) & mask
        case "prmt":
            pool = [(b << 32 | a) >> 8 * k & 255 for k in range(8)]
            mode = next((m for m in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16") if i.has(m)), "")
            s = c & 3
            if mode == "":
                picks = []
                for k in range(4):
                    nibble = c >> 4 * k & 15
                    byte = pool[nibble & 7]
                    picks.append((255 if byte & 128 else 0) if nibble & 8 else byte)
            else:
                order = {
                    "f4e": [s, s + 1, s + 2, s + 3],
                    "b4e": [s, (s - 1) % 8, (s - 2) % 8, (s - 3) % 8],
                    "rc8": [s] * 4,
                    "ecl": [max(s, k) for k in range(4)],
                    "ecr": [min(s, k) for k in range(4)],
                    "rc16": [2 * (s & 1), 2 * (s & 1) + 1] * 2,
                }[mode]
                picks = [pool[k] for k in order]
            return sum(byte << 8 * k for k, byte in enumerate(picks))
    return None


# -- comparison ------------------------------------------------------------------------------------------------------


def compare(i: Instruction, a: int, b: int, t: str) -> bool:
    operator = next(m for m in i.modifiers if m in COMPARE)
    if is_float(t):
        x, y = soft.decode(a, t), soft.decode(b, t)
        if i.has("ftz"):
            x, y = soft.flush(x, t), soft.flush(y, t)
        unordered = "nan" in (x.kind, y.kind)
        if operator in ("num", "nan"):
            return unordered == (operator == "nan")
        if unordered:
            return operator.endswith("u")
        equal = (x.is_zero and y.is_zero) or x == y
        below = not equal and soft.less(x, y)
        operator = operator.removesuffix("u")
    else:
        x_int, y_int = number(a, t), number(b, t)
        equal, below = x_int == y_int, x_int < y_int
        operator = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(operator, operator)
    return {"eq": equal, "ne": not equal, "lt": below, "le": below or equal, "gt": not (below or equal),
            "ge": not below}[operator]  # fmt: skip


COMPARE = frozenset("eq ne lt le gt ge equ neu ltu leu gtu geu num nan lo ls hi hs".split())


def combine(i: Instruction, value: bool, third: int | None) -> int:
    if third is None:
        return int(value)
    if i.has("and"):
        return int(value and third)
    return int(value or third) if i.has("or") else int(value) ^ third


def comparison(i: Instruction, operands: tuple[int, ...]) -> Result | None:
    a, b = operands[0], operands[1]
    third = operands[2] if len(operands) > 2 else None
    t = i.type
    if i.opcode == "selp":
        return a if third else b
    if i.opcode == "slct":
        assert third is not None
        if t == "s32":
            return a if signed(third, 32) >= 0 else b
        value = soft.decode(third, "f32")
        if i.has("ftz"):
            value = soft.flush(value, "f32")
        if value.kind == "nan":
            return b
        return b if value.negative and not value.is_zero else a
    if t in ELEMENT:
        outcomes = [compare(i, a >> s & 0xFFFF, b >> s & 0xFFFF, ELEMENT[t]) for s in (0, 16)]
        if i.opcode == "setp":
            return tuple(combine(i, value, third) for value in outcomes)
        true = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(i.types[0], 0xFFFF)
        return sum((true if combine(i, value, third) else 0) << 16 * k for k, value in enumerate(outcomes))
    outcome = compare(i, a, b, t)
    if i.opcode == "setp":
        return combine(i, outcome, third), combine(i, not outcome, third)
    d = i.types[0]
    true = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(d, (1 << width(d)) - 1)
    return true if combine(i, outcome, third) else 0


# -- entry -----------------------------------------------------------------------------------------------------------


def expect(form: Form, operands: tuple[int, ...], carry: int = 0) -> Result | None:
    """Result bits of the destination types; None where there is no reference (approximations)."""
    i = form.instruction
    op = i.opcode
    if op in ("add", "sub", "mul", "mad", "fma", "div") and is_float(i.type):
        if i.has("approx") or i.has("full"):
            return None
        return float_arithmetic(i, operands)
    if op in ("rcp", "sqrt"):
        return None if i.has("approx") else float_arithmetic(i, operands)
    if op in ("min", "max") and is_float(i.type):
        return float_extreme(i, operands[0], operands[1])
    if op in ("neg", "abs") and is_float(i.type):
        return float_sign(i, operands[0])
    if op in ("add", "sub", "mul", "mad", "addc", "subc", "madc", "sad", "div", "rem", "abs", "neg", "min", "max"):
        return integer_arithmetic(i, operands, carry)
    if op in ("set", "setp", "selp", "slct"):
        return comparison(i, operands)
    if op == "copysign":
        top = 1 << (width(i.type) - 1)
        return operands[0] & top | operands[1] & ~top
    if op == "testp":
        value = soft.decode(operands[0], i.type)
        subnormal = value.kind == "finite" and not value.is_zero and soft.flush(value, i.type).is_zero
        return int({
            "finite": value.kind == "finite", "infinite": value.kind == "inf", "number": value.kind != "nan",
            "notanumber": value.kind == "nan", "normal": value.kind == "finite" and not subnormal,
            "subnormal": subnormal,
        }[i.modifiers[0]])  # fmt: skip
    result = integer_other(i, operands)
    return result if result is not None else logic(i, operands)


__all__ = ["NAN", "expect", "signed", "clamp", "number", "is_float", "mode_of", "ELEMENT"]
