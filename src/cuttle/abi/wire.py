"""Wire facts: layouts of everything that two of our processes share, as frozen rows.

Three processes take part: the *program* with the client library (C), the *device process* (Python) and the *executor*
(C, runs kernels). They share four memfds:

| memfd     | mapped by                     | holds                                                              |
| --------- | ----------------------------- | ------------------------------------------------------------------ |
| `control` | program, device process       | Control page, device attributes, command ring, request and payload |
| `status`  | program, device, executor     | Status page, stream slots, event slots, host-call queue, text FIFO |
| `arena`   | program, device, executor     | device memory, at one fixed address in program and executor        |
| `jobs`    | device process, executor      | Jobs page and job ring                                             |

The program never maps `jobs`, the executor never maps `control`: a wild store of a kernel cannot reach the command
ring, and a program cannot change a record after it was checked. C headers and Python offsets are generated from the
rows (`tools/generate.py`); little endian, natural alignment, x86-64 ordering (plain stores published in order).
"""

from __future__ import annotations

from dataclasses import dataclass

PROTOCOL_VERSION = 1

ARENA_BASE = 0x2000_0000_0000  # first candidate; further ones follow at 16 TiB steps
ARENA_STEP = 0x1000_0000_0000

SLOT_BYTES = 128
RING_SLOTS = 16384
STREAM_SLOTS = 4096
EVENT_SLOTS = 65536
HOST_CALL_SLOTS = 1024
PAYLOAD_BYTES = 1 << 20
TEXT_FIFO_BYTES = 8 << 20
REQUEST_ARGUMENTS = 24
ATTRIBUTE_COUNT = 256

# Offsets of the parts of each memfd.
CONTROL_PAGE_AT = 0
ATTRIBUTES_AT = 4096
RING_AT = 8192
PAYLOAD_AT = RING_AT + RING_SLOTS * SLOT_BYTES
CONTROL_BYTES = PAYLOAD_AT + PAYLOAD_BYTES

STATUS_PAGE_AT = 0
STREAMS_AT = 4096
EVENTS_AT = STREAMS_AT + STREAM_SLOTS * 64
HOST_CALLS_AT = EVENTS_AT + EVENT_SLOTS * 32
TEXT_AT = HOST_CALLS_AT + HOST_CALL_SLOTS * 32
STATUS_BYTES = TEXT_AT + TEXT_FIFO_BYTES

JOBS_PAGE_AT = 0
JOB_RING_AT = 4096
JOB_SLOTS = 16384
JOBS_BYTES = JOB_RING_AT + JOB_SLOTS * SLOT_BYTES


@dataclass(frozen=True, slots=True)
class Field:
    """A member: C type of `u8 u16 u32 i32 u64`, element count (arrays), and what it means."""

    name: str
    type: str
    count: int = 1
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    """A C struct with natural alignment; `bytes` is its padded size."""

    name: str
    bytes: int
    fields: tuple[Field, ...]
    meaning: str = ""


CONTROL = Struct(
    "control_page",
    4096,
    (
        Field("magic", "u32", 1, "0x43555454 once the device process is ready"),
        Field("version", "u32", 1, "PROTOCOL_VERSION"),
        Field("device_pid", "i32"),
        Field("client_pid", "i32"),
        Field("arena_base", "u64", 1, "chosen by the client"),
        Field("arena_bytes", "u64", 1, "client: at most; set by the device process before `magic`"),
        Field("budget_bytes", "u64", 1, "memory the device admits to have"),
        Field("device_count", "u32"),
        Field("ready_error", "i32", 1, "CUresult of start-up; 0 is ready"),
        Field("uuid", "u8", 16),
        Field("device_name", "u8", 256),
        Field("compute_major", "u32"),
        Field("compute_minor", "u32"),
        # command ring: client publishes head, the device process publishes tail (slot numbers, never wrapped)
        Field("ring_head", "u64", 1, "client: slots published"),
        Field("ring_pad0", "u64", 7),
        Field("ring_tail", "u64", 1, "device: slots consumed"),
        Field("ring_pad1", "u64", 7),
        Field("device_sleeping", "u32", 1, "device: 1 while it sleeps in poll; client then writes a byte to the socket"),
        Field("client_waiting", "u32", 1, "client: 1 while it sleeps for a reply or for ring space"),
        # one synchronous request at a time, under the client's lock
        Field("request_sequence", "u64", 1, "client: incremented to publish a request"),
        Field("reply_sequence", "u64", 1, "device: set equal to answer it"),
        Field("request_function", "u32", 1, "row number in abi (REQUESTS or driver function index)"),
        Field("request_count", "u32"),
        Field("request_payload_bytes", "u32"),
        Field("reply_result", "i32", 1, "CUresult"),
        Field("reply_payload_bytes", "u32"),
        Field("request_flags", "u32", 1, "1: payload is a chunk to append to the upload buffer"),
        Field("request_arguments", "u64", REQUEST_ARGUMENTS, "arguments; the reply's values take their place"),
        Field("request_thread", "u64", 1, "number of the calling client thread"),
        Field("request_context", "u64", 1, "current context handle of the calling thread"),
    ),
)

STATUS = Struct(
    "status_page",
    4096,
    (
        Field("sticky_error", "i32", 1, "CUresult that poisons the context; 0 is healthy"),
        Field("executor_pid", "i32"),
        Field("executor_epoch", "u32", 1, "incremented for each fresh executor"),
        Field("completion_word", "u32", 1, "futex: incremented by the executor after each completion that someone awaits"),
        Field("completion_waiters", "u32", 1, "client threads asleep on completion_word"),
        Field("pad0", "u32", 11),
        Field("host_call_head", "u64", 1, "executor: host calls posted"),
        Field("host_call_tail", "u64", 1, "client: host calls taken"),
        Field("host_call_word", "u32", 1, "futex for the client's service thread"),
        Field("pad1", "u32", 11),
        Field("text_head", "u64", 1, "executor: bytes of device output written"),
        Field("text_tail", "u64", 1, "client: bytes taken"),
        Field("text_limit", "u64", 1, "CU_LIMIT_PRINTF_FIFO_SIZE, at most TEXT_FIFO_BYTES"),
        Field("error_text", "u8", 1024, "one line about the sticky error"),
        Field("launch_error", "i32", 1, "CUresult of a launch that did not happen; the next call that waits takes it"),
        Field("end_text", "u8", 252, "why the device process ends, written by it before it does"),
    ),
)

STREAM = Struct(
    "stream_slot",
    64,
    (
        Field("submitted", "u64", 1, "client: sequence number of the last record of this stream"),
        Field("completed", "u64", 1, "executor: sequence number of the last record finished"),
        Field("flags", "u32", 1, "1 in use, 2 non-blocking, 4 capturing"),
        Field("priority", "i32"),
        Field("identifier", "u64"),
    ),
)

EVENT = Struct(
    "event_slot",
    32,
    (
        Field("recorded", "u64", 1, "client: number of the latest cuEventRecord (0: never)"),
        Field("completed", "u64", 1, "executor: number of the latest record that was reached"),
        Field("time_ns", "u64", 1, "executor: CLOCK_MONOTONIC at completion"),
        Field("flags", "u32"),
        Field("stream", "u32"),
    ),
)

HOST_CALL = Struct(
    "host_call",
    32,
    (
        Field("function", "u64"),
        Field("data", "u64"),
        Field("stream", "u32"),
        Field("kind", "u32", 1, "0 cuLaunchHostFunc, 1 cuStreamAddCallback"),
        Field("ticket", "u64", 1, "sent back in the HOST_DONE record"),
    ),
)

JOBS = Struct(
    "jobs_page",
    4096,
    (
        Field("version", "u32"),
        Field("workers", "u32", 1, "threads of the pool"),
        Field("timeout_ms", "u32", 1, "0: kernels may run for ever"),
        Field("executor_sleeping", "u32"),
        Field("head", "u64", 1, "device process: slots published"),
        Field("pad0", "u64", 7),
        Field("tail", "u64", 1, "executor: slots finished"),
        Field("pad1", "u64", 7),
        Field("arena_base", "u64"),
        Field("arena_bytes", "u64"),
        Field("arena_used", "u64", 1, "device process: bytes from the beginning that were ever given out; the rest faults"),
        Field("heap_base", "u64", 1, "device malloc heap inside the arena"),
        Field("heap_bytes", "u64"),
        Field("local_limit_bytes", "u64", 1, "CU_LIMIT_STACK_SIZE per lane"),
        Field("fault_kind", "u32", 1, "FAULTS; written by the executor before it exits"),
        Field("fault_image", "u32"),
        Field("fault_address", "u64"),
        Field("fault_instruction", "u64", 1, "offset in the image"),
        Field("fault_block", "u32", 3),
        Field("fault_thread", "u32", 1, "linear in its block; 0xFFFFFFFF: not known"),
        Field("fault_line", "u32", 1, "of the PTX text; 0: not known"),
        Field("fault_access", "u32", 1, "of memory: 0 not known, 1 read, 2 write"),
        Field("fault_text", "u8", 1024),
    ),
)

# Ring records: 128-byte slots; a record may take several slots (`slots`), its body running on into the next ones.
# The client's ring and the job ring use the same records. In the client's ring LAUNCH.target is a kernel id; in the
# job ring it is an image index that a LOAD record announced before.
HEADER_FIELDS = (
    Field("kind", "u16"),
    Field("slots", "u16"),
    Field("stream", "u32", 1, "stream slot"),
    Field("sequence", "u64", 1, "the stream's sequence number"),
)


@dataclass(frozen=True, slots=True)
class Record:
    """A ring record: its kind number and the fields after the common header of 16 bytes."""

    kind: int
    name: str
    fields: tuple[Field, ...]
    meaning: str = ""


RECORDS: tuple[Record, ...] = (
    Record(0, "NOP", (), "fills the ring's end when a record would wrap"),
    Record(
        1,
        "LAUNCH",
        (
            Field("target", "u32", 1, "kernel id (client ring) or image index (job ring)"),
            Field("grid", "u32", 3),
            Field("block", "u32", 3),
            Field("dynamic_shared_bytes", "u32"),
            Field("parameter_bytes", "u32"),
            Field("flags", "u32", 1, "1 cooperative"),
            Field("cluster", "u32", 3),
            Field("cluster_is_attribute", "u32", 1, "1: given with the launch or node, 0: the kernel's own or none"),
        ),
        "parameters follow at byte 72 of the record",
    ),
    Record(2, "COPY", (Field("destination", "u64"), Field("source", "u64"), Field("bytes", "u64"))),
    Record(
        3,
        "COPY_3D",
        (
            Field("destination", "u64"),
            Field("source", "u64"),
            Field("width_bytes", "u64"),
            Field("height", "u64"),
            Field("depth", "u64"),
            Field("destination_pitch", "u64"),
            Field("destination_slice", "u64"),
            Field("source_pitch", "u64"),
            Field("source_slice", "u64"),
        ),
    ),
    Record(
        4,
        "FILL",
        (
            Field("destination", "u64"),
            Field("width", "u64", 1, "elements per row"),
            Field("height", "u64"),
            Field("pitch", "u64", 1, "bytes"),
            Field("value", "u32"),
            Field("element_bytes", "u32"),
        ),
    ),
    Record(5, "EVENT_RECORD", (Field("event", "u32"), Field("pad", "u32"), Field("number", "u64"))),
    Record(6, "EVENT_WAIT", (Field("event", "u32"), Field("pad", "u32"), Field("number", "u64"))),
    Record(
        7,
        "HOST_CALL",
        (Field("function", "u64"), Field("data", "u64"), Field("call_kind", "u32"), Field("pad", "u32"), Field("ticket", "u64")),
        "the executor posts it to the host-call queue; the stream stays blocked until HOST_DONE",
    ),
    Record(8, "HOST_DONE", (Field("ticket", "u64"),), "client to device: the function returned"),
    Record(9, "STREAM_CREATE", (Field("flags", "u32"), Field("priority", "i32"))),
    Record(10, "STREAM_DESTROY", ()),
    Record(11, "GRAPH_LAUNCH", (Field("graph", "u64"),)),
    Record(12, "FREE_ASYNC", (Field("address", "u64"),)),
    Record(13, "WAIT_VALUE", (Field("address", "u64"), Field("value", "u64"), Field("flags", "u32"), Field("bits", "u32"))),
    Record(14, "WRITE_VALUE", (Field("address", "u64"), Field("value", "u64"), Field("flags", "u32"), Field("bits", "u32"))),
    # job ring only
    Record(
        20,
        "LOAD",
        (
            Field("image", "u32", 1, "index that later LAUNCH records name"),
            Field("path_bytes", "u32"),
            Field("symbols", "u64", 1, "arena address of the image's u64 symbol address array; 0 if it has none"),
        ),
        "path of the image file follows at byte 32",
    ),
    Record(21, "UNLOAD", (Field("image", "u32"), Field("pad", "u32"))),
    Record(22, "MARK", (), "does nothing but complete its stream's sequence number"),
    Record(23, "COVER", (Field("address", "u64"), Field("bytes", "u64")), "kernels of later records may access this part of the arena"),
    Record(31, "SHUTDOWN", ()),
)

# What stopped an executor (jobs_page.fault_kind) and the CUresult that the context gets.
FAULTS: tuple[tuple[int, str, int], ...] = (
    (0, "none", 0),
    (1, "illegal address", 700),
    (2, "misaligned address", 716),
    (3, "trap", 719),  # CUDA_ERROR_LAUNCH_FAILED, as hardware answers for trap
    (4, "assert", 710),
    (5, "stack overflow", 700),  # as recorded on an H200: CUDA_ERROR_ILLEGAL_ADDRESS
    (6, "time-out", 702),
    (7, "illegal instruction", 715),
    (8, "image failed to load", 300),
    (9, "index wrapped", 719),  # of an address, in an active lane; see docs/design/cpu_simt.md
    (10, "barrier deadlock", 719),
    (11, "device memory ran out", 2),
)
