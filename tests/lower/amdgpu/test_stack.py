"""`alloca` on emulated AMD GPUs: what it takes, and its end."""

from __future__ import annotations

import numpy as np
import pytest

from cuttle.lower.amdgpu.machine import STACK_FAULT
from cuttle.lower.amdgpu.options import AmdgpuOptions
from tests.lower.amdgpu.kernels import HEADER
from tests.lower.amdgpu.launcher import TARGETS, Gpu

LIMIT = AmdgpuOptions("gfx1100").stack_bytes
# Each lane takes as many bytes as its word says, fills the first and the last one, and leaves their sum.
TAKE = HEADER.replace("sm_80", "sm_90").replace("8.0", "8.6") + (
    ".visible .entry k(.param .u64 p) { .reg .b64 %d<6>; .reg .b32 %r<4>; ld.param.u64 %d0, [p]; mov.u32 %r0, %tid.x;\n"
    "mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1; ld.global.u32 %r1, [%d0]; cvt.u64.u32 %d2, %r1;\n"
    "alloca.u64 %d3, %d2; add.u64 %d4, %d3, %d2; st.local.u32 [%d3], %r0; st.local.u32 [%d4+-4], %r1;\n"
    "ld.local.u32 %r2, [%d3]; ld.local.u32 %r3, [%d4+-4]; add.u32 %r2, %r2, %r3; st.global.u32 [%d0], %r2; ret; }"
)


def launch(sizes: np.ndarray, target: str) -> tuple[Gpu, int]:
    gpu = Gpu(TAKE, target)
    place = gpu.put(sizes)
    gpu.launch("k", (1, 1, 1), (len(sizes), 1, 1), [place])
    return gpu, place


@pytest.mark.parametrize("target", TARGETS)
def test_lanes_take_different_sizes_up_to_the_limit(target: str) -> None:
    sizes = np.linspace(8, LIMIT, 64).astype(np.uint32) & ~np.uint32(7)
    gpu, place = launch(sizes, target)
    assert gpu.fault()[0] == 0
    assert (gpu.get(place, sizes) == sizes + np.arange(64, dtype=np.uint32)).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [LIMIT + 8, 0xFFFFFFF8])
def test_more_than_there_is_is_a_stack_fault(size: int, target: str) -> None:
    sizes = np.full(32, 16, np.uint32)
    sizes[7] = size
    gpu, _ = launch(sizes, target)
    kind, line, block, thread = gpu.fault()
    assert (kind, block, thread) == (STACK_FAULT, (0, 0, 0), 7)
    assert line > 0
