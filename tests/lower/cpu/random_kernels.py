"""Random structured PTX kernels, each with an interpreter made along with it that runs all threads at once in NumPy.

Threads of a warp that meet again after a branch or a loop are together there (`activemask`), as structured code has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.lower.cpu.random_statements import (
    COUNTERS,
    FLOATS,
    INPUT,
    INTEGERS,
    LOCAL,
    PREDICATES,
    READ_ONLY,
    SLOTS,
    U32,
    UNIFORMS,
    WIDE,
    Array,
    Below,
    Code,
    State,
    StatementMaker,
)

RECURSIVE = """
.func (.param .b32 out) rec (.param .b32 n, .param .b32 v)
{
  .reg .b32 %n, %v, %o, %m; .reg .pred %p;
  ld.param.u32 %n, [n]; ld.param.u32 %v, [v];
  setp.eq.u32 %p, %n, 0;
  @%p bra DONE;
  sub.u32 %m, %n, 1; mad.lo.u32 %o, %v, 5, %n;
  { .param .b32 a; .param .b32 b; .param .b32 c;
  st.param.b32 [a], %m; st.param.b32 [b], %o;
  call (c), rec, (a, b);
  ld.param.b32 %o, [c]; }
  xor.b32 %v, %v, %o;
DONE:
  st.param.b32 [out], %v; ret;
}
.func (.param .b32 out) mix (.param .b32 a, .param .b32 b)
{
  .reg .b32 %a, %b; .reg .pred %p;
  ld.param.u32 %a, [a]; ld.param.u32 %b, [b];
  setp.lt.s32 %p, %a, %b;
  @%p bra LESS;
  mad.lo.u32 %a, %a, 3, %b; st.param.b32 [out], %a; ret;
LESS:
  sub.u32 %a, %b, %a; st.param.b32 [out], %a; ret;
}
"""


@dataclass(slots=True)
class RandomKernel:
    """`text` has the kernel `k(inp, out, counters)`; `expected(block, blocks)` gives `out` and `counters`."""

    text: str
    block: tuple[int, int, int]
    blocks: int
    code: Code
    inputs: Array

    @property
    def total(self) -> int:
        return self.block[0] * self.block[1] * self.block[2] * self.blocks

    def arrays(self) -> tuple[Array, Array, Array]:
        counters = np.zeros((6, COUNTERS), np.uint32)
        counters[1] = counters[3] = 0xFFFFFFFF
        return self.inputs, np.full((SLOTS, self.total), 0xDEADBEEF, np.uint32), counters

    def expected(self) -> tuple[Array, Array]:
        inputs, out, counters = self.arrays()
        per = self.total // self.blocks
        thread = np.tile(np.arange(per, dtype=np.uint32), self.blocks)
        x, y, _ = self.block
        values = {
            "%x": thread % x, "%y": thread // x % y, "%z": thread // (x * y), "%t": thread, "%lane": thread % 32,
            "%cta": np.repeat(np.arange(self.blocks, dtype=np.uint32), per),
        }  # fmt: skip
        values["%gid"] = values["%cta"] * np.uint32(per) + thread
        values["%nx"] = np.full(self.total, x, np.uint32)
        for register in (*INTEGERS, *UNIFORMS):
            values[register] = np.zeros(self.total, np.uint32)
        for register in WIDE:
            values[register] = np.zeros(self.total, np.uint64)
        for register in FLOATS:
            values[register] = np.zeros(self.total, np.uint32)
        for register in PREDICATES:
            values[register] = np.zeros(self.total, bool)
        memory = {
            "input": inputs, "out": out, "counters": counters, "shared": np.zeros((self.blocks, per), np.uint32),
            "local": np.zeros((self.total, LOCAL), np.uint32),
        }  # fmt: skip
        state = State(values, memory, per, np.zeros(self.total, bool))
        with np.errstate(all="ignore"):
            self.code.step(state, np.ones(self.total, bool))
        return out, counters


def inputs_of(seed: int) -> Array:
    """The input array, 16-byte aligned: any bits, and small numbers among them."""
    inputs = np.random.default_rng(seed).integers(0, 1 << 32, INPUT, dtype=np.uint32)
    inputs[::3] %= 64
    buffer = np.zeros(INPUT + 8, np.uint32)
    start = -buffer.ctypes.data % 16 // 4
    aligned_inputs = buffer[start : start + INPUT]
    aligned_inputs[:] = inputs
    return aligned_inputs


class Maker(StatementMaker):
    """Adds control flow, and makes whole kernels."""

    # -- control flow ------------------------------------------------------------------------------------------------

    def statements(self, depth: int, *, uniform: bool, loop: str | None) -> Code:
        parts: list[Code] = []
        for _ in range(1 + self.below(5)):
            if self.budget <= 0:
                break
            self.budget -= 1
            parts.append(self.statement(depth, uniform=uniform, loop=loop))
        return self.sequence(parts)

    @staticmethod
    def sequence(parts: list[Code]) -> Code:
        def step(state: State, mask: Array) -> Array:
            for part in parts:
                mask = part.step(state, mask)
            return mask

        return Code([line for part in parts for line in part.lines], step)

    def statement(self, depth: int, *, uniform: bool, loop: str | None) -> Code:
        kind = self.below(32)
        if depth < 4:
            if kind < 4:
                return self.branch(depth, uniform=uniform, loop=loop)
            if kind < 7:
                return self.loop(depth, uniform=uniform)
            if kind == 7:
                return self.switch(depth, loop=loop)
        if kind == 8 and loop is not None and not uniform:
            return self.leave(loop)
        if kind == 9 and not uniform and self.below(4) == 0:
            return self.early_exit()
        if uniform and kind in (10, 11):
            return self.exchange() if self.below(3) else self.barrier_red()
        if uniform and kind == 12:
            return self.arithmetic(self.one(UNIFORMS)) if self.below(2) else self.load_uniform()
        simple: list[Callable[[], Code]] = [
            self.arithmetic, self.arithmetic, self.arithmetic, self.arithmetic, self.predicate, self.predicate, self.floating,
            self.floating, self.wide, self.wide, self.load, self.load, self.store, self.store, self.atomic, self.shuffle,
            self.vote, self.local, self.call, self.carry, self.short,
        ]  # fmt: skip
        made: Code = self.one(simple)()
        return made

    def branch(self, depth: int, *, uniform: bool, loop: str | None) -> Code:
        alike = uniform and self.below(2) == 0
        otherwise, end = self.label(), self.label()
        if alike:
            register, value = self.one([*UNIFORMS, "%cta"]), self.below(3)
            lines = [f"and.b32 %e0, {register}, 1;", f"setp.ne.u32 %pu, %e0, {value};", f"@%pu bra {otherwise};"]

            def holds(state: State) -> Array:
                return np.asarray((state.values[register] & U32(1)) == value)
        else:
            predicate = self.one(PREDICATES)
            lines = [f"@!{predicate} bra {otherwise};"]

            def holds(state: State) -> Array:
                return np.asarray(state.values[predicate])

        first = self.statements(depth + 1, uniform=alike, loop=loop)
        second = self.statements(depth + 1, uniform=alike, loop=loop) if self.below(2) else self.sequence([])
        lines = [*lines, *first.lines, f"bra {end};", f"{otherwise}:", *second.lines, f"{end}:"]

        def step(state: State, mask: Array) -> Array:
            taken = holds(state)
            left, right = mask & taken, mask & ~taken
            left = first.step(state, left) if left.any() else left
            right = second.step(state, right) if right.any() else right
            return np.asarray(left | right)

        return Code(lines, step)

    def loop(self, depth: int, *, uniform: bool) -> Code:
        alike = uniform and self.below(2) == 0
        name = self.label()
        counter = f"%c{self.labels}"
        bottom = self.below(2)
        source = self.one([*UNIFORMS, "%cta"]) if alike else self.one([*INTEGERS, *READ_ONLY, *UNIFORMS])
        lines = [f".reg .u32 {counter};", f"and.b32 {counter}, {source}, 3;"]
        if bottom:
            lines.append(f"add.u32 {counter}, {counter}, 1;")
        self.loop_registers.append(counter)
        body = self.statements(depth + 1, uniform=alike, loop=name)
        self.loop_registers.remove(counter)
        test = [f"setp.eq.u32 %pu, {counter}, 0;", f"@%pu bra {name}_end;"]
        lines += [f"{name}:", *(test if not bottom else []), *body.lines, f"{name}_next:"]
        lines += [f"sub.u32 {counter}, {counter}, 1;"]
        lines += [f"setp.ne.u32 %pu, {counter}, 0;", f"@%pu bra {name};"] if bottom else [f"bra {name};"]
        lines.append(f"{name}_end:")

        def step(state: State, mask: Array) -> Array:
            nobody = np.zeros(len(mask), bool)
            state.values.setdefault(counter, np.zeros(len(mask), np.uint32))
            self.put(state, counter, (state.values[source] & U32(3)) + U32(bottom), mask)
            left, live, first = nobody, mask, bool(bottom)
            while True:
                if not first:
                    done = state.values[counter] == 0
                    left, live = left | live & done, live & ~done
                if not live.any():
                    return left
                first = False
                state.broken.append(nobody)
                state.continued.append(nobody)
                live = body.step(state, live)
                left, live = left | state.broken.pop(), live | state.continued.pop()
                self.put(state, counter, state.values[counter] - U32(1), live)

        return Code(lines, step)

    def leave(self, loop: str) -> Code:
        predicate = self.one(PREDICATES)
        stop = self.below(2)

        def step(state: State, mask: Array) -> Array:
            going = mask & state.values[predicate]
            pile = state.broken if stop else state.continued
            pile[-1] = pile[-1] | going
            return np.asarray(mask & ~going)

        return Code([f"@{predicate} bra {loop}_{'end' if stop else 'next'};"], step)

    def early_exit(self) -> Code:
        predicate = self.one(PREDICATES)

        def step(state: State, mask: Array) -> Array:
            return np.asarray(mask & ~state.values[predicate])

        return Code([f"@{predicate} ret;"], step)

    def switch(self, depth: int, *, loop: str | None) -> Code:
        source, name = self.one([*INTEGERS, *READ_ONLY, *UNIFORMS]), self.label()
        cases = [(self.statements(depth + 1, uniform=False, loop=loop), self.below(3) == 0) for _ in range(4)]
        targets = ", ".join(f"{name}_{number}" for number in range(4))
        lines = [
            f"and.b32 %e0, {source}, 3;",
            f"{name}_table: .branchtargets {targets};",
            f"brx.idx %e0, {name}_table;",
        ]
        for number, (code, falls) in enumerate(cases):
            lines += [f"{name}_{number}:", *code.lines, *([] if falls else [f"bra {name}_end;"])]
        lines.append(f"{name}_end:")

        def step(state: State, mask: Array) -> Array:
            number_of = state.values[source] & U32(3)
            done = falling = np.zeros(len(mask), bool)
            for number, (code, falls) in enumerate(cases):
                here = mask & (number_of == number) | falling
                here = code.step(state, here) if here.any() else here
                falling = here if falls else falling & False
                done = done if falls else done | here
            return np.asarray(done | falling)

        return Code(lines, step)

    # -- the kernel --------------------------------------------------------------------------------------------------

    def functions(self) -> str:
        """Device functions that statements call."""
        return RECURSIVE

    def preparation(self) -> list[str]:
        """More lines at the kernel's start."""
        return []

    def kernel(self, seed: int) -> RandomKernel:
        body = self.sequence([self.statements(0, uniform=True, loop=None) for _ in range(self.pieces)])
        self.slots = min(self.slots, SLOTS - len(INTEGERS) - 2)
        end = []
        registers = [*INTEGERS, *FLOATS[:1], UNIFORMS[0]]
        total = self.per * self.blocks
        for number, register in enumerate(registers):
            slot = SLOTS - len(registers) + number
            end += [f"mad.lo.u32 %e0, %gid, 4, {4 * slot * total};", "cvt.u64.u32 %a0, %e0;"]
            end += ["add.s64 %a0, %a0, %out;", f"st.global.b32 [%a0], {register};"]

        def finish(state: State, mask: Array) -> Array:
            for number, register in enumerate(registers):
                row = state.memory["out"][SLOTS - len(registers) + number]
                row[:] = np.where(mask, state.values[register], row)
            return mask

        code = self.sequence([body, Code(end, finish)])
        clear = [f"st.local.u32 [arr+{4 * index}], 0;" for index in range(LOCAL)]
        text = PROLOGUE.format(
            functions=self.functions(),
            per=self.per,
            bytes=4 * self.per,
            clear="\n".join(clear),
            more="\n".join(self.preparation()),
        )
        text += "\n".join("  " + line for line in code.lines) + "\n  ret;\n}\n"
        return RandomKernel(text, self.block, self.blocks, code, inputs_of(seed))


PROLOGUE = """{functions}
.visible .entry k(.param .u64 inp, .param .u64 out, .param .u64 counters)
{{
  .reg .b32 %r<8>, %u<4>, %e<6>, %x, %y, %z, %t, %lane, %gid, %nx, %ny, %cta, %sh; .reg .b64 %d<4>, %a<4>;
  .reg .b16 %h<2>; .reg .b64 %inp, %out, %counters, %loc; .reg .f32 %f<4>; .reg .pred %p<4>, %pu, %pt;
  .shared .align 16 .b8 exchange[{bytes}]; .local .align 16 .b32 arr[8];
  ld.param.u64 %inp, [inp]; ld.param.u64 %out, [out]; ld.param.u64 %counters, [counters];
  mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %z, %tid.z; mov.u32 %nx, %ntid.x; mov.u32 %ny, %ntid.y;
  mad.lo.u32 %t, %z, %ny, %y; mad.lo.u32 %t, %t, %nx, %x; mov.u32 %lane, %laneid; mov.u32 %cta, %ctaid.x;
  mad.lo.u32 %gid, %cta, {per}, %t; mov.u32 %sh, exchange; mov.u64 %loc, arr;
  mov.u32 %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u32 %r5, 0;
  mov.u32 %u0, 0; mov.u32 %u1, 0; mov.u32 %u2, 0; mov.u64 %d0, 0; mov.u64 %d1, 0; mov.u64 %d2, 0;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000;
  setp.ne.u32 %p0, 0, 0; setp.ne.u32 %p1, 0, 0; setp.ne.u32 %p2, 0, 0; setp.ne.u32 %p3, 0, 0;
{clear}
  shl.b32 %e0, %t, 2; add.u32 %e0, %e0, %sh; st.shared.u32 [%e0], 0; bar.sync 0;
{more}
"""


BLOCKS = [
    (32, 1, 1), (64, 1, 1), (33, 1, 1), (100, 1, 1), (16, 16, 1), (8, 8, 2), (8, 4, 1), (5, 7, 3), (32, 2, 1), (64, 2, 1),
    (1, 1, 1), (16, 2, 2), (4, 4, 4), (7, 1, 1), (128, 1, 1), (16, 3, 1), (8, 5, 2), (2, 16, 2),
]  # fmt: skip


def make_kernel(below: Below, seed: int = 0) -> RandomKernel:
    block = BLOCKS[below(len(BLOCKS))]
    return Maker(below, block, 1 + below(2)).kernel(seed)
