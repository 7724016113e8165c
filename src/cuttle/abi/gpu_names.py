"""AMD GPUs by PCI device id and by marketing name, as frozen rows: which LLVM target each is.

Facts: product names of libdrm's `data/amdgpu.ids` (device id, revision, name) and of the PCI ID database; which chip has which target: the
processor table of LLVM's "User Guide for AMDGPU Backend" and the tables "Windows-supported GPUs" of AMD's HIP SDK documentation.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PciGpu:
    """One PCI device id of vendor 0x1002.

    `name` is the family; `revisions` are (revision, product) where the revision tells products apart. `integrated`: part of a processor.
    """

    device: int
    target: str
    name: str
    integrated: bool = False
    revisions: tuple[tuple[int, str], ...] = ()


PCI_GPUS: tuple[PciGpu, ...] = (
    PciGpu(0x67DF, "gfx803", "Radeon RX 470, 480, 570, 580, 590"),
    PciGpu(0x687F, "gfx900", "Radeon RX Vega"),
    PciGpu(0x66A1, "gfx906", "Radeon Pro VII, Instinct MI50"),
    PciGpu(0x66AF, "gfx906", "Radeon VII"),
    PciGpu(0x738C, "gfx908", "Instinct MI100"),
    PciGpu(0x7408, "gfx90a", "Instinct MI250X"),
    PciGpu(0x740C, "gfx90a", "Instinct MI250X, MI250"),
    PciGpu(0x740F, "gfx90a", "Instinct MI210"),
    PciGpu(0x74A0, "gfx942", "Instinct MI300A"),
    PciGpu(0x74A1, "gfx942", "Instinct MI300X"),
    PciGpu(0x74A2, "gfx942", "Instinct MI308X"),
    PciGpu(0x74A5, "gfx942", "Instinct MI325X"),
    PciGpu(0x75A0, "gfx950", "Instinct MI350X"),
    PciGpu(0x75A3, "gfx950", "Instinct MI355X"),
    PciGpu(0x7312, "gfx1010", "Radeon Pro W5700"),
    PciGpu(0x731F, "gfx1010", "Radeon RX 5600, RX 5700", revisions=(
        (0xC1, "Radeon RX 5700 XT"), (0xC2, "Radeon RX 5600M"), (0xC3, "Radeon RX 5700M"), (0xC4, "Radeon RX 5700"), (0xC5, "Radeon RX 5700 XT"),
        (0xCA, "Radeon RX 5600 XT"), (0xCB, "Radeon RX 5600 OEM"),
    )),
    PciGpu(0x7360, "gfx1011", "Radeon Pro 5600M, Pro V520"),
    PciGpu(0x7362, "gfx1011", "Radeon Pro V520, Pro V540"),
    PciGpu(0x7340, "gfx1012", "Radeon RX 5300, RX 5500", revisions=(
        (0xC1, "Radeon RX 5500M"), (0xC3, "Radeon RX 5300M"), (0xC5, "Radeon RX 5500 XT"), (0xC7, "Radeon RX 5500"), (0xCF, "Radeon RX 5300"),
    )),
    PciGpu(0x7341, "gfx1012", "Radeon Pro W5500"),
    PciGpu(0x73A1, "gfx1030", "Radeon Pro V620"),
    PciGpu(0x73A3, "gfx1030", "Radeon Pro W6800"),
    PciGpu(0x73A5, "gfx1030", "Radeon RX 6950 XT"),
    PciGpu(0x73AF, "gfx1030", "Radeon RX 6900 XT"),
    PciGpu(0x73BF, "gfx1030", "Radeon RX 6800, RX 6900", revisions=(
        (0xC0, "Radeon RX 6900 XT"), (0xC1, "Radeon RX 6800 XT"), (0xC3, "Radeon RX 6800"),
    )),
    PciGpu(0x73DF, "gfx1031", "Radeon RX 6700, RX 6750", revisions=(
        (0xC0, "Radeon RX 6750 XT"), (0xC1, "Radeon RX 6700 XT"), (0xC2, "Radeon RX 6800M"), (0xC3, "Radeon RX 6800M"), (0xC5, "Radeon RX 6700 XT"),
        (0xCF, "Radeon RX 6700M"), (0xD5, "Radeon RX 6750 GRE 12GB"), (0xDF, "Radeon RX 6700"), (0xE5, "Radeon RX 6750 GRE 12GB"),
        (0xFF, "Radeon RX 6700"),
    )),
    PciGpu(0x73E3, "gfx1032", "Radeon Pro W6600"),
    PciGpu(0x73EF, "gfx1032", "Radeon RX 6650", revisions=(
        (0xC0, "Radeon RX 6800S"), (0xC1, "Radeon RX 6650 XT"), (0xC2, "Radeon RX 6700S"), (0xC3, "Radeon RX 6650M"), (0xC4, "Radeon RX 6650M XT"),
    )),
    PciGpu(0x73FF, "gfx1032", "Radeon RX 6600", revisions=(
        (0xC1, "Radeon RX 6600 XT"), (0xC3, "Radeon RX 6600M"), (0xC7, "Radeon RX 6600"), (0xCB, "Radeon RX 6600S"), (0xCF, "Radeon RX 6600 LE"),
        (0xDF, "Radeon RX 6750 GRE 10GB"),
    )),
    PciGpu(0x163F, "gfx1033", "Custom GPU 0405 (Steam Deck)", True),
    PciGpu(0x7422, "gfx1034", "Radeon Pro W6400"),
    PciGpu(0x7424, "gfx1034", "Radeon RX 6300"),
    PciGpu(0x743F, "gfx1034", "Radeon RX 6400, RX 6500", revisions=(
        (0xC1, "Radeon RX 6500 XT"), (0xC3, "Radeon RX 6500M"), (0xC7, "Radeon RX 6400"), (0xCF, "Radeon RX 6300M"), (0xD7, "Radeon RX 6400"),
    )),
    PciGpu(0x1681, "gfx1035", "Radeon 660M, 680M", True),
    PciGpu(0x164E, "gfx1036", "Radeon Graphics (Ryzen 7000)", True),
    PciGpu(0x13C0, "gfx1036", "Radeon Graphics (Ryzen 9000)", True),
    PciGpu(0x7448, "gfx1100", "Radeon Pro W7900"),
    PciGpu(0x7449, "gfx1100", "Radeon Pro W7800 48GB"),
    PciGpu(0x744A, "gfx1100", "Radeon Pro W7900 Dual Slot"),
    PciGpu(0x744C, "gfx1100", "Radeon RX 7900", revisions=(
        (0xC8, "Radeon RX 7900 XTX"), (0xCC, "Radeon RX 7900 XT"), (0xCE, "Radeon RX 7900 GRE"), (0xCF, "Radeon RX 7900M"),
    )),
    PciGpu(0x745E, "gfx1100", "Radeon Pro W7800"),
    PciGpu(0x7460, "gfx1101", "Radeon Pro V710"),
    PciGpu(0x7470, "gfx1101", "Radeon Pro W7700"),
    PciGpu(0x747E, "gfx1101", "Radeon RX 7700, RX 7800", revisions=(
        (0xC8, "Radeon RX 7800 XT"), (0xD8, "Radeon RX 7800M"), (0xDB, "Radeon RX 7700"), (0xFF, "Radeon RX 7700 XT"),
    )),
    PciGpu(0x7480, "gfx1102", "Radeon RX 7600", revisions=(
        (0x00, "Radeon Pro W7600"), (0xC0, "Radeon RX 7600 XT"), (0xC1, "Radeon RX 7700S"), (0xC2, "Radeon RX 7650 GRE"), (0xC3, "Radeon RX 7600S"),
        (0xC7, "Radeon RX 7600M XT"), (0xCF, "Radeon RX 7600"),
    )),
    PciGpu(0x7483, "gfx1102", "Radeon RX 7600M"),
    PciGpu(0x7489, "gfx1102", "Radeon Pro W7500"),
    PciGpu(0x7499, "gfx1102", "Radeon RX 7300, RX 7400, Pro W7400"),
    PciGpu(0x15BF, "gfx1103", "Radeon 740M, 760M, 780M", True, (
        (0x00, "Radeon 780M Graphics"), (0x01, "Radeon 760M Graphics"), (0x02, "Radeon 780M Graphics"), (0x07, "Radeon 740M Graphics"),
        (0xC1, "Radeon 780M Graphics"), (0xC2, "Radeon 780M Graphics"),
    )),
    PciGpu(0x15C8, "gfx1103", "Radeon 740M", True),
    PciGpu(0x1900, "gfx1103", "Radeon 760M, 780M", True),
    PciGpu(0x150E, "gfx1150", "Radeon 880M, 890M", True, (
        (0xC1, "Radeon 890M Graphics"), (0xC4, "Radeon 880M Graphics"), (0xD1, "Radeon 890M Graphics"), (0xD2, "Radeon 880M Graphics"),
    )),
    PciGpu(0x1586, "gfx1151", "Radeon 8040S, 8050S, 8060S", True, (
        (0xC1, "Radeon 8060S Graphics"), (0xC2, "Radeon 8050S Graphics"), (0xD1, "Radeon 8060S Graphics"), (0xD2, "Radeon 8050S Graphics"),
        (0xD5, "Radeon 8040S Graphics"),
    )),
    PciGpu(0x1114, "gfx1152", "Radeon 840M, 860M", True, ((0xC2, "Radeon 860M Graphics"), (0xC3, "Radeon 840M Graphics"))),
    PciGpu(0x7590, "gfx1200", "Radeon RX 9060", revisions=(
        (0xC0, "Radeon RX 9060 XT"), (0xC1, "Radeon RX 9060 XT LP"), (0xC7, "Radeon RX 9060"),
    )),
    PciGpu(0x7550, "gfx1201", "Radeon RX 9070", revisions=(
        (0xC0, "Radeon RX 9070 XT"), (0xC2, "Radeon RX 9070 GRE"), (0xC3, "Radeon RX 9070"),
    )),
    PciGpu(0x7551, "gfx1201", "Radeon AI PRO R9700", revisions=((0xC0, "Radeon AI PRO R9700"), (0xC8, "Radeon AI PRO R9600D"))),
)  # fmt: skip

# Targets whose GPUs are only ever part of a processor.
INTEGRATED_TARGETS = frozenset(
    ("gfx1033", "gfx1035", "gfx1036", "gfx1037", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153")
)

# Targets that AMD's HIP SDK for Windows lists (column "HIP SDK" of its system requirements), by major version of the SDK.
# Sources: rocm.docs.amd.com/projects/install-on-windows, docs-6.4.2 (2025-09-08) and docs-7.2 (2026-07-31).
WINDOWS_HIP_SDK_TARGETS: dict[int, tuple[str, ...]] = {
    6: ("gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201"),
    7: ("gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151", "gfx1200", "gfx1201"),
}  # fmt: skip
