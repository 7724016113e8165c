"""Loads and stores of every width and shape, local memory, and indices near the end of their range."""

from __future__ import annotations

import numpy as np
import pytest

from cuttle.errors import PtxError
from cuttle.lower.cpu.compile_kernel import compile_kernel
from cuttle.lower.cpu.options import CompileOptions
from cuttle.ptx.parser import parse_module
from tests.lower.cpu.kernels import HEADER, WAYS, Array, Block, Fault, Way, check, entry, run, run_or_fault, threads

U32 = np.uint32
SHAPES: list[Block] = [
    (1, 1, 1), (32, 1, 1), (33, 1, 1), (100, 1, 1), (256, 1, 1), (16, 16, 1), (8, 8, 4), (5, 7, 3), (32, 8, 1), (64, 2, 2),
    (4, 4, 4), (8, 4, 1), (16, 1, 2), (16, 3, 1), (2, 3, 16), (8, 2, 3), (1, 32, 2), (32, 1, 3), (8, 5, 2),
]  # fmt: skip
FEW = (WAYS[0], WAYS[2], WAYS[5])
WRAP = 9


def numbers(block: Block) -> Array:
    return np.arange(threads(block), dtype=U32)


@pytest.mark.parametrize("block", SHAPES)
def test_thread_indices_of_a_block_shape(block: Block) -> None:
    text = entry("""
      shl.b32 %r1, %z, 20; shl.b32 %r2, %y, 10; or.b32 %r3, %r1, %r2; or.b32 %r3, %r3, %x;
      and.b32 %r4, %x, 3; shr.u32 %r5, %y, 1; mul.lo.u32 %r6, %y, %x; mad.lo.u32 %r7, %z, %r4, %r5; add.u32 %r7, %r7, %r6;
      shl.b32 %r8, %r7, 8; xor.b32 %r3, %r3, %r8; st.global.u32 [%wide], %r3; ret;""")
    t = numbers(block)
    x, y, z = t % block[0], t // block[0] % block[1], t // (block[0] * block[1])
    expected = (z << 20 | y << 10 | x) ^ (z * (x & 3) + (y >> 1) + y * x) << 8
    check(text, block, [np.zeros_like(t)], [expected.astype(U32)], ways=FEW)


@pytest.mark.parametrize("block", SHAPES)
def test_rows_and_columns_of_a_matrix(block: Block) -> None:
    """Row, column and transposed accesses; products of two values that differ between rows."""
    text = entry(
        """
      ld.param.u64 %d1, [src]; mul.wide.u32 %d2, %x, 4; add.s64 %d2, %d1, %d2; ld.global.u32 %r1, [%d2];
      mul.wide.u32 %d3, %y, 256; add.s64 %d3, %d1, %d3; ld.global.u32 %r2, [%d3+4]; ld.global.u32 %r3, [%d3+-4];
      mad.lo.s32 %r4, %y, 64, %x; mul.wide.s32 %d4, %r4, 4; add.s64 %d4, %d1, %d4; ld.global.u32 %r5, [%d4];
      mad.lo.s32 %r6, %x, 64, %y; mul.wide.s32 %d5, %r6, 4; add.s64 %d5, %d1, %d5; ld.global.u32 %r7, [%d5];
      add.u32 %r8, %y, 3; mul.lo.u32 %r9, %r8, %y; mul.wide.u32 %d6, %r8, %r9; cvt.u32.u64 %r10, %d6;
      mad.lo.u32 %r11, %z, %r8, %r10;
      mad.lo.u32 %r1, %r1, 3, %r2; mad.lo.u32 %r1, %r1, 3, %r3; mad.lo.u32 %r1, %r1, 3, %r5; mad.lo.u32 %r1, %r1, 3, %r7;
      add.u32 %r1, %r1, %r11; st.global.u32 [%wide], %r1; ret;""",
        ".param .u64 out, .param .u64 src",
    )
    t = numbers(block)
    x, y, z = t % block[0], t // block[0] % block[1], t // (block[0] * block[1])
    backing = np.random.default_rng(3).integers(0, 1 << 32, 1 << 15, dtype=U32)
    source = backing[16:]
    total = source[x].astype(U32)
    for part in (source[64 * y + 1], backing[16 + 64 * y - 1], source[64 * y + x], source[64 * x + y]):
        total = total * U32(3) + part
    total = total + (y + 3) * ((y + 3) * y) + z * (y + 3)
    # `src` points into the middle: pass the whole array and add the distance.
    text = text.replace("ld.param.u64 %d1, [src];", "ld.param.u64 %d1, [src]; add.u64 %d1, %d1, 64;")
    check(text, block, [np.zeros_like(t), backing], [total.astype(U32)], ways=FEW)


@pytest.mark.parametrize("block", SHAPES[:10])
@pytest.mark.parametrize("guarded", [False, True])
def test_vector_accesses_of_every_width(block: Block, guarded: bool) -> None:
    n = threads(block)
    lines = []
    guard = "@%p1 " if guarded else ""
    here = np.arange(n) % 3 != 1 if guarded else np.ones(n, bool)
    place = 0
    forms = [("u8", 1, 1), ("u16", 2, 1), ("u32", 4, 1), ("u64", 8, 1), ("v2.u8", 1, 2), ("v4.u8", 1, 4), ("v2.u16", 2, 2),
             ("v4.u16", 2, 4), ("v2.u32", 4, 2), ("v4.u32", 4, 4), ("v2.u64", 8, 2)]  # fmt: skip
    registers = {1: "%h", 2: "%h", 4: "%r", 8: "%d"}
    for form, size, count in forms:
        step = size * count
        names = [f"{registers[size]}{10 + i}" for i in range(count)]
        listed = names[0] if count == 1 else "{" + ", ".join(names) + "}"
        lines.append(f"mad.lo.u32 %r1, %t, {step}, {place * n}; cvt.u64.u32 %d1, %r1; add.u64 %d2, %out, %d1;")
        lines.append(
            f"add.u64 %d3, %src, %d1; {guard}ld.global.{form} {listed}, [%d3]; {guard}st.global.{form} [%d2], {listed};"
        )
        place += step + -step % 16
    text = entry(
        ".reg .b64 %src; ld.param.u64 %src, [src]; rem.u32 %r0, %t, 3; setp.ne.u32 %p1, %r0, 1;"
        + "\n".join(lines)
        + "ret;",
        ".param .u64 out, .param .u64 src",
    )
    source = np.random.default_rng(6).integers(0, 256, place * n, dtype=np.uint8)
    wanted = np.zeros_like(source)
    offset = 0
    for _, size, count in forms:
        step = size * count
        rows = wanted[offset * n : (offset + step) * n].reshape(n, step)
        rows[here] = source[offset * n : (offset + step) * n].reshape(n, step)[here]
        offset += step + -step % 16
    check(text, block, [np.zeros_like(wanted), source], [wanted], ways=FEW)


@pytest.mark.parametrize("block", [(32, 1, 1), (50, 1, 1), (8, 8, 1)])
def test_128_bit_values(block: Block) -> None:
    n = threads(block)
    source = np.random.default_rng(7).integers(0, 1 << 63, 2 * n, dtype=np.uint64)
    text = entry(
        """
      ld.param.u64 %d1, [src]; mul.wide.u32 %d2, %t, 16; add.u64 %d3, %d1, %d2; add.u64 %d4, %out, %d2; and.b32 %r1, %t, 1;
      setp.eq.u32 %p1, %r1, 1; ld.global.b128 %q1, [%d3]; bar.sync 0; mov.b128 {%d5, %d6}, %q1;
      @%p1 mov.b128 %q1, {%d6, %d5}; bar.sync 0; st.global.b128 [%d4], %q1; ret;""",
        ".param .u64 out, .param .u64 src",
    )
    expected = source.reshape(n, 2).copy()
    expected[1::2] = expected[1::2, ::-1]
    check(text, block, [np.zeros_like(source), source], [expected.reshape(-1)])


@pytest.mark.parametrize("block", [(32, 1, 1), (70, 1, 1), (16, 4, 1)])
def test_local_arrays_by_constant_and_varying_index(block: Block) -> None:
    text = entry(
        """
      mov.u64 %d1, arr; st.local.u32 [arr], %t; st.local.u32 [arr+4], 5; st.local.v2.u32 [arr+8], {%x, %y};
      and.b32 %r1, %t, 3; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2; ld.local.u32 %r2, [%d3];
      cvta.local.u64 %d4, %d1; add.u64 %d5, %d4, %d2; ld.u32 %r3, [%d5]; st.u32 [%d4+4], %r2;
      setp.gt.u32 %p1, %t, 9; @%p1 st.local.u8 [%d3+1], 1; isspacep.local %p2, %d5; isspacep.global %p3, %d5;
      cvta.to.local.u64 %d6, %d5; ld.local.u32 %r4, [%d6]; bar.sync 0; ld.local.u32 %r5, [%d1+4]; ld.u32 %r6, [%d4+8];
      add.u32 %r7, %r2, %r3; mad.lo.u32 %r7, %r7, 3, %r4; mad.lo.u32 %r7, %r7, 3, %r5; mad.lo.u32 %r7, %r7, 3, %r6;
      @%p2 add.u32 %r7, %r7, 1; @%p3 add.u32 %r7, %r7, 2; st.global.u32 [%wide], %r7; ret;""",
        variables=".local .align 8 .b32 arr[4];",
    )

    def one(t: int) -> int:
        x, y = t % block[0], t // block[0]
        memory = [t, 5, x, y]
        r2 = r3 = memory[t & 3]
        memory[1] = r2
        if t > 9:
            memory[t & 3] = memory[t & 3] & ~0xFF00 | 1 << 8
        total = r2 + r3
        for part in (memory[t & 3], memory[1], memory[2]):
            total = total * 3 + part
        return (total + 1) & 0xFFFFFFFF

    n = threads(block)
    check(text, block, [np.zeros(n, U32)], [np.array([one(t) for t in range(n)], U32)])


# Each wants element START + tid of `src`, computed so that an index may pass a limit of 32-bit numbers.
NEAR_LIMITS = {
    "add.s32 %r2, %t, %r1; cvt.s64.s32 %d2, %r2;": "signed",
    "add.s32 %r2, %t, %r1; mul.wide.s32 %d2, %r2, 1;": "signed",
    "mad.lo.s32 %r2, %t, 1, %r1; mad.wide.s32 %d2, %r2, 1, 0;": "signed",
    "add.u32 %r2, %t, %r1; cvt.u64.u32 %d2, %r2;": "unsigned",
    "add.u32 %r2, %t, %r1; mul.wide.u32 %d2, %r2, 1;": "unsigned",
    "sub.u32 %r2, %r1, %t; cvt.s64.s32 %d2, %r2;": "down",
    "shl.b32 %r2, %t, 2; add.s32 %r2, %r2, %r1; shr.s32 %r2, %r2, 1; cvt.s64.s32 %d2, %r2;": "shifted",
    "add.u32 %r2, %t, %r1; shr.u32 %r2, %r2, 3; and.b32 %r2, %r2, 0xFFFFFF0F; cvt.s64.s32 %d2, %r2;": "masked",
    "add.s32 %r2, %t, %r1; min.s32 %r2, %r2, 77; max.s32 %r2, %r2, -5; cvt.s64.s32 %d2, %r2;": "clamped",
}  # fmt: skip
STARTS = [0, -1, -31, 0x7FFFFFFF, 0x7FFFFFE0, 0x7FFFFFE1, -0x80000000, -0x80000001, 0xFFFFFFF0, 0x7FFFFFF0]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    "way", [WAYS[0], WAYS[5], Way("flat", CompileOptions(affine=False, optimization=0))], ids=lambda w: w.name
)
@pytest.mark.parametrize("line", NEAR_LIMITS)
def test_indices_at_the_limits_are_right(line: str, way: Way, start: int) -> None:
    block: Block = (64, 1, 1)
    t = numbers(block).astype(np.int64)
    kind = NEAR_LIMITS[line]

    def wrapped(values: Array) -> Array:
        return values.astype(np.int64).astype(U32).view(np.int32).astype(np.int64)

    value = wrapped(t + start)
    if kind == "unsigned":
        value = value & 0xFFFFFFFF
    elif kind == "down":
        value = wrapped(start - t)
    elif kind == "shifted":
        value = wrapped(4 * t + start) >> 1
    elif kind == "masked":
        value = (value & 0xFFFFFFFF) >> 3 & 0xFFFFFF0F
    elif kind == "clamped":
        value = np.maximum(np.minimum(value, 77), -5)
    text = entry(
        f"ld.param.u32 %r1, [start]; {line} mul.wide.u32 %d3, %t, 8; add.u64 %d3, %out, %d3; st.global.u64 [%d3], %d2; ret;",
        ".param .u64 out, .param .u32 start",
    )
    (out,) = run_or_fault(text, block, [np.zeros(64, np.int64), start], way)
    np.testing.assert_array_equal(out, value)


GUARDS = {
    "branch": "@!%p1 bra END; mul.wide.s32 %d2, %r2, 4; add.u64 %d2, %out, %d2; st.global.u32 [%d2], %r2; END: ret;",
    "guard": "@%p1 mul.wide.s32 %d2, %r2, 4; @%p1 add.u64 %d2, %out, %d2; @%p1 st.global.u32 [%d2], %r2; ret;",
    "barrier": "@!%p1 bra END; mul.wide.s32 %d2, %r2, 4; add.u64 %d2, %out, %d2; barrier.sync 1, 32; st.global.u32 [%d2], %r2; END: ret;",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.name)
@pytest.mark.parametrize("how", GUARDS)
def test_lanes_that_are_not_here_may_wrap(how: str, way: Way) -> None:
    """An address whose index wraps only in lanes that do not compute it."""
    text = entry(
        "ld.param.u32 %r1, [start]; mul.wide.s32 %d1, %r1, 4; sub.s64 %out, %out, %d1;"
        f"add.s32 %r2, %t, %r1; setp.ge.s32 %p1, %r2, 0; {GUARDS[how]}",
        ".param .u64 out, .param .u32 start",
    )
    start = 0x7FFFFFFB
    (out,) = run_or_fault(text, (32, 1, 1), [np.zeros(64, U32), start], way)
    expected = np.zeros(64, U32)
    expected[:5] = start + np.arange(5)
    np.testing.assert_array_equal(out, expected)


def test_a_wrapped_address_is_a_fault_that_names_the_lane() -> None:
    """Lane 5 is the first whose index does not fit 31 bits: with a shape kept, the access would be somewhere else."""
    text = entry(
        "ld.param.u32 %r1, [start]; add.s32 %r2, %t, %r1; mul.wide.s32 %d2, %r2, 4; add.u64 %d2, %out, %d2;"
        "st.global.u32 [%d2], %r2; ret;",
        ".param .u64 out, .param .u32 start",
    )
    with pytest.raises(Fault) as fault:
        run_or_fault(text, (32, 1, 1), [np.zeros(64, U32), 0x7FFFFFFB], WAYS[0])
    assert fault.value.args == (WRAP,)


def winner(lanes: list[int], bytes_per_lane: int) -> int:
    """Whose value stays where these lanes of a warp store to one place (as seen on an H200)."""
    group = min(32, 128 // bytes_per_lane)
    return min(lane for lane in lanes if lane // group == max(lanes) // group)


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    ("kind", "words"), [("b8", 1), ("b16", 1), ("b32", 1), ("b64", 2), ("v2.b32", 2), ("v4.b32", 4)]
)
def test_lanes_that_store_to_one_place(kind: str, words: int, space: str) -> None:
    """A known address for all, one address in a register, groups of four, every fourth, scattered, some lanes only."""
    value = {"b8": "%r1", "b16": "%h1", "b64": "%d1", "v2.b32": "{%r1, %r1}", "v4.b32": "{%r1, %r1, %r1, %r1}"}
    copy_out = "ret;"
    if space == "shared":
        copy_out = """mul.wide.u32 %d7, %x, 16; add.u64 %d5, %d5, %d7; shl.b32 %r5, %x, 4; add.u32 %r5, %r7, %r5;
          ld.shared.v4.b32 {%r8, %r9, %r10, %r11}, [%r5]; st.global.v4.b32 [%d5], {%r8, %r9, %r10, %r11}; ret;"""
    size = words * 4 if kind not in ("b8", "b16") else int(kind[1:]) // 8
    text = entry(
        f"""
      .shared .align 16 .b32 tile[128];
      mov.u32 %r1, %x; cvt.u16.u32 %h1, %x; cvt.u64.u32 %d1, %x; ld.param.u64 %d2, [slots]; ld.param.u32 %r2, [mask];
      mul.wide.u32 %d3, %x, 4; add.u64 %d2, %d2, %d3; ld.global.u32 %r3, [%d2]; shl.b32 %r3, %r3, 4;
      ld.param.u32 %r6, [fixed]; setp.ne.u32 %p2, %r6, 0; mov.u32 %r7, tile; cvt.u64.u32 %d6, %r7;
      shr.u32 %r4, %r2, %x; and.b32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; cvt.u64.u32 %d4, %r3; ld.param.u64 %d5, [out];
      {"add.u64 %d4, %d4, %d5; mov.u64 %d6, %d5;" if space == "global" else "add.u64 %d4, %d4, %d6;"}
      @!%p1 bra done; @%p2 bra alike; st.{space}.{kind} [%d4], {value.get(kind, "%r1")}; bra done;
    alike: st.{space}.{kind} [%d6], {value.get(kind, "%r1")};
    done:
      bar.warp.sync 0xffffffff;
      {copy_out}""",
        ".param .u64 out, .param .u64 slots, .param .u32 mask, .param .u32 fixed",
    )
    t = np.arange(32)
    for mask in (0xFFFF_FFFF, 0x5A5A_5A50):
        for fixed, slots in [(1, t * 0), (0, t * 0), (0, t // 4), (0, t % 4), (0, t * 7 % 5), (0, 31 - t // 2)]:
            expected: dict[int, int] = {}
            for slot in set(slots.tolist()):
                lanes = [lane for lane in range(32) if slots[lane] == slot and mask >> lane & 1]
                if lanes:
                    expected[slot] = winner(lanes, size)
            for way in FEW:
                arrays, _ = run(text, (32, 1, 1), [np.zeros(128, U32), slots.astype(U32), mask, fixed], way)
                assert {slot: int(arrays[0][slot * 4]) for slot in expected} == expected, (mask, fixed, slots, way.name)


@pytest.mark.parametrize(
    "space,size", [("shared", 4 << 30), ("shared", 300_000), ("local", 1 << 40), ("local", 600_000)]
)
def test_variables_that_no_gpu_has_room_for_are_refused(space: str, size: int) -> None:
    text = entry(f"""
      .{space} .align 4 .b8 much[{size}]; mov.u64 %d1, much; add.u64 %d1, %d1, %wide; sub.u64 %d1, %d1, %out;
      st.{space}.u32 [%d1], %t; ld.{space}.u32 %r1, [%d1]; st.global.u32 [%wide], %r1; ret;""")
    with pytest.raises(PtxError) as error:
        compile_kernel(parse_module(HEADER + text), "k", CompileOptions(optimization=0, block_shape=(32, 1, 1)))
    assert error.value.code == "PTX-0301" and f"{space} variables" in error.value.message
