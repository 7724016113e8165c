"""Instructions of the scalar unit without control flow: one element a wave. See `semantics.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna import arithmetic as fp
from cuttle.device.rdna.decode import EXEC, M0, Instruction
from cuttle.device.rdna.errors import IllegalInstruction
from cuttle.device.rdna.operands import constant_bits, scalar_reader, scalar_writer
from cuttle.device.rdna.semantics import Run, scalar, special
from cuttle.device.rdna.vector_convert import to_integer
from cuttle.device.rdna.vector_float import maximum, maximum_number, minimum, minimum_number
from cuttle.device.rdna.vector_integer import (
    count_bits,
    join_halves,
    leading_sign_bits,
    leading_zeros,
    reverse_bits,
    trailing_zeros,
)
from cuttle.device.rdna.waves import View

Array = NDArray[Any]
U16, U32, U64, I32, I64 = np.uint16, np.uint32, np.uint64, np.int32, np.int64

# -- moves and logic ---------------------------------------------------------------------------------------------------


@scalar("s_mov_b32", "b32 = b32")
@scalar("s_mov_b64", "b64 = b64")
def move(a: Array) -> Array:
    return a


for _bits in ("b32", "b64"):
    _one, _two = f"{_bits} = {_bits}", f"{_bits} = {_bits} {_bits}"
    scalar(f"s_not_{_bits}", _one, scc="nonzero")(lambda a: ~a)
    scalar(f"s_and_{_bits}", _two, scc="nonzero")(lambda a, b: a & b)
    scalar(f"s_or_{_bits}", _two, scc="nonzero")(lambda a, b: a | b)
    scalar(f"s_xor_{_bits}", _two, scc="nonzero")(lambda a, b: a ^ b)
    scalar(f"s_nand_{_bits}", _two, scc="nonzero")(lambda a, b: ~(a & b))
    scalar(f"s_nor_{_bits}", _two, scc="nonzero")(lambda a, b: ~(a | b))
    scalar(f"s_xnor_{_bits}", _two, scc="nonzero")(lambda a, b: ~(a ^ b))
    scalar(f"s_and_not1_{_bits}", _two, scc="nonzero")(lambda a, b: a & ~b)
    scalar(f"s_or_not1_{_bits}", _two, scc="nonzero")(lambda a, b: a | ~b)
    scalar(f"s_cselect_{_bits}", f"{_bits} = {_bits} {_bits} scc")(lambda a, b, c: np.where(c != 0, a, b))

_SAVEEXEC = {
    "and": lambda s, e: s & e, "or": lambda s, e: s | e, "xor": lambda s, e: s ^ e, "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e), "xnor": lambda s, e: ~(s ^ e), "and_not0": lambda s, e: ~s & e,
    "or_not0": lambda s, e: ~s | e, "and_not1": lambda s, e: s & ~e, "or_not1": lambda s, e: s | ~e,
}  # fmt: skip


def _exec_operation(instruction: Instruction, function: Any, write_result: bool) -> Run:
    """EXEC = function(source, EXEC); the destination gets the old EXEC, or the new one. wave32: 64-bit forms make no sense."""
    read = scalar_reader(instruction.sources[0], "u32", instruction.literal)
    destination = instruction.destination

    def run(w: View) -> None:
        old = w.scalar(EXEC).copy()
        new = np.broadcast_to(function(read(w), old), old.shape)
        w.set_scalar(EXEC, new)
        w.set_scalar(destination, new if write_result else old)
        w.set_condition((new != 0).astype(U32))

    return run


for _name, _function in _SAVEEXEC.items():
    special(f"s_{_name}_saveexec_b32")(lambda i, target, _f=_function: _exec_operation(i, _f, False))  # type: ignore[misc]
for _name in ("and_not0", "and_not1"):
    special(f"s_{_name}_wrexec_b32")(lambda i, target, _f=_SAVEEXEC[_name]: _exec_operation(i, _f, True))  # type: ignore[misc]


# -- integer arithmetic ------------------------------------------------------------------------------------------------


def _carry(wide: Array) -> tuple[Array, Array]:
    return wide.astype(U32), (wide >> U64(32) != 0).astype(U32)


@scalar("s_add_u32 s_add_co_u32", "u32 = u32 u32", scc="returned")
def add_u32(a: Array, b: Array) -> tuple[Array, Array]:
    return _carry(a.astype(U64) + b)


@scalar("s_sub_u32 s_sub_co_u32", "u32 = u32 u32", scc="returned")
def sub_u32(a: Array, b: Array) -> tuple[Array, Array]:
    return _carry(a.astype(U64) - b.astype(U64))


@scalar("s_addc_u32 s_add_co_ci_u32", "u32 = u32 u32 scc", scc="returned")
def add_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    return _carry(a.astype(U64) + b + carry)


@scalar("s_subb_u32 s_sub_co_ci_u32", "u32 = u32 u32 scc", scc="returned")
def sub_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    return _carry(a.astype(U64) - b.astype(U64) - carry.astype(U64))


def _overflow(wide: Array) -> tuple[Array, Array]:
    narrow = wide.astype(I32)
    return narrow, (narrow != wide).astype(U32)


@scalar("s_add_i32 s_add_co_i32", "i32 = i32 i32", scc="returned")
def add_i32(a: Array, b: Array) -> tuple[Array, Array]:
    return _overflow(a.astype(I64) + b)


@scalar("s_sub_i32 s_sub_co_i32", "i32 = i32 i32", scc="returned")
def sub_i32(a: Array, b: Array) -> tuple[Array, Array]:
    return _overflow(a.astype(I64) - b)


@scalar("s_addk_i32 s_addk_co_i32", "i32 = +i32 k", scc="returned")
def addk(a: Array, k: Array) -> tuple[Array, Array]:
    return add_i32(a, k)


scalar("s_mulk_i32", "i32 = +i32 k")(lambda a, k: a * k)
scalar("s_movk_i32", "i32 = k")(lambda k: k)
scalar("s_cmovk_i32", "i32 = +i32 k scc")(lambda a, k, c: np.where(c != 0, k, a))
scalar("s_cmov_b32", "b32 = +b32 b32 scc")(lambda old, a, c: np.where(c != 0, a, old))
scalar("s_cmov_b64", "b64 = +b64 b64 scc")(lambda old, a, c: np.where(c != 0, a, old))
_ORDERS = {
    "eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
}  # fmt: skip
for _name, _function in _ORDERS.items():
    scalar(f"s_cmpk_{_name}_i32", "= +i32 k", scc="only")(_function)
    scalar(f"s_cmpk_{_name}_u32", "= +u32 ku", scc="only")(_function)

scalar("s_add_nc_u64", "u64 = u64 u64")(lambda a, b: a + b)
scalar("s_sub_nc_u64", "u64 = u64 u64")(lambda a, b: a - b)
scalar("s_mul_u64", "u64 = u64 u64")(lambda a, b: a * b)
scalar("s_mul_i32", "i32 = i32 i32")(lambda a, b: a * b)
scalar("s_mul_hi_u32", "u32 = u32 u32")(lambda a, b: ((a.astype(U64) * b) >> U64(32)).astype(U32))
scalar("s_mul_hi_i32", "i32 = i32 i32")(lambda a, b: ((a.astype(I64) * b) >> I64(32)).astype(I32))


@scalar("s_absdiff_i32", "i32 = i32 i32", scc="nonzero")
def absolute_difference(a: Array, b: Array) -> Array:
    difference = a - b
    return np.where(difference < 0, -difference, difference)


@scalar("s_abs_i32", "i32 = i32", scc="nonzero")
def absolute(a: Array) -> Array:
    return np.where(a < 0, -a, a)


for _kind in ("i32", "u32"):
    scalar(f"s_min_{_kind}", f"{_kind} = {_kind} {_kind}", scc="returned")(
        lambda a, b: (np.minimum(a, b), (a < b).astype(U32))
    )
    scalar(f"s_max_{_kind}", f"{_kind} = {_kind} {_kind}", scc="returned")(
        lambda a, b: (np.maximum(a, b), (a >= b).astype(U32))
    )

for _n in range(1, 5):
    scalar(f"s_lshl{_n}_add_u32", "u32 = u32 u32", scc="returned")(
        lambda a, b, _n=_n: _carry((a.astype(U64) << U64(_n)) + b)
    )

# -- shifts and bit fields ---------------------------------------------------------------------------------------------

scalar("s_lshl_b32", "b32 = b32 u32", scc="nonzero")(lambda a, n: a << (n & U32(31)))
scalar("s_lshr_b32", "b32 = b32 u32", scc="nonzero")(lambda a, n: a >> (n & U32(31)))
scalar("s_ashr_i32", "i32 = i32 u32", scc="nonzero")(lambda a, n: a >> (n & U32(31)).astype(I32))
scalar("s_lshl_b64", "b64 = b64 u32", scc="nonzero")(lambda a, n: a << (n & U32(63)).astype(U64))
scalar("s_lshr_b64", "b64 = b64 u32", scc="nonzero")(lambda a, n: a >> (n & U32(63)).astype(U64))
scalar("s_ashr_i64", "i64 = i64 u32", scc="nonzero")(lambda a, n: a >> (n & U32(63)).astype(I64))
scalar("s_bfm_b32", "b32 = b32 b32")(lambda a, b: ((U32(1) << (a & U32(31))) - U32(1)) << (b & U32(31)))
scalar("s_bfm_b64", "b64 = u32 u32")(
    lambda a, b: ((U64(1) << (a & U32(63)).astype(U64)) - U64(1)) << (b & U32(63)).astype(U64)
)


def _extract(a: Array, control: Array, bits: int) -> tuple[Array, Array]:
    """The field at control[4:0] (or 5:0) of control[22:16] bits, and its size."""
    offset = control & U32(bits - 1)
    size = (control >> U32(16)) & U32(127)
    shifted = a.astype(U64 if a.dtype.kind == "u" else I64) >> offset.astype(U64 if a.dtype.kind == "u" else I64)
    return shifted.view(U64), np.minimum(size, U32(bits)).astype(U64)


def _field(a: Array, control: Array, bits: int) -> Array:
    value, size = _extract(a, control, bits)
    mask = np.where(size >= U64(64), ~U64(0), (U64(1) << np.minimum(size, U64(63))) - U64(1))
    return value & mask


def _signed_field(a: Array, control: Array, bits: int) -> Array:
    value, size = _extract(a, control, bits)
    up = (U64(64) - np.maximum(size, U64(1))).astype(I64)
    return np.where(size == U64(0), I64(0), (value.view(I64) << up) >> up)


scalar("s_bfe_u32", "u32 = u32 u32", scc="nonzero")(lambda a, c: _field(a, c, 32).astype(U32))
scalar("s_bfe_u64", "u64 = u64 u32", scc="nonzero")(lambda a, c: _field(a, c, 64))
scalar("s_bfe_i32", "i32 = i32 u32", scc="nonzero")(lambda a, c: _signed_field(a, c, 32).astype(I32))
scalar("s_bfe_i64", "i64 = i64 u32", scc="nonzero")(lambda a, c: _signed_field(a, c, 64))

scalar("s_bitset0_b32", "b32 = +b32 u32")(lambda old, n: old & ~(U32(1) << (n & U32(31))))
scalar("s_bitset1_b32", "b32 = +b32 u32")(lambda old, n: old | U32(1) << (n & U32(31)))
scalar("s_bitset0_b64", "b64 = +b64 u32")(lambda old, n: old & ~(U64(1) << (n & U32(63)).astype(U64)))
scalar("s_bitset1_b64", "b64 = +b64 u32")(lambda old, n: old | U64(1) << (n & U32(63)).astype(U64))
scalar("s_bitcmp0_b32", "= b32 u32", scc="only")(lambda a, n: (a >> (n & U32(31))) & U32(1) == 0)
scalar("s_bitcmp1_b32", "= b32 u32", scc="only")(lambda a, n: (a >> (n & U32(31))) & U32(1) == 1)
scalar("s_bitcmp0_b64", "= b64 u32", scc="only")(lambda a, n: (a >> (n & U32(63)).astype(U64)) & U64(1) == 0)
scalar("s_bitcmp1_b64", "= b64 u32", scc="only")(lambda a, n: (a >> (n & U32(63)).astype(U64)) & U64(1) == 1)

scalar("s_sext_i32_i8", "i32 = u32")(lambda a: a.astype(np.uint8).view(np.int8).astype(I32))
scalar("s_sext_i32_i16", "i32 = u32")(lambda a: a.astype(U16).view(np.int16).astype(I32))
scalar("s_pack_ll_b32_b16", "b32 = b32 b32")(lambda a, b: join_halves(a & U32(0xFFFF), b & U32(0xFFFF)))
scalar("s_pack_lh_b32_b16", "b32 = b32 b32")(lambda a, b: join_halves(a & U32(0xFFFF), b >> U32(16)))
scalar("s_pack_hh_b32_b16", "b32 = b32 b32")(lambda a, b: join_halves(a >> U32(16), b >> U32(16)))
scalar("s_pack_hl_b32_b16", "b32 = b32 b32")(lambda a, b: join_halves(a >> U32(16), b & U32(0xFFFF)))

# -- counts and permutations of bits -----------------------------------------------------------------------------------


def _reverse64(a: Array) -> Array:
    low, high = a.astype(U32), (a >> U64(32)).astype(U32)
    return reverse_bits(low).astype(U64) << U64(32) | reverse_bits(high)


scalar("s_brev_b32", "b32 = b32")(reverse_bits)
scalar("s_brev_b64", "b64 = b64")(_reverse64)
for _kind, _bits, _n in (("b32", "b32", 32), ("b64", "b64", 64)):
    scalar(f"s_ctz_i32_{_kind}", f"i32 = {_bits}")(lambda a, _n=_n: trailing_zeros(a, _n))
    scalar(f"s_clz_i32_u{_n}", f"i32 = {_bits}")(lambda a, _n=_n: leading_zeros(a, _n))
    scalar(f"s_bcnt1_i32_{_kind}", f"u32 = {_bits}", scc="nonzero")(count_bits)
    scalar(f"s_bcnt0_i32_{_kind}", f"u32 = {_bits}", scc="nonzero")(lambda a: count_bits(~a))
scalar("s_cls_i32", "i32 = b32")(lambda a: leading_sign_bits(a, 32))
scalar("s_cls_i32_i64", "i32 = b64")(lambda a: leading_sign_bits(a, 64))


def _by_bits(a: Array, source: Any, count: int, dtype: Any) -> Array:
    """A word whose bit i is bit function `source(a, i)`."""
    result: Any = np.zeros(a.shape, dtype)
    for i in range(count):
        result = result | source(a, i).astype(dtype) << dtype(i)
    return np.asarray(result)


def _quad(a: Array, i: int) -> Array:
    return (a >> a.dtype.type(4 * i)) & a.dtype.type(15) != 0


scalar("s_bitreplicate_b64_b32", "b64 = b32")(lambda a: _by_bits(a, lambda x, i: x >> U32(i // 2) & U32(1), 64, U64))
scalar("s_quadmask_b32", "b32 = b32", scc="nonzero")(lambda a: _by_bits(a, _quad, 8, U32))
scalar("s_quadmask_b64", "b64 = b64", scc="nonzero")(lambda a: _by_bits(a, _quad, 16, U64))
scalar("s_wqm_b32", "b32 = b32", scc="nonzero")(lambda a: _by_bits(a, lambda x, i: _quad(x, i // 4), 32, U32))
scalar("s_wqm_b64", "b64 = b64", scc="nonzero")(lambda a: _by_bits(a, lambda x, i: _quad(x, i // 4), 64, U64))

# -- floats (gfx12) ----------------------------------------------------------------------------------------------------

for _kind in ("f32", "f16"):
    _one, _two = f"{_kind} = {_kind}", f"{_kind} = {_kind} {_kind}"
    scalar(f"s_add_{_kind}", _two, mode=True)(fp.add)
    scalar(f"s_sub_{_kind}", _two, mode=True)(lambda mode, a, b: fp.add(mode, a, -b))
    scalar(f"s_mul_{_kind}", _two, mode=True)(fp.mul)
    scalar(f"s_min_num_{_kind}", _two, mode=True)(lambda mode, a, b: minimum_number(mode & ~512, a, b))
    scalar(f"s_max_num_{_kind}", _two, mode=True)(lambda mode, a, b: maximum_number(mode & ~512, a, b))
    scalar(f"s_minimum_{_kind}", _two, mode=True)(minimum)
    scalar(f"s_maximum_{_kind}", _two, mode=True)(maximum)
    scalar(f"s_fmac_{_kind}", f"{_kind} = +{_kind} {_kind} {_kind}", mode=True)(
        lambda mode, c, a, b: fp.fma(mode, a, b, c)
    )
    for _name, _round in (("ceil", np.ceil), ("floor", np.floor), ("trunc", np.trunc), ("rndne", np.rint)):
        scalar(f"s_{_name}_{_kind}", _one, mode=True)(
            lambda mode, a, _r=_round: fp.fix_nans(_r(fp.flush_inputs(mode, a)), a)
        )
scalar("s_fmaak_f32", "f32 = f32 f32 literal", mode=True)(fp.fma)
scalar("s_fmamk_f32", "f32 = f32 f32 literal", mode=True)(lambda mode, a, c, k: fp.fma(mode, a, k, c))
scalar("s_cvt_f32_i32", "f32 = i32", mode=True)(
    lambda mode, a: fp.narrow(a.astype(np.float64), fp.F32, fp.rounding(mode, fp.F32))
)
scalar("s_cvt_f32_u32", "f32 = u32", mode=True)(
    lambda mode, a: fp.narrow(a.astype(np.float64), fp.F32, fp.rounding(mode, fp.F32))
)
scalar("s_cvt_i32_f32", "i32 = f32")(lambda a: to_integer(a, I32))
scalar("s_cvt_u32_f32", "u32 = f32")(lambda a: to_integer(a, U32))
scalar("s_cvt_f16_f32", "f16 = f32", mode=True)(lambda mode, a: fp.convert(mode, a, fp.F16))
scalar("s_cvt_f32_f16", "f32 = f16", mode=True)(lambda mode, a: fp.convert(mode, a, fp.F32))
scalar("s_cvt_hi_f32_f16", "f32 = b32", mode=True)(
    lambda mode, a: fp.convert(mode, (a >> U32(16)).astype(U16).view(np.float16), fp.F32)
)


@scalar("s_cvt_pk_rtz_f16_f32", "b32 = f32 f32", mode=True)
def pack_f16_to_zero(mode: int, a: Array, b: Array) -> Array:
    mode = mode & ~0xC | fp.TO_ZERO << 2
    return join_halves(fp.convert(mode, a, fp.F16).view(U16), fp.convert(mode, b, fp.F16).view(U16))


# -- relative moves ----------------------------------------------------------------------------------------------------


def _uniform_index(w: View, base: int, what: Any) -> int:
    values = np.unique(what)
    if len(values) != 1:
        raise IllegalInstruction("waves with different M0 in one step")
    index = base + int(values[0].astype(I32))
    if not 0 <= index < 106:
        raise IllegalInstruction(f"scalar register {index} does not exist")
    return index


@special("s_movrels_b32 s_movrels_b64 s_movreld_b32 s_movreld_b64")
def build_relative_move(instruction: Instruction, target: str) -> Run:
    kind = "b64" if instruction.mnemonic.endswith("64") else "b32"
    from_table = instruction.mnemonic.startswith("s_movrels")
    source, destination = instruction.sources[0], instruction.destination
    if from_table and constant_bits(source, kind, instruction.literal) is not None:
        raise IllegalInstruction("s_movrels of a constant")

    def run(w: View) -> None:
        for wave in range(w.count):
            one = View(w.waves, w.indices[wave : wave + 1])
            offset = one.scalar(M0)
            read = scalar_reader(
                _uniform_index(one, source, offset) if from_table else source, kind, instruction.literal
            )
            write = scalar_writer(destination if from_table else _uniform_index(one, destination, offset), kind)
            write(one, np.asarray(read(one)))
        w.refresh()

    return run
