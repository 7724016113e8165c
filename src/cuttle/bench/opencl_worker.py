"""Worker: an OpenCL runtime for CPUs. `python -m cuttle.bench.opencl_worker KERNELS.cl`, OCL_ICD_VENDORS names the runtime."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from cuttle.bench.problems import Array, Arrays, Case
from cuttle.bench.worker_loop import Absent, serve


class OpenClBackend:
    def __init__(self, source: Path) -> None:
        devices = [device for platform in cl.get_platforms() for device in platform.get_devices(cl.device_type.CPU)]
        if not devices:
            raise Absent("no OpenCL device for the CPU")
        self.device = devices[0]
        self.context = cl.Context([self.device])
        self.queue = cl.CommandQueue(self.context, self.device)
        self.source = source.read_text(encoding="utf-8")
        self.buffers: dict[str, Any] = {}
        self.program: Any = None

    def options(self) -> list[str]:
        """Division and square root are IEEE's in all contenders: where that is a choice, it is made, elsewhere it is so."""
        options = ["-cl-std=CL3.0"]
        if self.device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        if (
            "cl_intel_required_subgroup_size" in self.device.extensions
            and "cl_intel_subgroups" in self.device.extensions
        ):
            options.append("-DSHUFFLE")
        return options

    def describe(self) -> str:
        device = self.device
        return (
            f"{device.platform.name.strip()} {device.driver_version.strip()}, {device.version.strip()}, "
            f"{device.max_compute_units} compute unit(s), options {' '.join(self.options())}"
        )

    def load(self, case: Case) -> None:
        self.case = case
        self.global_size = tuple(blocks * threads for blocks, threads in zip(case.grid, case.block, strict=True))
        self.buffers = {
            name: cl.Buffer(self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
            for name, array in case.arrays.items()
        }
        self.queue.finish()

    def compile(self, kernel: str) -> None:
        if self.program is None:
            self.program = cl.Program(self.context, self.source).build(self.options())
        if kernel not in [name.strip() for name in self.program.kernel_names.split(";")]:
            raise Absent("no sub-groups of 32")
        self.kernel = cl.Kernel(self.program, kernel)
        self.kernel.set_args(
            *(self.buffers[argument] if isinstance(argument, str) else argument for argument in self.case.arguments)
        )

    def reset(self) -> None:
        for name in self.case.outputs:
            cl.enqueue_copy(self.queue, self.buffers[name], self.case.arrays[name])
        self.queue.finish()

    def run(self, launches: int) -> None:
        for _ in range(launches):
            cl.enqueue_nd_range_kernel(self.queue, self.kernel, self.global_size, self.case.block)
        self.queue.finish()

    def outputs(self) -> Arrays:
        found: dict[str, Array] = {name: np.empty_like(self.case.arrays[name]) for name in self.case.outputs}
        for name, array in found.items():
            cl.enqueue_copy(self.queue, array, self.buffers[name])
        self.queue.finish()
        return found

    def unload(self) -> None:
        for buffer in self.buffers.values():
            buffer.release()
        self.buffers.clear()


if __name__ == "__main__":
    # Even when told to use one thread, a runtime lets the caller work beside it, and then two cores fight over atomics.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    serve(lambda: OpenClBackend(Path(sys.argv[1])))
