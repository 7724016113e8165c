"""Whole blocks in lockstep: which kernels get it, and that they compute the same as warp by warp."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cuttle.lower.cpu.options import CompileOptions
from tests.lower.cpu.kernels import WAYS, Array, Block, Way, check, compiled, entry, threads

U32 = np.uint32
LOCKSTEP = next(way for way in WAYS if way.lockstep)


def in_lockstep(text: str, block: Block) -> bool:
    found: bool = compiled(text, "k", block, LOCKSTEP).metadata["report"]["lockstep"]
    return found


TREE = """
  .shared .align 64 .b8 part[1024];
  mul.lo.u32 %r1, %t, 4; mov.u32 %r2, part; add.u32 %r2, %r2, %r1;
  ld.global.u32 %r3, [%wide]; st.shared.u32 [%r2], %r3;
"""


def tree(block: Block) -> str:
    """A sum by halves in shared memory, unrolled: lanes and warps known at compile time part at each step."""
    text = TREE
    half = threads(block) // 2
    while half:
        text += f"""
  bar.sync 0; setp.ge.u32 %p1, %t, {half}; @%p1 bra STEP{half};
  ld.shared.u32 %r4, [%r2]; ld.shared.u32 %r5, [%r2+{4 * half}]; add.u32 %r4, %r4, %r5; st.shared.u32 [%r2], %r4;
STEP{half}:"""
        half //= 2
    return entry(text + "bar.sync 0; ld.shared.u32 %r4, [%r2]; st.global.u32 [%wide], %r4; ret;")


@pytest.mark.parametrize("block", [(64, 1, 1), (256, 1, 1), (128, 1, 1)])
def test_sum_by_halves(block: Block) -> None:
    count = threads(block)
    values = np.arange(3, 3 + count, dtype=U32)
    expected = values.copy()
    half = count // 2
    while half:
        expected[:half] += expected[half : 2 * half]
        half //= 2
    assert in_lockstep(tree(block), block)
    check(tree(block), block, [values], [expected])


# Warps part at a branch on data: lockstep starts again, warp by warp. Nothing must have happened twice.
GUARD = entry("""
  ld.global.u32 %r1, [%wide]; setp.gt.u32 %p1, %r1, 100; @%p1 bra END;
  atom.global.add.u32 %r2, [%out], 1; red.global.add.u32 [%wide+4096], %r1;
END: ret;""")


@pytest.mark.parametrize("pattern", ["none", "all", "one warp", "one lane", "mixed"])
def test_branch_on_data(pattern: str) -> None:
    block = (128, 1, 1)
    values = np.full(2048, 7, U32)
    values[0] = 0
    first = values[:128]
    match pattern:
        case "all":
            first[:] = 1000
        case "one warp":
            first[32:64] = 1000
        case "one lane":
            first[77] = 1000
        case "mixed":
            first[::3] = 1000
    expected = values.copy()
    passing = np.flatnonzero(first <= 100)
    expected[1024 + passing] += first[passing]
    expected[0] += len(passing)
    assert in_lockstep(GUARD, block)
    check(GUARD, block, [values], [expected])


# An effect before a branch on data: such a kernel cannot start again.
LATE = entry("""
  ld.global.u32 %r1, [%wide]; add.u32 %r2, %r1, 1; st.global.u32 [%wide], %r2;
  setp.gt.u32 %p1, %r1, 50; @%p1 bra END; add.u32 %r2, %r2, 7; st.global.u32 [%wide], %r2;
END: ret;""")


def test_effect_before_a_branch_on_data() -> None:
    values = np.arange(96, dtype=U32)
    assert not in_lockstep(LATE, (96, 1, 1))
    check(LATE, (96, 1, 1), [values], [np.where(values > 50, values + 1, values + 8).astype(U32)])


@pytest.mark.parametrize("instruction", ["trap", "brkpt"])
def test_a_guarded_trap_does_not_hinder(instruction: str) -> None:
    """It once refused the kernel: no operation, so nothing that can be the same for all warps."""
    values = np.arange(96, dtype=U32)
    text = entry(
        f"ld.global.u32 %r1, [%wide]; setp.gt.u32 %p1, %r1, 1000; @%p1 {instruction}; add.u32 %r1, %r1, 1; st.global.u32 [%wide], %r1; ret;"
    )
    check(text, (96, 1, 1), [values], [values + 1])


# A loop with a trip count from memory that all threads share, and values carried around it that differ between warps.
LOOP = entry(
    """
  ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, %t; mov.u32 %r6, %x;
NEXT: setp.ge.u32 %p1, %r2, %r1; @%p1 bra END;
  mad.lo.u32 %r3, %r3, 5, %r2; add.u32 %r6, %r6, 3; xor.b32 %r3, %r3, %r6;
  mul.wide.u32 %d1, %r2, 4; add.u64 %d1, %out, %d1; ld.global.u32 %r4, [%d1+2048]; add.u32 %r3, %r3, %r4;
  add.u32 %r2, %r2, 1; bra NEXT;
END: st.global.u32 [%wide], %r3; ret;""",
    ".param .u64 out, .param .u32 n",
)


@pytest.mark.parametrize("block", [(16, 16, 1), (8, 8, 1), (64, 1, 1), (32, 4, 2)])
@pytest.mark.parametrize("rounds", [0, 1, 9])
def test_loop_with_shared_and_own_values(block: Block, rounds: int) -> None:
    values = np.arange(1024, dtype=U32) * 17
    t = np.arange(threads(block), dtype=U32)
    x = t % block[0]
    own = t.copy()
    for number in range(rounds):
        own = own * U32(5) + U32(number)
        x = x + U32(3)
        own = (own ^ x) + values[512 + number]
    expected = values.copy()
    expected[: len(t)] = own
    assert in_lockstep(LOOP, block)
    check(LOOP, block, [values, rounds], [expected])


# Nested branches on the thread's number, both ways filled, a phi at each join, then a branch that ends some threads.
NESTED = entry("""
  mov.u32 %r1, 1; setp.lt.u32 %p1, %t, 72; @%p1 bra LOW;
  mul.lo.u32 %r1, %t, 3; setp.eq.u32 %p2, %t, 100; @%p2 bra ODD; add.u32 %r1, %r1, 1; bra MET;
ODD: mov.u32 %r1, 9999; bra MET;
LOW: setp.gt.u32 %p3, %t, 40; @%p3 bra MET; shfl.sync.idx.b32 %r1, %t, 3, 31, -1; add.u32 %r1, %r1, 1000;
MET: st.global.u32 [%wide], %r1; setp.ge.u32 %p4, %t, 90; @%p4 ret;
  add.u32 %r1, %r1, 5; st.global.u32 [%wide], %r1; ret;""")


@pytest.mark.parametrize("block", [(128, 1, 1), (32, 4, 1)])
def test_nested_branches_on_the_thread(block: Block) -> None:
    t = np.arange(128, dtype=U32)
    expected = np.where(t < 72, np.where(t > 40, 1, t // 32 * 32 + 3 + 1000), np.where(t == 100, 9999, 3 * t + 1))
    # Lane 3 of the warp from 32 on is among those that shuffle.
    expected = np.where(t < 90, expected + 5, expected).astype(U32)
    check(NESTED, block, [np.zeros(128, U32)], [expected])


@pytest.mark.parametrize("count", [1, 2, 4, 5, 8, 16, 31])
@pytest.mark.parametrize("first", [0, 3])
def test_known_lanes_touch_nothing_else(count: int, first: int) -> None:
    """Some lanes of one warp load and store; what lies beside them stays as it is."""
    text = entry(f"""
      sub.u32 %r1, %t, {first}; setp.ge.u32 %p1, %r1, {count}; @%p1 bra END;
      ld.global.u32 %r2, [%wide]; add.u32 %r2, %r2, 1000; st.global.u32 [%wide], %r2; END: ret;""")
    values = np.arange(64, dtype=U32)
    expected = values.copy()
    expected[first : first + count] += 1000
    assert in_lockstep(text, (64, 1, 1))
    check(text, (64, 1, 1), [values], [expected])


LOCAL = entry("""
  .local .align 8 .b8 own[16]; mov.u64 %d1, own; cvta.local.u64 %d2, %d1; mov.u32 %r1, 4;
  st.local.u32 [own+4], %t; st.u32 [%d2+8], %x; bar.sync 0; cvt.u64.u32 %d3, %r1; add.u64 %d4, %d2, %d3;
  ld.u32 %r2, [%d4]; ld.local.u32 %r3, [own+8]; mad.lo.u32 %r2, %r2, 100, %r3;
  st.local.u32 [own], %r2; bar.sync 0; ld.local.u32 %r4, [own]; st.global.u32 [%wide], %r4; ret;""")


@pytest.mark.parametrize("block", [(64, 1, 1), (32, 4, 1), (16, 8, 1)])
def test_each_warp_has_its_own_local_memory(block: Block) -> None:
    t = np.arange(threads(block), dtype=U32)
    assert in_lockstep(LOCAL, block)
    check(LOCAL, block, [np.zeros(threads(block), U32)], [100 * t + t % block[0]])


def array_of(count: int) -> Array:
    return np.zeros(count, U32)


def test_barriers_that_are_not_the_blocks_own() -> None:
    """`bar.red` and counted barriers are the executor's business."""
    text = entry("""
      setp.gt.u32 %p1, %t, 50; bar.red.popc.u32 %r1, 0, %p1; st.global.u32 [%wide], %r1; ret;""")
    assert not in_lockstep(text, (64, 1, 1))
    check(text, (64, 1, 1), [array_of(64)], [np.full(64, 13, U32)])


def test_pressure_and_gain_decide() -> None:
    """Without barriers or shared loads in loops there is nothing to gain."""
    plain = Way("default")
    assert not compiled(GUARD, "k", (128, 1, 1), plain).metadata["report"]["lockstep"]
    assert compiled(tree((256, 1, 1)), "k", (256, 1, 1), plain).metadata["report"]["lockstep"]
    wide = "".join(f"ld.global.u32 %r{n}, [%wide+{4096 * n}];" for n in range(10, 40))
    sums = "".join(f"add.u32 %r1, %r1, %r{n};" for n in range(10, 40))
    text = entry(f"{wide} bar.sync 0; mov.u32 %r1, 0; {sums} st.global.u32 [%wide], %r1; ret;")
    assert not compiled(text, "k", (256, 1, 1), plain).metadata["report"]["lockstep"]


PLAIN = next(way for way in WAYS if way.options.plain)
REGISTERS = [f"%r{number}" for number in range(1, 7)]


class Maker:
    """Random kernels of the kind that lockstep takes: barriers, branches on the thread's number, loops all go through."""

    def __init__(self, seed: int, block: Block) -> None:
        self.random = random.Random(seed)
        self.count = threads(block)
        self.labels = 0

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def arithmetic(self) -> str:
        a, b, c = (self.random.choice(REGISTERS) for _ in range(3))
        operation = self.random.choice(("add.u32", "sub.u32", "xor.b32", "mul.lo.u32", "min.u32"))
        other = self.random.choice((c, str(self.random.randrange(1 << 16)), "%x", "%y"))
        return f"{operation} {a}, {b}, {other};"

    def straight(self) -> str:
        lines = [self.arithmetic() for _ in range(self.random.randrange(1, 4))]
        if self.random.random() < 0.3:
            guard = f"setp.lt.u32 %p9, {self.random.choice(REGISTERS)}, {1 << 31};"
            lines.append(f"{guard} @%p9 {self.arithmetic()}")
        return " ".join(lines)

    def thread_test(self) -> str:
        comparison = self.random.choice(("lt.u32", "ge.u32", "eq.u32", "ne.u32", "lt.s32"))
        if self.random.random() < 0.3:
            return f"and.b32 %r20, %t, {self.random.randrange(64)}; setp.{comparison} %p1, %r20, {self.random.randrange(64)};"
        return f"setp.{comparison} %p1, %t, {self.random.choice((1, 16, 31, 32, 33, 64, self.random.randrange(self.count)))};"

    def branch(self, depth: int) -> str:
        otherwise, join = self.label(), self.label()
        text = f"{self.thread_test()} @%p1 bra {otherwise}; {self.statements(depth + 1, inside=True)} "
        if self.random.random() < 0.5:
            return text + f"{otherwise}:"
        return text + f"bra {join}; {otherwise}: {self.statements(depth + 1, inside=True)} {join}:"

    def loop(self, depth: int) -> str:
        head, end = self.label(), self.label()
        counter = f"%r{30 + depth}"
        return f"""mov.u32 {counter}, 0;
          {head}: setp.ge.u32 %p2, {counter}, %r29; @%p2 bra {end}; {self.statements(depth + 1, inside=False)}
          add.u32 {counter}, {counter}, 1; bra {head}; {end}:"""

    def exchange(self) -> str:
        a, b = self.random.choice(REGISTERS), self.random.choice(REGISTERS)
        return f"""st.shared.u32 [%r40], {a}; bar.sync 0;
          mad.lo.u32 %r20, %t, {self.random.choice((1, 3, 5))}, {self.random.randrange(self.count)};
          and.b32 %r20, %r20, {self.count - 1}; mad.lo.u32 %r20, %r20, 4, %r41; ld.shared.u32 {b}, [%r20]; bar.sync 0;"""

    def statements(self, depth: int, *, inside: bool) -> str:
        lines = []
        for _ in range(self.random.randrange(1, 5 - depth)):
            kind = self.random.random()
            if kind < 0.4 or depth > 2:
                lines.append(self.straight())
            elif kind < 0.7:
                lines.append(self.branch(depth))
            elif inside:
                lines.append(self.straight())
            elif kind < 0.78:
                lines.append("shfl.sync.bfly.b32 %r21, %r1, 1, 31, -1; add.u32 %r2, %r2, %r21;")
            elif kind < 0.88:
                lines.append(self.loop(depth))
            else:
                lines.append(self.exchange())
        return "\n".join(lines)

    def kernel(self) -> str:
        body = f"""
          .shared .align 64 .b8 part[1024]; mov.u32 %r41, part; mad.lo.u32 %r40, %t, 4, %r41; ld.param.u32 %r29, [n];
          ld.global.u32 %r1, [%wide]; mov.u32 %r2, %t; mov.u32 %r3, %x; mov.u32 %r4, 77; mov.u32 %r5, %r29;
          mul.lo.u32 %r6, %t, 3; setp.gt.u32 %p1, %r1, 1000000; @%p1 bra END;
          {self.statements(0, inside=False)} {self.exchange()} {self.statements(0, inside=False)}
          xor.b32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; xor.b32 %r1, %r1, %r4; add.u32 %r1, %r1, %r5;
          add.u32 %r1, %r1, %r6; st.global.u32 [%wide], %r1; END: ret;"""
        return entry(body, ".param .u64 out, .param .u32 n")


def compare_random(seed: int, ways: Sequence[Way]) -> bool:
    block = ((64, 1, 1), (16, 8, 1), (8, 8, 1), (32, 2, 2))[seed % 4]
    text = Maker(seed, block).kernel()
    values = np.arange(threads(block), dtype=U32) * 977
    check(text, block, [values, 3], [], ways=ways)
    return in_lockstep(text, block)


def test_random_kernels_in_lockstep() -> None:
    taken = [compare_random(seed, (PLAIN, LOCKSTEP)) for seed in range(24)]
    assert sum(taken) > 16


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 20))
def test_many_random_kernels_in_lockstep(first: int) -> None:
    optimised = replace(LOCKSTEP, name="lockstep O2", options=CompileOptions())
    for seed in range(first, first + 20):
        compare_random(seed, (PLAIN, LOCKSTEP, optimised))
