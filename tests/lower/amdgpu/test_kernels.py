"""Barriers, lanes, generic addresses, services and locks on emulated GPUs, against what the PTX manual says they give."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cuttle.abi.amdgpu_abi import AMDGPU_OUTPUT, RECORD_ASSERT, RECORD_PRINTF
from cuttle.lower.amdgpu.calls import argument_count
from tests.lower.amdgpu.kernels import HEADER, SPIN_LOCK
from tests.lower.amdgpu.launcher import TARGETS, Gpu, run

pytestmark = pytest.mark.parametrize("target", TARGETS)
SCHEDULES = ("lockstep", "serial", "reverse", "random:3")
LANES = np.arange(32)


def entry(body: str, *, before: str = "", inside: str = "") -> str:
    """A kernel `k(in, out)`; `%t` is the thread, `%in` and `%out` are moved on by 4 bytes per thread."""
    return (
        HEADER.replace("8.0", "8.6").replace("sm_80", "sm_90")
        + before
        + "\n.visible .entry k(.param .u64 pin, .param .u64 pout) {\n"
        + inside
        + ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>, %t; .reg .f32 %f<8>; .reg .b64 %a<16>, %in, %out;\n"
        + "ld.param.u64 %in, [pin]; ld.param.u64 %out, [pout]; mov.u32 %t, %tid.x;\n"
        + "mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 4, %out; ld.global.u32 %r0, [%in];\n"
        + body
        + "\nret;\n}\n"
    )


def launch(text: str, target: str, values: np.ndarray, count: int | None = None, **more: object) -> np.ndarray:
    """One block with a thread per value; `count` words of results."""
    out = np.zeros(count or len(values), np.uint32)
    arrays = [values.astype(np.uint32), out]
    return run(text, target, (len(values), 1, 1), arrays, **more)[1]  # type: ignore[arg-type]


# -- lanes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["bfly", "idx", "up", "down"])
def test_shuffles_by_constants(mode: str, target: str) -> None:
    """Every distance of the whole warp and of segments of 8: DPP, permlane and readlane against the manual's rule."""
    values = np.random.default_rng(1).integers(0, 1 << 32, 32, dtype=np.uint32)
    for clamp, width in ((0x1F if mode != "up" else 0, 32), (0x181F if mode != "up" else 0x1800, 8)):
        distances = range(0, width, 1 if width == 8 else 3)
        body = "".join(
            f"shfl.sync.{mode}.b32 %r1|%p0, %r0, {d}, {clamp}, -1; selp.u32 %r2, 1, 0, %p0;"
            f"st.global.u32 [%out+{256 * n}], %r1; st.global.u32 [%out+{256 * n + 128}], %r2;\n"
            for n, d in enumerate(distances)
        )
        got = launch(entry(body), target, values, 64 * len(distances)).reshape(-1, 2, 32)
        first = LANES // width * width
        for row, d in zip(got, distances, strict=True):
            source = {"bfly": LANES ^ d, "idx": first + d % width, "up": LANES - d, "down": LANES + d}[mode]
            valid = (source >= first) & (source < first + width)
            np.testing.assert_array_equal(row[0], values[np.where(valid, source, LANES)], err_msg=f"{mode} {d} {width}")
            np.testing.assert_array_equal(row[1], valid, err_msg=f"{mode} {d} {width}")


def test_shuffle_by_registers_and_wide_moves(target: str) -> None:
    body = (
        "and.b32 %r1, %r0, 31; shfl.sync.idx.b32 %r2, %r0, %r1, 31, -1; st.global.u32 [%out], %r2;\n"
        "match.any.sync.b32 %r3, %r1, -1; st.global.u32 [%out+128], %r3;\n"
        "redux.sync.add.s32 %r4, %r0, -1; st.global.u32 [%out+256], %r4; redux.sync.max.u32 %r5, %r0, 0x0000ffff;"
        "st.global.u32 [%out+384], %r5;"
    )
    values = np.random.default_rng(2).integers(0, 1 << 32, 32, dtype=np.uint32)
    got = launch(entry(body), target, values, 128).reshape(4, 32)
    low = values & 31
    np.testing.assert_array_equal(got[0], values[low])
    same = (low[:, None] == low[None, :]) @ (np.uint64(1) << LANES.astype(np.uint64))
    np.testing.assert_array_equal(got[1], same)
    np.testing.assert_array_equal(got[2], np.full(32, values.sum(dtype=np.uint32)))
    np.testing.assert_array_equal(got[3][:16], np.full(16, values[:16].max()))


def test_votes_under_divergence(target: str) -> None:
    body = (
        "and.b32 %r1, %r0, 1; setp.ne.u32 %p0, %r1, 0; and.b32 %r2, %r0, 2; setp.ne.u32 %p1, %r2, 0;\n"
        "mov.u32 %r9, 0; @!%p1 bra JOIN;\n"
        "activemask.b32 %r3; vote.sync.ballot.b32 %r4, %p0, %r3; xor.b32 %r9, %r3, %r4;\n"
        "JOIN: vote.sync.ballot.b32 %r5, %p0, -1; st.global.u32 [%out], %r9; st.global.u32 [%out+128], %r5;"
    )
    values = np.random.default_rng(3).integers(0, 4, 32)
    got = launch(entry(body), target, values, 64).reshape(2, 32)
    bits = np.uint64(1) << LANES.astype(np.uint64)
    inside, odd = int(bits[values & 2 != 0].sum()), int(bits[values & 1 != 0].sum())
    np.testing.assert_array_equal(got[0], np.where(values & 2, inside ^ (inside & odd), 0))
    np.testing.assert_array_equal(got[1], np.full(32, odd))


# -- barriers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_reductions_over_the_block(schedule: str, target: str) -> None:
    """Three kinds in a row, twice: the word they count in must be clear each time."""
    body = "setp.gt.u32 %p0, %r0, 2;\n" + "".join(
        f"bar.red.popc.u32 %r1, 0, %p0; bar.red.and.pred %p1, 0, %p0; bar.red.or.pred %p2, 0, {'!' if n else ''}%p0;\n"
        f"selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 2, 0, %p2; add.u32 %r2, %r2, %r3;\n"
        f"st.global.u32 [%out+{1024 * n}], %r1; st.global.u32 [%out+{1024 * n + 512}], %r2;\n"
        for n in (0, 1)
    )
    for values in (np.arange(128) % 7, np.full(128, 5), np.full(128, 1)):
        got = launch(entry(body), target, values, 512, schedule=schedule, check_waits=True).reshape(2, 2, 128)
        holds = values > 2
        for n in (0, 1):
            other = (~holds).any() if n else holds.any()
            np.testing.assert_array_equal(got[n, 0], np.full(128, holds.sum()))
            np.testing.assert_array_equal(got[n, 1], np.full(128, int(holds.all()) + 2 * int(other)))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_numbered_barriers_with_counts(schedule: str, target: str) -> None:
    """Two warps fill a buffer and arrive; two others wait for them; a plain barrier at the end."""
    body = (
        "mov.u32 %r1, buffer; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; setp.ge.u32 %p0, %t, 64; @%p0 bra READ;\n"
        "st.shared.u32 [%r3], %r0; bar.arrive 3, 128; bra DONE;\n"
        "READ: bar.sync 3, 128; sub.u32 %r4, %r3, 256; ld.shared.u32 %r5, [%r4]; st.global.u32 [%out], %r5;\n"
        "DONE: bar.sync 0; ld.shared.u32 %r6, [%r1+252]; st.global.u32 [%out+512], %r6;"
    )
    values = np.arange(128) + 1000
    text = entry(body, inside=".shared .align 4 .b8 buffer[256];\n")
    got = launch(text, target, values, 256, schedule=schedule, check_waits=True, instruction_limit=10_000_000)
    np.testing.assert_array_equal(got[64:128], values[:64])
    np.testing.assert_array_equal(got[128:], np.full(128, values[63]))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_that_left_are_not_awaited(schedule: str, target: str) -> None:
    body = (
        "setp.ge.u32 %p0, %t, 40; @%p0 ret; mov.u32 %r1, buffer; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2;\n"
        "st.shared.u32 [%r3], %r0; bar.sync 0; mov.u32 %r4, 156; sub.u32 %r4, %r4, %r2; add.u32 %r4, %r4, %r1;\n"
        "ld.shared.u32 %r5, [%r4]; st.global.u32 [%out], %r5;"
    )
    values = np.arange(96) * 3
    got = launch(entry(body, inside=".shared .align 4 .b8 buffer[160];\n"), target, values, schedule=schedule)
    np.testing.assert_array_equal(got, np.concatenate([values[:40][::-1], np.zeros(56)]))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lanes_that_take_a_lock_from_one_another(schedule: str, target: str) -> None:
    gpu = Gpu(SPIN_LOCK, target)
    lock, count = gpu.put(bytes(16)), gpu.put(bytes(16))
    gpu.launch("spin_lock", (2, 1, 1), (64, 1, 1), [lock, count], schedule=schedule, instruction_limit=20_000_000)
    assert gpu.get(count, np.zeros(1, np.uint32))[0] == 128


# -- memory ----------------------------------------------------------------------------------------------------------


def test_generic_addresses_of_unknown_space(target: str) -> None:
    """The address goes through memory, so that nothing is known of its space: shared, local and global behind one `ld`."""
    body = (
        "mov.u64 %a0, tile; cvta.shared.u64 %a0, %a0; mad.wide.u32 %a0, %t, 4, %a0; mov.u64 %a1, own; cvta.local.u64 %a1, %a1;\n"
        "add.u32 %r1, %r0, 100; add.u32 %r2, %r0, 200; st.u32 [%a0], %r1; st.u32 [%a1+4], %r2; add.u64 %a1, %a1, 4;\n"
        "rem.u32 %r3, %t, 3; setp.eq.u32 %p0, %r3, 0; setp.eq.u32 %p1, %r3, 1; mov.u64 %a2, %in;\n"
        "selp.b64 %a2, %a1, %a2, %p1; selp.b64 %a2, %a0, %a2, %p0; mad.wide.u32 %a3, %t, 4, %out; st.global.u64 [%a3+256], %a2;\n"
        "ld.volatile.global.u64 %a4, [%a3+256]; ld.u32 %r4, [%a4]; st.global.u32 [%out], %r4;\n"
        "isspacep.shared %p2, %a4; isspacep.local %p3, %a4; isspacep.global %p4, %a4; selp.u32 %r5, 1, 0, %p2;"
        "selp.u32 %r6, 2, 0, %p3; selp.u32 %r7, 4, 0, %p4; add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r7; st.global.u32 [%out+128], %r5;\n"
    )
    text = entry(body, inside=".shared .align 4 .b8 tile[128]; .local .align 8 .b8 own[16];\n")
    values = np.arange(32) * 11
    got = launch(text, target, values, 128)
    kind = LANES % 3
    np.testing.assert_array_equal(got[:32], values + np.array([100, 200, 0])[kind])
    np.testing.assert_array_equal(got[32:64], np.array([1, 2, 4])[kind])


def test_float_atomics(target: str) -> None:
    """Small integers, so that every order gives the same sum: f32, f64, f16x2, in shared and in global memory."""
    body = (
        "mov.u32 %r1, sums; setp.ne.u32 %p0, %t, 0; @!%p0 st.shared.u64 [%r1], 0; @!%p0 st.shared.u64 [%r1+8], 0; bar.sync 0;\n"
        "cvt.rn.f32.u32 %f0, %r0; cvt.f64.f32 %d0, %f0; cvt.rn.f16.f32 %h0, %f0; mov.b32 %r2, {%h0, %h0};\n"
        "red.shared.add.f32 [%r1], %f0; red.shared.add.f64 [%r1+8], %d0; ld.param.u64 %a0, [pout];\n"
        "red.global.add.noftz.f16x2 [%a0], %r2; red.global.add.f64 [%a0+8], %d0; red.global.add.f32 [%a0+4], %f0;\n"
        "atom.global.min.s32 %r3, [%a0+32], %r0; atom.global.inc.u32 %r4, [%a0+36], 20; bar.sync 0; @%p0 ret;\n"
        "ld.shared.u32 %r5, [%r1]; st.global.u32 [%a0+16], %r5; ld.shared.u64 %a1, [%r1+8]; st.global.u64 [%a0+24], %a1;"
    )
    text = entry(body, inside=".shared .align 8 .b8 sums[16]; .reg .f64 %d0;\n")
    values = np.arange(64) % 5
    got = launch(text, target, values, 64)
    total = float(values.sum())
    assert got[:1].view(np.float16).tolist() == [total, total]
    assert got[1:2].view(np.float32)[0] == total and got[2:4].view(np.float64)[0] == total
    assert got[4:5].view(np.float32)[0] == total and got[6:8].view(np.float64)[0] == total
    assert got[9] == 64 % 21


# -- services --------------------------------------------------------------------------------------------------------


def test_malloc_and_free(target: str) -> None:
    """Blocks do not overlap, freed ones come back, and 0 comes when the heap is used up."""
    declare = ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n"

    def allocate(register: str, size: str) -> str:
        return f"{{ .param .b64 n; .param .b64 r; st.param.b64 [n], {size}; call (r), malloc, (n); ld.param.b64 {register}, [r]; }}\n"

    body = (
        "cvt.u64.u32 %a0, %r0; " + allocate("%a1", "%a0") + "setp.eq.u64 %p0, %a1, 0; mov.u32 %r9, 0xffffffff; @%p0 bra END;\n"
        "st.u32 [%a1], %t; st.u32 [%a1+12], %t; bar.warp.sync -1; ld.u32 %r1, [%a1]; ld.u32 %r2, [%a1+12]; add.u32 %r9, %r1, %r2;\n"
        "{ .param .b64 p; st.param.b64 [p], %a1; call free, (p); }\n" + allocate("%a2", "24") + "setp.eq.u64 %p1, %a2, 0; @%p1 trap;\n"
        "END: st.global.u32 [%out], %r9;"
    )  # fmt: skip
    values = np.full(64, 20)
    values[5], values[6] = 0, 1 << 24
    gpu = Gpu(entry(body, before=declare), target, heap_bytes=1 << 14)
    source, result = gpu.put(values.astype(np.uint32)), gpu.put(np.zeros(64, np.uint32))
    gpu.launch("k", (1, 1, 1), (64, 1, 1), [source, result])
    assert gpu.fault()[0] == 0
    expected = 2 * np.arange(64)
    expected[5] = expected[6] = 0xFFFFFFFF
    np.testing.assert_array_equal(gpu.get(result, np.zeros(64, np.uint32)), expected)


PRINTF = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n.global .align 1 .b8 {name}[8] = {{37, 100, 32, 37, 37, 37, 102, 0}};\n"


@pytest.mark.parametrize("name", ["$str", "text"])
def test_printf_records(name: str, target: str) -> None:
    """`%d %%%f`: the records of a warp stand in lane order; the count is known from a literal, or found by the kernel."""
    body = (
        "mov.u64 %a0, own; cvta.local.u64 %a1, %a0; st.local.u32 [own], %r0; cvt.rn.f64.u32 %d0, %t; st.local.f64 [own+8], %d0;\n"
        f"mov.u64 %a2, {name}; cvta.global.u64 %a2, %a2;\n"
        "{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %a2; st.param.b64 [a], %a1; call (r), vprintf, (f, a);\n"
        "ld.param.b32 %r1, [r]; } st.global.u32 [%out], %r1;"
    )
    text = entry(body, before=PRINTF.format(name=name), inside=".local .align 8 .b8 own[16]; .reg .f64 %d0;\n")
    gpu = Gpu(text, target)
    values = np.arange(32, dtype=np.uint32) + 7
    source, result = gpu.put(values), gpu.put(np.zeros(32, np.uint32))
    gpu.launch("k", (1, 1, 1), (32, 1, 1), [source, result], output_bytes=30 * 32 + 8)
    raw = gpu.buffers[gpu.output]
    assert struct.unpack_from("<Q", raw, 8)[0] == 32 * 32, "what did not fit was reserved, too"
    for lane in range(30):
        size, kind, form, value, _, number = struct.unpack_from("<IIQIId", raw, AMDGPU_OUTPUT.bytes + 32 * lane)
        assert (size, kind, form, value, number) == (32, RECORD_PRINTF, gpu.variables[name], lane + 7, float(lane))
    np.testing.assert_array_equal(gpu.get(result, values), np.where(LANES < 30, 2, 0xFFFFFFFF).astype(np.uint32))


def test_counting_the_arguments_of_a_format(target: str) -> None:
    for form, count in ((b"", 0), (b"%%", 0), (b"%d%%%*.*f", 4), (b"%lld|%hhu %-5s", 3), (b"100%% %c", 1)):
        assert argument_count(form) == count


def test_traps_and_assertions_leave_a_fault(target: str) -> None:
    """The first fault stands in the output buffer with its place; other waves go on."""
    text = entry("setp.eq.u32 %p0, %r0, 9; @%p0 trap; st.global.u32 [%out], 1;")
    gpu = Gpu(text, target)
    values = np.arange(96, dtype=np.uint32) % 48
    source, result = gpu.put(values), gpu.put(np.zeros(96, np.uint32))
    gpu.launch("k", (1, 1, 1), (96, 1, 1), [source, result])
    kind, line, block, thread = gpu.fault()
    assert (kind, block, thread) == (3, (0, 0, 0), 9) or (kind, thread) == (3, 57)
    assert line == 1 + text[: text.index("trap;")].count("\n")
    done = gpu.get(result, values)
    assert done[64:].all(), "a wave without a fault goes on"

    declare = ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);\n"
    call = (
        "{ .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c; st.param.b64 [m], 4096; st.param.b64 [f], 8192;\n"
        "st.param.b32 [l], 77; st.param.b64 [n], 12288; st.param.b64 [c], 1; call __assertfail, (m, f, l, n, c); }"
    )
    gpu = Gpu(entry(f"setp.ne.u32 %p0, %r0, 9; @%p0 bra END;\n{call}\nEND:", before=declare), target)
    source, result = gpu.put(values[:32]), gpu.put(np.zeros(32, np.uint32))
    gpu.launch("k", (1, 1, 1), (32, 1, 1), [source, result])
    assert gpu.fault()[0] == 4
    record = struct.unpack_from("<IIQ6Q", gpu.buffers[gpu.output], AMDGPU_OUTPUT.bytes)
    assert record == (64, RECORD_ASSERT, 4096, 8192, 77, 12288, 9, 0, 0)


@pytest.mark.parametrize("schedule", ["lockstep", "reverse"])
def test_a_wave_waits_for_the_lane_that_waits(schedule: str, target: str) -> None:
    """Lane 0 spins on what the other wave sets last; the barrier of the warp, and the shuffle behind it, need that lane."""
    body = (
        "mov.u32 %r1, tile; and.b32 %r2, %t, 31; shl.b32 %r3, %r2, 2; add.u32 %r3, %r3, %r1; mov.u32 %r4, 5;\n"
        "setp.ne.u32 %p0, %t, 0; @%p0 bra READY; st.shared.u32 [%r1+128], 0;\n"
        "READY: bar.sync 0; setp.ge.u32 %p1, %t, 32; @%p1 bra SET; @%p0 bra ALL;\n"
        "WAIT: ld.volatile.shared.u32 %r4, [%r1+128]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT;\n"
        "ALL: bar.warp.sync -1; ld.volatile.shared.u32 %r5, [%r3]; shfl.sync.idx.b32 %r6, %r4, 0, 31, -1;\n"
        "add.u32 %r5, %r5, %r6; st.global.u32 [%out], %r5; bra DONE;\n"
        "SET: st.shared.u32 [%r3], %r0; fence.acq_rel.cta; bar.warp.sync -1; setp.ne.u32 %p3, %t, 32; @%p3 bra DONE;\n"
        "st.volatile.shared.u32 [%r1+128], 1000;\nDONE:"
    )
    values = np.arange(64) + 7
    text = entry(body, inside=".shared .align 4 .b8 tile[132];\n")
    got = launch(text, target, values, 64, schedule=schedule, instruction_limit=10_000_000)
    np.testing.assert_array_equal(got[:32], values[32:] + 1000)


def test_barriers_of_the_warp_in_both_branches_meet(target: str) -> None:
    body = (
        "mov.u32 %r1, tile; shl.b32 %r3, %t, 2; xor.b32 %r4, %r3, 64; add.u32 %r3, %r3, %r1; add.u32 %r4, %r4, %r1;\n"
        "setp.lt.u32 %p0, %t, 16; @%p0 bra ONE;\n"
        "st.shared.u32 [%r3], %r0; bar.warp.sync -1; ld.shared.u32 %r5, [%r4]; bra DONE;\n"
        "ONE: add.u32 %r0, %r0, 500; st.shared.u32 [%r3], %r0; bar.warp.sync -1; ld.shared.u32 %r5, [%r4];\n"
        "DONE: st.global.u32 [%out], %r5;"
    )
    values = np.arange(32) + 7
    got = launch(entry(body, inside=".shared .align 4 .b8 tile[128];\n"), target, values, 32)
    np.testing.assert_array_equal(got, (LANES ^ 16) + 7 + np.where(LANES >= 16, 500, 0))
