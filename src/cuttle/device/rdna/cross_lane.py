"""Instructions that move data between lanes, and those that name registers through M0."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.decode import M0, VECTOR, Instruction
from cuttle.device.rdna.errors import IllegalInstruction
from cuttle.device.rdna.operands import scalar_reader, set_half, vector_reader
from cuttle.device.rdna.semantics import Run, special
from cuttle.device.rdna.waves import LANES, View

Array = NDArray[Any]
U16, U32 = np.uint16, np.uint32
_LANES = np.arange(LANES)


def _register(instruction: Instruction, index: int) -> int:
    code = instruction.sources[index]
    if code < VECTOR:
        raise IllegalInstruction(f"{instruction.mnemonic} of a scalar operand")
    return code - VECTOR


@special("v_readfirstlane_b32")
def build_read_first_lane(instruction: Instruction, target: str) -> Run:
    """The lowest active lane; lane 0 if none is."""
    read = vector_reader(instruction, 0, "b32")
    destination = instruction.destination

    def run(w: View) -> None:
        value = np.broadcast_to(read(w), (w.count, LANES))
        first = 0 if w.mask is None else np.argmax(w.mask, axis=1)
        w.set_scalar(destination, value[np.arange(w.count), first])

    return run


@special("v_readlane_b32")
def build_read_lane(instruction: Instruction, target: str) -> Run:
    register = _register(instruction, 0)
    lane = scalar_reader(instruction.sources[1], "u32", instruction.literal)
    destination = instruction.destination

    def run(w: View) -> None:
        w.set_scalar(destination, w.vector(register)[np.arange(w.count), lane(w) & U32(31)])

    return run


@special("v_writelane_b32")
def build_write_lane(instruction: Instruction, target: str) -> Run:
    """Writes one lane, active or not."""
    value = scalar_reader(instruction.sources[0], "u32", instruction.literal)
    lane = scalar_reader(instruction.sources[1], "u32", instruction.literal)
    register = instruction.destination - VECTOR

    def run(w: View) -> None:
        w.waves.vectors[register][w.indices, lane(w) & U32(31)] = value(w)

    return run


@special("v_permlane16_b32 v_permlanex16_b32 v_permlane16_var_b32 v_permlanex16_var_b32")
def build_permute_row(instruction: Instruction, target: str) -> Run:
    """Each lane reads a lane of its row of 16 (x: of the other row). op_sel: bit 0 reads inactive lanes, too; bit 1 makes
    what cannot be read 0 (else the destination stays)."""
    register, destination = _register(instruction, 0), instruction.destination - VECTOR
    fetch_inactive, bound = bool(instruction.op_sel & 1), bool(instruction.op_sel & 2)
    row = _LANES & 16 if "permlane16" in instruction.mnemonic else ~_LANES & 16
    variable = "_var_" in instruction.mnemonic
    if variable:
        selector = _register(instruction, 1)
    else:
        choices = [scalar_reader(instruction.sources[n], "u32", instruction.literal) for n in (1, 2)]

    def lanes(w: View) -> Array:
        if variable:
            return row + (w.vector(selector) & U32(15)).astype(np.int64)
        words = np.stack([np.broadcast_to(read(w), (w.count,)) for read in choices], axis=1)
        shift = U32(4) * (_LANES % 8).astype(np.uint32)
        return row + ((words[:, _LANES % 16 // 8] >> shift) & U32(15)).astype(np.int64)

    def run(w: View) -> None:
        source = lanes(w)
        value = np.take_along_axis(w.vector(register), source, axis=1)
        if w.mask is not None and not fetch_inactive:
            valid = np.take_along_axis(w.mask, source, axis=1)
            value = np.where(valid, value, U32(0) if bound else w.vector(destination))
        w.set_vector(destination, value)

    return run


@special("v_permlane64_b32")
def build_permute_halves(instruction: Instruction, target: str) -> Run:
    """Exchanges the halves of a wave of 64; with 32 lanes it does nothing."""
    return lambda w: None


@special("ds_bpermute_b32 ds_bpermute_fi_b32")
def build_backward_permute(instruction: Instruction, target: str) -> Run:
    """Each lane reads data of the lane that its address names (in bytes); inactive lanes read as 0 (`_fi`: as they are)."""
    address, data = _register(instruction, 0), _register(instruction, 1)
    offset = instruction.offset | instruction.offset1 << 8
    destination = instruction.destination - VECTOR
    fetch_inactive = "_fi_" in instruction.mnemonic

    def run(w: View) -> None:
        source = ((w.vector(address) + U32(offset)) >> U32(2) & U32(31)).astype(np.int64)
        value = w.vector(data)
        if w.mask is not None and not fetch_inactive:
            value = np.where(w.mask, value, U32(0))
        w.set_vector(destination, np.take_along_axis(value, source, axis=1))

    return run


@special("ds_permute_b32")
def build_forward_permute(instruction: Instruction, target: str) -> Run:
    """Each active lane sends its data to the lane that its address names; the highest sender wins, who gets nothing gets 0."""
    address, data = _register(instruction, 0), _register(instruction, 1)
    offset = instruction.offset | instruction.offset1 << 8
    destination = instruction.destination - VECTOR

    def run(w: View) -> None:
        target_lane = ((w.vector(address) + U32(offset)) >> U32(2) & U32(31)).astype(np.int64)
        values, mask = w.vector(data), w.lane_mask()
        result = np.zeros((w.count, LANES), np.uint32)
        waves = np.arange(w.count)
        for lane in range(LANES):
            active = mask[:, lane]
            result[waves[active], target_lane[active, lane]] = values[active, lane]
        w.set_vector(destination, result)

    return run


def swizzle_lanes(offset: int) -> Array:
    """ds_swizzle: for each lane the lane it reads. AMD, RDNA3 ISA, DS_SWIZZLE_B32."""
    if offset >= 0xE000:
        mask = offset & 31
        reversed_lane = np.array([int(f"{lane:05b}"[::-1], 2) for lane in range(LANES)])
        return (reversed_lane >> mask.bit_count()) | (_LANES & mask)
    if offset >= 0xC000:
        # A rotation of groups of 32; the mask keeps the bits of the lane that do not rotate.
        count, mask = offset >> 5 & 31, offset & 31
        turned = _LANES - count if offset >> 10 & 1 else _LANES + count
        return (_LANES & mask) | (turned & ~mask & 31)
    if offset & 0x8000:
        return (_LANES & ~3) + (offset >> 2 * (_LANES & 3) & 3)
    and_mask, or_mask, xor_mask = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return ((_LANES & and_mask) | or_mask) ^ xor_mask


@special("ds_swizzle_b32")
def build_swizzle(instruction: Instruction, target: str) -> Run:
    source = swizzle_lanes(instruction.offset | instruction.offset1 << 8)
    data, destination = _register(instruction, 0), instruction.destination - VECTOR

    def run(w: View) -> None:
        value = w.vector(data)
        if w.mask is not None:
            value = np.where(w.mask, value, U32(0))
        w.set_vector(destination, value[:, source])

    return run


@special("v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32")
def build_masked_count(instruction: Instruction, target: str) -> Run:
    """Bits of the mask below this lane, added to a base. All lanes are low ones in a wave of 32."""
    mask, base = vector_reader(instruction, 0, "b32"), vector_reader(instruction, 1, "u32")
    below = (np.uint64(1) << _LANES.astype(np.uint64)).astype(np.uint32) - U32(1)
    high = instruction.mnemonic.startswith("v_mbcnt_hi")
    destination = instruction.destination - VECTOR

    def run(w: View) -> None:
        value = base(w)
        w.set_vector(destination, value if high else np.bitwise_count(mask(w) & below).astype(np.uint32) + value)

    return run


@special("v_swap_b32")
def build_swap(instruction: Instruction, target: str) -> Run:
    source, destination = _register(instruction, 0), instruction.destination - VECTOR

    def run(w: View) -> None:
        first, second = w.vector(source).copy(), w.vector(destination).copy()
        w.set_vector(destination, first)
        w.set_vector(source, second)

    return run


@special("v_swap_b16")
def build_swap16(instruction: Instruction, target: str) -> Run:
    places = [(code & 127, code >> 7) for code in (_register(instruction, 0), instruction.destination - VECTOR)]

    def run(w: View) -> None:
        values = [(w.vector(register) >> U32(16 * half)).astype(U16) for register, half in places]
        set_half(w, *places[1], values[0])
        set_half(w, *places[0], values[1])

    return run


# -- registers named through M0 ----------------------------------------------------------------------------------------


@special("v_movreld_b32 v_movrels_b32 v_movrelsd_b32 v_movrelsd_2_b32 v_swaprel_b32")
def build_relative_move(instruction: Instruction, target: str) -> Run:
    """M0 is added to the number of the source (s), of the destination (d), or its fields to both (2)."""
    name = instruction.mnemonic
    source, destination = instruction.sources[0], instruction.destination - VECTOR
    relative_source, relative_destination = (
        "rels" in name or "swap" in name,
        "reld" in name or "relsd" in name or "swap" in name,
    )
    fields = "_2_" in name or "swap" in name
    read = None if relative_source else vector_reader(instruction, 0, "b32")
    if relative_source and source < VECTOR:
        raise IllegalInstruction(f"{name} of a scalar operand")

    def one_offset(w: View, m0: int) -> None:
        first, second = (m0 & 0x3FF, m0 >> 16 & 0x3FF) if fields else (m0, m0)
        to = _inside(w, destination + second) if relative_destination else destination
        at = _inside(w, source - VECTOR + first) if relative_source else -1
        value = w.vector(at).copy() if read is None else read(w)
        if "swap" in name:
            w.set_vector(at, w.vector(to).copy())
        w.set_vector(to, value)

    def run(w: View) -> None:
        offsets = w.scalar(M0)
        for m0 in np.unique(offsets).tolist():
            one_offset(View(w.waves, w.indices[offsets == m0]), m0)

    return run


def _inside(w: View, register: int) -> int:
    if not 0 <= register < len(w.waves.vectors):
        raise IllegalInstruction(f"vector register {register} is not allocated")
    return register
