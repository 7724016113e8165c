"""Internal requests from the client library to the device process, as frozen rows.

A request travels in the Control page (`abi/wire.py`): `request_function` is the row's number, arguments stand in
`request_arguments` in row order as 64-bit words (signed values sign-extended, floats by their bits), the payload in the
payload area. The reply's values take the arguments' place; `reply_payload_bytes` is the size of the whole reply payload.

* A payload larger than `PAYLOAD_BYTES` is sent as chunks: requests of the same number with `request_flags` 1, which the
  device process appends to its upload buffer and answers with result 0; the last part comes with `request_flags` 0 and
  the arguments.
* A reply payload larger than `PAYLOAD_BYTES`: the first part is in the payload area, the client fetches the rest with
  REPLY_MORE.
* The reply values of rows marked `values_on_error` are valid also when the result is an error (logs).

Objects are named by 64-bit numbers that the device process chooses, never reused, never 0. Contexts are numbered by the
client: 1 is the primary context of device 0. Stream and event numbers are slots (`abi/wire.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from cuttle.abi.wire import Field, Struct

DRIVER_FUNCTION_BASE = 1000  # request numbers from here on are indices into the driver function table


@dataclass(frozen=True, slots=True)
class Request:
    """One request: `arguments` and `replies` name the 64-bit words; payloads are described in words."""

    number: int
    name: str
    arguments: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    payload: str = ""
    reply_payload: str = ""
    meaning: str = ""
    values_on_error: bool = False


JIT_ARGUMENTS = (
    "info_log_bytes",  # size of the program's buffer, 0: none
    "error_log_bytes",
    "max_registers",
    "threads_per_block",
    "optimization_level",
    "jit_flags",  # 1 debug info, 2 line info, 4 verbose log, 8 generate relocatable code
)
LOG_REPLIES = ("info_log_bytes", "error_log_bytes")
LOG_PAYLOAD = "info log, then error log (no NULs)"

REQUESTS: tuple[Request, ...] = (
    Request(1, "PING"),
    Request(2, "REPLY_MORE", ("offset",), (), "", "the reply payload from `offset` on, at most PAYLOAD_BYTES"),
    # contexts
    Request(
        3,
        "DEVICE_RESET",
        ("context",),
        meaning="destroys every object of the context, clears its sticky error (fresh executor); primary contexts",
    ),
    Request(4, "CONTEXT_CREATE", ("context", "flags")),
    Request(5, "CONTEXT_DESTROY", ("context",), meaning="as DEVICE_RESET, and forgets the context"),
    Request(6, "LIMIT_GET", ("limit",), ("value",), meaning="CUlimit numbers"),
    Request(7, "LIMIT_SET", ("limit", "value"), ("value",), meaning="replies with the value that is now in force"),
    # modules and kernels
    Request(
        10,
        "MODULE_LOAD",
        ("kind", "objects", *JIT_ARGUMENTS),
        ("module", *LOG_REPLIES),
        "u64 byte count of each of the `objects`, then their bytes one after the other",
        LOG_PAYLOAD,
        "kind 1: one image (PTX text without NUL, ELF, or fat binary by its own magic); 2: fat binary of a version 1"
        " wrapper; 3: version 2 wrapper: object 0 is the linked fat binary, the others the per-object ones."
        " A fat binary includes its 16-byte header. Plus 256: a library, which belongs to no context and outlives its reset"
        " (its variables are initialised anew then).",
        values_on_error=True,
    ),
    Request(11, "MODULE_UNLOAD", ("module",)),
    Request(
        12,
        "KERNEL_GET",
        ("module",),
        (
            "kernel",
            "parameter_count",
            "parameter_bytes",
            "static_shared_bytes",
            "local_bytes",
            "constant_bytes",
            "max_threads_per_block",
            "registers",
            "ptx_version",  # 10 * major + minor of the target, as CU_FUNC_ATTRIBUTE_PTX_VERSION
            "binary_version",
            "max_dynamic_shared_bytes",
            "cluster_width",  # required cluster size of the kernel; 0: none
            "cluster_height",
            "cluster_depth",
            "most_cluster_blocks",  # 0: not said
            "cluster_must_be_set",
            "blocks_are_clusters",
            "required_block_x",  # 0: any block
            "required_block_y",
            "required_block_z",
            "refused",  # CUresult of launches if it is known already that the kernel cannot be translated; else 0
        ),
        "kernel name, UTF-8, no NUL",
        "{u32 offset, u32 bytes} of each parameter",
        "unknown name: CUDA_ERROR_NOT_FOUND. May be answered before the kernel is compiled.",
    ),
    Request(13, "KERNEL_NAMES", ("module",), ("count",), "", "names, each followed by a NUL"),
    Request(
        14,
        "GLOBAL_GET",
        ("module",),
        ("address", "bytes", "managed"),
        "variable name, UTF-8, no NUL",
        meaning="unknown name: CUDA_ERROR_NOT_FOUND; managed is 1 for `.attribute(.managed)` variables",
    ),
    Request(15, "KERNEL_PREPARE", ("kernel",), meaning="the kernel's error if it is known that it cannot be compiled"),
    Request(16, "FUNCTION_ATTRIBUTE_SET", ("kernel", "attribute", "value"), meaning="CUfunction_attribute numbers"),
    Request(17, "OCCUPANCY", ("kernel", "block_threads", "dynamic_shared_bytes", "flags"), ("blocks",)),
    Request(18, "LINK_CREATE", JIT_ARGUMENTS, ("link",)),
    Request(
        19,
        "LINK_ADD",
        ("link", "input_type", "name_bytes"),
        LOG_REPLIES,
        "name (name_bytes bytes), then the data",
        LOG_PAYLOAD,
        "CUjitInputType numbers: 0 cubin, 1 PTX, 2 fat binary, 3 object, 4 library",
        values_on_error=True,
    ),
    Request(
        20,
        "LINK_COMPLETE",
        ("link",),
        (*LOG_REPLIES, "image_bytes"),
        "",
        "info log, error log, then an image that MODULE_LOAD kind 1 accepts",
        values_on_error=True,
    ),
    Request(21, "LINK_DESTROY", ("link",)),
    # memory
    Request(
        30,
        "MEM_ALLOC",
        ("bytes", "kind", "flags", "alignment"),
        ("address",),
        meaning="kind 0 device, 1 managed, 2 pinned host; alignment 0: the device's (512)",
    ),
    Request(31, "MEM_FREE", ("address",), meaning="the client has waited for the context's work before"),
    Request(32, "MEM_INFO", (), ("free", "total")),
    Request(
        33,
        "POINTER_RANGE",
        ("address",),
        ("base", "bytes", "kind", "context", "flags", "identifier"),
        meaning="the allocation (kinds of MEM_ALLOC; 3 module variable, 4 array, 5 registered host, 6 pool) that holds"
        " the address; CUDA_ERROR_INVALID_VALUE if none",
    ),
    Request(
        34,
        "HOST_REGISTER",
        ("host_address", "bytes", "flags"),
        ("address",),
        meaning="reserves page-aligned arena space; the client moves the contents there and maps it over the program's"
        " pages. Both values are multiples of 4096.",
    ),
    Request(35, "HOST_UNREGISTER", ("address",), meaning="the arena address that HOST_REGISTER gave"),
    Request(36, "POOL_CREATE", ("flags", "maximum_bytes"), ("pool",), meaning="pool 1 is the device's default pool"),
    Request(37, "POOL_DESTROY", ("pool",)),
    Request(38, "POOL_ATTRIBUTE_GET", ("pool", "attribute"), ("value",), meaning="CUmemPool_attribute numbers"),
    Request(39, "POOL_ATTRIBUTE_SET", ("pool", "attribute", "value")),
    Request(40, "POOL_TRIM", ("pool", "minimum_bytes")),
    Request(
        41,
        "POOL_ALLOC",
        ("pool", "bytes", "stream"),
        ("address",),
        meaning="allocates at once (stream order is kept because the address is fresh or freed earlier in order);"
        " freed by FREE_ASYNC records or MEM_FREE",
    ),
    Request(
        42,
        "ARRAY_CREATE",
        ("width", "height", "depth", "format", "channels", "flags", "levels"),
        ("array", "address", "row_pitch", "slice_pitch", "bytes"),
        "",
        "per level: u64 address, width, height, depth, row_pitch, slice_pitch (widths in elements)",
        "CUDA_ARRAY3D_DESCRIPTOR fields; height and depth may be 0; levels 1: no mipmap",
    ),
    Request(43, "ARRAY_DESTROY", ("array",)),
    Request(44, "TEXTURE_CREATE", (), ("handle",), "texture_request", meaning="handle: address of the descriptor"),
    Request(45, "TEXTURE_DESTROY", ("handle",)),
    Request(46, "SURFACE_CREATE", (), ("handle",), "texture_request (array resources only)"),
    Request(47, "SURFACE_DESTROY", ("handle",)),
    # graphs: a node's parameters are a ring record (`abi/wire.py`) with sequence 0, of kind LAUNCH, COPY, COPY_3D, FILL,
    # HOST_CALL, EVENT_RECORD, EVENT_WAIT, FREE_ASYNC, WAIT_VALUE, WRITE_VALUE, or NOP (empty, child graph). Node kinds
    # are CUgraphNodeType numbers: 0 kernel, 1 memcpy, 2 memset, 3 host, 4 child graph, 5 empty, 6 wait event, 7 event
    # record, 10 mem alloc, 11 mem free, 12 batch mem op. Node numbers are unique over all graphs.
    Request(60, "GRAPH_CREATE", ("flags",), ("graph",)),
    Request(61, "GRAPH_DESTROY", ("graph",)),
    Request(62, "GRAPH_CLONE", ("graph",), ("graph",)),
    Request(
        63,
        "GRAPH_ADD_NODE",
        ("graph", "kind", "dependencies", "child_graph"),
        ("node",),
        "u64 node numbers of the dependencies, then the record",
        meaning="a child graph is cloned",
    ),
    Request(
        64, "GRAPH_NODE_GET", ("node",), ("kind", "graph", "child_graph", "address", "bytes"), "", "the record",
        "address and bytes: of allocation nodes",
    ),
    Request(65, "GRAPH_NODE_SET", ("node",), (), "the record"),
    Request(66, "GRAPH_NODE_DESTROY", ("node",)),
    Request(67, "GRAPH_NODES", ("graph", "roots_only"), ("count",), "", "u64 node numbers in order of creation"),
    Request(68, "GRAPH_EDGES", ("graph",), ("count",), "", "{u64 from, u64 to}"),
    Request(69, "GRAPH_EDGES_ADD", ("graph", "count"), (), "{u64 from, u64 to}"),
    Request(70, "GRAPH_EDGES_REMOVE", ("graph", "count"), (), "{u64 from, u64 to}"),
    Request(71, "GRAPH_NODE_NEIGHBOURS", ("node", "dependents"), ("count",), "", "u64 node numbers",
            "dependents 0: nodes it depends on, 1: nodes that depend on it"),
    Request(72, "GRAPH_NODE_IN_CLONE", ("node", "clone"), ("node",)),
    Request(73, "GRAPH_INSTANTIATE", ("graph", "flags"), ("executable",),
            meaning="the number is what GRAPH_LAUNCH records name"),
    Request(74, "EXECUTABLE_DESTROY", ("executable",)),
    Request(75, "EXECUTABLE_NODE_SET", ("executable", "node"), (), "the record"),
    Request(76, "EXECUTABLE_NODE_ENABLE", ("executable", "node", "enabled")),
    Request(77, "EXECUTABLE_NODE_ENABLED", ("executable", "node"), ("enabled",)),
    Request(78, "EXECUTABLE_UPDATE", ("executable", "graph"), ("update_result", "node"),
            meaning="update_result: CUgraphExecUpdateResult; with CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE as result if not 0",
            values_on_error=True),
    Request(79, "EXECUTABLE_CHILD_SET", ("executable", "node", "graph")),
    Request(80, "GRAPH_ADD_ALLOC", ("graph", "dependencies", "bytes"), ("node", "address"),
            "u64 node numbers of the dependencies"),
    Request(81, "GRAPH_MEMORY_GET", ("attribute",), ("value",), meaning="CUgraphMem_attribute numbers"),
    Request(82, "GRAPH_MEMORY_RESET", ("attribute",), meaning="the high-water marks only"),
    Request(83, "GRAPH_MEMORY_TRIM", ()),
    Request(84, "GRAPH_MEMORY_FREE", ("address",), meaning="memory of an allocation node, freed outside of its graph"),
    # stream capture (kept by the device process; the client only knows which of its streams are capturing)
    Request(90, "CAPTURE_BEGIN", ("stream", "mode", "graph", "dependencies"), (), "u64 node numbers",
            meaning="graph 0: a new one, else capture to this graph"),
    Request(91, "CAPTURE_END", ("stream",), ("graph", "streams"), "", "u32 slots of all streams that left the capture",
            "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, _UNJOINED, _WRONG_THREAD … as CUDA", values_on_error=True),
    Request(92, "CAPTURE_ADD", ("stream", "kind", "child_graph"), ("node",), "the record"),
    Request(93, "CAPTURE_EVENT_RECORD", ("stream", "event"), (),
            meaning="remembers the stream's dependencies under the event"),
    Request(94, "CAPTURE_EVENT_WAIT", ("stream", "event"), ("joined",),
            meaning="joins the stream (which may not be capturing yet) to the capture of the event"),
    Request(95, "CAPTURE_INFO", ("stream",), ("status", "identifier", "graph", "dependencies"), "", "u64 node numbers",
            "status: CUstreamCaptureStatus"),
    Request(96, "CAPTURE_SET_DEPENDENCIES", ("stream", "replace", "count"), (), "u64 node numbers"),
    Request(97, "CAPTURE_INVALIDATE", ("stream",), meaning="a call that is not allowed was made on a capturing stream"),
    Request(98, "CAPTURE_ALLOC", ("stream", "bytes", "pool"), ("node", "address")),
    # virtual memory management
    Request(110, "ADDRESS_RESERVE", ("bytes", "alignment", "hint"), ("address",)),
    Request(111, "ADDRESS_FREE", ("address", "bytes")),
    Request(112, "PHYSICAL_CREATE", ("bytes",), ("physical",)),
    Request(113, "PHYSICAL_RELEASE", ("physical",)),
    Request(114, "PHYSICAL_MAP", ("address", "bytes", "offset", "physical")),
    Request(115, "PHYSICAL_UNMAP", ("address", "bytes")),
)  # fmt: skip

# Payload of TEXTURE_CREATE and SURFACE_CREATE: CUDA_RESOURCE_DESC with array handles resolved, CUDA_TEXTURE_DESC,
# CUDA_RESOURCE_VIEW_DESC. Floats are given by their bits.
TEXTURE_REQUEST = Struct(
    "texture_request",
    208,
    (
        Field("resource_kind", "u32", 1, "CUresourcetype: 0 array, 1 mipmapped array, 2 linear, 3 pitch 2D"),
        Field("flags", "u32", 1, "CU_TRSF_ flags: 1 read as integer, 2 normalized coordinates, 16 sRGB, ..."),
        Field("array", "u64", 1, "array number; 0 for linear memory"),
        Field("address", "u64"),
        Field("bytes", "u64"),
        Field("row_pitch", "u64"),
        Field("slice_pitch", "u64"),
        Field("width", "u64", 1, "elements"),
        Field("height", "u64"),
        Field("depth", "u64"),
        Field("format", "u32", 1, "CUarray_format"),
        Field("channels", "u32"),
        Field("array_flags", "u32", 1, "CUDA_ARRAY3D_ flags: 1 layered, 2 surface, 4 cube map"),
        Field("levels", "u32"),
        Field("address_mode", "u32", 3, "CUaddress_mode"),
        Field("filter_mode", "u32"),
        Field("max_anisotropy", "u32"),
        Field("mipmap_filter_mode", "u32"),
        Field("mipmap_level_bias", "u32"),
        Field("min_mipmap_level_clamp", "u32"),
        Field("max_mipmap_level_clamp", "u32"),
        Field("border_color", "u32", 4),
        Field("has_view", "u32", 1, "1: the view_ fields count"),
        Field("view_format", "u32", 1, "CUresourceViewFormat"),
        Field("view_first_level", "u32"),
        Field("view_last_level", "u32"),
        Field("view_first_layer", "u32"),
        Field("view_last_layer", "u32"),
        Field("view_width", "u64"),
        Field("view_height", "u64"),
        Field("view_depth", "u64"),
    ),
)
