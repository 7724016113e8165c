"""Random graphs of blocks with jumps anywhere, irreducible loops included, and what each thread computes, one at a time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.lower.cpu.kernels import Block, entry, threads

MASK = 0xFFFF_FFFF
BLOCKS: list[Block] = [(32, 1, 1), (33, 1, 1), (64, 1, 1), (16, 4, 1), (5, 7, 1), (8, 8, 1), (48, 1, 1)]
FUEL = 24
REGISTERS = 5


def make_flow(rng: random.Random) -> tuple[str, Block, np.ndarray[Any, Any]]:
    """PTX of kernel `k(out)`, its block shape, and the expected `out` (all registers of each thread)."""
    block = rng.choice(BLOCKS)
    count = rng.randrange(3, 9)
    blocks = [make_block(rng, count) for _ in range(count)]
    lines = ["mov.u32 %r20, 0; mov.u32 %r21, %ctaid.x;"]
    lines += [f"mov.u32 %r{n}, {'%t' if n == 0 else '%x' if n == 1 else n};" for n in range(REGISTERS)]
    for number, (operations, test, targets) in enumerate(blocks):
        lines.append(f"B{number}: add.u32 %r20, %r20, 1; setp.gt.u32 %p9, %r20, {FUEL}; @%p9 bra END;")
        for name, target, a, b, guard in operations:
            prefix = "" if guard is None else f"and.b32 %r19, %r{guard}, 1; setp.ne.u32 %p1, %r19, 0; @%p1 "
            lines.append(f"{prefix}{name} %r{target}, %r{a}, {b if isinstance(b, int) else '%r' + b};")
        register, mask, value = test
        lines.append(f"and.b32 %r19, %r{register}, {mask};")
        if len(targets) == 2:
            lines.append(f"setp.eq.u32 %p2, %r19, {value}; @%p2 bra B{targets[0]}; bra B{targets[1]};")
        else:
            names = ", ".join(f"B{target}" for target in targets)
            lines.append(f"and.b32 %r19, %r19, 3; table{number}: .branchtargets {names}; brx.idx %r19, table{number};")
    lines.append("END:")
    total = threads(block)
    for n in range(REGISTERS):
        lines.append(f"st.global.u32 [%wide+{4 * n * total}], %r{n};")
    expected = np.zeros((REGISTERS, total), np.uint32)
    for thread in range(total):
        expected[:, thread] = run_thread(blocks, thread, thread % block[0])
    return entry("\n".join(lines) + "\nret;"), block, expected.reshape(-1)


def make_block(rng: random.Random, count: int) -> Any:
    operations = []
    for _ in range(rng.randrange(4)):
        name = rng.choice(["add.u32", "sub.u32", "mul.lo.u32", "xor.b32", "and.b32", "min.u32", "shr.u32"])
        operand: int | str = (
            rng.choice([1, 2, 3, 5, 7]) if rng.random() < 0.5 or name == "shr.u32" else str(rng.randrange(REGISTERS))
        )
        guard = rng.randrange(REGISTERS) if rng.random() < 0.3 else None
        operations.append((name, rng.randrange(REGISTERS), rng.randrange(REGISTERS), operand, guard))
    register = rng.choice([*range(REGISTERS), 20, 21])
    targets = [rng.randrange(count) for _ in range(4 if rng.random() < 0.2 else 2)]
    return operations, (register, rng.choice([1, 2, 3, 6]), rng.randrange(3)), targets


def run_thread(blocks: list[Any], thread: int, x: int) -> list[int]:
    registers = {n: n for n in range(REGISTERS)} | {0: thread, 1: x, 20: 0, 21: 0}
    at = 0
    while True:
        operations, (register, mask, value), targets = blocks[at]
        registers[20] += 1
        if registers[20] > FUEL:
            return [registers[n] for n in range(REGISTERS)]
        for name, target, a, b, guard in operations:
            if guard is not None and not registers[guard] & 1:
                continue
            left, right = registers[a], b if isinstance(b, int) else registers[int(b)]
            registers[target] = {
                "add.u32": left + right, "sub.u32": left - right, "mul.lo.u32": left * right, "xor.b32": left ^ right,
                "and.b32": left & right, "min.u32": min(left, right), "shr.u32": left >> (right & 31),
            }[name] & MASK  # fmt: skip
        test = registers[register] & mask
        if len(targets) == 2:
            at = targets[0] if test == value else targets[1]
        else:
            at = targets[test & 3]
