"""Compiled kernels on the emulated GPUs, against NumPy, in all schedules; and what must be caught."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from cuttle.device.rdna.errors import IllegalAddress, LaunchError, MissingWait, NoProgress, Trap
from tests.device.rdna.kernels import INDEX, TARGETS, Gpu, elementwise, run_elementwise

SCHEDULES = ("lockstep", "serial", "reverse", "random:1", "random:2")
pytestmark = pytest.mark.parametrize("target", TARGETS)

SAXPY = f"""
declare float @llvm.fma.f32(float, float, float)
define amdgpu_kernel void @saxpy(i32 %n, float %a, ptr addrspace(1) %x, ptr addrspace(1) %y) {{
{INDEX}
  %inside = icmp ult i32 %i, %n
  br i1 %inside, label %work, label %end
work:
  %px = getelementptr float, ptr addrspace(1) %x, i64 %i64
  %py = getelementptr float, ptr addrspace(1) %y, i64 %i64
  %vx = load float, ptr addrspace(1) %px
  %vy = load float, ptr addrspace(1) %py
  %r = call float @llvm.fma.f32(float %a, float %vx, float %vy)
  store float %r, ptr addrspace(1) %py
  br label %end
end:
  ret void
}}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_saxpy(target: str, schedule: str) -> None:
    gpu, count = Gpu(SAXPY, target), 1000
    random = np.random.default_rng(1)
    x, y = (random.normal(size=count).astype(np.float32) for _ in range(2))
    px, py = gpu.buffer(x), gpu.buffer(y)
    report = gpu.run(
        "saxpy",
        np.int32(count),
        np.float32(2.5),
        px,
        py,
        grid=(4, 1, 1),
        block=(256, 1, 1),
        schedule=schedule,
        check_waits=True,
    )
    assert (gpu.array(py, count, np.float32) == (2.5 * x.astype(np.float64) + y).astype(np.float32)).all()
    assert report.lane_instructions >= 20 * 1024


def test_an_index_beyond_the_buffer_is_caught(target: str) -> None:
    gpu = Gpu(SAXPY, target)
    px, py = gpu.buffer(np.zeros(100, np.float32)), gpu.buffer(np.zeros(100, np.float32))
    gpu.run("saxpy", np.int32(100), np.float32(1), px, py, grid=(1, 1, 1), block=(128, 1, 1))
    with pytest.raises(IllegalAddress, match=r"not allocated \(group 0, wave 3, lane 4\)") as caught:
        gpu.run("saxpy", np.int32(101), np.float32(1), px, py, grid=(1, 1, 1), block=(128, 1, 1))
    assert re.search(r"global_load_b32 v\d+, v", str(caught.value.where)) and "saxpy" in str(caught.value.where)


def test_a_wrong_hidden_argument_gives_a_wrong_result(target: str) -> None:
    """The kernel takes its group size from the hidden arguments at the place that the metadata names."""
    wrong = SAXPY.replace("i64 12\n", "i64 0\n")  # the block count instead of the group size
    assert wrong != SAXPY
    gpu, x = Gpu(wrong, target), np.ones(512, np.float32)
    px, py = gpu.buffer(x), gpu.buffer(x)
    gpu.run("saxpy", np.int32(512), np.float32(1), px, py, grid=(2, 1, 1), block=(256, 1, 1))
    assert not (gpu.array(py, 512, np.float32) == 2).all()


TILE = 8
MATMUL = f"""
@a = internal addrspace(3) global [{TILE * TILE} x float] poison, align 16
@b = internal addrspace(3) global [{TILE * TILE} x float] poison, align 16
declare float @llvm.fma.f32(float, float, float)
define amdgpu_kernel void @matmul(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %out, i32 %n)
  "amdgpu-flat-work-group-size"="64,64" {{
entry:
  %tx = call i32 @llvm.amdgcn.workitem.id.x()
  %ty = call i32 @llvm.amdgcn.workitem.id.y()
  %gx = call i32 @llvm.amdgcn.workgroup.id.x()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %c0 = mul i32 %gx, {TILE}
  %column = add i32 %c0, %tx
  %r0 = mul i32 %gy, {TILE}
  %row = add i32 %r0, %ty
  %own0 = mul i32 %ty, {TILE}
  %own = add i32 %own0, %tx
  %pa = getelementptr float, ptr addrspace(3) @a, i32 %own
  %pb = getelementptr float, ptr addrspace(3) @b, i32 %own
  br label %loop
loop:
  %t = phi i32 [ 0, %entry ], [ %t.next, %next ]
  %sum = phi float [ 0.0, %entry ], [ %inner.sum, %next ]
  %rn = mul i32 %row, %n
  %ta = add i32 %rn, %t
  %xi = add i32 %ta, %tx
  %tb = add i32 %t, %ty
  %tn = mul i32 %tb, %n
  %yi = add i32 %tn, %column
  %px = getelementptr float, ptr addrspace(1) %x, i32 %xi
  %py = getelementptr float, ptr addrspace(1) %y, i32 %yi
  %vx = load float, ptr addrspace(1) %px
  %vy = load float, ptr addrspace(1) %py
  store float %vx, ptr addrspace(3) %pa
  store float %vy, ptr addrspace(3) %pb
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br label %inner
inner:
  %k = phi i32 [ 0, %loop ], [ %k.next, %inner ]
  %s = phi float [ %sum, %loop ], [ %inner.sum, %inner ]
  %ai = add i32 %own0, %k
  %bi0 = mul i32 %k, {TILE}
  %bi = add i32 %bi0, %tx
  %qa = getelementptr float, ptr addrspace(3) @a, i32 %ai
  %qb = getelementptr float, ptr addrspace(3) @b, i32 %bi
  %va = load float, ptr addrspace(3) %qa
  %vb = load float, ptr addrspace(3) %qb
  %inner.sum = call float @llvm.fma.f32(float %va, float %vb, float %s)
  %k.next = add i32 %k, 1
  %more = icmp ult i32 %k.next, {TILE}
  br i1 %more, label %inner, label %next
next:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %t.next = add i32 %t, {TILE}
  %again = icmp ult i32 %t.next, %n
  br i1 %again, label %loop, label %end
end:
  %oi0 = mul i32 %row, %n
  %oi = add i32 %oi0, %column
  %po = getelementptr float, ptr addrspace(1) %out, i32 %oi
  store float %inner.sum, ptr addrspace(1) %po
  ret void
}}
"""


def _matmul(text: str, target: str, schedule: str, n: int = 32) -> bool:
    gpu, random = Gpu(text, target), np.random.default_rng(2)
    x, y = (random.integers(-9, 9, (n, n)).astype(np.float32) for _ in range(2))
    px, py, out = gpu.buffer(x), gpu.buffer(y), gpu.buffer(np.zeros((n, n), np.float32))
    gpu.run(
        "matmul",
        px,
        py,
        out,
        np.int32(n),
        grid=(n // TILE, n // TILE, 1),
        block=(TILE, TILE, 1),
        schedule=schedule,
        check_waits=True,
    )
    return bool((gpu.array(out, n * n, np.float32).reshape(n, n) == x @ y).all())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tiled_matrix_product(target: str, schedule: str) -> None:
    assert _matmul(MATMUL, target, schedule)


def test_removed_barriers_are_seen_by_the_other_schedules(target: str) -> None:
    without = MATMUL.replace("call void @llvm.amdgcn.s.barrier()", "")
    assert not all(_matmul(without, target, schedule) for schedule in SCHEDULES[1:])


REDUCE = f"""
@partial = internal addrspace(3) global [32 x i32] poison, align 4
declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)
define amdgpu_kernel void @reduce(ptr addrspace(1) %x, ptr addrspace(1) %out) {{
{INDEX}
  %px = getelementptr i32, ptr addrspace(1) %x, i64 %i64
  %v = load i32, ptr addrspace(1) %px
  %d1 = call i32 @llvm.amdgcn.update.dpp.i32(i32 0, i32 %v, i32 177, i32 15, i32 15, i1 true)
  %s1 = add i32 %v, %d1
  %d2 = call i32 @llvm.amdgcn.update.dpp.i32(i32 0, i32 %s1, i32 78, i32 15, i32 15, i1 true)
  %s2 = add i32 %s1, %d2
  %d4 = call i32 @llvm.amdgcn.update.dpp.i32(i32 0, i32 %s2, i32 321, i32 15, i32 15, i1 true)
  %s4 = add i32 %s2, %d4
  %d8 = call i32 @llvm.amdgcn.update.dpp.i32(i32 0, i32 %s4, i32 320, i32 15, i32 15, i1 true)
  %s8 = add i32 %s4, %d8
  %lane = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)
  %other = xor i32 %lane, 16
  %at = shl i32 %other, 2
  %d16 = call i32 @llvm.amdgcn.ds.bpermute(i32 %at, i32 %s8)
  %s16 = add i32 %s8, %d16
  %wave = lshr i32 %tid, 5
  %slot = getelementptr i32, ptr addrspace(3) @partial, i32 %wave
  store i32 %s16, ptr addrspace(3) %slot
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %sum, label %end
sum:
  %waves = lshr i32 %size, 5
  br label %loop
loop:
  %k = phi i32 [ 0, %sum ], [ %k1, %loop ]
  %total = phi i32 [ 0, %sum ], [ %total1, %loop ]
  %ps = getelementptr i32, ptr addrspace(3) @partial, i32 %k
  %p = load i32, ptr addrspace(3) %ps
  %total1 = add i32 %total, %p
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, %waves
  br i1 %more, label %loop, label %done
done:
  %old = atomicrmw add ptr addrspace(1) %out, i32 %total1 syncscope("agent") monotonic
  br label %end
end:
  ret void
}}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_reduction_across_lanes_waves_and_groups(target: str, schedule: str) -> None:
    gpu, x = Gpu(REDUCE, target), np.random.default_rng(3).integers(0, 1 << 32, 2048, np.uint32)
    out = gpu.buffer(np.zeros(1, np.uint32))
    gpu.run("reduce", gpu.buffer(x), out, grid=(8, 1, 1), block=(256, 1, 1), schedule=schedule, check_waits=True)
    assert gpu.array(out, 1, np.uint32)[0] == x.sum(dtype=np.uint32)


@pytest.mark.parametrize(
    ("operation", "kind", "dtype", "expected"),
    [
        ("add", "i32", np.uint32, lambda v: v.sum(dtype=np.uint32)),
        ("sub", "i32", np.uint32, lambda v: (-v.astype(np.int64).sum()) % 2**32),
        ("umax", "i32", np.uint32, np.max),
        ("min", "i32", np.int32, lambda v: min(0, v.min())),
        ("xor", "i64", np.uint64, np.bitwise_xor.reduce),
        ("add", "i64", np.uint64, lambda v: v.sum(dtype=np.uint64)),
        ("or", "i64", np.uint64, np.bitwise_or.reduce),
        ("nand", "i32", np.uint32, None),
        ("uinc_wrap", "i32", np.uint32, None),
        ("fadd", "float", np.float32, lambda v: v.sum(dtype=np.float64)),
        ("fadd", "double", np.float64, np.sum),
        ("fmax", "float", np.float32, lambda v: max(0, v.max())),
    ],
)
def test_atomics_of_many_lanes_on_one_address(
    target: str, operation: str, kind: str, dtype: Any, expected: Any
) -> None:
    text = elementwise(
        "k", kind, (kind,),
        f"  %r = atomicrmw {operation} ptr addrspace(1) %cell, {kind} %x0 syncscope(\"agent\") monotonic, !amdgpu.no.fine.grained.memory !9, !amdgpu.no.remote.memory !9"
    ).replace("(ptr addrspace(1) %out,", "(ptr addrspace(1) %out, ptr addrspace(1) %cell,") + "!9 = !{}\n"  # fmt: skip
    gpu, random = Gpu(text, target), np.random.default_rng(4)
    values = random.integers(0, 100, 128).astype(dtype)
    cell, out = gpu.buffer(np.zeros(1, dtype)), gpu.buffer(np.zeros(128, dtype))
    gpu.run("k", out, cell, gpu.buffer(values), grid=(2, 1, 1), block=(64, 1, 1), check_waits=True)
    final, old = gpu.array(cell, 1, dtype)[0], gpu.array(out, 128, dtype)
    if expected is not None:
        assert final == expected(values)
    # Old values and operands must chain in some order from 0 to the final value: each step's result is another's old value.
    step = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "umax": np.maximum, "min": np.minimum, "xor": lambda a, b: a ^ b,
        "or": lambda a, b: a | b, "nand": lambda a, b: ~(a & b), "uinc_wrap": lambda a, b: np.where(a >= b, 0, a + 1).astype(dtype),
        "fadd": lambda a, b: a + b, "fmax": np.maximum,
    }[operation]  # fmt: skip
    assert sorted([*old.tolist(), final.item()]) == sorted([0, *np.asarray(step(old, values)).tolist()])


CALLS = f"""
@table = internal addrspace(4) constant [2 x ptr] [ptr @twice, ptr @square]
@scale = addrspace(1) global i32 7
define internal i32 @twice(i32 %x) noinline {{
  %r = shl i32 %x, 1
  ret i32 %r
}}
define internal i32 @square(i32 %x) noinline {{
  %r = mul i32 %x, %x
  ret i32 %r
}}
define internal i32 @fibonacci(i32 %n) noinline {{
  %small = icmp ult i32 %n, 2
  br i1 %small, label %end, label %more
more:
  %a = sub i32 %n, 1
  %b = sub i32 %n, 2
  %fa = call i32 @fibonacci(i32 %a)
  %fb = call i32 @fibonacci(i32 %b)
  %s = add i32 %fa, %fb
  ret i32 %s
end:
  ret i32 %n
}}
define amdgpu_kernel void @calls(ptr addrspace(1) %out) {{
{INDEX}
  %odd = and i32 %i, 1
  %slot = getelementptr [2 x ptr], ptr addrspace(4) @table, i32 0, i32 %odd
  %f = load ptr, ptr addrspace(4) %slot
  %called = call i32 %f(i32 %i)
  %n = and i32 %i, 7
  %fib = call i32 @fibonacci(i32 %n)
  %private = alloca [16 x i32], addrspace(5)
  %k = and i32 %i, 15
  %p = getelementptr [16 x i32], ptr addrspace(5) %private, i32 0, i32 %k
  store volatile i32 %fib, ptr addrspace(5) %p
  %flat = addrspacecast ptr addrspace(5) %p to ptr
  %back = load volatile i32, ptr %flat
  %seven = load i32, ptr addrspace(1) @scale
  %scaled = mul i32 %back, %seven
  %r = add i32 %called, %scaled
  %o = getelementptr i32, ptr addrspace(1) %out, i64 %i64
  store i32 %r, ptr addrspace(1) %o
  ret void
}}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_calls_recursion_scratch_and_module_variables(target: str, schedule: str) -> None:
    gpu = Gpu(CALLS, target)
    out = gpu.buffer(np.zeros(128, np.uint32))
    gpu.run("calls", out, grid=(2, 1, 1), block=(64, 1, 1), schedule=schedule, stack_bytes=16384, check_waits=True)
    i = np.arange(128, dtype=np.uint32)
    fibonacci = np.array([0, 1, 1, 2, 3, 5, 8, 13], np.uint32)[i & 7]
    assert (gpu.array(out, 128, np.uint32) == np.where(i & 1, i * i, 2 * i) + 7 * fibonacci).all()


def test_a_stack_that_is_too_small_is_caught(target: str) -> None:
    gpu = Gpu(CALLS, target)
    with pytest.raises(IllegalAddress, match="scratch"):
        gpu.run("calls", gpu.buffer(np.zeros(64, np.uint32)), block=(64, 1, 1), stack_bytes=64)


DYNAMIC = f"""
@room = external addrspace(3) global [0 x i32], align 4
define amdgpu_kernel void @mirror(ptr addrspace(1) %out) {{
{INDEX}
  %p = getelementptr i32, ptr addrspace(3) @room, i32 %tid
  store i32 %i, ptr addrspace(3) %p
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %last = sub i32 %size, 1
  %there = sub i32 %last, %tid
  %q = getelementptr i32, ptr addrspace(3) @room, i32 %there
  %r = load i32, ptr addrspace(3) %q
  %o = getelementptr i32, ptr addrspace(1) %out, i64 %i64
  store i32 %r, ptr addrspace(1) %o
  ret void
}}
"""


def test_dynamic_lds(target: str) -> None:
    gpu = Gpu(DYNAMIC, target)
    out = gpu.buffer(np.zeros(400, np.uint32))
    gpu.run("mirror", out, grid=(4, 1, 1), block=(100, 1, 1), dynamic_lds_bytes=400, check_waits=True)
    assert (gpu.array(out, 400, np.uint32).reshape(4, 100) == np.arange(400).reshape(4, 100)[:, ::-1]).all()
    with pytest.raises(IllegalAddress, match="LDS of 396 bytes"):
        gpu.run("mirror", out, grid=(4, 1, 1), block=(100, 1, 1), dynamic_lds_bytes=396)
    with pytest.raises(LaunchError, match="LDS"):
        gpu.run("mirror", out, dynamic_lds_bytes=65540)


SPIN = f"""
define amdgpu_kernel void @spin(ptr addrspace(1) %flag) {{
{INDEX}
  %first = icmp eq i32 %gid, 0
  br i1 %first, label %wait, label %set
set:
  store atomic i32 1, ptr addrspace(1) %flag syncscope("agent") release, align 4
  ret void
wait:
  %v = load atomic i32, ptr addrspace(1) %flag syncscope("agent") acquire, align 4
  %go = icmp eq i32 %v, 1
  br i1 %go, label %end, label %wait
end:
  ret void
}}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_waves_that_spin_give_way(target: str, schedule: str) -> None:
    """Group 0 waits for group 1."""
    gpu = Gpu(SPIN, target)
    gpu.run("spin", gpu.buffer(np.zeros(1, np.uint32)), grid=(2, 1, 1), schedule=schedule, instruction_limit=10**6)


def test_endless_loops_end_at_the_limit(target: str) -> None:
    gpu = Gpu(SPIN, target)
    with pytest.raises(NoProgress, match="100000 instructions"):
        gpu.run("spin", gpu.buffer(np.zeros(1, np.uint32)), instruction_limit=100_000)


def test_a_barrier_that_not_all_waves_reach_is_passed_when_the_others_have_ended_else_caught(target: str) -> None:
    text = f"""
define amdgpu_kernel void @part(ptr addrspace(1) %flag) {{
{INDEX}
  %wave = lshr i32 %tid, 5
  %first = icmp eq i32 %wave, 0
  br i1 %first, label %sync, label %end
sync:
  call void @llvm.amdgcn.s.barrier()
  br label %end
end:
  ret void
}}
"""
    Gpu(text, target).run("part", 0, block=(96, 1, 1))


def test_trap(target: str) -> None:
    text = "declare void @llvm.trap() noreturn\ndefine amdgpu_kernel void @k() {\n  call void @llvm.trap()\n  unreachable\n}\n"
    with pytest.raises(Trap) as caught:
        Gpu(text, target).run("k")
    assert caught.value.number == 2


def test_wave_operations_under_divergence(target: str) -> None:
    declarations = """
declare i32 @llvm.amdgcn.ballot.i32(i1)
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
"""
    body = """
  %bit = and i32 %x0, 1
  %odd = icmp eq i32 %bit, 1
  br i1 %odd, label %yes, label %no
yes:
  %big = icmp ugt i32 %x0, 100
  %b1 = call i32 @llvm.amdgcn.ballot.i32(i1 %big)
  br label %join
no:
  %f = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %x0)
  br label %join
join:
  %r = phi i32 [ %b1, %yes ], [ %f, %no ]"""
    x = np.random.default_rng(5).integers(0, 200, 128).astype(np.uint32)
    got = run_elementwise(
        elementwise("k", "i32", ("i32",), body, declarations), "k", target, np.uint32, x, check_waits=True
    )
    for wave in range(4):
        lanes = x[32 * wave : 32 * wave + 32]
        odd = lanes % 2 == 1
        ballot = sum(1 << n for n in range(32) if odd[n] and lanes[n] > 100)
        first = lanes[~odd][0]
        assert (got[32 * wave : 32 * wave + 32] == np.where(odd, ballot, first)).all()


def test_missing_waits_are_caught(target: str) -> None:
    """The code with all waits made no-ops gives the same results here, and is refused by the check."""
    gpu = Gpu(SAXPY, target)
    x = np.ones(64, np.float32)
    arguments = (np.int32(64), np.float32(1), gpu.buffer(x), gpu.buffer(x))
    gpu.run("saxpy", *arguments, block=(64, 1, 1), check_waits=True)
    start, size = gpu.program.symbol("saxpy")
    region = gpu.memory.region_at(start)
    words = region.bytes[start - region.base : start - region.base + size].view(np.uint32)
    waits = (words >> 16 == 0xBF89) | ((words >> 16 >= 0xBFC0) & (words >> 16 <= 0xBFC9))
    assert waits.any()
    words[waits] = 0xBF800000  # s_nop 0
    fresh = Gpu(SAXPY, target)
    there, _ = fresh.program.symbol("saxpy")
    target_region = fresh.memory.region_at(there)
    target_region.bytes[there - target_region.base : there - target_region.base + size] = words.view(np.uint8)
    arguments = (np.int32(64), np.float32(1), fresh.buffer(x), fresh.buffer(x))
    fresh.run("saxpy", *arguments, block=(64, 1, 1))
    with pytest.raises(MissingWait, match="is used before"):
        fresh.run("saxpy", *arguments, block=(64, 1, 1), check_waits=True)


@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_quotients_and_roots_are_correctly_rounded(target: str, kind: str, dtype: Any) -> None:
    """LLVM's sequences of v_div_scale, v_rcp, v_fma, v_div_fmas, v_div_fixup, and of v_sqrt or v_rsq with corrections."""
    random = np.random.default_rng(6)
    unsigned = {4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
    a, b = (random.integers(0, np.iinfo(unsigned).max, 1 << 14, unsigned).view(dtype) for _ in range(2))
    info = np.finfo(dtype)
    edges = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        3,
        info.tiny,
        -info.tiny * 1.5,
        info.max,
        info.smallest_subnormal,
        2.0**126,
        2.0**127,
    ]
    grid = np.array(np.meshgrid(edges, edges)).reshape(2, -1).astype(dtype)
    a[: grid.shape[1]], b[: grid.shape[1]] = grid
    suffix = "f32" if kind == "float" else "f64"
    root = f"declare {kind} @llvm.sqrt.{suffix}({kind})"
    with np.errstate(all="ignore"):
        pairs = [
            (run_elementwise(elementwise("k", kind, (kind, kind), f"  %r = fdiv {kind} %x0, %x1"), "k", target, dtype, a, b), a / b),
            (run_elementwise(elementwise("k", kind, (kind,), f"  %r = call {kind} @llvm.sqrt.{suffix}({kind} %x0)", root), "k", target, dtype, a), np.sqrt(a)),
        ]  # fmt: skip
    for got, want in pairs:
        assert ((got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))).all()
