"""Data between lanes of a wave: DPP and permlane where the pattern is constant, else `ds_bpermute`.

Facts: AMD's RDNA 3 ISA guide, sections on DPP16 (`row_xmask`), V_PERMLANEX16_B32, V_READLANE_B32 and DS_BPERMUTE_B32; LLVM's intrinsics
of the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cuttle.lower.emit import Value
from cuttle.ptx.ir import Immediate, Instruction

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

ROW_XMASK = 0x160  # dpp_ctrl of lane ^ n within 16 lanes
ROW_LANES = 16
LANES = 32


def constant_pattern(instruction: Instruction) -> tuple[str, int] | None:
    """`(bfly, n)` or `(idx, n)` of a shuffle over the whole warp by a constant, else None."""
    if instruction.opcode != "shfl":
        return None
    mode = next((name for name in ("bfly", "idx") if instruction.has(name)), None)
    distance, clamp = instruction.operands[2], instruction.operands[3]
    if mode is None or not isinstance(distance, Immediate) or not isinstance(clamp, Immediate):
        return None
    if clamp.bits & 0x1F1F != 0x1F:
        return None
    return mode, distance.bits & 31


def shuffle(writer: FunctionWriter, value: Value, source_lane: Value, pattern: tuple[str, int] | None) -> Value:
    """Lane i gets the value of lane `source_lane[i]`; `pattern` is the same as a constant, where it is one."""
    e = writer.emitter
    if pattern is None:
        address = e.shl(source_lane, e.const("i32", 2))
        return by_words(writer, value, lambda word: writer.call("i32", "llvm.amdgcn.ds.bpermute", address, word))
    mode, lane = pattern
    if mode == "idx":
        return by_words(writer, value, lambda word: read_lane(writer, word, e.const("i32", lane)))
    if lane == 0:
        return value
    return by_words(writer, value, lambda word: exchange(writer, word, lane))


def read_lane(writer: FunctionWriter, word: Value, lane: Value) -> Value:
    return writer.call("i32", "llvm.amdgcn.readlane.i32", word, lane)


def exchange(writer: FunctionWriter, word: Value, mask: int) -> Value:
    """The word of lane `own ^ mask`, in one instruction."""
    e = writer.emitter
    if mask < ROW_LANES:
        e.declare(
            "@llvm.amdgcn.update.dpp.i32",
            "declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32 immarg, i32 immarg, i32 immarg, i1 immarg)",
        )
        control = ROW_XMASK | mask
        return e.emit(
            "i32", 1,
            f"call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, {word.typed}, i32 {control}, i32 15, i32 15, i1 true)",
        )  # fmt: skip
    # Each lane selects, by four bits, a lane of the other row.
    selectors = [lane ^ (mask & 15) for lane in range(ROW_LANES)]
    low, high = (sum(s << 4 * i for i, s in enumerate(half)) for half in (selectors[:8], selectors[8:]))
    e.declare(
        "@llvm.amdgcn.permlanex16.i32",
        "declare i32 @llvm.amdgcn.permlanex16.i32(i32, i32, i32, i32, i1 immarg, i1 immarg)",
    )
    return e.emit(
        "i32", 1,
        f"call i32 @llvm.amdgcn.permlanex16.i32(i32 poison, {word.typed}, {e.const('i32', low).typed}, "
        f"{e.const('i32', high).typed}, i1 false, i1 true)",
    )  # fmt: skip


def by_words(writer: FunctionWriter, value: Value, operation: Callable[[Value], Value]) -> Value:
    """Applies a 32-bit operation to the words of a value of up to 128 bits."""
    e = writer.emitter
    bits = e.as_bits(value)
    if bits.bits <= 32:
        result = e.resize(operation(e.resize(bits, 32)), bits.bits)
        return e.bitcast(result, value.type)
    whole: Value | None = None
    for at in range(0, bits.bits, 32):
        shifted = e.lshr(bits, e.const(bits.type, at)) if at else bits
        word = e.cast("zext", operation(e.cast("trunc", shifted, "i32")), bits.type)
        if at:
            word = e.shl(word, e.const(bits.type, at))
        whole = word if whole is None else e.or_(whole, word)
    assert whole is not None
    return e.bitcast(whole, value.type)
