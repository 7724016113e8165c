"""The interface between generated CPU kernels and the executor that runs them, as frozen rows.

An *image* is one compiled kernel (and the device functions it may call): position-independent x86-64 code and data in
one flat blob, linked by `lower/cpu/link_image.py`, loaded by the executor (`device/cpu/executor`). It exports two functions:

    u64  blocks(cuttle_block *block, u64 begin, u64 end)
    u32  step(cuttle_block *block, u32 warp, u32 resume)

`blocks` runs the blocks with linear index begin <= i < end one after the other on one worker, reusing the block's
shared memory, local memory and frame. It returns `end` when all are done. In kernels that can stop (barriers, yields)
it keeps warps in step as long as all of them stop at the same plain whole-block barrier; when they do not, it returns
the index i of the block it could not finish, with each warp's resume point and stop in `block->warps`; the executor then
finishes this block with `step` by the general rules (named barriers, counts, yields) and calls `blocks` again from i+1.

`step` runs one warp from resume point `resume` (0 is the kernel's entry) until it stops, and returns the resume point
to go on from; returns 0xFFFFFFFF when all its lanes have exited. Why it stopped stands in `block->warps[warp]`.

The image file: magic, metadata length, metadata (JSON, see IMAGE_METADATA), then the blob, page aligned.
"""

from __future__ import annotations

from cuttle.abi.kernel_abi_constants import FUNCTION_HANDLE_BASE as FUNCTION_HANDLE_BASE
from cuttle.abi.kernel_abi_constants import FUNCTION_HANDLE_INDEX_MASK as FUNCTION_HANDLE_INDEX_MASK
from cuttle.abi.kernel_abi_constants import IMAGE_MAGIC as IMAGE_MAGIC
from cuttle.abi.wire import Field, Struct

WARP_LANES = 32
# Distance of the shared memory of two blocks of a cluster, as in the addresses of an H200 (rank << 24).
CLUSTER_STRIDE = 1 << 24
STEP_DONE = 0xFFFF_FFFF

LAUNCH = Struct(
    "cuttle_launch",
    128,
    (
        Field("parameters", "u64", 1, "pointer to the parameter bytes"),
        Field("symbols", "u64", 1, "pointer to the u64 addresses of the module symbols, in the image's order"),
        Field("services", "u64", 1, "pointer to the service table (SERVICES)"),
        Field("grid", "u32", 3, "grid size in blocks"),
        Field("block", "u32", 3, "block size in threads"),
        Field("dynamic_shared_bytes", "u32"),
        Field("static_shared_bytes", "u32"),
        Field("cluster", "u32", 3, "blocks of a cluster in each dimension, at least 1"),
        Field("flags", "u32", 1, "1 cooperative; 2 the whole grid runs on one worker; 4 cluster dimensions were given"),
        Field("grid_id", "u64"),
        Field("parameter_bytes", "u32"),
        Field("pad", "u32"),
        Field("workspace", "u64", 1, "cooperative launches: zeroed memory of the grid; %envreg1 is its high half, %envreg2 its low"),
    ),
    "one per launch; code only reads it",
)

BLOCK = Struct(
    "cuttle_block",
    128,
    (
        Field("launch", "u64", 1, "pointer to the cuttle_launch"),
        Field("shared", "u64", 1, "pointer to the block's shared memory, 256-byte aligned; CLUSTER_STRIDE bytes behind that of the block of its cluster one rank lower"),
        Field("local", "u64", 1, "pointer to local memory: thread t's part begins at t * local_bytes"),
        Field("frame", "u64", 1, "pointer to resume frames, 64-byte aligned: warp w's part begins at w * frame_bytes"),
        Field("warps", "u64", 1, "pointer to cuttle_warp[warps of the block]"),
        Field("ctaid", "u32", 3, "set by `blocks` from the linear index; by the executor before `step`"),
        Field("index", "u32", 1, "linear block index, x fastest"),
        Field("worker", "u64", 1, "executor's private pointer"),
        Field("local_limit", "u64", 1, "bytes of local memory per thread that are there (stack overflow check)"),
    ),
    "one per block in flight",
)

WARP = Struct(
    "cuttle_warp",
    32,
    (
        Field("resume", "u32", 1, "resume point; STEP_DONE when finished"),
        Field("stop", "u32", 1, "why the warp stopped: STOPS"),
        Field("barrier", "u32", 1, "barrier number"),
        Field("threads", "u32", 1, "threads the barrier waits for; 0 is the whole block"),
        Field("value", "u32", 1, "in: lanes whose predicate holds (ballot); out: the reduction's result, set before resuming"),
        Field("active", "u32", 1, "lanes that arrived"),
        Field("pad", "u32", 2),
    ),
)

# Stop reasons.
STOPS: tuple[tuple[int, str], ...] = (
    (0, "done"),
    (1, "barrier_sync"),
    (2, "barrier_red_popc"),
    (3, "barrier_red_and"),
    (4, "barrier_red_or"),
    (5, "yield"),
    (6, "barrier_arrive"),  # does not wait: the executor counts the arrival and goes on with the warp
    (7, "cluster_arrive"),  # likewise, at the barrier of the block's cluster
    (8, "cluster_wait"),  # for the end of the phase at which the warp has arrived last
)

# Host services, in table order. Each is called once per active lane:
#   u64 service(cuttle_block *block, u32 thread, u64 a, u64 b, u64 c, u64 d)
# `thread` is the linear thread index in the block.
SERVICES: tuple[tuple[str, str], ...] = (
    ("trap", "a: fault kind (abi/wire.py FAULTS), b: PTX line, of misaligned accesses c: address, d: what it must be a multiple of; does not return"),
    ("vprintf", "a: format, b: argument buffer; returns the number of arguments"),
    ("assertfail", "a: message, b: file, c: line, d: function; does not return"),
    ("malloc", "a: bytes; returns an address or 0"),
    ("free", "a: address"),
    ("globaltimer", "returns nanoseconds"),
    ("nanosleep", "a: nanoseconds (a hint)"),
    ("clock", "returns a cycle counter"),
    ("texture", "once for all lanes: a: columns of words, b: mask of the active lanes, c: words in a column, d: FORM_*"),
)

# Device functions without a body that the driver provides (CUDA programming guide, "formatted output", "assertion",
# "dynamic global memory allocation"): name, service, bits of the result.
DRIVER_FUNCTIONS: dict[str, tuple[str, int]] = {
    "vprintf": ("vprintf", 32),
    "__assertfail": ("assertfail", 0),
    "malloc": ("malloc", 64),
    "free": ("free", 0),
}

# Keys of an image's JSON metadata.
IMAGE_METADATA: tuple[tuple[str, str], ...] = (
    ("name", "kernel name"),
    ("blocks", "offset of `blocks` in the blob"),
    ("step", "offset of `step`"),
    ("blob_bytes", "size of the blob"),
    ("fixups", "offsets of 64-bit words to which the load address is added"),
    ("imports", "[offset, name] of 64-bit words that get the address of a C function of the executor (memcpy, memset)"),
    ("symbols", "names of the module symbols in the order of cuttle_launch.symbols"),
    ("static_shared_bytes", ""),
    ("local_bytes", "per thread, multiple of 16"),
    ("frame_bytes", "per warp, multiple of 64; 0 if the kernel never stops"),
    ("can_stop", "has resume points"),
    ("may_yield", "has yield points: blocks may have to wait for each other"),
    ("block_shape", "[x, y, z] it is specialised on, or null"),
    ("max_index", "largest grid * block product per dimension its index proofs assume, or null"),
    ("parameters", "[[offset, bytes], ...]"),
    ("aligned", "[[offset of a byte in the parameters, bits of it that must be 0], ...]: what the code's accesses count on"),
    ("report", "mode, gathers, scatters, versions: for bench reports"),
    ("lines", "[[blob offset, PTX line], ...] for fault messages, ascending; line 0 is code of no instruction that may fault"),
    ("stops", "[[resume point, PTX line], ...]: the instruction that warps wait at there, for time-outs"),
    ("sites", "PTX line → [instruction, source file, source line] for the lines in `lines`; empty and 0 without .loc"),
)
