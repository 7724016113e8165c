"""Readers and writers of operands: closures from a view to typed arrays, and from typed arrays to registers.

Vector operands have shape (waves, 32), (waves, 1) or (1, 1); scalar operands (waves,) or (1,). Types are those of AMD's ISA documents (`f32`,
`u16`, `b64`, ...); `m` is a lane mask in a scalar register, seen as booleans. Inline constants and literals: AMD, RDNA3 Instruction Set Architecture, section
"Scalar ALU Operands" and table "Source Operands".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.decode import EXEC, LITERAL, NULL, SCC, VECTOR, DataParallelPrimitive, Instruction
from cuttle.device.rdna.errors import IllegalInstruction
from cuttle.device.rdna.waves import LANES, PRIVATE_APERTURE, SHARED_APERTURE, View, pack, unpack

Array = NDArray[Any]
IEEE = 1 << 9  # MODE.IEEE (gfx11)
Reader = Callable[[View], Array]
Writer = Callable[[View, Array], None]

DTYPES: dict[str, Any] = {
    "f16": np.dtype(np.float16), "i16": np.dtype(np.int16), "u16": np.dtype(np.uint16), "b16": np.dtype(np.uint16),
    "f32": np.dtype(np.float32), "i32": np.dtype(np.int32), "u32": np.dtype(np.uint32), "b32": np.dtype(np.uint32),
    "p32": np.dtype(np.uint32),  # two f16
    "f64": np.dtype(np.float64), "i64": np.dtype(np.int64), "u64": np.dtype(np.uint64), "b64": np.dtype(np.uint64),
}  # fmt: skip
_UNSIGNED = {16: np.uint16, 32: np.uint32, 64: np.uint64}
_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}
# 1 / (2 * pi), as the documents give its bits.
_INVERSE_TWO_PI = {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}
_APERTURES = {
    235: SHARED_APERTURE,
    236: SHARED_APERTURE | 0xFFFFFFFF,
    237: PRIVATE_APERTURE,
    238: PRIVATE_APERTURE | 0xFFFFFFFF,
}


def width(kind: str) -> int:
    """Bits of a type."""
    return int(kind[1:])


def constant_bits(code: int, kind: str, literal: int | None) -> int | None:
    """The bit pattern of an inline constant or literal as an operand of this type; None if `code` is no constant."""
    bits = width(kind)
    limit = (1 << bits) - 1
    if kind == "p32" and code >= 240 and code != LITERAL:
        return constant_bits(code, "f16", None)
    if code == LITERAL:
        assert literal is not None
        if kind == "f64":
            return literal << 32
        if kind == "i64" and literal >> 31:
            return (literal | 0xFFFFFFFF << 32) & limit
        return literal & limit
    if 128 <= code <= 192:
        return code - 128
    if 193 <= code <= 208:
        return (192 - code) & limit
    if code == 248:
        return _INVERSE_TWO_PI[bits]
    if code in _FLOATS:
        form = {16: "<e", 32: "<f", 64: "<d"}[bits]
        return int.from_bytes(struct.pack(form, _FLOATS[code]), "little")
    if code in _APERTURES:
        return _APERTURES[code] & limit if bits == 64 else _APERTURES[code] >> 32
    return None


def _constant(bits: int, kind: str, shape: tuple[int, ...]) -> Array:
    return np.full(shape, bits, _UNSIGNED[width(kind)]).view(DTYPES[kind])


# -- scalar ----------------------------------------------------------------------------------------------------------


def scalar_reader(code: int, kind: str, literal: int | None = None, shape: tuple[int, ...] = (1,)) -> Reader:
    """Reads a scalar operand of 16, 32 or 64 bits as (waves,)."""
    bits = constant_bits(code, kind, literal)
    if bits is not None:
        value = _constant(bits, kind, shape)
        return lambda w: value
    dtype = DTYPES[kind]
    if code in (251, 252, SCC):
        return {251: _read_vccz, 252: _read_execz, SCC: View.condition}[code]
    if code >= 128:
        raise IllegalInstruction(f"operand {code} is nothing that can be read here")
    if width(kind) == 64:
        if code == NULL:
            zero = np.zeros(1, np.uint64).view(dtype)
            return lambda w: zero
        return lambda w: w.scalar64(code).view(dtype)
    if width(kind) == 16:
        return lambda w: w.scalar(code).astype(np.uint16).view(dtype)
    return lambda w: w.scalar(code).view(dtype)


def _read_vccz(w: View) -> Array:
    return (w.scalar(106) == 0).astype(np.uint32)


def _read_execz(w: View) -> Array:
    return (w.scalar(EXEC) == 0).astype(np.uint32)


def scalar_writer(code: int, kind: str) -> Writer:
    """Writes (waves,) values to a scalar register; 16-bit results are zero-extended."""
    if code >= 128:
        raise IllegalInstruction(f"operand {code} cannot be written")
    if kind == "m":
        return lambda w, value: w.set_scalar(code, pack(np.broadcast_to(value, (w.count, LANES)) & w.lane_mask()))
    if width(kind) == 64:
        return lambda w, value: w.set_scalar64(code, value.view(np.uint64))
    if width(kind) == 16:
        return lambda w, value: w.set_scalar(code, value.view(np.uint16))
    return lambda w, value: w.set_scalar(code, value.view(np.uint32))


# -- vector ----------------------------------------------------------------------------------------------------------


def vector_reader(instruction: Instruction, index: int, kind: str) -> Reader:
    """Reads source `index` as (waves, 32), (waves, 1) or (1, 1), with op_sel, abs and neg."""
    code = instruction.sources[index]
    if kind == "m":
        if code >= 128:
            raise IllegalInstruction(f"operand {code} holds no lane mask")
        return lambda w: unpack(w.scalar(code))
    half = instruction.op_sel >> index & 1 if instruction.encoding == "VOP3" and width(kind) == 16 else 0
    read = _plain_reader(code, kind, half, instruction)
    return with_modifiers(read, kind, bool(instruction.abs >> index & 1), bool(instruction.neg >> index & 1))


def _plain_reader(code: int, kind: str, half: int, instruction: Instruction) -> Reader:
    if code < VECTOR:
        bits = constant_bits(code, kind, instruction.literal)
        if bits is not None:
            if half and code == LITERAL and instruction.literal is not None:
                bits = instruction.literal >> 16
            value = _constant(bits, kind, (1, 1))
            return lambda w: value
        if half:
            read32 = scalar_reader(code, "u32")
            return lambda w: (read32(w) >> np.uint32(16)).astype(np.uint16).view(DTYPES[kind])[:, None]
        read = scalar_reader(code, kind, instruction.literal)
        return lambda w: read(w)[:, None]
    return register_reader(code - VECTOR, kind, half, instruction)


def register_reader(register: int, kind: str, half: int, instruction: Instruction) -> Reader:
    """Reads a vector register; in the short encodings bit 7 of the number selects the upper half (true16)."""
    dtype = DTYPES[kind]
    if width(kind) == 16:
        if instruction.encoding in ("VOP1", "VOP2", "VOPC"):
            register, half = register & 127, register >> 7
        if half:
            return lambda w: (w.vector(register) >> np.uint32(16)).astype(np.uint16).view(dtype)
        return lambda w: w.vector(register).astype(np.uint16).view(dtype)
    if width(kind) == 64:
        return lambda w: w.vector64(register).view(dtype)
    return lambda w: w.vector(register).view(dtype)


def with_modifiers(read: Reader, kind: str, absolute: bool, negate: bool) -> Reader:
    if not (absolute or negate):
        return read
    if kind[0] == "i" or kind[0] == "u":
        raise IllegalInstruction(f"abs or neg on an operand of type {kind}")
    bits = width(kind)
    unsigned: Any = _UNSIGNED[bits]
    sign = unsigned(1 << bits - 1)

    def modified(w: View) -> Array:
        value = read(w)
        pattern = value.view(unsigned)
        if absolute:
            pattern = pattern & ~sign
        if negate:
            pattern = pattern ^ sign
        return pattern.view(value.dtype)

    return modified


def destination_half(instruction: Instruction) -> int:
    """Which half of the destination register a 16-bit result goes to."""
    if instruction.encoding in ("VOP1", "VOP2"):
        return instruction.destination - VECTOR >> 7
    return instruction.op_sel >> 3 & 1 if instruction.encoding == "VOP3" else 0


def vector_writer(instruction: Instruction, kind: str) -> Writer:
    """Writes a result to the vector destination: omod, clamp, halves. 16-bit results keep the other half."""
    code = instruction.destination
    if code < VECTOR:
        return scalar_result_writer(code, kind)
    register = code - VECTOR
    if kind[0] == "f" and (instruction.omod or instruction.clamp):
        return _output_modified(instruction, _store(instruction, register, kind))
    return _store(instruction, register, kind)


def _store(instruction: Instruction, register: int, kind: str) -> Writer:
    if width(kind) == 16:
        half = destination_half(instruction)
        if instruction.encoding in ("VOP1", "VOP2"):
            register &= 127
        return lambda w, value: set_half(w, register, half, value)
    if width(kind) == 64:
        return lambda w, value: w.set_vector64(register, value)
    return lambda w, value: w.set_vector(register, value.view(np.uint32))


def set_half(w: View, register: int, half: int, value: Array) -> None:
    """Writes 16 bits of a register's active lanes."""
    new = value.view(np.uint16).astype(np.uint32)
    old = w.vector(register)
    if half:
        w.set_vector(register, (old & np.uint32(0xFFFF)) | new << np.uint32(16))
    else:
        w.set_vector(register, (old & np.uint32(0xFFFF0000)) | new)


def scalar_result_writer(code: int, kind: str) -> Writer:
    """For the vector instructions whose one result goes to a scalar register; `value` is (waves, 1)."""
    write = scalar_writer(code, kind)
    return lambda w, value: write(w, np.broadcast_to(value, (w.count, 1))[:, 0].copy())


def _output_modified(instruction: Instruction, store: Writer) -> Writer:
    omod, clamp = instruction.omod, instruction.clamp
    factor = {0: 1.0, 1: 2.0, 2: 4.0, 3: 0.5}[omod]

    def write(w: View, value: Array) -> None:
        denormals = w.mode >> (5 if value.dtype == DTYPES["f32"] else 7) & 1
        if omod and not (denormals or w.mode & IEEE):  # with either, hardware ignores the output modifier
            value = value * value.dtype.type(factor)
        if clamp:
            value = clamp_unit(value)
        store(w, value)

    return write


def clamp_unit(value: Array) -> Array:
    """To [0, 1]; NaN becomes 0 (DX10_CLAMP, which code objects for compute set)."""
    dtype = value.dtype.type
    low = np.where(value > 0, value, dtype(0))
    return np.where(low < 1, low, dtype(1))


# -- DPP -------------------------------------------------------------------------------------------------------------


def dpp_lanes(dpp: DataParallelPrimitive) -> tuple[Array, Array]:
    """For each lane the lane it reads, and whether that lies inside its row. AMD, RDNA3 ISA, section "DPP"."""
    lane = np.arange(LANES)
    row, position = lane & ~15, lane & 15
    inside = np.ones(LANES, bool)
    if dpp.lanes:
        return (lane & ~7) + np.array(dpp.lanes)[lane & 7], inside
    control = dpp.control
    count = control & 15
    if control < 0x100:
        return (lane & ~3) + (control >> 2 * (lane & 3) & 3), inside
    if 0x101 <= control <= 0x10F:
        return np.minimum(lane + count, LANES - 1), position + count < 16
    if 0x111 <= control <= 0x11F:
        return np.maximum(lane - count, 0), position >= count
    if 0x121 <= control <= 0x12F:
        return row + (position - count & 15), inside
    if control == 0x140:
        return row + 15 - position, inside
    if control == 0x141:
        return (lane & ~7) + 7 - (lane & 7), inside
    if 0x150 <= control <= 0x15F:
        return row + count, inside
    if 0x160 <= control <= 0x16F:
        return row + (position ^ count), inside
    raise IllegalInstruction(f"DPP control {control:#x} is not there on these targets")


def dpp_written_rows(dpp: DataParallelPrimitive) -> Array:
    lane = np.arange(LANES)
    return ((dpp.row_mask >> (lane >> 4) & 1) & (dpp.bank_mask >> (lane >> 2 & 3) & 1)).astype(bool)


class DppReader:
    """Reads a vector register through DPP. `prepare` does it, and notes in `allowed` which lanes may write their result."""

    def __init__(self, dpp: DataParallelPrimitive, read: Reader) -> None:
        self._lanes, self._inside = dpp_lanes(dpp)
        self._rows = dpp_written_rows(dpp)
        self._dpp = dpp
        self._read = read
        self.allowed: Array = np.ones((1, LANES), bool)
        self._value: Array = np.zeros((1, 1))

    def __call__(self, w: View) -> Array:
        return self._value

    def prepare(self, w: View) -> None:
        value = self._read(w)[:, self._lanes]
        valid = np.broadcast_to(self._inside, (w.count, LANES))
        if w.mask is not None and not self._dpp.fetch_inactive:
            valid = valid & w.mask[:, self._lanes]
        if self._dpp.bound_control or self._dpp.lanes:
            value = np.where(valid, value, value.dtype.type(0))
            self.allowed = np.broadcast_to(self._rows, (w.count, LANES))
        else:
            self.allowed = valid & self._rows
        self._value = value
