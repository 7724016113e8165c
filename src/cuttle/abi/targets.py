"""AMD GPU targets that code objects are made for, as frozen rows.

Facts: LLVM's "User Guide for AMDGPU Backend", tables "AMDGPU Processors" and "EF_AMDGPU_MACH values"; the numbers are compared
with what LLVM writes in a test.
"""

from __future__ import annotations

from dataclasses import dataclass

# Work-group processors and compute units give a work-group at most this much LDS (all RDNA generations).
LDS_BYTES = 65536
WAVE_LANES = 32
MAX_GROUP_THREADS = 1024


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """One LLVM processor name.

    `machine` is the low byte of `e_flags`; `generation` is `rdna1` ... `rdna4`, `gcn5`, `cdna1` ...; `wave` the wave size it is
    used with (the only rule about wave sizes: 32 is translated, 64 is refused); `generic_version` is in the top byte of `e_flags`
    of generic targets, which need code object version 6. `products` names what people know.
    """

    name: str
    machine: int
    generation: str
    wave: int
    products: str
    generic_version: int = 0


GPU_TARGETS: tuple[GpuTarget, ...] = (
    GpuTarget("gfx906", 0x2F, "gcn5", 64, "Radeon VII, MI50, MI60"),
    GpuTarget("gfx908", 0x30, "cdna1", 64, "MI100"),
    GpuTarget("gfx90a", 0x3F, "cdna2", 64, "MI210, MI250"),
    GpuTarget("gfx942", 0x4C, "cdna3", 64, "MI300A, MI300X, MI325X"),
    GpuTarget("gfx950", 0x4F, "cdna4", 64, "MI350X, MI355X"),
    GpuTarget("gfx1010", 0x33, "rdna1", 32, "RX 5600, RX 5700"),
    GpuTarget("gfx1011", 0x34, "rdna1", 32, "Pro V520, Pro 5600M"),
    GpuTarget("gfx1012", 0x35, "rdna1", 32, "RX 5300, RX 5500"),
    GpuTarget("gfx1030", 0x36, "rdna2", 32, "RX 6800, RX 6900, RX 6950, Pro W6800"),
    GpuTarget("gfx1031", 0x37, "rdna2", 32, "RX 6700, RX 6750"),
    GpuTarget("gfx1032", 0x38, "rdna2", 32, "RX 6600, RX 6650"),
    GpuTarget("gfx1033", 0x39, "rdna2", 32, "Steam Deck"),
    GpuTarget("gfx1034", 0x3E, "rdna2", 32, "RX 6300, RX 6400, RX 6500"),
    GpuTarget("gfx1035", 0x3D, "rdna2", 32, "Radeon 660M, 680M"),
    GpuTarget("gfx1036", 0x45, "rdna2", 32, "Radeon 610M, Ryzen 7000 desktop"),
    GpuTarget("gfx1100", 0x41, "rdna3", 32, "RX 7900, Pro W7800, Pro W7900"),
    GpuTarget("gfx1101", 0x46, "rdna3", 32, "RX 7700, RX 7800, Pro W7700"),
    GpuTarget("gfx1102", 0x47, "rdna3", 32, "RX 7400, RX 7600, Pro W7500, Pro W7600"),
    GpuTarget("gfx1103", 0x44, "rdna3", 32, "Radeon 740M, 760M, 780M"),
    GpuTarget("gfx1150", 0x43, "rdna3.5", 32, "Radeon 880M, 890M"),
    GpuTarget("gfx1151", 0x4A, "rdna3.5", 32, "Radeon 8040S, 8050S, 8060S"),
    GpuTarget("gfx1152", 0x55, "rdna3.5", 32, "Radeon 840M, 860M"),
    GpuTarget("gfx1153", 0x58, "rdna3.5", 32, "Radeon 820M"),
    GpuTarget("gfx1200", 0x48, "rdna4", 32, "RX 9060"),
    GpuTarget("gfx1201", 0x4E, "rdna4", 32, "RX 9070, AI PRO R9700"),
    GpuTarget("gfx10-1-generic", 0x52, "rdna1", 32, "all gfx101x", 1),
    GpuTarget("gfx10-3-generic", 0x53, "rdna2", 32, "all gfx103x", 1),
    GpuTarget("gfx11-generic", 0x54, "rdna3", 32, "all gfx11xx", 1),
    GpuTarget("gfx12-generic", 0x59, "rdna4", 32, "all gfx120x", 1),
)  # fmt: skip

BY_NAME = {target.name: target for target in GPU_TARGETS}
