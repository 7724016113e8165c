"""Instructions that touch memory, each at addresses that are more and more misaligned: the kernels, and how one is run.

`RECORD` holds what an NVIDIA H200 answered (`tools/record_alignment.py`): for each case the `CUresult` after each of `OFFSETS`,
up to the first error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuttle.sweep.driver import Driver, DriverFailure

RECORD = Path(__file__).with_name("h200.json")
OFFSETS = (0, 64, 32, 16, 8, 4, 2, 1)
"""Bytes that are added to an address that is a multiple of 128."""

WARP = 32
SPACES = ("global", "shared", "local", "const", "generic")
REGISTERS = {8: "%h", 16: "%h", 32: "%r", 64: "%d", 128: "%q"}


@dataclass(frozen=True, slots=True)
class Case:
    """`text` is PTX with `{a}` for the register with the address, in the window of `space` (generic: global memory)."""

    name: str
    space: str
    text: str


def spelled(space: str) -> str:
    return "" if space == "generic" else f".{space}"


def operand(bits: int, count: int) -> str:
    names = [f"{REGISTERS[bits]}{index}" for index in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}"


def vector(count: int) -> str:
    return "" if count == 1 else f".v{count}"


def access_cases() -> Iterator[Case]:
    for space in SPACES:
        for bits in (8, 16, 32, 64, 128):
            for count in (1, 2, 4):
                if bits * count > 128:
                    continue
                dots = f"{spelled(space)}{vector(count)}.b{bits}"
                yield Case(f"ld{dots}", space, f"ld{dots} {operand(bits, count)}, [{{a}}];")
                if space != "const":
                    yield Case(f"st{dots}", space, f"st{dots} [{{a}}], {operand(bits, count)};")
    for bits, count in ((8, 1), (16, 1), (32, 1), (64, 1), (32, 4), (64, 2)):
        dots = f"{vector(count)}.b{bits}"
        yield Case(f"ld.global.nc{dots}", "global", f"ld.global.nc{dots} {operand(bits, count)}, [{{a}}];")
        yield Case(f"ldu.global{dots}", "global", f"ldu.global{dots} {operand(bits, count)}, [{{a}}];")
    for ordering in ("volatile", "relaxed.gpu", "acquire.cta"):
        yield Case(f"ld.{ordering}.global.b32", "global", f"ld.{ordering}.global.b32 %r0, [{{a}}];")
        yield Case(f"ld.{ordering}.shared.b64", "shared", f"ld.{ordering}.shared.b64 %d0, [{{a}}];")
    for ordering in ("volatile", "relaxed.gpu", "release.cta"):
        yield Case(f"st.{ordering}.global.b32", "global", f"st.{ordering}.global.b32 [{{a}}], %r0;")
        yield Case(f"st.{ordering}.shared.b64", "shared", f"st.{ordering}.shared.b64 [{{a}}], %d0;")


ATOMICS = (
    ("add.u32", "%r", 1), ("add.u64", "%d", 1), ("add.f32", "%r", 1), ("add.f64", "%d", 1), ("add.noftz.f16", "%h", 1),
    ("add.noftz.f16x2", "%r", 1), ("min.s32", "%r", 1), ("inc.u32", "%r", 1), ("exch.b32", "%r", 1), ("exch.b64", "%d", 1),
    ("cas.b16", "%h", 2), ("cas.b32", "%r", 2), ("cas.b64", "%d", 2), ("exch.b128", "%q", 1), ("cas.b128", "%q", 2),
)  # fmt: skip


def atomic_cases() -> Iterator[Case]:
    for space in ("global", "shared", "generic"):
        for operation, register, sources in ATOMICS:
            values = ", ".join(f"{register}{index}" for index in range(1, sources + 1))
            dots = f"{spelled(space)}.{operation}"
            yield Case(f"atom{dots}", space, f"atom{dots} {register}0, [{{a}}], {values};")
            if operation.split(".")[0] not in ("exch", "cas"):
                yield Case(f"red{dots}", space, f"red{dots} [{{a}}], {values};")
    for register, count, dots in (
        ("%r", 2, "v2.f32.add"),
        ("%r", 4, "v4.f32.add"),
        ("%h", 4, "v4.f16.add.noftz"),
        ("%r", 2, "v2.f16x2.add.noftz"),
    ):
        values = "{" + ", ".join(f"{register}{index}" for index in range(count)) + "}"
        yield Case(f"red.global.{dots}", "global", f"red.global.{dots} [{{a}}], {values};")
        yield Case(f"atom.global.{dots}", "global", f"atom.global.{dots} {values}, [{{a}}], {values};")


def copy_cases() -> Iterator[Case]:
    for size in (4, 8, 16):
        yield Case(
            f"cp.async.ca {size} to",
            "shared",
            f"cp.async.ca.shared.global [{{a}}], [%source], {size}; cp.async.wait_all;",
        )
        yield Case(
            f"cp.async.ca {size} from",
            "global",
            f"cp.async.ca.shared.global [%scratch], [{{a}}], {size}; cp.async.wait_all;",
        )
    yield Case("cp.async.cg 16 to", "shared", "cp.async.cg.shared.global [{a}], [%source], 16; cp.async.wait_all;")
    yield Case("cp.async.cg 16 from", "global", "cp.async.cg.shared.global [%scratch], [{a}], 16; cp.async.wait_all;")
    yield Case(
        "cp.async.ca 16 none read from",
        "global",
        "cp.async.ca.shared.global [%scratch], [{a}], 16, 0; cp.async.wait_all;",
    )
    bulk = "@%first cp.async.bulk"
    end = " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    yield Case(
        "cp.async.bulk to global", "global", f"{bulk}.global.shared::cta.bulk_group [{{a}}], [%scratch], 16;{end}"
    )
    yield Case(
        "cp.async.bulk from shared", "shared", f"{bulk}.global.shared::cta.bulk_group [%source], [{{a}}], 16;{end}"
    )
    yield Case("cp.reduce.async.bulk to global", "global",
               f"@%first cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [{{a}}], [%scratch], 16;{end}")  # fmt: skip
    wait = (" @%first mbarrier.arrive.expect_tx.shared.b64 %d9, [%barrier], 16;"
            " again: mbarrier.try_wait.parity.shared.b64 %p, [%barrier], 0; @!%p bra again;")  # fmt: skip
    complete = f"{bulk}.shared::cluster.global.mbarrier::complete_tx::bytes"
    yield Case("cp.async.bulk from global", "global", f"{complete} [%scratch], [{{a}}], 16, [%barrier];{wait}")
    yield Case("cp.async.bulk to shared", "shared", f"{complete} [{{a}}], [%source], 16, [%barrier];{wait}")


def warp_cases() -> Iterator[Case]:
    for count in (1, 2, 4):
        for transposed in ("", ".trans"):
            dots = f".sync.aligned.m8n8.x{count}{transposed}.shared.b16"
            registers = "{" + ", ".join(f"%r{index}" for index in range(count)) + "}"
            yield Case(f"ldmatrix{dots}", "shared", f"ldmatrix{dots} {registers}, [{{a}}];")
            yield Case(f"stmatrix{dots}", "shared", f"stmatrix{dots} [{{a}}], {registers};")
    eight, four = ("{" + ", ".join(f"%r{index}" for index in range(n)) + "}" for n in (8, 4))
    for space in ("global", "shared"):
        for name, registers, stride in (
            ("wmma.load.a.sync.aligned.row.m16n16k16{s}.f16", eight, 16), ("wmma.load.b.sync.aligned.col.m16n16k16{s}.f16", eight, 16),
            ("wmma.load.c.sync.aligned.row.m16n16k16{s}.f32", eight, 16), ("wmma.load.c.sync.aligned.row.m16n16k16{s}.f16", four, 16),
            ("wmma.load.a.sync.aligned.row.m16n16k16{s}.u8", "{%r0, %r1}", 16),
            ("wmma.load.a.sync.aligned.row.m16n16k8{s}.tf32", four, 8),
        ):  # fmt: skip
            text = name.replace("{s}", spelled(space))
            yield Case(text, space, f"{text} {registers}, [{{a}}], {stride};")
        for name, registers in (
            ("wmma.store.d.sync.aligned.row.m16n16k16{s}.f32", eight), ("wmma.store.d.sync.aligned.row.m16n16k16{s}.f16", four),
        ):  # fmt: skip
            text = name.replace("{s}", spelled(space))
            yield Case(text, space, f"{text} [{{a}}], {registers}, 16;")


def barrier_cases() -> Iterator[Case]:
    yield Case("mbarrier.init", "shared", "@%first mbarrier.init.shared.b64 [{a}], 1;")
    yield Case("mbarrier.arrive", "shared", "mbarrier.arrive.shared.b64 %d0, [{a}];")
    yield Case("mbarrier.test_wait", "shared", "mbarrier.test_wait.shared.b64 %p, [{a}], %d0;")
    yield Case("mbarrier.inval", "shared", "@%first mbarrier.inval.shared.b64 [{a}];")


def other_cases() -> Iterator[Case]:
    for text in (
        "prefetch.global.L1 [{a}];",
        "prefetch.L2 [{a}];",
        "discard.global.L2 [{a}], 128;",
        "applypriority.global.L2::evict_normal [{a}], 128;",
    ):
        yield Case(text.split(" ")[0], "global", text)
    # What another rule may find first: address 0 and what no memory can have.
    yield Case("ld.global.b32 near nothing", "zero", "ld.global.b32 %r0, [{a}];")
    yield Case("ld.shared.b32 behind the window", "behind", "ld.shared.b32 %r0, [{a}];")
    yield Case("ld.global.b32 of one lane", "one lane", "ld.global.b32 %r0, [{a}];")
    yield Case("ld.global.b32 of a lane that is off", "global", "@!%any ld.global.b32 %r0, [{a}];")
    yield Case("st.global.v2.b32 of one lane", "one lane", "st.global.v2.b32 [{a}], {%r0, %r1};")


def cases() -> list[Case]:
    return [*access_cases(), *atomic_cases(), *copy_cases(), *warp_cases(), *barrier_cases(), *other_cases()]


ADDRESSES = {
    "global": "add.u64 %a, %base, %offset;",
    "generic": "add.u64 %a, %base, %offset;",
    "shared": "mov.u32 %s, memory; cvt.u32.u64 %t, %offset; add.u32 %s, %s, %t;",
    "local": "mov.u64 %a, stack; add.u64 %a, %a, %offset;",
    "const": "mov.u64 %a, table; add.u64 %a, %a, %offset;",
    "zero": "mov.u64 %a, %offset;",
    "behind": "mov.u32 %s, 0x700000; cvt.u32.u64 %t, %offset; add.u32 %s, %s, %t;",
    "one lane": "mov.u32 %t, %laneid; setp.eq.u32 %p, %t, 5; selp.u64 %a, %offset, 0, %p; add.u64 %a, %a, %base;",
}


def kernel(case: Case) -> str:
    """A module with the kernel `k(target, offset)`: 1 block of one warp; 16 KiB at `target`."""
    address = "%s" if case.space in ("shared", "behind") else "%a"
    text = case.text.replace("{a}", address)
    registers = [f"%r{index}" for index in range(8)]
    # Every bit that was loaded is used: of a value that is half used, ptxas loads half.
    words = [*registers, *(f"%h{index}" for index in range(4)), *(f"%d{index}" for index in (0, 1, 4, 5))]
    kept = "mov.b128 {%d4, %d5}, %q0; "
    for word in words:
        if word.startswith("%h"):
            kept += f"cvt.u32.u16 %t, {word}; "
        elif word.startswith("%d"):
            kept += f"mov.b64 {{%t, %s}}, {word}; mul.lo.u32 %sum, %sum, 3; xor.b32 %sum, %sum, %s; "
        else:
            kept += f"mov.u32 %t, {word}; "
        kept += "mul.lo.u32 %sum, %sum, 3; xor.b32 %sum, %sum, %t;\n"
    barriers = ""
    if case.name.startswith("mbarrier.") and "init" not in case.name:
        barriers = (
            " ".join(f"@%first mbarrier.init.shared.b64 [memory+{place}], 64;" for place in range(0, 72, 8))
            + " bar.sync 0;"
        )
    return f"""//
.version 8.4
.target sm_90
.address_size 64
.const .align 128 .b8 table[4096];
.visible .entry k(.param .u64 target, .param .u64 offset)
{{
.reg .pred %p, %first, %any;
.reg .b16 %h<8>;
.reg .b32 %s, %t, %sum, %scratch, %barrier, %r<12>;
.reg .b64 %a, %base, %offset, %source, %d<12>;
.reg .b128 %q<4>;
.shared .align 128 .b8 memory[8192];
.local .align 128 .b8 stack[1024];
ld.param.u64 %base, [target];
ld.param.u64 %offset, [offset];
add.u64 %source, %base, 8192;
mov.u32 %t, %tid.x;
setp.eq.u32 %first, %t, 0;
setp.lt.u32 %any, %t, 1000;
mov.u32 %scratch, memory;
add.u32 %scratch, %scratch, 4096;
mov.u32 %barrier, memory;
add.u32 %barrier, %barrier, 6144;
@%first mbarrier.init.shared.b64 [%barrier], 1;
@%first st.shared.u64 [memory], 0;
bar.sync 0;
mov.u32 %sum, 0;
{" ".join(f"mov.u32 %r{i}, %t;" for i in range(8))}
{" ".join(f"cvt.u16.u32 %h{i}, %t;" for i in range(4))}
{" ".join(f"cvt.u64.u32 %d{i}, %t;" for i in range(4))}
mov.b128 %q0, {{%d0, %d1}}; mov.b128 %q1, {{%d0, %d1}}; mov.b128 %q2, {{%d0, %d1}};
{barriers}
{ADDRESSES[case.space]}
{text}
{kept}
add.u64 %base, %base, 12288;
st.global.u32 [%base], %sum;
ret;
}}
"""


def answer(driver: Driver, case: Case, offset: int) -> int:
    """The `CUresult` that the kernel ends with; loading the module may raise DriverFailure."""
    return result_of(driver, kernel(case), 0, [ctypes.c_uint64(offset)])


def result_of(driver: Driver, text: str, shift: int, arguments: Sequence[Any]) -> int:
    """The `CUresult` of one warp of kernel `k`, whose first argument is `shift` bytes into 16 KiB of zeros."""
    module, target = driver.load(text.encode()), driver.allocate(16384)
    driver.write(target, bytes(16384))
    try:
        driver.launch(module, "k", [ctypes.c_uint64(target.value + shift), *arguments], WARP, WARP)
        driver.synchronize()
    except DriverFailure as failure:
        return failure.result
    driver.unload(module)
    driver.free(target)
    return 0
