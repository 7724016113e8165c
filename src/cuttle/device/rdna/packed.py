"""VOP3P: pairs of 16-bit values, mixed-precision fma, dot products; and v_pk_fmac_f16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna import arithmetic as fp
from cuttle.device.rdna.decode import LITERAL, VECTOR, Instruction
from cuttle.device.rdna.errors import IllegalInstruction
from cuttle.device.rdna.operands import DTYPES, Reader, clamp_unit, constant_bits, scalar_reader
from cuttle.device.rdna.semantics import Run, special
from cuttle.device.rdna.vector_bytes import dot_mixed
from cuttle.device.rdna.vector_float import (
    bfloat_halves,
    halves,
    maximum,
    maximum_number,
    minimum,
    minimum_number,
)
from cuttle.device.rdna.vector_integer import join_halves
from cuttle.device.rdna.waves import View

Array = NDArray[Any]
U16, U32, I16, I64 = np.uint16, np.uint32, np.int16, np.int64
IEEE = 1 << 9


def word_reader(instruction: Instruction, index: int, kind: str) -> Reader:
    """Source `index` as 32-bit words. Float constants stand in the low half only; integers are 32 bits wide."""
    code = instruction.sources[index]
    if code >= VECTOR:
        return lambda w: w.vector(code - VECTOR)
    if code == LITERAL or kind[0] != "f" or code < 240:
        bits = constant_bits(code, "b32", instruction.literal)
    else:
        bits = constant_bits(code, "b16", instruction.literal)
    if bits is not None:
        value = np.full((1, 1), bits, U32)
        return lambda w: value
    read = scalar_reader(code, "b32")
    return lambda w: read(w)[:, None]


def half_reader(instruction: Instruction, index: int, kind: str, upper: bool) -> Reader:
    """The half of source `index` that goes into the upper (or lower) half of the result, with its sign change."""
    word = word_reader(instruction, index, kind)
    chosen = (instruction.op_sel_hi if upper else instruction.op_sel) >> index & 1
    negate = (instruction.neg_hi if upper else instruction.neg) >> index & 1
    if negate and kind[0] != "f":
        raise IllegalInstruction(f"neg on an operand of {instruction.mnemonic}")

    def read(w: View) -> Array:
        value = word(w)
        half = (value >> U32(16)).astype(U16) if chosen else value.astype(U16)
        if negate:
            half = half ^ U16(0x8000)
        return half.view(DTYPES[kind])

    return read


def _limited(function: Callable[..., Array], dtype: Any) -> Callable[..., Array]:
    limits = np.iinfo(dtype)
    return lambda *operands: np.clip(function(*(x.astype(I64) for x in operands)), limits.min, limits.max).astype(dtype)


def _shift(kind: str) -> Callable[..., Array]:
    def function(n: Array, x: Array) -> Array:
        count = (n & n.dtype.type(15)).astype(x.dtype)
        return x << count if kind == "left" else x >> count

    return function


_INTEGER: dict[str, tuple[str, Callable[..., Array]]] = {
    "v_pk_mad_i16": ("i16", lambda a, b, c: a * b + c), "v_pk_mad_u16": ("u16", lambda a, b, c: a * b + c),
    "v_pk_mul_lo_u16": ("u16", lambda a, b: a * b),
    "v_pk_add_i16": ("i16", lambda a, b: a + b), "v_pk_add_u16": ("u16", lambda a, b: a + b),
    "v_pk_sub_i16": ("i16", lambda a, b: a - b), "v_pk_sub_u16": ("u16", lambda a, b: a - b),
    "v_pk_max_i16": ("i16", lambda a, b: np.maximum(a, b)), "v_pk_max_u16": ("u16", lambda a, b: np.maximum(a, b)),
    "v_pk_min_i16": ("i16", lambda a, b: np.minimum(a, b)), "v_pk_min_u16": ("u16", lambda a, b: np.minimum(a, b)),
    "v_pk_lshlrev_b16": ("u16", _shift("left")), "v_pk_lshrrev_b16": ("u16", _shift("right")),
    "v_pk_ashrrev_i16": ("i16", _shift("right")),
}  # fmt: skip
_FLOAT: dict[str, Callable[..., Array]] = {
    "v_pk_add_f16": fp.add, "v_pk_mul_f16": fp.mul, "v_pk_fma_f16": fp.fma, "v_pk_min_f16": minimum_number,
    "v_pk_max_f16": maximum_number, "v_pk_min_num_f16": lambda mode, a, b: minimum_number(mode & ~IEEE, a, b),
    "v_pk_max_num_f16": lambda mode, a, b: maximum_number(mode & ~IEEE, a, b), "v_pk_minimum_f16": minimum,
    "v_pk_maximum_f16": maximum,
}  # fmt: skip


@special(" ".join([*_INTEGER, *_FLOAT]))
def build_packed(instruction: Instruction, target: str) -> Run:
    name = instruction.mnemonic
    floating = name in _FLOAT
    kind, function = ("f16", _FLOAT[name]) if floating else _INTEGER[name]
    if instruction.clamp and not floating:
        function = _limited(function, DTYPES[kind])
    count = len(instruction.sources)
    readers_of_halves = [[half_reader(instruction, n, kind, upper) for n in range(count)] for upper in (False, True)]
    register = instruction.destination - VECTOR
    clamp = instruction.clamp and floating

    def run(w: View) -> None:
        results = []
        for readers in readers_of_halves:
            operands = [read(w) for read in readers]
            value = function(w.mode, *operands) if floating else function(*operands)
            results.append((clamp_unit(value) if clamp else value).view(U16))
        w.set_vector(register, join_halves(*results))

    return run


@special("v_pk_fmac_f16")
def build_packed_fmac(instruction: Instruction, target: str) -> Run:
    register = instruction.destination - VECTOR
    words = [word_reader(instruction, n, "f16") for n in range(2)]

    def run(w: View) -> None:
        sources = [*(read(w) for read in words), w.vector(register)]
        pairs = zip(*(halves(word) for word in sources), strict=True)
        w.set_vector(register, join_halves(*(fp.fma(w.mode, *operands).view(U16) for operands in pairs)))

    return run


# -- mixed precision ---------------------------------------------------------------------------------------------------


def _mixed_reader(instruction: Instruction, index: int) -> Callable[[View, int], Array]:
    """op_sel_hi: f16 (its half by op_sel), else f32. neg_hi is abs here."""
    code = instruction.sources[index]
    narrow = instruction.op_sel_hi >> index & 1
    upper = instruction.op_sel >> index & 1
    absolute, negate = instruction.neg_hi >> index & 1, instruction.neg >> index & 1
    if code < VECTOR:
        bits = constant_bits(code, "f16" if narrow and code != LITERAL else "f32", instruction.literal)
        if bits is None:
            scalar = scalar_reader(code, "b32")
            word: Reader = lambda w: scalar(w)[:, None]  # noqa: E731
        else:
            constant = np.full((1, 1), bits, U32)
            word = lambda w: constant  # noqa: E731
    else:
        word = lambda w: w.vector(code - VECTOR)  # noqa: E731

    def read(w: View, mode: int) -> Array:
        value = word(w)
        if narrow:
            half = (value >> U32(16)) if upper else value
            result = fp.convert(mode, half.astype(U16).view(np.float16), fp.F32)
        else:
            result = value.view(np.float32)
        if absolute:
            result = np.abs(result)
        return -result if negate else result

    return read


@special("v_fma_mix_f32 v_fma_mixlo_f16 v_fma_mixhi_f16")
def build_fma_mix(instruction: Instruction, target: str) -> Run:
    readers = [_mixed_reader(instruction, n) for n in range(3)]
    register, clamp = instruction.destination - VECTOR, instruction.clamp
    narrow, upper = "f16" in instruction.mnemonic, "mixhi" in instruction.mnemonic

    def run(w: View) -> None:
        a, b, c = (read(w, w.mode) for read in readers)
        if not narrow:
            value = fp.fma(w.mode, a, b, c)
            w.set_vector(register, (clamp_unit(value) if clamp else value).view(U32))
            return
        a, b, c = (fp.flush_inputs(w.mode, x) for x in (a, b, c))
        result = fp.fix_widened_nan(
            fp.fix_nans(a * b + c, a, b, c), fp.fma_narrow(a, b, c, fp.F16, fp.rounding(w.mode, fp.F16))
        )
        result = fp.flush_result(w.mode, result)
        if clamp:
            result = clamp_unit(result)
        bits, old = result.view(U16).astype(U32), w.vector(register)
        w.set_vector(register, (old & U32(0xFFFF)) | bits << U32(16) if upper else (old & U32(0xFFFF0000)) | bits)

    return run


# -- dot products ------------------------------------------------------------------------------------------------------


@special("v_dot4_i32_iu8 v_dot8_i32_iu4")
def build_dot_integer(instruction: Instruction, target: str) -> Run:
    """neg says which of the first two sources are signed."""
    words = [word_reader(instruction, n, "i32") for n in range(3)]
    size = 8 if instruction.mnemonic.endswith("8") else 4
    signs = bool(instruction.neg & 1), bool(instruction.neg & 2)
    register, clamp = instruction.destination - VECTOR, instruction.clamp

    def run(w: View) -> None:
        a, b, c = (read(w) for read in words)
        w.set_vector(register, dot_mixed(a, b, c.view(np.int32), size, *signs, clamp).view(U32))

    return run


def halves_as_f32(word: Array, kind: str) -> tuple[Array, Array]:
    """The f16 or bfloat16 halves of words, as f32."""
    if kind == "bf16":
        return bfloat_halves(word)
    low, high = halves(word)
    return low.astype(np.float32), high.astype(np.float32)


@special("v_dot2_f32_f16 v_dot2_f32_bf16")
def build_dot2(instruction: Instruction, target: str) -> Run:
    """c + a0 * b0 + a1 * b1, from the left, one rounding a step; hardware's inner precision is not published."""
    kind = "bf16" if instruction.mnemonic.endswith("bf16") else "f16"
    if instruction.neg or instruction.neg_hi:
        raise IllegalInstruction(f"{instruction.mnemonic} with neg is not executed")
    words = [word_reader(instruction, n, "f16") for n in range(2)]
    register, clamp = instruction.destination - VECTOR, instruction.clamp
    third = _full_reader(instruction, 2)

    def run(w: View) -> None:
        a, b = (halves_as_f32(read(w), kind) for read in words)
        total = fp.fma(w.mode, a[1], b[1], fp.fma(w.mode, a[0], b[0], third(w)))
        w.set_vector(register, (clamp_unit(total) if clamp else total).view(U32))

    return run


def _full_reader(instruction: Instruction, index: int) -> Reader:
    """An f32 source of a VOP3P instruction."""
    code = instruction.sources[index]
    if code >= VECTOR:
        return lambda w: w.vector(code - VECTOR).view(np.float32)
    read = scalar_reader(code, "f32", instruction.literal)
    return lambda w: read(w)[:, None]
