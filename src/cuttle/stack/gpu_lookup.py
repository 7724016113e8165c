"""From PCI ids and names to targets and back, over the rows of `abi/gpu_names.py` and `abi/targets.py`."""

from __future__ import annotations

import re

from cuttle.abi.gpu_names import INTEGRATED_TARGETS, PCI_GPUS, PciGpu
from cuttle.abi.targets import BY_NAME

_by_device: dict[int, PciGpu] = {}
_targets_by_name: dict[str, set[str]] = {}


def pci_gpu(device: int | None) -> PciGpu | None:
    """The row of a PCI device id of AMD's, or None."""
    if not _by_device:
        _by_device.update((row.device, row) for row in PCI_GPUS)
    return _by_device.get(device) if device is not None else None


def product_name(device: int | None, revision: int | None) -> str:
    """`AMD Radeon RX 7900 XTX`; the family's name if the revision is unknown, empty if the device is."""
    row = pci_gpu(device)
    if row is None:
        return ""
    return "AMD " + dict(row.revisions).get(-1 if revision is None else revision, row.name)


def _key(name: str) -> str:
    """What is left of a name when vendors, signs, cases and words that say nothing are gone."""
    text = re.sub(r"\(tm\)|\(r\)|[™®]", " ", name.lower())
    words = re.findall(r"[a-z0-9]+", text)
    return " ".join(
        word for word in words if word not in ("amd", "ati", "radeon", "graphics", "series", "gpu", "tm", "r")
    )


def target_of_name(name: str) -> str:
    """The target of a marketing name, or an empty string if it is unknown or several could be meant (`AMD Radeon Graphics`)."""
    if not _targets_by_name:
        for row in PCI_GPUS:
            for product in {row.name, *(product for _, product in row.revisions)}:
                for part in product.split(","):
                    _targets_by_name.setdefault(_key(part), set()).add(row.target)
    found = _targets_by_name.get(_key(name), set()) if _key(name) else set()
    return next(iter(found)) if len(found) == 1 else ""


def generation(target: str) -> str:
    """`rdna3` of `gfx1100`; empty if the target is unknown."""
    row = BY_NAME.get(target)
    if row is not None:
        return row.generation
    return {"gfx803": "gcn4", "gfx900": "gcn5", "gfx1037": "rdna2"}.get(target, "")


def integrated(target: str, device: int | None) -> bool:
    """Whether the GPU is part of a processor."""
    row = pci_gpu(device)
    return row.integrated if row is not None else target in INTEGRATED_TARGETS
