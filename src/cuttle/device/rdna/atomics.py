"""Read-modify-write of memory by many lanes at once, with the results of some order: wave after wave, lane after lane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna import arithmetic as fp
from cuttle.device.rdna.errors import IllegalAddress

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Atomic:
    """`combine(old, data)` is what memory gets; `compares` makes it `combine(old, data, compare)`.
    `associative`: combine(combine(x, a), b) == combine(x, merge(a, b)), with `merge` the same function if None."""

    dtype: Any
    combine: Callable[..., Array]
    associative: bool = False
    compares: bool = False
    merge: Callable[..., Array] | None = None


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _sub_clamp(old: Array, data: Array) -> Array:
    return np.where(old > data, old - data, old.dtype.type(0))


def _cond_sub(old: Array, data: Array) -> Array:
    return np.where(old >= data, old - data, old)


def _compare_and_swap(old: Array, data: Array, compare: Array) -> Array:
    return np.where(old == compare, data, old)


def _wrap(old: Array, data: Array, other: Array) -> Array:
    return np.where(old >= data, old - data, old + other)


def _float_add(old: Array, data: Array) -> Array:
    return fp.add(fp.DEFAULT_MODE, old, data)


def _float_smaller(old: Array, data: Array) -> Array:
    """The smaller number; a NaN loses against a number."""
    return np.where((data < old) | np.isnan(old), data, old)


def _float_larger(old: Array, data: Array) -> Array:
    return np.where((data > old) | np.isnan(old), data, old)


def _packed_add(old: Array, data: Array) -> Array:
    """Two f16 sums in a word."""
    halves = fp.add(
        fp.DEFAULT_MODE, np.ascontiguousarray(old).view(np.float16), np.ascontiguousarray(data).view(np.float16)
    )
    return np.ascontiguousarray(halves).view(np.uint32)


def _packed_add_bfloat(old: Array, data: Array) -> Array:
    """Two bfloat16 sums in a word, nearest even."""
    result: Any = np.uint32(0)
    for shift in (0, 16):
        a, b = (((x >> np.uint32(shift)) << np.uint32(16)).view(np.float32) for x in (old, data))
        result = result | f32_to_bfloat(fp.add(fp.DEFAULT_MODE, a, b)) << np.uint32(shift)
    return np.asarray(result)


def f32_to_bfloat(x: Array) -> Array:
    """bfloat16 bits (in uint32), nearest even; NaNs quiet."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), bits >> np.uint32(16) | np.uint32(0x40), rounded)


def _operations() -> dict[str, Atomic]:
    table: dict[str, Atomic] = {}
    for bits in (32, 64):
        unsigned, signed = np.dtype(f"u{bits // 8}"), np.dtype(f"i{bits // 8}")
        b, u, i, f = f"_b{bits}", f"_u{bits}", f"_i{bits}", f"_f{bits}"
        table["swap" + b] = Atomic(unsigned, lambda old, data: data, True)
        table["cmpswap" + b] = Atomic(unsigned, _compare_and_swap, compares=True)
        table["add" + u] = Atomic(unsigned, lambda old, data: old + data, True)
        table["sub" + u] = Atomic(unsigned, lambda old, data: old - data, True, merge=lambda a, b: a + b)
        table["rsub" + u] = Atomic(unsigned, lambda old, data: data - old)
        table["and" + b] = Atomic(unsigned, lambda old, data: old & data, True)
        table["or" + b] = Atomic(unsigned, lambda old, data: old | data, True)
        table["xor" + b] = Atomic(unsigned, lambda old, data: old ^ data, True)
        table["inc" + u] = Atomic(unsigned, _increment)
        table["dec" + u] = Atomic(unsigned, _decrement)
        for kind, dtype in ((u, unsigned), (i, signed)):
            table["min" + kind] = Atomic(dtype, np.minimum, True)
            table["max" + kind] = Atomic(dtype, np.maximum, True)
        floating = np.dtype(f"f{bits // 8}")
        for name in ("min", "min_num"):
            table[name + f] = Atomic(floating, _float_smaller)
        for name in ("max", "max_num"):
            table[name + f] = Atomic(floating, _float_larger)
        table["add" + f] = Atomic(floating, _float_add)
        table["cmpswap" + f] = Atomic(floating, _compare_and_swap, compares=True)
        table["mskor" + b] = Atomic(unsigned, lambda old, data, other: (old & ~data) | other, compares=True)
    word = np.dtype(np.uint32)
    table["csub_u32"] = table["sub_clamp_u32"] = Atomic(word, _sub_clamp)
    table["cond_sub_u32"] = Atomic(word, _cond_sub)
    table["wrap_b32"] = Atomic(word, _wrap, compares=True)
    table["pk_add_f16"] = Atomic(word, _packed_add)
    table["pk_add_bf16"] = Atomic(word, _packed_add_bfloat)
    return table


ATOMICS = _operations()


def perform(atomic: Atomic, cells: Array, offsets: Array, data: Array, compare: Array | None) -> Array:
    """Carries out the operation on `cells` (bytes of a memory, seen as the type) at byte offsets; returns the old values."""
    size = atomic.dtype.itemsize
    if (offsets % size).any():
        raise IllegalAddress(f"an atomic of {size} bytes at an address that is no multiple of {size}")
    index = offsets // size
    cells = cells.view(atomic.dtype)
    operands = (data,) if compare is None else (data, compare)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.ones(len(index), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    if first.all():
        old = cells[index]
        cells[index] = atomic.combine(old, *operands)
        return old
    starts = np.flatnonzero(first)
    segment = np.cumsum(first) - 1
    lengths = np.diff(np.append(starts, len(index)))
    old = np.empty(len(index), atomic.dtype)
    if atomic.associative:
        old[order] = _scan(atomic, cells, ordered[starts], data[order], segment, first, starts, lengths)
    elif atomic.combine is _float_add and lengths.max() > 4 * len(starts):
        old[order] = _sums(cells, ordered[starts], data[order], starts, lengths)
    else:
        rank = np.arange(len(index)) - starts[segment]
        by_rank = np.argsort(rank, kind="stable")
        ends = np.cumsum(np.bincount(rank))
        begin = 0
        for end in ends.tolist():
            which = order[by_rank[begin:end]]
            begin = end
            before = cells[index[which]]
            old[which] = before
            cells[index[which]] = atomic.combine(before, *(x[which] for x in operands))
    return old


def _scan(
    atomic: Atomic, cells: Array, places: Array, data: Array, segment: Array, first: Array, starts: Array, lengths: Array
) -> Array:  # fmt: skip
    """Segmented prefix combination in log2(length) steps. `data` is ordered by place."""
    merge = atomic.merge or atomic.combine
    running = data.copy()
    distance, longest = 1, int(lengths.max())
    while distance < longest:
        same = segment[distance:] == segment[:-distance]
        merged = merge(running[:-distance], running[distance:])
        running[distance:] = np.where(same, merged, running[distance:])
        distance *= 2
    initial = cells[places]
    before = initial[segment]
    later = np.flatnonzero(~first)
    before[later] = atomic.combine(initial[segment[later]], running[later - 1])
    cells[places] = atomic.combine(initial, running[starts + lengths - 1])
    return before


def _sums(cells: Array, places: Array, data: Array, starts: Array, lengths: Array) -> Array:
    """Float sums onto few places, one after the other (accumulate adds in order)."""
    before = np.empty(len(data), data.dtype)
    for place, start, length in zip(places.tolist(), starts.tolist(), lengths.tolist(), strict=True):
        totals = np.add.accumulate(np.concatenate([cells[place : place + 1], data[start : start + length]]))
        before[start : start + length] = totals[:-1]
        cells[place] = totals[-1]
    return fp.fix_nans(before)
