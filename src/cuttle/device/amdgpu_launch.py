"""What launching one of our code objects takes, whoever executes it: images, kernel arguments, output area, heap (`abi/amdgpu_abi.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack, unpack_from
from typing import Any

from cuttle.abi import wire_layout as wire
from cuttle.abi.amdgpu_abi import AMDGPU_HEAP, AMDGPU_LAUNCH
from cuttle.device.device_output import OUTPUT_BYTES
from cuttle.device.job_loop import COOPERATIVE, LOAD_FAILED, Fault
from cuttle.lower.cpu.image_file import ImageError, unpack_image

OUTPUT_AREA_BYTES = 4 << 20
WORKSPACE_BYTES = 1024
STRING_LIMIT = 16384

Size = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Image:
    """The launch facts of a loaded kernel. `symbols`: arena address of its table of symbol addresses."""

    name: str
    target: str
    launch_offset: int
    kernarg_bytes: int
    symbol_count: int
    symbols: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A LAUNCH record of the job ring. Sizes in blocks and threads; `parameters` as PTX lays them out."""

    image: int
    grid: Size
    block: Size
    dynamic_bytes: int
    cooperative: bool
    flags: int
    parameters: bytes

    @property
    def empty(self) -> bool:
        return 0 in self.grid


def read_load(jobs: memoryview, at: int) -> tuple[int, Image, bytes]:
    """(number, image, code object) of a LOAD record. Raises Fault for what is no image of a GPU kernel."""
    number, size, symbols = unpack_from("<2IQ", jobs, at + 16)
    path = bytes(jobs[at + wire.RECORD_LOAD_BYTES : at + wire.RECORD_LOAD_BYTES + size])
    try:
        with open(path, "rb") as file:
            metadata, blob = unpack_image(file.read())
        return number, read_image(metadata, symbols), bytes(blob)
    except (OSError, ImageError, KeyError, TypeError, ValueError) as error:
        raise Fault(LOAD_FAILED, f"{type(error).__name__}: {error}") from None


def read_image(metadata: dict[str, Any], symbols: int) -> Image:
    return Image(
        str(metadata["name"]), str(metadata["target"]), int(metadata["launch_offset"]), int(metadata["kernarg_bytes"]),
        len(metadata["symbols"]), symbols,
    )  # fmt: skip


def read_launch(jobs: memoryview, at: int) -> Launch:
    image, gx, gy, gz, bx, by, bz, dynamic, size, flags = unpack_from("<10I", jobs, at + 16)
    parameters = bytes(jobs[at + wire.RECORD_LAUNCH_BYTES : at + wire.RECORD_LAUNCH_BYTES + size])
    cooperative = bool(flags & COOPERATIVE)
    return Launch(image, (gx, gy, gz), (bx, by, bz), dynamic, cooperative, flags, parameters)


def kernel_arguments(
    image: Image, launch: Launch, symbols: bytes, *, grid_id: int, workspace: int, output: int, heap: int
) -> bytes:
    """The kernel argument segment: parameters, launch record, addresses of symbols. Addresses are the GPU's."""
    record = pack(
        "<8I4Q", *launch.grid, *launch.block, launch.dynamic_bytes, launch.flags, grid_id,
        workspace if launch.cooperative else 0, output, heap,
    )  # fmt: skip
    assert len(record) == AMDGPU_LAUNCH.bytes
    at = image.launch_offset
    return launch.parameters[:at].ljust(at, b"\0") + record + symbols


def fresh_output() -> bytes:
    """The header of an empty output area."""
    return pack("<Q", OUTPUT_AREA_BYTES).ljust(OUTPUT_BYTES, b"\0")


def fresh_heap(base: int, size: int) -> bytes:
    """The header of an empty heap of device malloc at `base`; b"" if there is no room for one."""
    if size < AMDGPU_HEAP.bytes + 64:
        return b""
    first = -(-(base + AMDGPU_HEAP.bytes) // 16) * 16
    return pack("<QQ", first, base + size).ljust(AMDGPU_HEAP.bytes, b"\0")
