"""The interface between generated AMDGPU kernels and the device that launches them, as frozen rows.

A code object holds one kernel. Its kernel argument segment is

    the PTX parameters at their own offsets | padding to 8 bytes | AMDGPU_LAUNCH | u64 address of each module symbol

The offset of the record and the order of the symbols stand in the compiled image's metadata. All addresses are device addresses. Grids
are counted in blocks. LLVM's hidden arguments are not used.
"""

from __future__ import annotations

from cuttle.abi.wire import Field, Struct

AMDGPU_LAUNCH = Struct(
    "cuttle_amdgpu_launch",
    64,
    (
        Field("grid", "u32", 3, "grid size in blocks"),
        Field("block", "u32", 3, "block size in threads"),
        Field("dynamic_shared_bytes", "u32", 1, "dynamic shared memory of the launch"),
        Field("flags", "u32", 1, "1 cooperative"),
        Field("grid_id", "u64", 1, "%gridid"),
        Field("workspace", "u64", 1, "cooperative launches: zeroed memory of the grid; %envreg1 is its high half, %envreg2 its low"),
        Field("output", "u64", 1, "an AMDGPU_OUTPUT"),
        Field("heap", "u64", 1, "an AMDGPU_HEAP, or 0: malloc answers 0"),
    ),
    "part of the kernel arguments of each launch; u64 symbol addresses follow",
)

AMDGPU_OUTPUT = Struct(
    "cuttle_amdgpu_output",
    64,
    (
        Field("capacity", "u64", 1, "bytes of the record area, which begins behind this header"),
        Field("cursor", "u64", 1, "bytes reserved so far; may exceed the capacity: the records beyond it were dropped"),
        Field("fault", "u32", 1, "fault kind (abi/wire.py FAULTS), 0 if none: the first fault wins"),
        Field("line", "u32", 1, "PTX line of the fault"),
        Field("block", "u32", 3, "block of the fault"),
        Field("thread", "u32", 1, "linear thread of the fault in its block"),
        Field("pad", "u32", 4),
    ),
    "text and faults of a launch: zeroed by the host but for the capacity, drained when the kernel is done",
)

# A record of the output area: this header, then `bytes - 16` bytes as its kind says. The area is zeroed beforehand: a record
# with 0 bytes is the end.
AMDGPU_RECORD = Struct(
    "cuttle_amdgpu_record",
    16,
    (
        Field("bytes", "u32", 1, "header included, a multiple of 8"),
        Field("kind", "u32", 1, "AMDGPU_RECORD_KINDS"),
        Field("text", "u64", 1, "address of the format (printf) or of the message (assert)"),
    ),
)
RECORD_PRINTF, RECORD_ASSERT = 1, 2
AMDGPU_RECORD_KINDS: tuple[tuple[int, str, str], ...] = (
    (RECORD_PRINTF, "printf", "the arguments as vprintf's buffer holds them, at their natural alignment"),
    (RECORD_ASSERT, "assert", "u64 file, u64 line, u64 function, u64 linear thread, u64 block z << 32 | y, u64 block x"),
)
# vprintf takes at most 32 arguments of 8 bytes (CUDA programming guide, "Formatted Output").
MAX_PRINTF_BYTES = 256

HEAP_CLASSES = 40
AMDGPU_HEAP = Struct(
    "cuttle_amdgpu_heap",
    16 + 8 * HEAP_CLASSES,
    (
        Field("next", "u64", 1, "address of the first byte never given out; the host sets it behind this header, 16-byte aligned"),
        Field("end", "u64", 1, "address behind the last byte"),
        Field("free", "u64", HEAP_CLASSES, "by power of two: tag << 32 | distance of the first free block from the header / 16, 0 if none"),
    ),
    "device-side malloc: blocks of powers of two with a 16-byte header (u64 class, u64 next free); lists without locks",
)


def offset_of(struct: Struct, name: str) -> int:
    """Byte offset of a member."""
    sizes = {"u8": 1, "u16": 2, "u32": 4, "i32": 4, "u64": 8}
    at = 0
    for field in struct.fields:
        size = sizes[field.type]
        at = -(-at // size) * size
        if field.name == name:
            return at
        at += size * field.count
    raise KeyError(name)
