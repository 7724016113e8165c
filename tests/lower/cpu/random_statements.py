"""Random PTX statements without control flow, each with what it does to all threads at once in NumPy.

Every statement is made as a pair: PTX lines, and a function (state, mask of active threads) -> mask of the threads that go
on. Threads of a warp that meet again after a branch or a loop are together there (`activemask`), as structured code has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.lower.cpu.random_arithmetic import BINARY, COMPARISONS, binary, float_compare, float_operation, signed

Array = np.ndarray[Any, Any]
Below = Callable[[int], int]

INPUT = 1 << 12  # elements of the input array; the first PAD and last PAD are margins
PAD = 64
COUNTERS = 16
SLOTS = 24
LOCAL = 8


@dataclass(slots=True)
class State:
    """Registers of all threads, and memory."""

    values: dict[str, Array]
    memory: dict[str, Array]
    threads: int
    exited: Array
    broken: list[Array] = field(default_factory=list)
    continued: list[Array] = field(default_factory=list)


Step = Callable[[State, Array], Array]


@dataclass(slots=True)
class Code:
    """PTX lines and what they do."""

    lines: list[str]
    step: Step


INTEGERS = [f"%r{n}" for n in range(6)]
UNIFORMS = [f"%u{n}" for n in range(3)]
WIDE = [f"%d{n}" for n in range(3)]
FLOATS = [f"%f{n}" for n in range(3)]
PREDICATES = [f"%p{n}" for n in range(4)]
READ_ONLY = ["%x", "%y", "%z", "%t", "%lane", "%gid", "%nx", "%cta"]
SPECIAL = {"%tid.x": "%x", "%tid.y": "%y", "%tid.z": "%z", "%ntid.x": "%nx", "%laneid": "%lane", "%ctaid.x": "%cta"}
U32 = np.uint32


# fmt: off
SMALL = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 64, 0xFF, 0xFFFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 1000]
FLOAT_BITS = [0, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x80000000, 0x42280000, 0x7FC00001, 0xFF812345, 0x7F7FFFFF]
# fmt: on


def always(state: State) -> Array:
    return np.asarray(True)


class StatementMaker:
    """Makes statements without control flow by `below(n)`, which chooses a number from 0 to n-1."""

    def __init__(self, below: Below, block: tuple[int, int, int], blocks: int) -> None:
        self.below = below
        self.block = block
        self.blocks = blocks
        self.per = block[0] * block[1] * block[2]
        self.labels = 0
        self.counters_used = 0
        self.slots = 0
        self.loop_registers: list[str] = []
        self.tables: list[str] = []
        self.budget = 45
        self.pieces = 4  # of the kernel's top level, each some statements

    # -- choices -----------------------------------------------------------------------------------------------------

    def one(self, options: list[Any]) -> Any:
        return options[self.below(len(options))]

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def source(self) -> str | int:
        kind = self.below(9)
        if kind < 3:
            return str(self.one(INTEGERS))
        if kind < 5:
            return str(self.one(READ_ONLY))
        if kind == 8:
            return str(self.one(list(SPECIAL)))
        if kind == 5:
            return str(self.one(UNIFORMS))
        if kind == 6 and self.loop_registers:
            return str(self.one(self.loop_registers))
        return int(self.one(SMALL))

    def uniform_source(self) -> str | int:
        if self.below(2):
            return str(self.one([*UNIFORMS, "%cta", "%nx"]))
        return int(self.one(SMALL))

    def read(self, operand: str | int) -> Callable[[State], Array]:
        if isinstance(operand, str):
            name = SPECIAL.get(operand, operand)
            return lambda state: state.values[name]
        return lambda state: np.full(len(state.exited), operand, np.uint32)

    @staticmethod
    def put(state: State, register: str, value: Array, mask: Array) -> None:
        old = state.values[register]
        state.values[register] = np.where(mask, value, old).astype(old.dtype)

    def guard(self) -> tuple[str, Callable[[State], Array]]:
        if self.below(4):
            return "", always
        predicate = self.one(PREDICATES)
        if self.below(2):
            return f"@{predicate} ", lambda state: state.values[predicate]
        return f"@!{predicate} ", lambda state: ~state.values[predicate]

    def simple(self, line: str, register: str, compute: Callable[[State], Array], *, guarded: bool = True) -> Code:
        text, holds = self.guard() if guarded else ("", always)

        def step(state: State, mask: Array) -> Array:
            self.put(state, register, compute(state), mask & holds(state))
            return mask

        return Code([f"{text}{line};"], step)

    # -- statements --------------------------------------------------------------------------------------------------

    def arithmetic(self, register: str | None = None) -> Code:
        uniform = register is not None
        source = self.uniform_source if uniform else self.source
        target = register or str(self.one(INTEGERS))
        kind = self.below(8)
        a, b, c = source(), source(), source()
        va, vb, vc = self.read(a), self.read(b), self.read(c)
        if kind == 0:
            return self.simple(
                f"mad.lo.s32 {target}, {a}, {b}, {c}", target, lambda s: va(s) * vb(s) + vc(s), guarded=not uniform
            )
        if kind == 1 and not uniform:
            predicate = self.one(PREDICATES)
            return self.simple(
                f"selp.b32 {target}, {a}, {b}, {predicate}", target,
                lambda s: np.where(s.values[predicate], va(s), vb(s)),
            )  # fmt: skip
        if kind == 2:
            name = self.one(["not.b32", "neg.s32", "mov.u32"])
            return self.simple(
                f"{name} {target}, {a}", target,
                lambda s: ~va(s) if name == "not.b32" else U32(0) - va(s) if name == "neg.s32" else va(s),
                guarded=not uniform,
            )  # fmt: skip
        name = self.one(BINARY)
        if isinstance(b, int) and name.startswith("sh"):
            b = b & 31
            vb = self.read(b)
        return self.simple(
            f"{name} {target}, {a}, {b}", target, lambda s: binary(name, va(s), vb(s)), guarded=not uniform
        )

    def carry(self) -> Code:
        """A 64-bit sum from two 32-bit ones."""
        low, high = self.one(INTEGERS), self.one(INTEGERS)
        a, b, c, d = self.source(), self.source(), self.source(), self.source()
        va, vb, vc, vd = self.read(a), self.read(b), self.read(c), self.read(d)

        def step(state: State, mask: Array) -> Array:
            left, right = va(state), vb(state)
            third, fourth = vc(state), vd(state)
            total = left + right
            self.put(state, low, total, mask)
            third, fourth = (vc(state), vd(state)) if low in (c, d) else (third, fourth)
            self.put(state, high, third + fourth + (total < left), mask)
            return mask

        return Code([f"add.cc.u32 {low}, {a}, {b};", f"addc.u32 {high}, {c}, {d};"], step)

    def short(self) -> Code:
        """16-bit arithmetic."""
        target, a, number = self.one(INTEGERS), self.source(), self.below(40)
        va = self.read(a)
        name = self.one(["add.u16", "sub.u16", "mul.lo.u16", "min.s16", "max.u16", "mul.wide.s16", "mul.wide.u16"])
        extension = self.one(["u32.u16", "s32.s16"])
        lines = [f"mov.b32 %e0, {a};", "cvt.u16.u32 %h0, %e0;"]
        wide = name.startswith("mul.wide")
        lines.append(f"{name} {target if wide else '%h1'}, %h0, {number};")
        if not wide:
            lines.append(f"cvt.{extension} {target}, %h1;")

        def step(state: State, mask: Array) -> Array:
            value, other = va(state).astype(np.uint16), np.uint16(number)
            if wide:
                long = value.view(np.int16).astype(np.int32) if name.endswith("s16") else value.astype(np.int32)
                self.put(state, target, (long * number).view(U32), mask)
                return mask
            results = {
                "add": value + other, "sub": value - other, "mul": value * other, "max": np.maximum(value, other),
                "min": np.minimum(value.view(np.int16), np.int16(number)).view(np.uint16),
            }  # fmt: skip
            result = results[name[:3]]
            sign = extension == "s32.s16"
            self.put(
                state, target, result.view(np.int16).astype(np.int32).view(U32) if sign else result.astype(U32), mask
            )
            return mask

        return Code(lines, step)

    def predicate(self) -> Code:
        target = self.one(PREDICATES)
        a, b = self.source(), self.source()
        va, vb = self.read(a), self.read(b)
        kind = self.below(4)
        if kind == 0:
            p, q = self.one(PREDICATES), self.one(PREDICATES)
            name = self.one(["and", "or", "xor"])
            function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[name]
            return self.simple(f"{name}.pred {target}, {p}, {q}", target, lambda s: function(s.values[p], s.values[q]))
        comparison = self.one(list(COMPARISONS))
        if kind == 1:
            f, g = self.one(FLOATS), self.one(FLOATS)
            return self.simple(
                f"setp.{comparison}.f32 {target}, {f}, {g}", target,
                lambda s: float_compare(comparison, s.values[f], s.values[g]),
            )  # fmt: skip
        as_signed = self.below(2)

        def compare(s: State) -> Array:
            left, right = va(s), vb(s)
            if as_signed:
                left, right = signed(left), signed(right)
            return COMPARISONS[comparison](left, right)

        return self.simple(f"setp.{comparison}.{'s32' if as_signed else 'u32'} {target}, {a}, {b}", target, compare)

    def floating(self) -> Code:
        target = self.one(FLOATS)
        kind = self.below(6)
        if kind == 0:
            bits = self.one(FLOAT_BITS)
            return self.simple(f"mov.f32 {target}, 0f{bits:08X}", target, lambda s: np.full(len(s.exited), bits, U32))
        if kind == 1:
            a = self.one(INTEGERS)
            return self.simple(f"mov.b32 {target}, {a}", target, lambda s: s.values[a])
        if kind == 2:
            register = self.one(INTEGERS)
            return self.simple(f"mov.b32 {register}, {target}", register, lambda s: s.values[target])
        a, b = self.one(FLOATS), self.one(FLOATS)
        if kind == 3:
            p = self.one(PREDICATES)
            return self.simple(
                f"selp.f32 {target}, {a}, {b}, {p}", target, lambda s: np.where(s.values[p], s.values[a], s.values[b])
            )
        name = self.one(["add", "sub", "mul", "min", "max"])
        rounding = ".rn" if name in ("add", "sub", "mul") else ""
        return self.simple(
            f"{name}{rounding}.f32 {target}, {a}, {b}", target,
            lambda s: float_operation(name, s.values[a], s.values[b]),
        )  # fmt: skip

    def wide(self) -> Code:
        """64-bit values: extensions, additions, and back."""
        target = self.one(WIDE)
        kind = self.below(6)
        a, b = self.source(), self.source()
        va, vb = self.read(a), self.read(b)

        def extended(value: Array, sign: bool) -> Array:
            return signed(value).astype(np.int64).view(np.uint64) if sign else value.astype(np.uint64)

        sign = bool(self.below(3))
        suffix = "s" if sign else "u"
        if kind == 0 and isinstance(a, str):
            return self.simple(f"cvt.{suffix}64.{suffix}32 {target}, {a}", target, lambda s: extended(va(s), sign))
        if kind in (0, 1):
            return self.simple(
                f"mul.wide.{suffix}32 {target}, {a}, {b}",
                target,
                lambda s: extended(va(s), sign) * extended(vb(s), sign),
            )
        other = self.one(WIDE)
        if kind == 2:
            name = self.one(["add.s64", "sub.s64", "and.b64", "xor.b64"])
            third = self.one(WIDE)
            function = {"add.s64": np.add, "sub.s64": np.subtract, "and.b64": np.bitwise_and, "xor.b64": np.bitwise_xor}
            return self.simple(
                f"{name} {target}, {other}, {third}", target, lambda s: function[name](s.values[other], s.values[third])
            )
        if kind == 3:
            count = self.below(40)
            name = self.one(["shl.b64", "shr.u64"])
            return self.simple(
                f"{name} {target}, {other}, {count}", target,
                lambda s: s.values[other] << np.uint64(count) if name == "shl.b64" else s.values[other] >> np.uint64(count),
            )  # fmt: skip
        if kind == 4:
            return self.simple(
                f"mad.wide.{suffix}32 {target}, {a}, {b}, {other}", target,
                lambda s: extended(va(s), sign) * extended(vb(s), sign) + s.values[other],
            )  # fmt: skip
        register = self.one(INTEGERS)
        high = self.below(2)
        lines = [f"mov.b64 {{%e0, %e1}}, {target}", f"mov.u32 {register}, %e{high}"]
        code = self.simple(
            lines[1], register, lambda s: (s.values[target] >> np.uint64(32 * high)).astype(np.uint64).astype(U32)
        )
        return Code([lines[0] + ";", *code.lines], code.step)

    def address(self) -> tuple[list[str], Callable[[State], Array]]:
        """An index into the input array in the 64-bit temporary %a0 (bytes), and its value."""
        kind = self.below(4)
        if kind == 0:  # anywhere
            register = self.one([*INTEGERS, *READ_ONLY, *UNIFORMS])
            lines = [f"and.b32 %e0, {register}, {INPUT - 1};", "mul.wide.u32 %a0, %e0, 4;"]
            return lines, lambda s: s.values[register] & U32(INPUT - 1)
        base = self.one(["%x", "%y", "%t", "%lane", "%gid", "%z"])
        offset = self.below(2 * PAD) - PAD
        if kind == 1:
            lines = [f"add.s32 %e0, {base}, {offset + PAD};", "mul.wide.s32 %a0, %e0, 4;"]
        elif kind == 2:  # tid - 1 with an unsigned or signed index, corrected afterwards
            lines = [f"add.s32 %e0, {base}, {offset};", "cvt.s64.s32 %a0, %e0;", "shl.b64 %a0, %a0, 2;"]
            lines.append(f"add.s64 %a0, %a0, {4 * PAD};")
        else:
            lines = [f"mad.lo.u32 %e0, {base}, 4, {4 * (offset + PAD)};", "cvt.u64.u32 %a0, %e0;"]
        return lines, lambda s: s.values[base] + U32(offset + PAD)

    def load(self) -> Code:
        count = self.one([1, 1, 1, 2, 4])
        targets = [self.one(INTEGERS) for _ in range(count)]
        if len(set(targets)) < count:
            count, targets = 1, targets[:1]
        lines, index = self.address()
        text, holds = self.guard()
        lines = [*lines, "add.s64 %a0, %a0, %inp;"]
        if count > 1:
            lines += [f"and.b64 %a0, %a0, {-4 * count};"]
        vector = {1: "", 2: ".v2", 4: ".v4"}[count]
        names = targets[0] if count == 1 else "{" + ", ".join(targets) + "}"
        space = self.one([".global", ".global.nc", ""])
        lines.append(f"{text}ld{space}{vector}.u32 {names}, [%a0];")

        def step(state: State, mask: Array) -> Array:
            first = index(state)
            if count > 1:
                first = first & U32(0xFFFFFFFF & -count)  # the array is 16-byte aligned
            here = mask & holds(state)
            for number, target in enumerate(targets):
                self.put(state, target, state.memory["input"][(first + U32(number)) % INPUT], here)
            return mask

        return Code(lines, step)

    def load_uniform(self) -> Code:
        target, source = self.one(UNIFORMS), self.one([*UNIFORMS, "%cta"])
        lines = [f"and.b32 %e0, {source}, {INPUT - 1};", "mul.wide.u32 %a0, %e0, 4;", "add.s64 %a0, %a0, %inp;"]
        lines.append(f"ld.global.u32 {target}, [%a0];")

        def step(state: State, mask: Array) -> Array:
            self.put(state, target, state.memory["input"][state.values[source] & U32(INPUT - 1)], mask)
            return mask

        return Code(lines, step)

    def store(self) -> Code:
        if self.slots >= SLOTS:
            return self.arithmetic()
        slot = self.slots
        self.slots += 1
        source = self.one([*INTEGERS, *READ_ONLY, *UNIFORMS, *FLOATS])
        text, holds = self.guard()
        total = self.per * self.blocks
        lines = [f"mad.lo.u32 %e0, %gid, 4, {4 * slot * total};", "cvt.u64.u32 %a0, %e0;", "add.s64 %a0, %a0, %out;"]
        lines.append(f"{text}st.global.b32 [%a0], {source};")

        def step(state: State, mask: Array) -> Array:
            row = state.memory["out"][slot]
            row[:] = np.where(mask & holds(state), state.values[source], row)
            return mask

        return Code(lines, step)

    def atomic(self) -> Code:
        number = self.below(6)
        name, types = [("add", "u32"), ("min", "u32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32")][
            number
        ]
        place, source = self.source(), self.source()
        if isinstance(source, int):
            source = "%t"
        value, where = self.read(source), self.read(place)
        text, holds = self.guard()
        if isinstance(place, int):
            lines = [f"mov.u64 %a0, {4 * (place % COUNTERS)};"]
        else:
            lines = [f"and.b32 %e0, {place}, {COUNTERS - 1};", "mul.wide.u32 %a0, %e0, 4;"]
        lines += ["add.s64 %a0, %a0, %counters;"]
        lines.append(f"{text}red.global.{name}.{types} [%a0+{4 * COUNTERS * number}], {source};")
        function = [np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor][number]

        def step(state: State, mask: Array) -> Array:
            here = mask & holds(state)
            function.at(state.memory["counters"][number], (where(state) % U32(COUNTERS))[here], value(state)[here])
            return mask

        return Code(lines, step)

    def warps(self, state: State, mask: Array) -> Array:
        """Each thread's warp mask of the active threads."""
        result = np.zeros(len(mask), np.uint32)
        warp = self.warp_of()
        np.bitwise_or.at(result, warp, np.where(mask, U32(1) << self.lanes(), U32(0)).astype(U32))
        return result[warp]

    def warp_of(self) -> Array:
        thread = np.tile(np.arange(self.per), self.blocks)
        block = np.repeat(np.arange(self.blocks), self.per)
        return block * -(-self.per // 32) + thread // 32

    def lanes(self) -> Array:
        return np.tile(np.arange(self.per, dtype=np.uint32) % U32(32), self.blocks)

    def shuffle(self) -> Code:
        target, value = self.one(INTEGERS), self.one([*INTEGERS, *READ_ONLY, *UNIFORMS, *FLOATS])
        mode = self.one(["idx", "bfly", "up", "down"])
        amount = self.one([*INTEGERS, "%lane", 1, 2, 5, 16, 31])
        if isinstance(amount, int):
            lines = [f"mov.u32 %e0, {amount};"]
        else:
            lines = [f"and.b32 %e0, {amount}, 31;"]
        lines.append("activemask.b32 %e1;")
        clamp = 0 if mode == "up" else 31
        distance = str(amount) if isinstance(amount, int) else "%e0"
        lines.append(f"shfl.sync.{mode}.b32 %e2|%pt, {value}, {distance}, {clamp}, %e1;")
        compute = {"idx": "mov.u32 %e3, %e0;", "bfly": "xor.b32 %e3, %lane, %e0;", "up": "sub.u32 %e3, %lane, %e0;",
                   "down": "add.u32 %e3, %lane, %e0;"}[mode]  # fmt: skip
        lines += [compute, "@!%pt mov.u32 %e3, %lane;", "shr.u32 %e3, %e1, %e3;", "and.b32 %e3, %e3, 1;"]
        lines += ["setp.ne.u32 %pt, %e3, 0;", f"@%pt mov.b32 {target}, %e2;"]
        read = self.read(amount)

        def step(state: State, mask: Array) -> Array:
            lane = self.lanes()
            by = read(state) & U32(31)
            source = {"idx": by, "bfly": lane ^ by, "up": lane - by, "down": lane + by}[mode]
            source = np.where(source < 32, source, lane)
            active = self.warps(state, mask)
            there = (active >> source & 1).astype(bool)
            place = np.arange(len(mask)) - lane.astype(np.int64) + source.astype(np.int64)
            values = state.values[value][np.clip(place, 0, len(mask) - 1)]
            self.put(state, target, values, mask & there)
            return mask

        return Code(lines, step)

    def vote(self) -> Code:
        predicate, target = self.one(PREDICATES), self.one(INTEGERS)
        kind = self.below(5)
        lines = ["activemask.b32 %e1;"]
        other = self.one(PREDICATES)
        source = self.one([*INTEGERS, *UNIFORMS, "%t"])
        if kind == 0:
            lines.append(f"vote.sync.ballot.b32 {target}, {predicate}, %e1;")
        elif kind == 1:
            lines.append(f"vote.sync.any.pred {other}, {predicate}, %e1;")
        elif kind == 2:
            lines.append(f"vote.sync.all.pred {other}, {predicate}, %e1;")
        elif kind == 3:
            lines.append(f"match.any.sync.b32 {target}, {source}, %e1;")
        else:
            lines.append(f"redux.sync.add.s32 {target}, {source}, %e1;")

        def step(state: State, mask: Array) -> Array:
            active = self.warps(state, mask)
            holds = self.warps(state, mask & state.values[predicate])
            if kind == 0:
                self.put(state, target, holds, mask)
            elif kind == 1:
                self.put(state, other, holds != 0, mask)
            elif kind == 2:
                self.put(state, other, holds == active, mask)
            else:
                warp, result = self.warp_of(), np.zeros(len(mask), np.uint32)
                values = state.values[source]
                for number in np.unique(warp):
                    here = (warp == number) & mask
                    if kind == 4:
                        result[here] = np.add.reduce(values[here], dtype=np.uint32)
                        continue
                    for value in np.unique(values[here]):
                        same = here & (values == value)
                        result[same] = np.bitwise_or.reduce(U32(1) << self.lanes()[same])
                self.put(state, target, result, mask)
            return mask

        return Code(lines, step)

    def exchange(self) -> Code:
        """Through shared memory: store, barrier, load another thread's, barrier."""
        source, target = self.one([*INTEGERS, *READ_ONLY, *FLOATS]), self.one(INTEGERS)
        shift = self.below(self.per)
        mode = self.below(3)
        lines = ["shl.b32 %e0, %t, 2;", "add.u32 %e0, %e0, %sh;", f"st.shared.b32 [%e0], {source};", "bar.sync 0;"]
        if mode == 0:  # around
            lines += [f"add.u32 %e1, %t, {shift};", f"rem.u32 %e1, %e1, {self.per};"]
        elif mode == 1:  # the neighbour, clamped
            lines += ["add.s32 %e1, %t, -1;", "max.s32 %e1, %e1, 0;"]
        else:  # the same for all
            lines += [f"mov.u32 %e1, {shift};"]
        lines += ["shl.b32 %e1, %e1, 2;", "add.u32 %e1, %e1, %sh;", f"ld.shared.b32 {target}, [%e1];", "bar.sync 0;"]

        def step(state: State, mask: Array) -> Array:
            shared = state.memory["shared"].reshape(-1)
            thread = np.tile(np.arange(self.per), self.blocks)
            shared[mask] = state.values[source][mask]
            other = (
                (thread + shift) % self.per
                if mode == 0
                else np.maximum(thread - 1, 0)
                if mode == 1
                else thread * 0 + shift
            )
            self.put(state, target, shared[np.arange(len(mask)) - thread + other], mask)
            return mask

        return Code(lines, step)

    def barrier_red(self) -> Code:
        target, predicate = self.one(INTEGERS), self.one(PREDICATES)
        line = f"barrier.red.popc.u32 {target}, 1, {predicate};"

        def step(state: State, mask: Array) -> Array:
            counts = (state.values[predicate] & mask).reshape(self.blocks, -1).sum(1).astype(np.uint32)
            self.put(state, target, np.repeat(counts, self.per), mask)
            return mask

        return Code([line], step)

    def local(self) -> Code:
        register, place = self.one(INTEGERS), self.one([*INTEGERS, *READ_ONLY])
        text, holds = self.guard()
        load = self.below(2)
        generic = self.below(2)
        lines = [f"and.b32 %e0, {place}, {LOCAL - 1};", "mul.wide.u32 %a0, %e0, 4;", "add.u64 %a0, %a0, %loc;"]
        if generic:
            lines.append("cvta.local.u64 %a0, %a0;")
        space = "" if generic else ".local"
        lines.append(f"{text}ld{space}.u32 {register}, [%a0];" if load else f"{text}st{space}.u32 [%a0], {register};")

        def step(state: State, mask: Array) -> Array:
            here = mask & holds(state)
            memory, rows = state.memory["local"], np.arange(len(mask))
            index = state.values[place] % U32(LOCAL)
            if load:
                self.put(state, register, memory[rows, index], here)
            else:
                memory[rows, index] = np.where(here, state.values[register], memory[rows, index])
            return mask

        return Code(lines, step)

    def call(self) -> Code:
        target, a, b = self.one(INTEGERS), self.one([*INTEGERS, *READ_ONLY]), self.one([*INTEGERS, *READ_ONLY])
        recursive = self.below(3) == 0
        name = "rec" if recursive else "mix"
        lines = [
            f"and.b32 %e0, {a}, 3;" if recursive else f"mov.u32 %e0, {a};",
            "{ .param .b32 pa; .param .b32 pb; .param .b32 pc;",
        ]
        lines += ["st.param.b32 [pa], %e0;", f"st.param.b32 [pb], {b};", f"call (pc), {name}, (pa, pb);"]
        lines += [f"ld.param.b32 {target}, [pc]; }}"]

        def rec(n: int, v: int) -> int:
            return v if n == 0 else v ^ rec(n - 1, (v * 5 + n) & 0xFFFFFFFF)

        def step(state: State, mask: Array) -> Array:
            va, vb = state.values[a], state.values[b]
            if recursive:
                result = np.array([rec(int(n & 3), int(v)) for n, v in zip(va, vb, strict=True)], np.uint32)
            else:
                result = np.where(signed(va) < signed(vb), vb - va, va * U32(3) + vb)
            self.put(state, target, result, mask)
            return mask

        return Code(lines, step)
