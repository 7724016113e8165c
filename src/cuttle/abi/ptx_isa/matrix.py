"""Matrix opcodes (PTX ISA 9.0, 9.7.14 to 9.7.16)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

ROWS: tuple[Opcode, ...] = (
    Opcode("wmma.load", "matrix", "T: A u32?", "cross", since=("6.0", "sm_70"), status="todo", section="9.7.14.4.3"),
    Opcode("wmma.store", "matrix", ": A T u32?", "cross", since=("6.0", "sm_70"), status="todo", section="9.7.14.4.4"),
    Opcode("wmma.mma", "matrix", "b32: b32 b32 b32", "cross", since=("6.0", "sm_70"), status="todo", section="9.7.14.4.5"),
    Opcode("mma", "matrix", "b32: b32 b32 b32", "cross", since=("6.4", "sm_70"), status="todo", section="9.7.14.5"),
    Opcode("mma.sp", "matrix", "b32: b32 b32 b32 b32 X", "cross", since=("7.1", "sm_80"), status="todo",
           section="9.7.14.6"),
    Opcode("mma.sp::ordered_metadata", "matrix", "b32: b32 b32 b32 b32 X", "cross", since=("8.5", "sm_80"), status="todo",
           section="9.7.14.6"),
    Opcode("ldmatrix", "matrix", "b32: A", "cross", since=("6.5", "sm_75"), status="todo", section="9.7.14.5.15"),
    Opcode("stmatrix", "matrix", ": A b32", "cross", since=("7.8", "sm_90"), status="todo", section="9.7.14.5.16"),
    Opcode("movmatrix", "matrix", "b32: b32", "cross", since=("7.8", "sm_75"), status="todo", section="9.7.14.5.17"),
    *(
        Opcode(f"wgmma.{name}", "matrix", ": X*", "cross", since=("8.0", "sm_90a"), status="refuse", section=f"9.7.15.{part}")
        for name, part in (
            ("mma_async", "5"), ("mma_async.sp", "6"), ("fence", "7.1"), ("commit_group", "7.2"), ("wait_group", "7.3"),
        )
    ),
    *(
        Opcode(f"tcgen05.{name}", "matrix", ": X*", "cross", since=("8.6", "sm_100a"), status="refuse", section="9.7.16")
        for name in (
            "alloc", "dealloc", "relinquish_alloc_permit", "ld", "ld.red", "st", "wait", "cp", "shift", "mma", "mma.sp",
            "mma.ws", "mma.ws.sp", "fence", "commit",
        )
    ),
)  # fmt: skip
