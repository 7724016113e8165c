"""How fast the RDNA emulator is: `python bench/rdna_emulator.py`. Prints one line a kernel and target; the best of three runs each.

Lane-instructions are instructions times 32 for each wave that executes them. The kernels are PTX, compiled as for a card.
"""

from __future__ import annotations

import time
from struct import pack

import numpy as np

from cuttle.abi.amdgpu_abi import AMDGPU_LAUNCH
from cuttle.device.rdna.code_object import CodeObject
from cuttle.device.rdna.memory import Memory
from cuttle.device.rdna.program import load
from cuttle.lower.amdgpu.compile_kernel import compile_kernel
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.ptx.parser import parse_module

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
INDEX = """
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
"""
SAXPY = f"""{HEAD}
.visible .entry saxpy(.param .u64 x, .param .u64 y) {{
  .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y];{INDEX}
  mul.wide.u32 %d4, %r5, 4; add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4;
  ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d2];
  fma.rn.f32 %f3, %f1, 0f40200000, %f2;
  st.global.f32 [%d2], %f3;
  ret;
}}
"""
REDUCE = f"""{HEAD}
.visible .entry reduce(.param .u64 x, .param .u64 y) {{
  .reg .pred %p; .reg .b32 %r<16>; .reg .b64 %d<8>;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y];{INDEX}
  mul.wide.u32 %d4, %r5, 4; add.u64 %d1, %d1, %d4;
  ld.global.u32 %r6, [%d1];
  shfl.sync.bfly.b32 %r7, %r6, 16, 31, -1; add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7, %r6, 8, 31, -1; add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7, %r6, 4, 31, -1; add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7, %r6, 2, 31, -1; add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1; add.u32 %r6, %r6, %r7;
  and.b32 %r8, %r4, 31; setp.ne.u32 %p, %r8, 0;
  @%p bra DONE;
  red.global.add.u32 [%d2], %r6;
DONE:
  ret;
}}
"""
LOOP = f"""{HEAD}
.visible .entry iterate(.param .u64 x, .param .u64 y) {{
  .reg .pred %p; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .f32 %f<8>;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y];{INDEX}
  mul.wide.u32 %d4, %r5, 4; add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4;
  ld.global.f32 %f1, [%d1]; mov.f32 %f2, 0f00000000; mov.u32 %r6, 0;
  and.b32 %r7, %r5, 127;
AGAIN:
  fma.rn.f32 %f2, %f2, %f1, %f1;
  add.u32 %r6, %r6, 1; setp.le.u32 %p, %r6, %r7;
  @%p bra AGAIN;
  st.global.f32 [%d2], %f2;
  ret;
}}
"""
KERNELS = (("saxpy", SAXPY, 1 << 20), ("reduce", REDUCE, 1 << 20), ("iterate", LOOP, 1 << 17))
LAUNCH_RECORD = b"\0" * 32 + pack("<4Q", 1, 0, 0, 0)


def measure(target: str, name: str, text: str, threads: int) -> tuple[float, float, float]:
    """(seconds, million lane-instructions per second, million threads per second)."""
    compiled = compile_kernel(parse_module(text.encode()), name, AmdgpuOptions(target))
    assert len(LAUNCH_RECORD) == AMDGPU_LAUNCH.bytes
    memory = Memory()
    program = load(CodeObject.parse(compiled.code_object), memory)
    x, y = memory.allocate(4 * threads), memory.allocate(4 * threads)
    memory.write(x, np.random.default_rng(1).random(threads, np.float32).tobytes())
    kernarg = pack("<QQ", x, y) + LAUNCH_RECORD
    best = (1e9, 0.0, 0.0)
    for _ in range(3):
        start = time.perf_counter()
        report = program.run(name, kernarg, (threads // 256, 1, 1), (256, 1, 1))
        seconds = time.perf_counter() - start
        best = min(best, (seconds, report.lane_instructions / seconds / 1e6, threads / seconds / 1e6))
    return best


def main() -> None:
    for target in ("gfx1100", "gfx1200"):
        for name, text, threads in KERNELS:
            seconds, instructions, rate = measure(target, name, text, threads)
            print(
                f"{target}  {name:8}  {threads:8} threads  {seconds:6.3f} s  {instructions:6.0f} M lane-instructions/s  {rate:6.2f} M threads/s"
            )


if __name__ == "__main__":
    main()
