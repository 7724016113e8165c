"""Conversions of the vector unit. Pure functions of NumPy arrays; see `semantics.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna import arithmetic as fp
from cuttle.device.rdna.semantics import vector
from cuttle.device.rdna.vector_integer import join_halves

Array = NDArray[Any]
U16, U32, I16, I32 = np.uint16, np.uint32, np.int16, np.int32
F16, F32, F64 = np.float16, np.float32, np.float64


def to_integer(x: Array, dtype: Any) -> Array:
    """Toward zero, limited to the range of the type; NaN becomes 0."""
    limits = np.iinfo(dtype)
    wide = np.where(np.isnan(x), 0.0, np.trunc(x.astype(F64)))
    return np.clip(wide, float(limits.min), float(limits.max)).astype(np.int64).astype(dtype)


for _kind in ("f32", "f64"):
    vector(f"v_cvt_i32_{_kind}", f"i32 = {_kind}")(lambda x: to_integer(x, I32))
    vector(f"v_cvt_u32_{_kind}", f"u32 = {_kind}")(lambda x: to_integer(x, U32))
vector("v_cvt_u16_f16", "u16 = f16")(lambda x: to_integer(x, U16))
vector("v_cvt_i16_f16", "i16 = f16")(lambda x: to_integer(x, I16))


@vector("v_cvt_floor_i32_f32", "i32 = f32")
def floor_to_integer(x: Array) -> Array:
    return to_integer(np.floor(x.astype(F64)), I32)


@vector("v_cvt_nearest_i32_f32", "i32 = f32")
def nearest_to_integer(x: Array) -> Array:
    return to_integer(np.floor(x.astype(F64) + 0.5), I32)


@vector("v_cvt_f32_i32", "f32 = i32", mode=True)
@vector("v_cvt_f32_u32", "f32 = u32", mode=True)
def integer_to_f32(mode: int, x: Array) -> Array:
    return fp.narrow(x.astype(F64), fp.F32, fp.rounding(mode, fp.F32))


@vector("v_cvt_f16_u16", "f16 = u16", mode=True)
@vector("v_cvt_f16_i16", "f16 = i16", mode=True)
def integer_to_f16(mode: int, x: Array) -> Array:
    return fp.narrow(x.astype(F64), fp.F16, fp.rounding(mode, fp.F16))


@vector("v_cvt_f64_i32", "f64 = i32")
@vector("v_cvt_f64_u32", "f64 = u32")
def integer_to_f64(x: Array) -> Array:
    return x.astype(F64)


@vector("v_cvt_f16_f32", "f16 = f32", mode=True)
def f32_to_f16(mode: int, x: Array) -> Array:
    return fp.convert(mode, x, fp.F16)


@vector("v_cvt_f32_f16", "f32 = f16", mode=True)
@vector("v_cvt_f32_f64", "f32 = f64", mode=True)
def to_f32(mode: int, x: Array) -> Array:
    return fp.convert(mode, x, fp.F32)


@vector("v_cvt_f64_f32", "f64 = f32", mode=True)
def to_f64(mode: int, x: Array) -> Array:
    return fp.convert(mode, x, fp.F64)


for _n in range(4):
    vector(f"v_cvt_f32_ubyte{_n}", "f32 = u32")(lambda x, _n=_n: ((x >> U32(8 * _n)) & U32(255)).astype(F32))


@vector("v_cvt_off_f32_i4", "f32 = u32")
def offset_of_nibble(x: Array) -> Array:
    nibble = (x & U32(15)).astype(I32)
    return (np.where(nibble > 7, nibble - 16, nibble) / 16).astype(F32)


@vector("v_cvt_pk_rtz_f16_f32", "b32 = f32 f32", mode=True)
def pack_f16_to_zero(mode: int, a: Array, b: Array) -> Array:
    toward_zero = mode & ~0xC | fp.TO_ZERO << 2
    low, high = fp.convert(toward_zero, a, fp.F16), fp.convert(toward_zero, b, fp.F16)
    return join_halves(low.view(U16), high.view(U16))


def _normalised(x: Array, is_signed: bool) -> Array:
    """To [-1, 1] or [0, 1] and scaled to 16 bits, nearest even."""
    wide = np.where(np.isnan(x), 0.0, x.astype(F64))
    if is_signed:
        return np.rint(np.clip(wide, -1, 1) * 32767).astype(I16).view(U16)
    return np.rint(np.clip(wide, 0, 1) * 65535).astype(U16)


vector("v_cvt_norm_i16_f16", "b16 = f16")(lambda x: _normalised(x, True))
vector("v_cvt_norm_u16_f16", "b16 = f16")(lambda x: _normalised(x, False))
for _kind in ("f16", "f32"):
    vector(f"v_cvt_pk_norm_i16_{_kind}", f"b32 = {_kind} {_kind}")(
        lambda a, b: join_halves(_normalised(a, True), _normalised(b, True))
    )
    vector(f"v_cvt_pk_norm_u16_{_kind}", f"b32 = {_kind} {_kind}")(
        lambda a, b: join_halves(_normalised(a, False), _normalised(b, False))
    )
vector("v_cvt_pk_i16_f32", "b32 = f32 f32")(
    lambda a, b: join_halves(to_integer(a, I16).view(U16), to_integer(b, I16).view(U16))
)
vector("v_cvt_pk_u16_f32", "b32 = f32 f32")(lambda a, b: join_halves(to_integer(a, U16), to_integer(b, U16)))


@vector("v_cvt_pk_u8_f32", "b32 = f32 u32 b32")
def pack_u8(x: Array, place: Array, old: Array) -> Array:
    shift = (place & U32(3)) * U32(8)
    return (old & ~(U32(255) << shift)) | to_integer(x, np.uint8).astype(U32) << shift
