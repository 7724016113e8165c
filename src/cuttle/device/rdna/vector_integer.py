"""Integer and bit instructions of the vector unit. Pure functions of NumPy arrays; see `semantics.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.semantics import vector

Array = NDArray[Any]
U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
I16, I32, I64 = np.int16, np.int32, np.int64


def saturate(value: Array, dtype: Any) -> Array:
    """Limits 64-bit values to the range of an integer type."""
    limits = np.iinfo(dtype)
    return np.clip(value, limits.min, limits.max).astype(dtype)


def saturating(function: Any, dtype: Any) -> Any:
    """The form with clamp: computed in 64 bits, then limited to the result's range."""
    return lambda *operands: saturate(function(*(np.asarray(x).astype(I64) for x in operands)), dtype)


# -- moves and logic ---------------------------------------------------------------------------------------------------


@vector("v_mov_b32 v_dual_mov_b32", "b32 = b32")
@vector("v_mov_b16", "b16 = b16")
def move(a: Array) -> Array:
    return a


@vector("v_not_b32", "b32 = b32")
@vector("v_not_b16", "b16 = b16")
def invert(a: Array) -> Array:
    return ~a


@vector("v_and_b32 v_dual_and_b32", "b32 = b32 b32")
@vector("v_and_b16", "b16 = b16 b16")
def and_(a: Array, b: Array) -> Array:
    return a & b


@vector("v_or_b32", "b32 = b32 b32")
@vector("v_or_b16", "b16 = b16 b16")
def or_(a: Array, b: Array) -> Array:
    return a | b


@vector("v_xor_b32", "b32 = b32 b32")
@vector("v_xor_b16", "b16 = b16 b16")
def xor(a: Array, b: Array) -> Array:
    return a ^ b


@vector("v_xnor_b32", "b32 = b32 b32")
def xnor(a: Array, b: Array) -> Array:
    return ~(a ^ b)


@vector("v_or3_b32", "b32 = b32 b32 b32")
def or3(a: Array, b: Array, c: Array) -> Array:
    return a | b | c


@vector("v_xor3_b32", "b32 = b32 b32 b32")
def xor3(a: Array, b: Array, c: Array) -> Array:
    return a ^ b ^ c


@vector("v_and_or_b32", "b32 = b32 b32 b32")
def and_or(a: Array, b: Array, c: Array) -> Array:
    return (a & b) | c


@vector("v_bfi_b32", "b32 = b32 b32 b32")
def bit_field_insert(a: Array, b: Array, c: Array) -> Array:
    return (a & b) | (~a & c)


@vector("v_cndmask_b32 v_dual_cndmask_b32", "b32 = b32 b32 m")
@vector("v_cndmask_b16", "b16 = b16 b16 m")
def select(a: Array, b: Array, mask: Array) -> Array:
    return np.where(mask, b, a)


# -- shifts ------------------------------------------------------------------------------------------------------------


@vector("v_lshlrev_b32 v_dual_lshlrev_b32", "b32 = u32 b32")
def shift_left(n: Array, x: Array) -> Array:
    return x << (n & U32(31))


@vector("v_lshrrev_b32", "b32 = u32 b32")
def shift_right(n: Array, x: Array) -> Array:
    return x >> (n & U32(31))


@vector("v_ashrrev_i32", "i32 = u32 i32")
def shift_right_signed(n: Array, x: Array) -> Array:
    return x >> (n & U32(31)).astype(I32)


@vector("v_lshlrev_b16", "b16 = u16 b16")
def shift_left16(n: Array, x: Array) -> Array:
    return x << (n & U16(15))


@vector("v_lshrrev_b16", "b16 = u16 b16")
def shift_right16(n: Array, x: Array) -> Array:
    return x >> (n & U16(15))


@vector("v_ashrrev_i16", "i16 = u16 i16")
def shift_right_signed16(n: Array, x: Array) -> Array:
    return x >> (n & U16(15)).astype(I16)


@vector("v_lshlrev_b64", "b64 = u32 b64")
def shift_left64(n: Array, x: Array) -> Array:
    return x << (n & U32(63)).astype(U64)


@vector("v_lshrrev_b64", "b64 = u32 b64")
def shift_right64(n: Array, x: Array) -> Array:
    return x >> (n & U32(63)).astype(U64)


@vector("v_ashrrev_i64", "i64 = u32 i64")
def shift_right_signed64(n: Array, x: Array) -> Array:
    return x >> (n & U32(63)).astype(I64)


@vector("v_lshl_add_u32", "u32 = u32 u32 u32")
def shift_left_add(a: Array, b: Array, c: Array) -> Array:
    return (a << (b & U32(31))) + c


@vector("v_add_lshl_u32", "u32 = u32 u32 u32")
def add_shift_left(a: Array, b: Array, c: Array) -> Array:
    return (a + b) << (c & U32(31))


@vector("v_lshl_or_b32", "b32 = b32 u32 b32")
def shift_left_or(a: Array, b: Array, c: Array) -> Array:
    return (a << (b & U32(31))) | c


@vector("v_alignbit_b32", "b32 = b32 b32 u16")
def align_bit(a: Array, b: Array, c: Array) -> Array:
    return _align(a, b, c & U32(31))


@vector("v_alignbyte_b32", "b32 = b32 b32 u16")
def align_byte(a: Array, b: Array, c: Array) -> Array:
    return _align(a, b, (c & U32(3)) * U32(8))


def _align(high: Array, low: Array, count: Array) -> Array:
    wide = high.astype(U64) << U64(32) | low.astype(U64)
    return (wide >> count.astype(U64)).astype(U32)


# -- additions ---------------------------------------------------------------------------------------------------------


def _add(a: Array, b: Array) -> Array:
    return a + b


def _sub(a: Array, b: Array) -> Array:
    return a - b


def _reverse_sub(a: Array, b: Array) -> Array:
    return b - a


for _function, _name in ((_add, "add"), (_sub, "sub")):
    for _kind, _dtype in (("i32", I32), ("u16", U16), ("i16", I16)):
        vector(f"v_{_name}_nc_{_kind}", f"{_kind} = {_kind} {_kind}", saturating=saturating(_function, _dtype))(
            _function
        )
vector("v_add_nc_u32 v_dual_add_nc_u32", "u32 = u32 u32", saturating=saturating(_add, U32))(_add)
vector("v_sub_nc_u32", "u32 = u32 u32", saturating=saturating(_sub, U32))(_sub)
vector("v_subrev_nc_u32", "u32 = u32 u32", saturating=saturating(_reverse_sub, U32))(_reverse_sub)


@vector("v_add3_u32", "u32 = u32 u32 u32")
def add3(a: Array, b: Array, c: Array) -> Array:
    return a + b + c


@vector("v_xad_u32", "u32 = u32 u32 u32")
def xor_add(a: Array, b: Array, c: Array) -> Array:
    return (a ^ b) + c


def _carry_out(wide: Array) -> tuple[Array, Array]:
    return wide.astype(U32), (wide >> U64(32)) != 0


def _saturated_sum(function: Any) -> Any:
    def limited(*operands: Array) -> tuple[Array, Array]:
        total, carry = function(*operands)
        return np.where(carry, U32(0xFFFFFFFF), total), carry

    return limited


def _saturated_difference(function: Any) -> Any:
    def limited(*operands: Array) -> tuple[Array, Array]:
        total, borrow = function(*operands)
        return np.where(borrow, U32(0), total), borrow

    return limited


def add_carry_out(a: Array, b: Array) -> tuple[Array, Array]:
    return _carry_out(a.astype(U64) + b)


def sub_carry_out(a: Array, b: Array) -> tuple[Array, Array]:
    return _carry_out(a.astype(U64) - b.astype(U64))


def subrev_carry_out(a: Array, b: Array) -> tuple[Array, Array]:
    return sub_carry_out(b, a)


def add_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    return _carry_out(a.astype(U64) + b + carry)


def sub_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    return _carry_out(a.astype(U64) - b.astype(U64) - carry.astype(U64))


def subrev_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    return sub_carry(b, a, carry)


for _plain, _name, _limit in (
    (add_carry_out, "add_co", _saturated_sum), (sub_carry_out, "sub_co", _saturated_difference),
    (subrev_carry_out, "subrev_co", _saturated_difference),
):  # fmt: skip
    vector(f"v_{_name}_u32", "u32 m = u32 u32", saturating=_limit(_plain))(_plain)
for _carrying, _name, _limit in (
    (add_carry, "add_co_ci", _saturated_sum), (sub_carry, "sub_co_ci", _saturated_difference),
    (subrev_carry, "subrev_co_ci", _saturated_difference),
):  # fmt: skip
    vector(f"v_{_name}_u32", "u32 m = u32 u32 m", saturating=_limit(_carrying))(_carrying)


# -- products ----------------------------------------------------------------------------------------------------------


@vector("v_mul_lo_u32", "u32 = u32 u32")
def mul_low(a: Array, b: Array) -> Array:
    return a * b


@vector("v_mul_lo_u16", "u16 = u16 u16")
def mul_low16(a: Array, b: Array) -> Array:
    return a * b


@vector("v_mul_hi_u32", "u32 = u32 u32")
def mul_high(a: Array, b: Array) -> Array:
    return ((a.astype(U64) * b) >> U64(32)).astype(U32)


@vector("v_mul_hi_i32", "i32 = i32 i32")
def mul_high_signed(a: Array, b: Array) -> Array:
    return ((a.astype(I64) * b) >> I64(32)).astype(I32)


def _u24(x: Array) -> Array:
    return x.astype(U64) & U64(0xFFFFFF)


def _i24(x: Array) -> Array:
    return (x.astype(I64) << I64(40)) >> I64(40)


@vector("v_mul_u32_u24", "u32 = u32 u32")
def mul_u24(a: Array, b: Array) -> Array:
    return (_u24(a) * _u24(b)).astype(U32)


@vector("v_mul_hi_u32_u24", "u32 = u32 u32")
def mul_high_u24(a: Array, b: Array) -> Array:
    return ((_u24(a) * _u24(b)) >> U64(32)).astype(U32)


@vector("v_mul_i32_i24", "i32 = i32 i32")
def mul_i24(a: Array, b: Array) -> Array:
    return (_i24(a) * _i24(b)).astype(I32)


@vector("v_mul_hi_i32_i24", "i32 = i32 i32")
def mul_high_i24(a: Array, b: Array) -> Array:
    return ((_i24(a) * _i24(b)) >> I64(32)).astype(I32)


def _mad_u24(a: Array, b: Array, c: Array) -> Array:
    return _u24(a) * _u24(b) + c.astype(U64)


def _mad_i24(a: Array, b: Array, c: Array) -> Array:
    return _i24(a) * _i24(b) + c.astype(I64)


@vector(
    "v_mad_u32_u24",
    "u32 = u32 u32 u32",
    saturating=lambda a, b, c: np.minimum(_mad_u24(a, b, c), U64(0xFFFFFFFF)).astype(U32),
)
def mad_u24(a: Array, b: Array, c: Array) -> Array:
    return _mad_u24(a, b, c).astype(U32)


@vector("v_mad_i32_i24", "i32 = i32 i32 i32", saturating=lambda a, b, c: saturate(_mad_i24(a, b, c), I32))
def mad_i24(a: Array, b: Array, c: Array) -> Array:
    return _mad_i24(a, b, c).astype(I32)


def _mad(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


vector("v_mad_u16", "u16 = u16 u16 u16", saturating=saturating(_mad, U16))(_mad)
vector("v_mad_i16", "i16 = i16 i16 i16", saturating=saturating(_mad, I16))(_mad)


@vector(
    "v_mad_u32_u16",
    "u32 = u16 u16 u32",
    saturating=lambda a, b, c: saturate(_mad(a.astype(I64), b.astype(I64), c.astype(I64)), U32),
)
def mad_u32_u16(a: Array, b: Array, c: Array) -> Array:
    return a.astype(U32) * b.astype(U32) + c


@vector(
    "v_mad_i32_i16",
    "i32 = i16 i16 i32",
    saturating=lambda a, b, c: saturate(_mad(a.astype(I64), b.astype(I64), c.astype(I64)), I32),
)
def mad_i32_i16(a: Array, b: Array, c: Array) -> Array:
    return a.astype(I32) * b.astype(I32) + c


@vector("v_mad_u64_u32 v_mad_co_u64_u32", "u64 m = u32 u32 u64")
def mad_u64_u32(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    total = a.astype(U64) * b + c
    return total, total < c


@vector("v_mad_i64_i32 v_mad_co_i64_i32", "i64 m = i32 i32 i64")
def mad_i64_i32(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    product = a.astype(I64) * b
    total = product + c
    return total, ((product ^ total) & (c ^ total)) < 0


# -- minimum, maximum, median ------------------------------------------------------------------------------------------


def _median(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


for _kind in ("i32", "u32", "i16", "u16"):
    _two, _three = f"{_kind} = {_kind} {_kind}", f"{_kind} = {_kind} {_kind} {_kind}"
    vector(f"v_min_{_kind}", _two)(lambda a, b: np.minimum(a, b))
    vector(f"v_max_{_kind}", _two)(lambda a, b: np.maximum(a, b))
    vector(f"v_min3_{_kind}", _three)(lambda a, b, c: np.minimum(np.minimum(a, b), c))
    vector(f"v_max3_{_kind}", _three)(lambda a, b, c: np.maximum(np.maximum(a, b), c))
    vector(f"v_med3_{_kind}", _three)(_median)
    if _kind.endswith("32"):
        vector(f"v_maxmin_{_kind}", _three)(lambda a, b, c: np.minimum(np.maximum(a, b), c))
        vector(f"v_minmax_{_kind}", _three)(lambda a, b, c: np.maximum(np.minimum(a, b), c))


# -- bit fields and counts ---------------------------------------------------------------------------------------------


@vector("v_bfe_u32", "u32 = u32 u32 u32")
def bit_field_extract(a: Array, offset: Array, size: Array) -> Array:
    return (a >> (offset & U32(31))) & ((U32(1) << (size & U32(31))) - U32(1))


@vector("v_bfe_i32", "i32 = i32 u32 u32")
def bit_field_extract_signed(a: Array, offset: Array, size: Array) -> Array:
    count = (size & U32(31)).astype(I64)
    field = (a >> (offset & U32(31)).astype(I32)).astype(I64)
    return np.where(
        count == 0, I64(0), (field << (I64(64) - np.maximum(count, 1))) >> (I64(64) - np.maximum(count, 1))
    ).astype(I32)


@vector("v_bfm_b32", "b32 = b32 b32")
def bit_field_mask(size: Array, offset: Array) -> Array:
    return ((U32(1) << (size & U32(31))) - U32(1)) << (offset & U32(31))


def reverse_bits(x: Array) -> Array:
    """Reverses the bits of uint32 elements."""
    for mask, n in ((0x55555555, 1), (0x33333333, 2), (0x0F0F0F0F, 4), (0x00FF00FF, 8)):
        x = (x >> U32(n)) & U32(mask) | (x & U32(mask)) << U32(n)
    return x >> U32(16) | x << U32(16)


@vector("v_bfrev_b32", "b32 = b32")
def bit_reverse(x: Array) -> Array:
    return reverse_bits(x)


def count_bits(x: Array) -> Array:
    """How many bits are set, as uint32; any unsigned type."""
    return np.bitwise_count(x).astype(U32)


@vector("v_bcnt_u32_b32", "u32 = b32 u32")
def bit_count(x: Array, base: Array) -> Array:
    return count_bits(x) + base


def leading_zeros(x: Array, bits: int) -> Array:
    """Zeros above the highest set bit, -1 for zero (int32)."""
    smeared = x
    n = 1
    while n < bits:
        smeared = smeared | smeared >> x.dtype.type(n)
        n *= 2
    return np.where(x == 0, -1, bits - np.bitwise_count(smeared).astype(I32)).astype(I32)


def trailing_zeros(x: Array, bits: int) -> Array:
    """Zeros below the lowest set bit, -1 for zero (int32)."""
    low = x & (~x + x.dtype.type(1))
    return np.where(x == 0, -1, np.bitwise_count(low - x.dtype.type(1)).astype(I32)).astype(I32)


def leading_sign_bits(x: Array, bits: int) -> Array:
    """Bits equal to the sign bit, it included, from the top; -1 if all are (int32). `x` is unsigned."""
    inverted = np.where(x >> x.dtype.type(bits - 1) != 0, ~x, x)
    return np.where(inverted == 0, -1, leading_zeros(inverted, bits)).astype(I32)


@vector("v_clz_i32_u32", "i32 = u32")
def clz(x: Array) -> Array:
    return leading_zeros(x, 32)


@vector("v_ctz_i32_b32", "i32 = b32")
def ctz(x: Array) -> Array:
    return trailing_zeros(x, 32)


@vector("v_cls_i32", "i32 = b32")
def cls(x: Array) -> Array:
    return leading_sign_bits(x, 32)


# -- narrow integers --------------------------------------------------------------------------------------------------


@vector("v_cvt_i32_i16", "i32 = i16")
def extend_i16(x: Array) -> Array:
    return x.astype(I32)


@vector("v_cvt_u32_u16", "u32 = u16")
def extend_u16(x: Array) -> Array:
    return x.astype(U32)


@vector("v_cvt_pk_u16_u32", "b32 = u32 u32")
def pack_u16(a: Array, b: Array) -> Array:
    return np.minimum(a, U32(0xFFFF)) | np.minimum(b, U32(0xFFFF)) << U32(16)


@vector("v_cvt_pk_i16_i32", "b32 = i32 i32")
def pack_i16(a: Array, b: Array) -> Array:
    return join_halves(saturate(a, I16).view(U16), saturate(b, I16).view(U16))


def join_halves(low: Array, high: Array) -> Array:
    """Two uint16 arrays to uint32."""
    return low.astype(U32) | high.astype(U32) << U32(16)


@vector("v_pack_b32_f16", "b32 = b16 b16")
def pack_halves(low: Array, high: Array) -> Array:
    return join_halves(low, high)
