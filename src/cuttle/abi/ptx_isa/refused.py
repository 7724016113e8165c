"""The closed list of PTX that is refused: what ptxas takes (or the ISA describes) and Cuttle does not run, and why.

One row per kind, with its own error code. Only the kernel that executes such an instruction is refused. A rule is an
opcode (`*` at its end stands for any rest) and modifiers: one of each group `a|b` must be there, `!a` must not.
Rows without rules are raised by the op functions, which see more than the spelling. `example` is an instruction that is
refused so; `tests/ops/test_refused.py` walks the list.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refused:
    """One kind of PTX that is not run: error code, title, rules, an example with operands, why, and what to do."""

    code: str
    title: str
    rules: tuple[str, ...]
    example: str
    explanation: str
    hint: str


_OLDER = "Compile for sm_80, or let the program choose its code for compute capability 8.0 (CUTTLE_COMPUTE_CAPABILITY)."

REFUSED: tuple[Refused, ...] = (
    Refused(
        "PTX-0501", "warpgroup matrix instructions", ("wgmma.*",), "wgmma.fence.sync.aligned;",
        "wgmma works on shared memory through descriptors, and exists for sm_90a alone.", _OLDER,
    ),
    Refused(
        "PTX-0502", "tensor memory instructions", ("tcgen05.*",), "tcgen05.fence::before_thread_sync;",
        "tcgen05 works on a memory of its own, and exists for sm_100a and its family alone.", _OLDER,
    ),
    Refused(
        "PTX-0503", "multicast memory", ("multimem.*",), "multimem.red.global.add.u32 [%l0], %r0;",
        "multimem instructions reach the memories of several GPUs at once; there is one device.",
        "Programs ask CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED first, which is 0 here.",
    ),
    Refused(
        "PTX-0504", "cluster launch control", ("clusterlaunchcontrol.*",),
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p0, %q0;",
        "Work stealing between clusters exists for sm_100 and later alone.", _OLDER,
    ),
    Refused(
        "PTX-0505", "tensor maps",
        ("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "cp.async.bulk.prefetch.tensor", "tensormap.*"),
        "cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%l0, {%r0}];",
        "Copies by tensor map are not built. In compiled code they come with wgmma or tcgen05, which are refused as well; "
        "copies without a tensor map (cp.async.bulk) work.", _OLDER,
    ),
    Refused(
        "PTX-0506", "kind of a texture handle", ("istypep",), "istypep.texref %p0, %l0;",
        "istypep asks what kind of handle a number is; handles carry no such mark here.",
        "No CUDA compiler writes it. Please report the program that needs it.",
    ),
    Refused(
        "PTX-0508", "multisample textures", ("tex 2dms|a2dms",),
        "tex.2dms.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%l0, {%r0, %r1, %r2, %r3}];",
        "Multisample images come from graphics libraries alone, which cannot share memory with Cuttle.",
        "Resolve the image before CUDA reads it.",
    ),
    Refused(
        "PTX-0509", "formatted 64-bit reductions on surfaces", ("sured p b64",), "sured.p.min.2d.b64.trap [%l0, {%r0, %r1}], %l0;",
        "ptxas takes sured.p with b64, but no surface has texels of one 64-bit number: there is nothing to compare with.",
        "Use sured.b, which says what the bytes are.",
    ),
    Refused(
        "PTX-0510", "queries of other texturing modes", ("txq force_unnormalized_coords", "suq memory_layout"),
        "txq.force_unnormalized_coords.b32 %r0, [%l0];",
        "These ask for properties that only the independent texturing mode of OpenCL has.",
        "Use the queries of texture objects.",
    ),
    Refused(
        "PTX-0511", "directed rounding of bf16 fma", ("fma rz|rm|rp bf16|bf16x2 !f32",), "fma.rz.bf16 %h0, %h0, %h0, %h0;",
        "The ISA knows fma.rn alone for bf16. ptxas takes the others, but an H200 answers 136 to 1 * 1 + 0: there is no "
        "meaning to keep.",
        "Use fma.rn, or round from f32.",
    ),
    Refused(
        "PTX-0512", "matrix shapes and kinds that sm_90 does not have", (),
        "mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {%r0, %r1, %r2, %r3}, "
        "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3};",
        "The combination of shape and element types stands in no table of the ISA for sm_90 or below; ptxas lets some "
        "pass, and block-scaled kinds belong to later GPUs.",
        _OLDER,
    ),
    Refused(
        "PTX-0513", "number formats of later GPUs",
        ("cvt rs|e2m1x2|e2m3x2|e3m2x2|ue8m0x2|s2f6x2|e4m3x4|e5m2x4|e2m1x4|e2m3x4|e3m2x4",),
        "cvt.rn.satfinite.e2m3x2.f32 %h0, %r0, %r1;",
        "4- and 6-bit floats, scales and stochastic rounding begin with sm_100; nothing to compare with was recorded.",
        _OLDER,
    ),
)  # fmt: skip


def rule_fits(rule: str, opcode: str, modifiers: tuple[str, ...]) -> bool:
    """Whether a rule is about an instruction."""
    name, *groups = rule.split()
    if not (opcode.startswith(name[:-1]) if name.endswith("*") else opcode == name):
        return False
    return all(
        group[1:] not in modifiers if group.startswith("!") else any(part in modifiers for part in group.split("|"))
        for group in groups
    )


def refused_by(opcode: str, modifiers: tuple[str, ...]) -> Refused | None:
    """The row that refuses an instruction, if one does by its spelling."""
    for row in REFUSED:
        if any(rule_fits(rule, opcode, modifiers) for rule in row.rules):
            return row
    return None
