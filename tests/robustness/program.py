"""What the programs of these tests have in common: they are Python texts that call the driver through ctypes."""

from __future__ import annotations

import ctypes
import os
import sys
import time

from tests.client.driver import Driver, DriverError

__all__ = [
    "ADDRESS",
    "Driver",
    "DriverError",
    "HEAD",
    "KERNELS",
    "Program",
    "ctypes",
    "os",
    "say",
    "slow_kernel",
    "sys",
    "time",
]

ADDRESS = ctypes.c_void_p
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNELS = """
.visible .entry good(.param .u64 out)
{
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    st.global.u64 [%rd1], 77;
    ret;
}
.visible .entry endless(.param .u64 out)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    .reg .pred %p;
    ld.param.u64 %rd1, [out];
again:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.ne.u32 %p, %r1, 12345;
    @%p bra again;
    ret;
}
.visible .entry stub(.param .u64 out) { trap; }
.extern .func missing();
.visible .entry lost(.param .u64 out)
{
    call missing;
    ret;
}
"""


def slow_kernel(steps: int = 12000) -> str:
    """A kernel that takes the compiler many seconds."""
    lines = [
        f".visible .entry slow(.param .u64 out) {{ .reg .b64 %rd<3>; .reg .f32 %f<{steps + 2}>; .reg .pred %p<{steps + 1}>;",
        "ld.param.u64 %rd1, [out]; ld.global.f32 %f0, [%rd1];",
    ]
    for i in range(steps):
        lines.append(f"fma.rn.f32 %f{i + 1}, %f{i}, %f{max(i - 7, 0)}, %f{max(i - 3, 0)};")
        lines.append(f"setp.gt.f32 %p{i}, %f{i + 1}, 0f3F800000; @%p{i} bra L{i};")
        lines.append(f"add.f32 %f{i + 1}, %f{i + 1}, %f{max(i - 5, 0)}; L{i}:")
    return "\n".join([*lines, f"st.global.f32 [%rd1], %f{steps}; ret; }}\n"])


class Program:
    """A connection, a module, some memory."""

    def __init__(self, text: str = KERNELS) -> None:
        self.driver = Driver("libcuda.so.1")  # type: ignore[arg-type]
        self.driver.cuInit(0)
        context = self.driver.get("cuDevicePrimaryCtxRetain", ADDRESS, 0)
        self.driver.cuCtxSetCurrent(ADDRESS(context))
        self.module = self.load(text) if text else 0
        self.memory = self.allocate(4096)
        self.driver.cuMemsetD8_v2(ctypes.c_uint64(self.memory), 0, ctypes.c_size_t(4096))

    def load(self, text: str) -> int:
        return int(self.driver.get("cuModuleLoadData", ADDRESS, ctypes.create_string_buffer((HEAD + text).encode())))

    def allocate(self, size: int) -> int:
        return int(self.driver.get("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(size)))

    def launch(self, kernel: str, grid: int = 1, stream: int = 0) -> int:
        function = ADDRESS()
        name = kernel.encode()
        if result := self.driver.result("cuModuleGetFunction", ctypes.byref(function), ADDRESS(self.module), name):
            return result
        value = ctypes.c_uint64(self.memory)
        arguments = (ADDRESS * 1)(ctypes.addressof(value))
        return self.driver.result("cuLaunchKernel", function, grid, 1, 1, 32, 1, 1, 0, ADDRESS(stream), arguments, None)

    def synchronize(self) -> int:
        return self.driver.result("cuCtxSynchronize")

    def value(self) -> tuple[int, int]:
        """(CUresult, the first word of the memory)."""
        buffer = ctypes.create_string_buffer(8)
        result = self.driver.result("cuMemcpyDtoH_v2", buffer, ctypes.c_uint64(self.memory), ctypes.c_size_t(8))
        return result, int.from_bytes(buffer.raw, "little")

    def works(self) -> bool:
        """Whether a kernel can be run."""
        return self.launch("good") == 0 and self.synchronize() == 0 and self.value() == (0, 77)


def say(*values: object) -> None:
    print(*values, flush=True)
