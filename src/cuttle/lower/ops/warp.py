"""Cross-lane operations (PTX ISA 9.0, 9.7.9.5, 9.7.9.6, 9.7.13.8 to 9.7.13.14)."""

from __future__ import annotations

from collections.abc import Callable

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.element_types import force_canonical, is_signed
from cuttle.ptx.ir import Instruction, PredicatePair

LANES = 32


def _const(emitter: Emitter, value: int) -> Value:
    return emitter.const("i32", value)


def shfl(
    machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value, member_mask: Value | None = None
) -> Value | tuple[Value, Value]:
    """`shfl`, `shfl.sync`: `up`, `down`, `bfly`, `idx` within segments; p tells a source lane in range. 9.7.9.6.

    c holds the clamp value in bits 4:0 and the segment mask in bits 12:8.
    """
    emitter = machine.emitter
    if member_mask is not None:
        machine.warp_sync(member_mask)
    lane = machine.lane_index()
    five = _const(emitter, 31)
    distance, clamp = _and(emitter, b, 31), _and(emitter, c, 31)
    if c.constant is not None:
        segment, inside = _const(emitter, c.constant >> 8 & 31), _const(emitter, ~(c.constant >> 8) & 31)
    else:
        segment = _and(emitter, emitter.lshr(c, _const(emitter, 8)), 31)
        inside = emitter.xor(segment, five)
    least = emitter.and_(lane, segment)
    limit = emitter.or_(least, emitter.and_(clamp, inside))
    if instruction.has("up"):
        source = emitter.sub(lane, distance)
        valid = emitter.icmp("sge", source, limit)
    else:
        if instruction.has("down"):
            source = emitter.add(lane, distance)
        elif instruction.has("bfly"):
            source = emitter.xor(lane, distance)
        else:
            source = emitter.or_(least, emitter.and_(distance, inside))
        valid = emitter.icmp("sle", source, limit)
    result = machine.shuffle(a, emitter.select(valid, source, lane))
    return (result, valid) if isinstance(instruction.operands[0], PredicatePair) else result


def _and(emitter: Emitter, value: Value, mask: int) -> Value:
    if value.constant is not None:
        return _const(emitter, value.constant & mask)
    return emitter.and_(value, _const(emitter, mask))


def vote(machine: Machine, instruction: Instruction, a: Value, member_mask: Value | None = None) -> Value:
    """`vote`, `vote.sync`: `all`, `any`, `uni`, `ballot` over the lanes of the mask that take part. 9.7.13.9."""
    emitter = machine.emitter
    if member_mask is not None:
        machine.warp_sync(member_mask)

    def ballot(predicate: Value) -> Value:
        bits = machine.ballot(predicate)
        return bits if member_mask is None else emitter.and_(bits, member_mask)

    zero = _const(emitter, 0)
    if instruction.has("ballot"):
        return ballot(a)
    if instruction.has("any"):
        return emitter.icmp("ne", ballot(a), zero)
    none_false = emitter.icmp("eq", ballot(emitter.not_(a)), zero)
    if instruction.has("all"):
        return none_false
    return emitter.or_(none_false, emitter.icmp("eq", ballot(a), zero))


def match(machine: Machine, instruction: Instruction, a: Value, member_mask: Value) -> Value | tuple[Value, Value]:
    """`match.any`: the lanes with the same value; `match.all`: the whole mask if all agree, else 0. 9.7.13.10."""
    emitter = machine.emitter
    machine.warp_sync(member_mask)
    present = emitter.and_(machine.active_mask(), member_mask)
    same: Value | None = None
    for lane in range(LANES):
        equal = emitter.icmp("eq", a, machine.lane_of(a, _const(emitter, lane)))
        bit = emitter.select(equal, _const(emitter, 1 << lane), _const(emitter, 0))
        same = bit if same is None else emitter.or_(same, bit)
    assert same is not None
    same = emitter.and_(same, present)
    if instruction.has("any"):
        return same
    agreed = emitter.icmp("eq", same, present)
    result = emitter.select(agreed, present, _const(emitter, 0))
    return (result, agreed) if isinstance(instruction.operands[0], PredicatePair) else result


def activemask(machine: Machine, instruction: Instruction) -> Value:
    """`activemask`. 9.7.13.11."""
    return machine.active_mask()


def elect_sync(machine: Machine, instruction: Instruction, member_mask: Value) -> tuple[Value, Value]:
    """`elect.sync`: the lowest lane of the mask leads. 9.7.13.14."""
    emitter = machine.emitter
    machine.warp_sync(member_mask)
    present = emitter.and_(machine.active_mask(), member_mask)
    leader = emitter.intrinsic("llvm.cttz", [present, emitter.const("i1", 0)])
    return leader, emitter.icmp("eq", machine.lane_index(), leader)


def redux_sync(machine: Machine, instruction: Instruction, a: Value, member_mask: Value) -> Value:
    """`redux.sync`: a reduction over the lanes of the mask, the result in all of them. 9.7.13.12."""
    emitter = machine.emitter
    machine.warp_sync(member_mask)
    present = emitter.and_(machine.active_mask(), member_mask)
    if instruction.has("abs"):
        a = emitter.intrinsic("llvm.fabs", [a])
    combine, identity = _reduction(emitter, instruction)
    total: Value | None = None
    for lane in range(LANES):
        bit = emitter.and_(present, _const(emitter, 1 << lane))
        takes_part = emitter.icmp("ne", bit, _const(emitter, 0))
        value = emitter.select(takes_part, machine.lane_of(a, _const(emitter, lane)), identity)
        total = value if total is None else combine(total, value)
    assert total is not None
    return force_canonical(emitter, total) if instruction.type == "f32" else total


def _reduction(emitter: Emitter, instruction: Instruction) -> tuple[Callable[[Value, Value], Value], Value]:
    """The operation and its neutral element."""
    operation = next(name for name in ("add", "min", "max", "and", "or", "xor") if instruction.has(name))
    if instruction.type == "f32":
        name = f"llvm.{operation}imum" if instruction.has("NaN") else f"llvm.{operation}imumnum"
        infinity = emitter.const("float", 0x7F800000 if operation == "min" else 0xFF800000)
        neutral = infinity if instruction.has("NaN") else emitter.const("float", 0x7FFFFFFF)
        return (lambda x, y: emitter.intrinsic(name, [x, y])), neutral
    if operation in ("min", "max"):
        signed = is_signed(instruction.type)
        name = f"llvm.{'s' if signed else 'u'}{operation}"
        if signed:
            neutral_bits = 0x7FFFFFFF if operation == "min" else 0x80000000
        else:
            neutral_bits = 0xFFFFFFFF if operation == "min" else 0
        return (lambda x, y: emitter.intrinsic(name, [x, y])), _const(emitter, neutral_bits)
    neutral = _const(emitter, -1 if operation == "and" else 0)
    return (lambda x, y: emitter.binary(operation, x, y)), neutral
