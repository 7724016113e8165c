"""An address that a kernel should not have used, in words: where it lies, and what that is likely to mean."""

from __future__ import annotations

from dataclasses import dataclass

from cuttle.runtime.memory import MODULE, Allocation, DeviceMemory

NULL_PAGE_BYTES = 65536
FAR_BYTES = 1 << 30  # nearer than this to an allocation is likely to be meant for it


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """`text` follows the address in brackets."""

    text: str
    hint: str


NULL_HINT = "The pointer is null: was it set, and did its allocation succeed?"
OUTSIDE_HINT = "An index goes beyond what was allocated: compare the launch's grid and block with the size."
HOST_HINT = (
    "Kernels reach memory of cudaMalloc, cudaMallocManaged and cudaMallocHost, not that of malloc, new or a host stack."
)


def whereabouts(memory: DeviceMemory, address: int) -> Whereabouts:
    """In which allocation an address lies, or how far from the nearest one."""
    if address < NULL_PAGE_BYTES:
        return Whereabouts("a null pointer" if address == 0 else f"{address:,} bytes from a null pointer", NULL_HINT)
    below, above = memory.neighbours(address)
    if below is not None and address < below.address + below.bytes:
        return Whereabouts(f"{address - below.address:,} bytes into {words(below)}", "That memory may not be written.")
    past = address - below.address - below.bytes if below is not None else FAR_BYTES
    before = above.address - address if above is not None else FAR_BYTES
    if below is not None and past <= before and past < FAR_BYTES:
        place = f"{past:,} bytes past the end of" if past else "right behind"
        return Whereabouts(f"{place} {words(below)}", OUTSIDE_HINT)
    if above is not None and before < FAR_BYTES:
        return Whereabouts(f"{before:,} bytes before {words(above)}", OUTSIDE_HINT)
    return Whereabouts("no device memory is near", HOST_HINT)


def words(allocation: Allocation) -> str:
    if allocation.kind == MODULE:
        return f"the {allocation.bytes:,} bytes of a module's variables at {allocation.address:#x}"
    return f"the {allocation.bytes:,}-byte allocation at {allocation.address:#x}"
