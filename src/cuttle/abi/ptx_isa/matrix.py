"""Matrix opcodes (PTX ISA 9.0, 9.7.14 to 9.7.16)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_F64 = (("f64", "b64: b64 b64 b64"),)
_WMMA_SHAPE = "(.m16n16k16|.m8n32k16|.m32n8k16)"
_SUB_BYTE = "(.m8n8k32[.global|.shared](.s4|.u4)|.m8n8k128[.global|.shared].b1)"
_F64_ROUNDING = "[.rn|.rz|.rm|.rp]"
_BYTES = "(.s8|.u8)(.s8|.u8)"
_NIBBLES = "(.s4|.u4)(.s4|.u4)"
_FP8 = "(.e4m3|.e5m2)(.e4m3|.e5m2)"
# Half products accumulate in the type of the result; m8n8k4 alone widens.
_HALVES = "(.f16.f16.f16.f16|.f32.f16.f16.f32)"


def _sparse(name: str, since: tuple[str, str]) -> Opcode:
    """The row of a sparse mma: both names take the same forms (f16 sums of 8-bit floats begin with sm_120)."""
    start = f"{name}.sync.aligned"
    return Opcode(name, "matrix", "b32: b32 b32 b32 b32 X", "cross", syntax=(
        f"{start}(.m16n8k16|.m16n8k32).row.col({_HALVES}|.f32.bf16.bf16.f32)",
        f"{start}(.m16n8k8|.m16n8k16).row.col.f32.tf32.tf32.f32",
        f"{start}(.m16n8k32|.m16n8k64).row.col[.satfinite].s32{_BYTES}.s32",
        f"{start}(.m16n8k64|.m16n8k128).row.col[.satfinite].s32{_NIBBLES}.s32",
        f"{start}.m16n8k64.row.col.f32{_FP8}.f32",
    ), since=since, section="9.7.14.6")  # fmt: skip


ROWS: tuple[Opcode, ...] = (
    Opcode("wmma.load", "wmma", "b32: A u32?", "cross", forms=(("f64", "b64: A u32?"),), syntax=(
        f"wmma.load(.a|.b).sync.aligned(.row|.col){_WMMA_SHAPE}[.global|.shared](.f16|.bf16|.s8|.u8)",
        f"wmma.load.c.sync.aligned(.row|.col){_WMMA_SHAPE}[.global|.shared](.f16|.f32|.s32)",
        "wmma.load(.a|.b).sync.aligned(.row|.col).m16n16k8[.global|.shared].tf32",
        "wmma.load.c.sync.aligned(.row|.col).m16n16k8[.global|.shared].f32",
        "wmma.load(.a|.b|.c).sync.aligned(.row|.col).m8n8k4[.global|.shared].f64",
        f"wmma.load.a.sync.aligned.row{_SUB_BYTE}", f"wmma.load.b.sync.aligned.col{_SUB_BYTE}",
        "wmma.load.c.sync.aligned(.row|.col)(.m8n8k32|.m8n8k128)[.global|.shared].s32",
    ), since=("6.0", "sm_70"), section="9.7.14.4.3"),
    Opcode("wmma.store", "wmma", ": A b32 u32?", "cross", forms=(("f64", ": A b64 u32?"),), syntax=(
        f"wmma.store.d.sync.aligned(.row|.col){_WMMA_SHAPE}[.global|.shared](.f16|.f32|.s32)",
        "wmma.store.d.sync.aligned(.row|.col)(.m16n16k8[.global|.shared].f32|.m8n8k4[.global|.shared].f64)",
        "wmma.store.d.sync.aligned(.row|.col)(.m8n8k32|.m8n8k128)[.global|.shared].s32",
    ), since=("6.0", "sm_70"), section="9.7.14.4.4"),
    Opcode("wmma.mma", "wmma", "b32: b32 b32 b32", "cross", forms=_F64, syntax=(
        f"wmma.mma.sync.aligned(.row|.col)(.row|.col){_WMMA_SHAPE}(.f16|.f32)(.f16|.f32)",
        f"wmma.mma.sync.aligned(.row|.col)(.row|.col){_WMMA_SHAPE}.f32.bf16.bf16.f32",
        f"wmma.mma.sync.aligned(.row|.col)(.row|.col){_WMMA_SHAPE}(.s32.s8.s8.s32|.s32.u8.u8.s32)[.satfinite]",
        "wmma.mma.sync.aligned(.row|.col)(.row|.col).m16n16k8.f32.tf32.tf32.f32",
        f"wmma.mma.sync.aligned(.row|.col)(.row|.col).m8n8k4{_F64_ROUNDING}.f64.f64.f64.f64",
        "wmma.mma.sync.aligned.row.col.m8n8k32(.s32.s4.s4.s32|.s32.u4.u4.s32)[.satfinite]",
        "wmma.mma(.xor|.and).popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
    ), since=("6.0", "sm_70"), section="9.7.14.4.5"),
    Opcode("mma", "matrix", "b32: b32 b32 b32", "cross", forms=_F64, syntax=(
        f"mma.sync.aligned.m8n8k4(.row|.col)(.row|.col)({_HALVES}|.f32.f16.f16.f16)",
        f"mma.sync.aligned(.m16n8k8|.m16n8k16).row.col({_HALVES}|.f32.bf16.bf16.f32)",
        "mma.sync.aligned(.m16n8k4|.m16n8k8).row.col.f32.tf32.tf32.f32",
        f"mma.sync.aligned(.m8n8k4|.m16n8k4|.m16n8k8|.m16n8k16).row.col{_F64_ROUNDING}.f64.f64.f64.f64",
        f"mma.sync.aligned(.m8n8k16|.m16n8k16|.m16n8k32).row.col[.satfinite].s32{_BYTES}.s32",
        f"mma.sync.aligned(.m8n8k32|.m16n8k32|.m16n8k64).row.col[.satfinite].s32{_NIBBLES}.s32",
        "mma.sync.aligned(.m8n8k128|.m16n8k128|.m16n8k256).row.col.s32.b1.b1.s32(.xor|.and).popc",
        f"mma.sync.aligned(.m16n8k16|.m16n8k32).row.col(.f32{_FP8}.f32|.f16{_FP8}.f16)",
    ), since=("6.4", "sm_70"), section="9.7.14.5"),
    _sparse("mma.sp", ("7.1", "sm_80")),
    _sparse("mma.sp::ordered_metadata", ("8.5", "sm_80")),
    Opcode("ldmatrix", "matrix", "b32: A", "cross", syntax=(
        "ldmatrix.sync.aligned.m8n8(.x1|.x2|.x4)[.trans][.shared].b16",
    ), since=("6.5", "sm_75"), section="9.7.14.5.15"),
    Opcode("stmatrix", "matrix", ": A b32", "cross", syntax=(
        "stmatrix.sync.aligned.m8n8(.x1|.x2|.x4)[.trans][.shared].b16",
    ), since=("7.8", "sm_90"), section="9.7.14.5.16"),
    Opcode("movmatrix", "matrix", "b32: b32", "cross", syntax=("movmatrix.sync.aligned.m8n8.trans.b16",),
           since=("7.8", "sm_75"), section="9.7.14.5.17"),
    *(
        Opcode(f"wgmma.{name}", "matrix", ": X*", "cross", since=("8.0", "sm_90a"), status="refuse", section=f"9.7.15.{part}")
        for name, part in (
            ("mma_async", "5"), ("mma_async.sp", "6"), ("fence", "7.1"), ("commit_group", "7.2"), ("wait_group", "7.3"),
        )
    ),
    *(
        Opcode(f"tcgen05.{name}", "matrix", ": X*", "cross", since=("8.6", "sm_100a"), status="refuse", section="9.7.16")
        for name in (
            "alloc", "dealloc", "relinquish_alloc_permit", "ld", "ld.red", "st", "wait::ld", "wait::st", "cp", "shift", "mma", "mma.sp",
            "mma.ws", "mma.ws.sp", "fence::before_thread_sync", "fence::after_thread_sync", "commit",
        )
    ),
)  # fmt: skip
