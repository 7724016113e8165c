"""What a kernel is compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from cuttle.abi.targets import BY_NAME, GPU_TARGETS, WAVE_LANES, GpuTarget
from cuttle.errors import DeviceError


@dataclass(frozen=True, slots=True)
class AmdgpuOptions:
    """Choices that are part of a code object's cache key.

    `target`: LLVM processor name. `code_object_version`: 4 for HIP 5, 5 for HIP 6 and 7, 6 for generic targets. `block_shape`: block size
    the code is specialised on, None for any up to 1,024 threads. `exact_nan`: NaN results as NVIDIA's. `optimization`: 0 or 2.
    `stack_bytes`: scratch a thread for `alloca`, in each function that has one.
    """

    target: str
    code_object_version: int = 5
    block_shape: tuple[int, int, int] | None = None
    exact_nan: bool = True
    optimization: int = 2
    stack_bytes: int = 16 << 10

    @property
    def block_threads(self) -> int | None:
        if self.block_shape is None:
            return None
        return self.block_shape[0] * self.block_shape[1] * self.block_shape[2]


def gpu_target(options: AmdgpuOptions) -> GpuTarget:
    """The row of the options' target. Raises DeviceError for names that are unknown and targets that are not translated for."""
    target = BY_NAME.get(options.target)
    if target is None:
        known = ", ".join(row.name for row in GPU_TARGETS if row.wave == WAVE_LANES)
        raise DeviceError("DEV-0020", f"there is no GPU target {options.target!r}", hint=f"Known targets: {known}.")
    if target.wave != WAVE_LANES:
        raise DeviceError("DEV-0021", f"{target.name} ({target.products}) has waves of {target.wave} lanes")
    if options.code_object_version not in (4, 5, 6):
        raise DeviceError("DEV-0020", f"there is no code object version {options.code_object_version}")
    if target.generic_version and options.code_object_version < 6:
        raise DeviceError("DEV-0020", f"{target.name} needs code object version 6 (HIP 6.3 or later)")
    return target
