"""Random kernels whose results an NVIDIA GPU can be asked for: `tools/record_generated.py` records them.

What `random_kernels` makes, without what hardware leaves open (who meets whom after a divergent branch), and with far more
instructions, since no interpreter has to know them: any deterministic form of the rows' pure opcodes, memory accesses of all
widths, atomics with results, calls through pointers. Warp operations name exactly the lanes that execute them: the mask of each
structured region stands in a register, made by a vote of the lanes around it. Where lanes have left a region for good,
no mask is known, and no warp operation is made.
"""

from __future__ import annotations

import functools
import json
import lzma
import random
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.lower.ops.forms import Form, specials, synthesise
from cuttle.sweep.golden import PTX
from tests.lower.cpu.random_kernels import RECURSIVE, Maker, RandomKernel, inputs_of
from tests.lower.cpu.random_statements import (
    FLOATS,
    INTEGERS,
    LOCAL,
    PREDICATES,
    READ_ONLY,
    SLOTS,
    SPECIAL,
    UNIFORMS,
    WIDE,
    Array,
    Below,
    Code,
    State,
)

RECORD = Path(__file__).with_name("recorded_programs.xz")
SCRATCH_BYTES = 64
"""Bytes of `out`, behind the slots, that each thread has for itself."""
SHARED_BYTES = 32
UNGUARDED = frozenset(("testp", "set", *(row.name for row in OPCODES.values() if row.family == "video")))
"""Opcodes of which ptxas (CUDA 13.0) carries out some forms in spite of a false guard, as `tools/ask_guards.py` found."""
LOP3_TABLE = 0xE8
FAMILIES = ("arithmetic", "integer", "floating", "logic", "comparison", "conversion", "video")
ROUNDED = ("add", "sub", "mul")
FLOAT_TYPES = ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2")
BLOCKS = [
    (32, 1, 1), (64, 1, 1), (33, 1, 1), (100, 1, 1), (16, 16, 1), (8, 8, 2), (8, 4, 1), (5, 7, 3), (32, 2, 1), (1, 1, 1),
    (16, 2, 2), (7, 1, 1), (128, 1, 1), (8, 5, 2), (2, 16, 2), (256, 1, 1), (31, 1, 1), (32, 3, 1),
]  # fmt: skip
GRIDS = [1, 1, 2, 2, 3, 7, 40]
THREADS = 3840
"""Of all blocks at most: a thread reads the input near its number."""
FUNCTIONS = (
    RECURSIVE
    + """
.func (.param .b32 out) mingle (.param .b32 a, .param .b32 b)
{
  .reg .b32 %a, %b, %c;
  ld.param.u32 %a, [a]; ld.param.u32 %b, [b];
  shf.l.wrap.b32 %c, %a, %b, 9; lop3.b32 %c, %c, %a, %b, 0x96; prmt.b32 %c, %c, %a, 0x2146;
  st.param.b32 [out], %c; ret;
}
"""
)


def unmodelled(state: State, mask: Array) -> Array:
    raise NotImplementedError("only hardware knows what this statement does")


@functools.lru_cache(maxsize=1)
def forms() -> list[list[Form]]:
    """The forms of each pure opcode whose results are determined: floating point has a rounding, so nothing is fused."""
    with lzma.open(PTX) as file:
        accepted = {each["form"] for each in json.loads(file.readline())["forms"]}
    result = []
    for row in OPCODES.values():
        if row.family not in FAMILIES or row.name in ("cvta", "isspacep") or row.status != "exact":
            continue
        made = []
        for spelling in expand_all(row.syntax):
            form = synthesise(spelling, {3: LOP3_TABLE} if row.name == "lop3" else None)
            kinds = form.instruction.types
            floating = any(kind in FLOAT_TYPES for kind in kinds)
            rounds = {"rn", "rz", "rm", "rp"} & set(form.instruction.modifiers)
            if row.name in ROUNDED and floating and not rounds:
                continue
            if form.name not in accepted or any(width > 64 for _, width in (*form.sources, *form.destinations)):
                continue
            made.append(form)
        if made:
            result.append(made)
    return result


@dataclass(slots=True)
class RecordedKernel(RandomKernel):
    """`out` has SLOTS words of each thread, slot by slot, then SCRATCH_BYTES of each thread."""

    def arrays(self) -> tuple[Array, Array, Array]:
        inputs, out, counters = RandomKernel.arrays(self)
        scratch = np.full((SCRATCH_BYTES // 4, self.total), 0xDEADBEEF, np.uint32)
        return inputs, np.concatenate([out, scratch]), counters

    def digests(self, out: Array, counters: Array) -> list[int]:
        """One number for each slot of the results, then for the scratch bytes, then for the counters."""
        rows = [*out[:SLOTS], out[SLOTS:], counters]
        return [zlib.crc32(np.ascontiguousarray(row).tobytes()) for row in rows]


class RecordedMaker(Maker):
    """Statements as of `Maker`; `mask` is the register with the lanes that execute this place, None if not known."""

    def __init__(self, below: Below, block: tuple[int, int, int], blocks: int) -> None:
        super().__init__(below, block, blocks)
        self.mask: str | None = "%mask"
        self.exits = False  # some thread may have exited

    def source(self) -> str | int:
        """No special registers: assemblers take them in few instructions."""
        while True:
            source = super().source()
            if source not in SPECIAL:
                return source

    # -- control flow ------------------------------------------------------------------------------------------------

    def statement(self, depth: int, *, uniform: bool, loop: str | None) -> Code:
        if self.below(3):
            return self.extra(uniform=uniform)
        return super().statement(depth, uniform=uniform, loop=loop)

    def branch(self, depth: int, *, uniform: bool, loop: str | None) -> Code:
        alike = uniform and self.below(2) == 0
        otherwise, end = self.label(), self.label()
        around = self.mask
        lines, masks = [], (around, around)
        if alike:
            register, value = self.one([*UNIFORMS, "%cta"]), self.below(3)
            lines += [f"and.b32 %e0, {register}, 1;", f"setp.ne.u32 %pu, %e0, {value};", f"@%pu bra {otherwise};"]
        else:
            predicate = self.one(PREDICATES)
            if around is not None:
                masks = (f"%m{self.labels}", f"%n{self.labels}")
                lines += [f".reg .b32 {masks[0]}, {masks[1]};"]
                lines += [f"vote.sync.ballot.b32 {masks[0]}, {predicate}, {around};"]
                lines += [f"xor.b32 {masks[1]}, {masks[0]}, {around};"]
            lines += [f"@!{predicate} bra {otherwise};"]
        outer = None if alike and uniform else loop
        parts = []
        for number in range(2):
            self.mask = masks[number]
            made = number == 0 or self.below(2)
            parts.append(self.statements(depth + 1, uniform=alike, loop=outer) if made else self.sequence([]))
            around = None if self.mask is None else around
        self.mask = around
        lines += [*parts[0].lines, f"bra {end};", f"{otherwise}:", *parts[1].lines, f"{end}:"]
        return Code(lines, unmodelled)

    def loop(self, depth: int, *, uniform: bool) -> Code:
        alike = uniform and self.below(2) == 0
        name = self.label()
        counter, mask = f"%c{self.labels}", f"%m{self.labels}"
        bottom = self.below(2)
        around, exits = self.mask, self.exits
        # Lanes that leave by `bra` would be missed by the vote for the next round: either the one or the other.
        counted = not alike and around is not None and self.below(2) == 0
        source = self.one([*UNIFORMS, "%cta"]) if alike else self.one([*INTEGERS, *READ_ONLY, *UNIFORMS])
        lines = [f".reg .u32 {counter}, {mask};", f"and.b32 {counter}, {source}, 3;"]
        if counted:
            lines.append(f"mov.b32 {mask}, {around};")
        if bottom:
            lines.append(f"add.u32 {counter}, {counter}, 1;")
        self.loop_registers.append(counter)
        self.mask = around if alike else mask if counted else None
        body = self.statements(depth + 1, uniform=alike, loop=None if alike or counted else name)
        lost = self.mask is None and (alike or counted)
        self.loop_registers.remove(counter)
        test = [f"setp.ne.u32 %pu, {counter}, 0;"]
        if counted:
            test.append(f"vote.sync.ballot.b32 {mask}, %pu, {mask};")
        lines += [f"{name}:", *([*test, f"@!%pu bra {name}_end;"] if not bottom else []), *body.lines, f"{name}_next:"]
        lines += [f"sub.u32 {counter}, {counter}, 1;"]
        lines += [*test, f"@%pu bra {name};"] if bottom else [f"bra {name};"]
        lines.append(f"{name}_end:")
        self.mask = None if lost or self.exits != exits else around
        return Code(lines, unmodelled)

    def leave(self, loop: str) -> Code:
        return Code(super().leave(loop).lines, unmodelled)

    def early_exit(self) -> Code:
        """Not where a vote of a loop around would miss the lanes: there no mask is known anyway."""
        if self.mask is not None:
            return self.arithmetic()
        self.exits = True
        return Code(super().early_exit().lines, unmodelled)

    def switch(self, depth: int, *, loop: str | None) -> Code:
        source, name = self.one([*INTEGERS, *READ_ONLY, *UNIFORMS]), self.label()
        around, mask = self.mask, f"%m{self.labels}"
        lines = [f"and.b32 %e0, {source}, 3;"]
        if around is not None:
            lines += [f".reg .b32 {mask};", f"match.any.sync.b32 {mask}, %e0, {around};"]
        targets = ", ".join(f"{name}_{number}" for number in range(4))
        lines += [f"{name}_table: .branchtargets {targets};", f"brx.idx %e0, {name}_table;"]
        falls = False
        for number in range(4):
            self.mask = mask if around is not None and not falls else None
            entered = self.mask
            code = self.statements(depth + 1, uniform=False, loop=loop)
            if entered is not None and self.mask is None:
                around = None
            falls = self.below(3) == 0
            lines += [f"{name}_{number}:", *code.lines, *([] if falls else [f"bra {name}_end;"])]
            if entered is None and around is not None and loop is not None:
                around = None  # lanes may have left the loop
        lines.append(f"{name}_end:")
        self.mask = None if self.exits else around
        return Code(lines, unmodelled)

    def exchange(self) -> Code:
        return self.arithmetic() if self.exits else super().exchange()

    def barrier_red(self) -> Code:
        return self.arithmetic() if self.exits else super().barrier_red()

    # -- warp operations ---------------------------------------------------------------------------------------------

    def known(self, code: Code) -> Code:
        """The statement with the known mask in place of the active one."""
        lines = [line.replace("activemask.b32 %e1;", f"mov.b32 %e1, {self.mask};") for line in code.lines]
        return Code(lines, unmodelled)

    def shuffle(self) -> Code:
        return self.arithmetic() if self.mask is None else self.known(super().shuffle())

    def vote(self) -> Code:
        if self.mask is None:
            return self.arithmetic()
        if self.below(2):
            return self.known(super().vote())
        target, source, predicate = self.one(INTEGERS), self.one([*INTEGERS, *READ_ONLY]), self.one(PREDICATES)
        wide = self.one(WIDE)
        line = self.one([
            *(f"redux.sync.{name} {target}, {source}, {self.mask};" for name in (
                "min.s32", "max.s32", "min.u32", "max.u32", "add.u32", "and.b32", "or.b32", "xor.b32")),
            f"match.all.sync.b32 {target}|{predicate}, {source}, {self.mask};",
            f"match.any.sync.b64 {target}, {wide}, {self.mask};",
            f"vote.sync.uni.pred {predicate}, {predicate}, {self.mask};",
            f"vote.sync.all.pred {predicate}, !{self.one(PREDICATES)}, {self.mask};",
            f"bar.warp.sync {self.mask};",
        ])  # fmt: skip
        return Code([line], unmodelled)

    # -- everything else ---------------------------------------------------------------------------------------------

    def extra(self, *, uniform: bool) -> Code:
        kind = self.below(10)
        if kind < 5:
            return self.form()
        if kind < 7:
            return self.own_memory()
        if kind == 7:
            return self.own_atomic()
        if kind == 8:
            return self.indirect_call() if self.below(3) == 0 else self.vote()
        return self.tally() if uniform and not self.exits else self.shuffle()

    def guard_text(self) -> str:
        kind = self.below(6)
        return "" if kind > 1 else f"@{'!' * kind}{self.one(PREDICATES)} "

    def operand(self, name: str, kind: str, width: int) -> list[str]:
        """Lines that fill register `name` with something of the pools, or with a value at which something changes."""
        if width == 1:
            return [f"mov.pred {name}, {self.one(PREDICATES)};"]
        if self.below(3) == 0:
            value = self.one(list(specials(kind)))
            return [f"mov.b{width} {name}, {value:#x};"]
        if width == 64:
            if self.below(2):
                return [f"mov.b64 {name}, {self.one(WIDE)};"]
            return [f"mov.b64 {name}, {{{self.one(INTEGERS)}, {self.one(FLOATS)}}};"]
        pool = (
            [*FLOATS, *FLOATS, *INTEGERS] if kind == "f32" else [*INTEGERS, *INTEGERS, *READ_ONLY, *UNIFORMS, *FLOATS]
        )
        register = self.one(pool)
        if width == 16:
            half = self.below(2)
            names = f"{name}, %hx" if half else f"%hx, {name}"
            return [f"mov.b32 {{{names}}}, {register};"]
        return [f"mov.b32 {name}, {register};"]

    def result(self, name: str, kind: str, width: int) -> list[str]:
        """Lines that keep a result in a register of the pools."""
        if width == 1:
            return [f"mov.pred {self.one(PREDICATES)}, {name};"]
        if width == 64:
            return [f"mov.b64 {self.one(WIDE)}, {name};"]
        if width == 16:
            return [f"mov.b32 {self.one(INTEGERS)}, {{{name}, {name}}};"]
        return [f"mov.b32 {self.one(FLOATS if kind == 'f32' else INTEGERS)}, {name};"]

    def form(self) -> Code:
        """One pure instruction of any form."""
        form: Form = self.one(self.one(forms()))
        lines = ["{ .reg .b16 %hx; .reg .pred %ci; .reg .b32 %cx;"]
        for prefix, operands in (("s", form.sources), ("d", form.destinations)):
            for index, (_, width) in enumerate(operands):
                lines.append(f".reg .{'pred' if width == 1 else f'b{width}'} %x{prefix}{index};")
        for index, (kind, width) in enumerate(form.sources):
            lines += self.operand(f"%xs{index}", kind, width)
        subtract = form.instruction.opcode.startswith("sub")
        if form.carry_in:
            lines.append(f"selp.u32 %cx, 1, 0, {self.one(PREDICATES)};")
            lines.append("sub.cc.u32 %cx, 0, %cx;" if subtract else "add.cc.u32 %cx, %cx, 0xffffffff;")
            guard = ""
        else:
            unguarded = form.carry_out or form.instruction.opcode in UNGUARDED
            guard = "" if unguarded else self.guard_text()
        if guard:
            for index, (kind, width) in enumerate(form.destinations):
                lines += self.operand(f"%xd{index}", kind, width)
        lines.append(guard + re.sub(r"%([ds]\d)", r"%x\1", form.text))
        if form.carry_out:
            lines.append("subc.u32 %cx, 0, 0;" if subtract else "addc.u32 %cx, 0, 0;")
            lines.append(f"xor.b32 {self.one(INTEGERS)}, %cx, 5;")
        for index, (kind, width) in enumerate(form.destinations):
            lines += self.result(f"%xd{index}", kind, width)
        return Code([*lines, "}"], unmodelled)

    def own_place(self, size: int) -> tuple[str, list[str]]:
        """A state space, and lines that put an address in it, aligned to `size` and the thread's own, into %a0."""
        space = self.one(["global", "global", "shared", "local"])
        bytes_there = {"global": SCRATCH_BYTES, "shared": SHARED_BYTES, "local": 4 * LOCAL}[space]
        base = {"global": "%own", "shared": "%ownshared", "local": "%loc"}[space]
        if self.below(2):
            lines = [f"add.u64 %a0, {base}, {size * self.below(bytes_there // size)};"]
        else:
            lines = [
                f"and.b32 %e0, {self.one([*INTEGERS, *READ_ONLY])}, {bytes_there - size};",
                "cvt.u64.u32 %a0, %e0;",
            ]
            lines.append(f"add.u64 %a0, %a0, {base};")
        if self.below(3) == 0:
            if space == "local":
                lines.append("cvta.local.u64 %a0, %a0;")
            if space == "shared":
                lines.append("cvta.shared.u64 %a0, %a0;")
            return "", lines
        return "." + space, lines

    def own_memory(self) -> Code:
        """A load or store of any width, of memory that only this thread looks at."""
        kind = self.one(["u8", "s8", "u16", "s16", "b16", "u32", "s32", "b32", "f32", "u64", "b64", "f64"])
        width = {"8": 8, "6": 16, "2": 32, "4": 64}[kind[-1]]
        count = self.one([1, 1, 2, 4])
        count = min(count, 128 // width)
        vector = f".v{count}" if count > 1 else ""
        space, lines = self.own_place(width // 8 * count)
        register = 32 if width == 8 or self.below(2) and width < 32 and kind[0] in "us" else width
        names = [f"%v{index}" for index in range(count)]
        lines = [f"{{ .reg .b16 %hx; .reg .b{register} {', '.join(names)};", *lines]
        listed = names[0] if count == 1 else "{" + ", ".join(names) + "}"
        guard = self.guard_text()
        shown = "f32" if kind == "f32" else f"b{register}"
        for name in names:
            lines += self.operand(name, shown, register)
        if self.below(2):
            lines.append(f"{guard}st{space}{vector}.{kind} [%a0], {listed};")
            return Code([*lines, "}"], unmodelled)
        lines.append(f"{guard}ld{space}{vector}.{kind} {listed}, [%a0];")
        for name in names:
            lines += self.result(name, shown, register)
        return Code([*lines, "}"], unmodelled)

    def own_atomic(self) -> Code:
        """An atomic operation with its result, of memory that only this thread looks at."""
        name = self.one([
            "add.u32", "add.s32", "add.u64", "add.f32", "add.f64", "add.noftz.f16", "add.noftz.f16x2", "add.noftz.bf16",
            "add.noftz.bf16x2", "min.s32", "max.s32", "min.u32", "max.u32", "min.s64", "max.u64", "and.b32", "or.b64",
            "xor.b32", "exch.b32", "exch.b64", "cas.b32", "cas.b64", "cas.b16", "inc.u32", "dec.u32",
        ])  # fmt: skip
        kind = name.rsplit(".", 1)[1]
        width = 32 if kind.endswith("x2") else int(kind.lstrip("usbf"))
        space, lines = self.own_place(width // 8)
        while "%loc" in lines[-1] or "cvta.local" in lines[-1] or space == ".local":
            space, lines = self.own_place(width // 8)
        lines = [f"{{ .reg .b16 %hx; .reg .b{width} %v0, %v1, %v2;", *lines]
        for register in ("%v0", "%v1", "%v2"):
            lines += self.operand(register, kind, width)
        third = ", %v2" if name.startswith("cas") else ""
        if self.below(3) == 0 and not third and not name.startswith("exch"):
            lines.append(f"{self.guard_text()}red{space}.{name} [%a0], %v1;")
            return Code([*lines, "}"], unmodelled)
        lines.append(f"{self.guard_text()}atom{space}.{name} %v0, [%a0], %v1{third};")
        return Code([*lines, *self.result("%v0", kind, width), "}"], unmodelled)

    def indirect_call(self) -> Code:
        """Through a pointer to one of two functions, which may differ between lanes."""
        target, a, b = self.one(INTEGERS), self.one([*INTEGERS, *READ_ONLY]), self.one([*INTEGERS, *READ_ONLY])
        label = self.label()
        lines = [
            f"{label}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);",
            "mov.u64 %a0, mix;", f"@{self.one(PREDICATES)} mov.u64 %a0, mingle;",
            "{ .param .b32 pa; .param .b32 pb; .param .b32 pc;", f"st.param.b32 [pa], {a};", f"st.param.b32 [pb], {b};",
            f"call (pc), %a0, (pa, pb), {label};", f"ld.param.b32 {target}, [pc]; }}",
        ]  # fmt: skip
        return Code(lines, unmodelled)

    def tally(self) -> Code:
        """All threads of the block add to one of a few words of shared memory, then look at one of them."""
        name = self.one(["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"])
        place, source, target = self.one([*INTEGERS, *READ_ONLY]), self.one([*INTEGERS, *READ_ONLY]), self.one(INTEGERS)
        lines = [
            f"and.b32 %e0, {place}, 12;", "mov.u32 %e1, tallies;", "add.u32 %e0, %e0, %e1;",
            f"{self.guard_text()}red.shared.{name} [%e0], {source};", "bar.sync 0;", f"ld.shared.u32 {target}, [%e0];",
            "bar.sync 0;",
        ]  # fmt: skip
        return Code(lines, unmodelled)

    # -- the kernel --------------------------------------------------------------------------------------------------

    def preparation(self) -> list[str]:
        """Masks, and the thread's own memory."""
        total = self.per * self.blocks
        return [
            ".reg .b32 %mask; .reg .b64 %own, %ownshared;",
            f".shared .align 16 .b8 own[{self.per * SHARED_BYTES}]; .shared .align 16 .b32 tallies[4];",
            f"and.b32 %e0, %t, 0xffffffe0; sub.u32 %e0, {self.per}, %e0; min.u32 %e0, %e0, 32; sub.u32 %e0, 32, %e0;",
            "mov.b32 %mask, 0xffffffff; shr.u32 %mask, %mask, %e0;",
            f"mul.wide.u32 %own, %gid, {SCRATCH_BYTES}; add.u64 %own, %own, %out; add.u64 %own, %own, {4 * SLOTS * total};",
            f"mov.u64 %ownshared, own; mul.wide.u32 %a0, %t, {SHARED_BYTES}; add.u64 %ownshared, %ownshared, %a0;",
            *(f"st.shared.u32 [%ownshared+{offset}], 0;" for offset in range(0, SHARED_BYTES, 4)),
            "mov.u32 %e0, tallies; st.shared.v4.u32 [%e0], {0, 0, 0, 0}; bar.sync 0;",
            # Registers that differ between lanes from the start, some alike, some special.
            "mul.wide.u32 %a0, %gid, 4; add.u64 %a0, %a0, %inp;",
            *(f"ld.global.u32 {register}, [%a0+{4 * 16 * number}];" for number, register in enumerate(INTEGERS[:5])),
            *(f"ld.global.b64 {register}, [%inp+{8 * number}];" for number, register in enumerate(WIDE)),
            "mov.b64 %d1, {%r0, %r1}; mov.b32 %f0, %r2; cvt.rn.f32.s32 %f1, %t; mov.b32 %f2, 0x7fc00001; mov.u32 %r5, %gid;",
            "cvt.rn.f64.s32 %a0, %r0; mov.b64 %d2, %a0; setp.lt.u32 %p0, %r0, 32; setp.lt.s32 %p1, %r1, %r2;",
            "and.b32 %e0, %t, 3; setp.eq.u32 %p2, %e0, 1; setp.gt.s32 %p3, %r3, 0; ld.global.u32 %u1, [%inp+400];",
        ]  # fmt: skip

    def functions(self) -> str:
        return FUNCTIONS


def make_recorded(number: int) -> RecordedKernel:
    """Kernel `number` of the recorded ones."""
    rng = random.Random(f"recorded {number}")
    block = BLOCKS[rng.randrange(len(BLOCKS))]
    blocks = min(GRIDS[rng.randrange(len(GRIDS))], THREADS // (block[0] * block[1] * block[2]))
    maker = RecordedMaker(rng.randrange, block, blocks)
    maker.budget = rng.choice([40, 60, 60, 120])
    maker.pieces = 10
    made = maker.kernel(number)
    return RecordedKernel(made.text, made.block, made.blocks, made.code, made.inputs)


def recorded() -> tuple[str, dict[int, tuple[RecordedKernel, list[int]]]]:
    """What was recorded: the device, and each program with the check sums of its results.

    The texts stand in the record itself, so it does not depend on what the generator would make today.
    """
    head, _, texts = lzma.decompress(RECORD.read_bytes()).partition(b"\n")
    facts = json.loads(head)
    found = {}
    for each, text in zip(facts["programs"], texts.decode().split("\0"), strict=True):
        code = Code([], unmodelled)
        kernel = RecordedKernel(text, tuple(each["block"]), each["blocks"], code, inputs_of(each["number"]))
        found[each["number"]] = (kernel, each["digests"])
    return facts["device"], found
