"""Instructions of the vector unit on the bytes of words: permutation, sums of differences, dot products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.semantics import vector
from cuttle.device.rdna.vector_integer import saturate

Array = NDArray[Any]
U16, U32, U64, I16, I32, I64 = np.uint16, np.uint32, np.uint64, np.int16, np.int32, np.int64

# -- bytes -------------------------------------------------------------------------------------------------------------


def _byte(x: Array, n: int) -> Array:
    return (x >> U32(8 * n)) & U32(255)


@vector("v_perm_b32", "b32 = b32 b32 b32")
def permute_bytes(a: Array, b: Array, selector: Array) -> Array:
    source = a.astype(U64) << U64(32) | b.astype(U64)
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), U32)
    for n in range(4):
        choice = _byte(selector, n)
        picked = ((source >> (np.minimum(choice, U32(7)).astype(U64) * U64(8))) & U64(255)).astype(U32)
        # 8 to 11: the sign of bytes 1, 3, 5, 7; 12: 0; 13 and more: 255
        signs = np.where(
            (source >> ((U64(2) * (np.clip(choice, 8, 11).astype(U64) - U64(8)) + U64(1)) * U64(8) + U64(7))) & U64(1),
            U32(255),
            U32(0),
        )
        byte = np.where(choice < 8, picked, np.where(choice < 12, signs, np.where(choice == 12, U32(0), U32(255))))
        result = result | byte.astype(U32) << U32(8 * n)
    return result


def _distance(a: Array, b: Array) -> Array:
    return np.where(a > b, a - b, b - a)


def _sad(a: Array, b: Array, masked: bool) -> Array:
    total: Any = U32(0)
    for n in range(4):
        part = _distance(_byte(a, n), _byte(b, n))
        total = total + (np.where(_byte(b, n) == 0, U32(0), part) if masked else part)
    return np.asarray(total)


@vector("v_sad_u8", "u32 = u32 u32 u32")
def sad_u8(a: Array, b: Array, c: Array) -> Array:
    return _sad(a, b, False) + c


@vector("v_sad_hi_u8", "u32 = u32 u32 u32")
def sad_hi_u8(a: Array, b: Array, c: Array) -> Array:
    return (_sad(a, b, False) << U32(16)) + c


@vector("v_msad_u8", "u32 = u32 u32 u32")
def msad_u8(a: Array, b: Array, c: Array) -> Array:
    return _sad(a, b, True) + c


@vector("v_sad_u16", "u32 = u32 u32 u32")
def sad_u16(a: Array, b: Array, c: Array) -> Array:
    low = _distance(a & U32(0xFFFF), b & U32(0xFFFF))
    return low + _distance(a >> U32(16), b >> U32(16)) + c


@vector("v_sad_u32", "u32 = u32 u32 u32")
def sad_u32(a: Array, b: Array, c: Array) -> Array:
    return _distance(a, b) + c


@vector("v_lerp_u8", "u32 = u32 u32 u32")
def lerp_u8(a: Array, b: Array, c: Array) -> Array:
    result: Any = U32(0)
    for n in range(4):
        total = _byte(a, n) + _byte(b, n) + ((c >> U32(8 * n)) & U32(1))
        result = result | (total >> U32(1)) << U32(8 * n)
    return np.asarray(result)


@vector("v_sat_pk_u8_i16", "b16 = b32")
def saturate_pack(x: Array) -> Array:
    low = np.clip(x.astype(U16).view(I16), 0, 255).astype(U16)
    high = np.clip((x >> U32(16)).astype(U16).view(I16), 0, 255).astype(U16)
    return low | high << U16(8)


# -- dot products ------------------------------------------------------------------------------------------------------


@vector(
    "v_dot4_u32_u8",
    "u32 = u32 u32 u32",
    saturating=lambda a, b, c: saturate(_dot(a, b, 8, False, False) + c.astype(I64), U32),
)
def dot4_u8(a: Array, b: Array, c: Array) -> Array:
    return (_dot(a, b, 8, False, False) + c.astype(I64)).astype(U32)


@vector(
    "v_dot8_u32_u4",
    "u32 = u32 u32 u32",
    saturating=lambda a, b, c: saturate(_dot(a, b, 4, False, False) + c.astype(I64), U32),
)
def dot8_u4(a: Array, b: Array, c: Array) -> Array:
    return (_dot(a, b, 4, False, False) + c.astype(I64)).astype(U32)


def _dot(a: Array, b: Array, size: int, a_signed: bool, b_signed: bool) -> Array:
    """The exact sum of the products of the fields of two words (int64)."""
    total: Any = I64(0)
    for n in range(32 // size):
        total = total + _field(a, n, size, a_signed) * _field(b, n, size, b_signed)
    return np.asarray(total)


def _field(x: Array, n: int, size: int, is_signed: bool) -> Array:
    field = (x.astype(I64) >> I64(n * size)) & I64((1 << size) - 1)
    return np.where(field >> I64(size - 1), field - I64(1 << size), field) if is_signed else field


def dot_mixed(a: Array, b: Array, c: Array, size: int, a_signed: bool, b_signed: bool, clamp: bool) -> Array:
    """v_dot4_i32_iu8 and v_dot8_i32_iu4: c is int32."""
    total = _dot(a, b, size, a_signed, b_signed) + c.astype(I64)
    return saturate(total, I32) if clamp else total.astype(I32)
