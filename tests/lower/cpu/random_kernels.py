"""Random structured PTX kernels, each with an interpreter made along with it that runs all threads at once in NumPy.

Every statement is made as a pair: PTX lines, and a function (state, mask of active threads) -> mask of the threads that go
on. Threads of a warp that meet again after a branch or a loop are together there (`activemask`), as structured code has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Below = Callable[[int], int]

INPUT = 1 << 12  # elements of the input array; the first PAD and last PAD are margins
PAD = 64
COUNTERS = 16
SLOTS = 24
NAN = np.uint32(0x7FFFFFFF)
LOCAL = 8

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


INTEGERS = [f"%r{n}" for n in range(6)]
UNIFORMS = [f"%u{n}" for n in range(3)]
WIDE = [f"%d{n}" for n in range(3)]
FLOATS = [f"%f{n}" for n in range(3)]
PREDICATES = [f"%p{n}" for n in range(4)]
READ_ONLY = ["%x", "%y", "%z", "%t", "%lane", "%gid", "%nx", "%cta"]
U32 = np.uint32


def signed(a: Array) -> Array:
    return a.astype(np.uint32).view(np.int32)


def binary(name: str, a: Array, b: Array) -> Array:
    """The 32-bit integer instruction `name`."""
    if name in ("add.s32", "add.u32"):
        return a + b
    if name in ("sub.s32", "sub.u32"):
        return a - b
    if name == "mul.lo.s32":
        return a * b
    if name == "mul.hi.u32":
        return (a.astype(np.uint64) * b.astype(np.uint64) >> np.uint64(32)).astype(U32)
    if name == "mul.hi.s32":
        return (signed(a).astype(np.int64) * signed(b).astype(np.int64) >> 32).astype(np.int32).view(U32)
    if name == "and.b32":
        return a & b
    if name == "or.b32":
        return a | b
    if name == "xor.b32":
        return a ^ b
    if name == "min.s32":
        return np.minimum(signed(a), signed(b)).view(U32)
    if name == "max.s32":
        return np.maximum(signed(a), signed(b)).view(U32)
    if name == "min.u32":
        return np.minimum(a, b)
    if name == "max.u32":
        return np.maximum(a, b)
    amount = np.minimum(b, U32(32)).astype(np.uint64)
    if name == "shl.b32":
        return (a.astype(np.uint64) << amount & np.uint64(0xFFFFFFFF)).astype(U32)
    if name == "shr.u32":
        return (a.astype(np.uint64) >> amount).astype(U32)
    assert name == "shr.s32"
    return (signed(a).astype(np.int64) >> amount.astype(np.int64)).astype(np.int32).view(U32)


BINARY = [
    "add.s32", "add.s32", "add.u32", "sub.s32", "sub.u32", "mul.lo.s32", "mul.lo.s32", "mul.hi.u32", "mul.hi.s32",
    "and.b32", "or.b32", "xor.b32", "min.s32", "max.s32", "min.u32", "max.u32", "shl.b32", "shr.u32", "shr.s32",
]  # fmt: skip
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
SMALL = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 64, 0xFF, 0xFFFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 1000]
FLOAT_BITS = [0, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x80000000, 0x42280000, 0x7FC00001, 0xFF812345, 0x7F7FFFFF]


def float_operation(name: str, a: Array, b: Array) -> Array:
    x, y = a.view(np.float32), b.view(np.float32)
    if name in ("add", "sub", "mul"):
        function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
        result = function(x, y)
    else:
        least = name == "min"
        nan_x, nan_y = np.isnan(x), np.isnan(y)
        first = np.where((x < y) if least else (x > y), x, y)
        # -0 is below +0
        zeros = (x == 0) & (y == 0)
        zero = np.where((np.signbit(x) | np.signbit(y)) if least else (np.signbit(x) & np.signbit(y)), -0.0, 0.0)
        result = np.where(nan_x, y, np.where(nan_y, x, np.where(zeros, zero, first))).astype(np.float32)
    bits = result.astype(np.float32).view(U32)
    return np.where(np.isnan(result), NAN, bits).astype(U32)


class Maker:
    """Makes statements by `below(n)`, which chooses a number from 0 to n-1."""

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

    # -- choices -----------------------------------------------------------------------------------------------------

    def one(self, options: list[Any]) -> Any:
        return options[self.below(len(options))]

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def source(self) -> str | int:
        kind = self.below(8)
        if kind < 3:
            return str(self.one(INTEGERS))
        if kind < 5:
            return str(self.one(READ_ONLY))
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
            return lambda state: state.values[operand]
        return lambda state: np.full(len(state.exited), operand, np.uint32)

    @staticmethod
    def put(state: State, register: str, value: Array, mask: Array) -> None:
        old = state.values[register]
        state.values[register] = np.where(mask, value, old).astype(old.dtype)

    def guard(self) -> tuple[str, Callable[[State], Array]]:
        if self.below(4):
            return "", lambda state: np.True_  # type: ignore[return-value]
        predicate = self.one(PREDICATES)
        if self.below(2):
            return f"@{predicate} ", lambda state: state.values[predicate]
        return f"@!{predicate} ", lambda state: ~state.values[predicate]

    def simple(self, line: str, register: str, compute: Callable[[State], Array], *, guarded: bool = True) -> Code:
        text, holds = self.guard() if guarded else ("", lambda state: np.True_)  # type: ignore[return-value]

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
        return self.simple(f"{name} {target}, {a}, {b}", target, lambda s: binary(name, va(s), vb(s)), guarded=not uniform)

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
                f"mul.wide.{suffix}32 {target}, {a}, {b}", target, lambda s: extended(va(s), sign) * extended(vb(s), sign)
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
        name, types = [("add", "u32"), ("min", "u32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32")][number]
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
            other = (thread + shift) % self.per if mode == 0 else np.maximum(thread - 1, 0) if mode == 1 else thread * 0 + shift
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
        lines = [f"and.b32 %e0, {a}, 3;" if recursive else f"mov.u32 %e0, {a};", "{ .param .b32 pa; .param .b32 pb; .param .b32 pc;"]
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
            self.vote, self.local, self.call,
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
                return (state.values[register] & U32(1)) == value
        else:
            predicate = self.one(PREDICATES)
            lines = [f"@!{predicate} bra {otherwise};"]

            def holds(state: State) -> Array:
                return state.values[predicate]

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
        lines = [f"and.b32 %e0, {source}, 3;", f"{name}_table: .branchtargets {targets};", f"brx.idx %e0, {name}_table;"]
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

    def kernel(self, seed: int) -> RandomKernel:
        inputs = np.random.default_rng(seed).integers(0, 1 << 32, INPUT, dtype=np.uint32)
        inputs[::3] %= 64
        buffer = np.zeros(INPUT + 8, np.uint32)
        start = -buffer.ctypes.data % 16 // 4
        aligned_inputs = buffer[start : start + INPUT]
        aligned_inputs[:] = inputs
        body = self.sequence([self.statements(0, uniform=True, loop=None) for _ in range(4)])
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
        text = PROLOGUE.format(functions=RECURSIVE, per=self.per, clear="\n".join(
            f"st.local.u32 [arr+{4 * index}], 0;" for index in range(LOCAL)
        ))  # fmt: skip
        text += "\n".join("  " + line for line in code.lines) + "\n  ret;\n}\n"
        return RandomKernel(text, self.block, self.blocks, code, aligned_inputs)


PROLOGUE = """{functions}
.visible .entry k(.param .u64 inp, .param .u64 out, .param .u64 counters)
{{
  .reg .b32 %r<8>, %u<4>, %e<6>, %x, %y, %z, %t, %lane, %gid, %nx, %ny, %cta, %sh; .reg .b64 %d<4>, %a<4>;
  .reg .b64 %inp, %out, %counters, %loc; .reg .f32 %f<4>; .reg .pred %p<4>, %pu, %pt;
  .shared .align 16 .b8 exchange[{per}*4]; .local .align 16 .b32 arr[8];
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
"""


def float_compare(name: str, a: Array, b: Array) -> Array:
    """Ordered comparisons; `ne` too is false for NaNs."""
    x, y = a.view(np.float32), b.view(np.float32)
    return np.asarray(COMPARISONS[name](x, y) & ~np.isnan(x) & ~np.isnan(y))


BLOCKS = [
    (32, 1, 1), (64, 1, 1), (33, 1, 1), (100, 1, 1), (16, 16, 1), (8, 8, 2), (8, 4, 1), (5, 7, 3), (32, 2, 1), (64, 2, 1),
    (1, 1, 1), (16, 2, 2), (4, 4, 4), (7, 1, 1), (128, 1, 1), (16, 3, 1), (8, 5, 2), (2, 16, 2),
]  # fmt: skip


def make_kernel(below: Below, seed: int = 0) -> RandomKernel:
    block = BLOCKS[below(len(BLOCKS))]
    return Maker(below, block, 1 + below(2)).kernel(seed)
