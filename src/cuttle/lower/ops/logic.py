"""Logic, shifts, permutes (PTX ISA 9.0, 9.7.8, 9.7.9.7)."""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.element_types import is_signed
from cuttle.ptx.ir import Instruction


def and_(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value:
    """`and`. 9.7.8.1."""
    return machine.emitter.and_(a, b)


def or_(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value:
    """`or`. 9.7.8.2."""
    return machine.emitter.or_(a, b)


def xor(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value:
    """`xor`. 9.7.8.3."""
    return machine.emitter.xor(a, b)


def not_(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`not`. 9.7.8.4."""
    return machine.emitter.not_(a)


def cnot(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`cnot`: 1 for 0, else 0. 9.7.8.5."""
    emitter = machine.emitter
    return emitter.cast("zext", emitter.icmp("eq", a, emitter.const(a.type, 0)), a.type)


def lop3(
    machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value, table: Value, q: Value | None = None
) -> Value | tuple[Value, Value]:
    """`lop3`: any three-input function by its look-up table; with `.or`/`.and` also p = (d != 0) op q. 9.7.8.6."""
    emitter = machine.emitter
    if table.constant is None:
        machine.refuse("lop3 needs a constant table")
    result = three_input(emitter, a, b, c, (table.constant or 0) & 0xFF)
    if q is None:
        return result
    some = emitter.icmp("ne", result, emitter.const("i32", 0))
    predicate = emitter.or_(some, q) if instruction.has("or") else emitter.and_(some, q)
    return result, predicate


def three_input(emitter: Emitter, a: Value, b: Value, c: Value, table: int) -> Value:
    """The bitwise function whose value for bits (a, b, c) is bit 4a + 2b + c of the table.

    Shannon expansion by c, then b: at most seven operations, most tables far fewer; LLVM folds the rest (vpternlog).
    """
    zero_part = _two_input(emitter, a, b, sum((table >> (2 * i) & 1) << i for i in range(4)))
    one_part = _two_input(emitter, a, b, sum((table >> (2 * i + 1) & 1) << i for i in range(4)))
    if zero_part is None and one_part is None:
        return emitter.const(a.type, 0)
    if table & 0x55 == (table >> 1) & 0x55:  # c does not matter
        return _whole(emitter, zero_part, a)
    if (table & 0x55) ^ (table >> 1 & 0x55) == 0x55:  # f = zero_part xor c
        return emitter.xor(_whole(emitter, zero_part, a), c)
    if zero_part is None:
        return emitter.and_(_whole(emitter, one_part, a), c)
    if one_part is None:
        return emitter.and_(zero_part, emitter.not_(c))
    # zero ^ (c & (zero ^ one))
    mixed = table ^ table >> 1
    difference = _two_input(emitter, a, b, sum((mixed >> (2 * i) & 1) << i for i in range(4)))
    return emitter.xor(zero_part, emitter.and_(c, _whole(emitter, difference, a)))


def _whole(emitter: Emitter, value: Value | None, like: Value) -> Value:
    return emitter.const(like.type, 0) if value is None else value


def _two_input(emitter: Emitter, a: Value, b: Value, table: int) -> Value | None:
    """The function whose value for bits (a, b) is bit 2a + b of the table; None for constant 0."""
    match table:
        case 0b0000:
            return None
        case 0b0001:
            return emitter.not_(emitter.or_(a, b))
        case 0b0010:
            return emitter.and_(emitter.not_(a), b)
        case 0b0011:
            return emitter.not_(a)
        case 0b0100:
            return emitter.and_(a, emitter.not_(b))
        case 0b0101:
            return emitter.not_(b)
        case 0b0110:
            return emitter.xor(a, b)
        case 0b0111:
            return emitter.not_(emitter.and_(a, b))
        case 0b1000:
            return emitter.and_(a, b)
        case 0b1001:
            return emitter.not_(emitter.xor(a, b))
        case 0b1010:
            return b
        case 0b1011:
            return emitter.or_(emitter.not_(a), b)
        case 0b1100:
            return a
        case 0b1101:
            return emitter.or_(a, emitter.not_(b))
        case 0b1110:
            return emitter.or_(a, b)
    return emitter.const(a.type, -1)


def shl(machine: Machine, instruction: Instruction, a: Value, amount: Value) -> Value:
    """`shl`: amounts of the width and more give 0. 9.7.8.8."""
    return shift_left(machine.emitter, a, amount)


def shift_left(emitter: Emitter, a: Value, amount: Value) -> Value:
    """a << amount, 0 from the width on."""
    if amount.constant is not None:
        if amount.constant >= a.bits:
            return emitter.const(a.type, 0)
        return emitter.shl(a, emitter.const(a.type, amount.constant))
    beyond = emitter.icmp("ugt", amount, emitter.const("i32", a.bits - 1))
    # The frozen shift: LLVM's result for too large amounts is poison, which the select below must not see.
    safe = emitter.and_(amount, emitter.const("i32", a.bits - 1))
    shifted = emitter.shl(a, emitter.resize(safe, a.bits))
    return emitter.select(beyond, emitter.const(a.type, 0), shifted)


def shr(machine: Machine, instruction: Instruction, a: Value, amount: Value) -> Value:
    """`shr`: amounts of the width and more give 0, or the sign for signed types. 9.7.8.9."""
    return shift_right(machine.emitter, a, amount, is_signed(instruction.type))


def shift_right(emitter: Emitter, a: Value, amount: Value, signed: bool) -> Value:
    """a >> amount; from the width on 0, or all sign bits."""
    if amount.constant is not None:
        if signed:
            return emitter.ashr(a, emitter.const(a.type, _lesser(amount.constant, a.bits - 1)))
        if amount.constant >= a.bits:
            return emitter.const(a.type, 0)
        return emitter.lshr(a, emitter.const(a.type, amount.constant))
    top = emitter.const("i32", a.bits - 1)
    if signed:
        return emitter.ashr(a, emitter.resize(emitter.intrinsic("llvm.umin", [amount, top]), a.bits))
    beyond = emitter.icmp("ugt", amount, top)
    shifted = emitter.lshr(a, emitter.resize(emitter.and_(amount, top), a.bits))
    return emitter.select(beyond, emitter.const(a.type, 0), shifted)


def _lesser(a: int, b: int) -> int:
    return a if a < b else b


def shf(machine: Machine, instruction: Instruction, a: Value, b: Value, amount: Value) -> Value:
    """`shf`: funnel shift of b:a (b the high word); amounts clamp at 32 or wrap. 9.7.8.7."""
    emitter = machine.emitter
    name = "llvm.fshl" if instruction.has("l") else "llvm.fshr"
    funnel = emitter.intrinsic(name, [b, a, amount])  # the amount is taken modulo 32
    if instruction.has("wrap"):
        return funnel
    beyond = emitter.icmp("ugt", amount, emitter.const("i32", 31))
    return emitter.select(beyond, a if instruction.has("l") else b, funnel)


_PRMT_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def prmt(machine: Machine, instruction: Instruction, a: Value, b: Value, selector: Value) -> Value:
    """`prmt`: four bytes picked from the eight of b:a, or by a fixed pattern. 9.7.9.7."""
    emitter = machine.emitter
    mode = next((name for name in _PRMT_MODES if instruction.has(name)), "")
    if mode:
        return _prmt_mode(emitter, mode, a, b, selector)
    if selector.constant is not None:
        return _prmt_constant(emitter, a, b, selector.constant)
    low = emitter.cast("zext", a, "i64")
    pool = emitter.or_(low, emitter.shl(emitter.cast("zext", b, "i64"), emitter.const("i64", 32)))
    result: Value | None = None
    for index in range(4):
        nibble = emitter.and_(emitter.lshr(selector, emitter.const("i32", 4 * index)), emitter.const("i32", 15))
        shift = emitter.shl(emitter.and_(nibble, emitter.const("i32", 7)), emitter.const("i32", 3))
        byte = emitter.cast("trunc", emitter.lshr(pool, emitter.cast("zext", shift, "i64")), "i32")
        byte = emitter.and_(byte, emitter.const("i32", 0xFF))
        replicate = emitter.icmp("ne", emitter.and_(nibble, emitter.const("i32", 8)), emitter.const("i32", 0))
        top = emitter.icmp("ne", emitter.and_(byte, emitter.const("i32", 0x80)), emitter.const("i32", 0))
        signs = emitter.select(top, emitter.const("i32", 0xFF), emitter.const("i32", 0))
        byte = emitter.shl(emitter.select(replicate, signs, byte), emitter.const("i32", 8 * index))
        result = byte if result is None else emitter.or_(result, byte)
    assert result is not None
    return result


def _prmt_constant(emitter: Emitter, a: Value, b: Value, selector: int) -> Value:
    """With a known selector: whole-word cases directly, else shifts and masks of single bytes."""
    nibbles = [selector >> (4 * index) & 15 for index in range(4)]
    for word, base in ((a, 0), (b, 4)):
        if nibbles == [base, base + 1, base + 2, base + 3]:
            return word
    for turn in range(1, 8):
        if nibbles == [(turn + index) % 8 for index in range(4)]:
            pair, amount = ((b, a), turn) if turn < 4 else ((a, b), turn - 4)
            return emitter.intrinsic("llvm.fshr", [*pair, emitter.const("i32", 8 * amount)])
    result: Value | None = None
    for index, nibble in enumerate(nibbles):
        word, byte = (a, b)[nibble >> 2 & 1], nibble & 3
        if nibble & 8:
            spread = emitter.ashr(emitter.shl(word, emitter.const("i32", 24 - 8 * byte)), emitter.const("i32", 31))
            part = emitter.and_(spread, emitter.const("i32", 0xFF << 8 * index))
        else:
            distance = 8 * (index - byte)
            moved = word
            if distance > 0:
                moved = emitter.shl(word, emitter.const("i32", distance))
            elif distance < 0:
                moved = emitter.lshr(word, emitter.const("i32", -distance))
            part = emitter.and_(moved, emitter.const("i32", 0xFF << 8 * index))
        result = part if result is None else emitter.or_(result, part)
    assert result is not None
    return result


def _prmt_mode(emitter: Emitter, mode: str, a: Value, b: Value, selector: Value) -> Value:
    """The fixed patterns, by the low two bits of the selector."""
    patterns = {
        "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
        "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
        "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
        "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
        "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
        "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
    }[mode]
    choice = emitter.and_(selector, emitter.const("i32", 3))
    if choice.constant is not None or selector.constant is not None:
        return _prmt_constant(emitter, a, b, patterns[(selector.constant or 0) & 3])
    result = _prmt_constant(emitter, a, b, patterns[0])
    for value in (1, 2, 3):
        chosen = emitter.icmp("eq", choice, emitter.const("i32", value))
        result = emitter.select(chosen, _prmt_constant(emitter, a, b, patterns[value]), result)
    return result
