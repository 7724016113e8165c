"""Addresses made by random integer instructions, with what they must come to, computed here.

`cuttle run -- python -m tests.alignment.expressions SEED COUNT` runs them and prints those that ended otherwise, as JSON.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from cuttle.sweep.driver import Driver
from tests.alignment.cases import result_of

LANES = 32
WORD = (1 << 64) - 1
WINDOW = 0xFFF  # addresses stay within a page behind the base
MISALIGNED = 716

Evaluate = Callable[[int, dict[str, int]], int]


@dataclass
class Program:
    """PTX lines that make registers, and for each register its value in a lane (`parameters` by name)."""

    random: random.Random
    lines: list[str] = field(default_factory=list)
    values: list[tuple[str, Evaluate]] = field(default_factory=list)
    predicates: int = 0

    def define(self, text: str, evaluate: Evaluate) -> None:
        name = f"%d{len(self.values)}"
        self.lines.append(text.replace("{d}", name))
        self.values.append((name, evaluate))

    def begin(self) -> None:
        self.lines += [
            "ld.param.u64 %base, [base];", "mov.u32 %t, %laneid;",
        ]  # fmt: skip
        for name in ("first", "second"):
            self.define(f"ld.param.u64 {{d}}, [{name}];", lambda lane, given, name=name: given[name])
        self.define("ld.param.u32 %s, [third]; cvt.u64.u32 {d}, %s;", lambda lane, given: given["third"])
        self.define("cvt.u64.u32 {d}, %t;", lambda lane, given: lane)

    def step(self) -> None:
        pick = self.random
        (a, x), (b, y) = pick.choice(self.values), pick.choice(self.values)
        number = pick.choice([0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 0xFFFF_FFFC, -4, -8, 24])
        shift = pick.randrange(6)
        condition = pick.randrange(LANES)
        p = f"%p{self.predicates}"
        choices: list[tuple[str, Evaluate]] = [
            (f"add.u64 {{d}}, {a}, {b};", lambda lane, given: x(lane, given) + y(lane, given)),
            (f"sub.u64 {{d}}, {a}, {b};", lambda lane, given: x(lane, given) - y(lane, given)),
            (f"or.b64 {{d}}, {a}, {b};", lambda lane, given: x(lane, given) | y(lane, given)),
            (f"xor.b64 {{d}}, {a}, {b};", lambda lane, given: x(lane, given) ^ y(lane, given)),
            (f"and.b64 {{d}}, {a}, {number};", lambda lane, given: x(lane, given) & number),
            (f"add.u64 {{d}}, {a}, {number};", lambda lane, given: x(lane, given) + number),
            (f"mul.lo.u64 {{d}}, {a}, {number};", lambda lane, given: x(lane, given) * number),
            (f"mul.lo.u64 {{d}}, {a}, {b};", lambda lane, given: x(lane, given) * y(lane, given)),
            (f"mad.lo.u64 {{d}}, {a}, {number}, {b};", lambda lane, given: x(lane, given) * number + y(lane, given)),
            (f"shl.b64 {{d}}, {a}, {shift};", lambda lane, given: x(lane, given) << shift),
            (f"shr.u64 {{d}}, {a}, {shift};", lambda lane, given: (x(lane, given) & WORD) >> shift),
            (f"neg.s64 {{d}}, {a};", lambda lane, given: -x(lane, given)),
            (
                f"cvt.u32.u64 %s, {a}; mul.wide.u32 {{d}}, %s, {number & 0xFFFF};",
                lambda lane, given: (x(lane, given) & 0xFFFF_FFFF) * (number & 0xFFFF),
            ),
            (
                f"setp.lt.u32 {p}, %t, {condition}; selp.b64 {{d}}, {a}, {b}, {p};",
                lambda lane, given: x(lane, given) if lane < condition else y(lane, given),
            ),
            (
                f"setp.lt.u32 {p}, %t, {condition}; mov.u64 {{d}}, {a}; @{p} mov.u64 {{d}}, {b};",
                lambda lane, given: y(lane, given) if lane < condition else x(lane, given),
            ),
            (
                f"setp.lt.u32 {p}, %t, {condition}; mov.u64 {{d}}, {a}; @{p} bra L{p[2:]}; add.u64 {{d}}, {b}, {number}; L{p[2:]}:",
                lambda lane, given: x(lane, given) if lane < condition else y(lane, given) + number,
            ),
            (
                (
                    f"mov.u32 %c, 0; mov.u64 {{d}}, {a}; L{p[2:]}: add.u64 {{d}}, {{d}}, {number}; add.u32 %c, %c, 1;"
                    f" setp.lt.u32 {p}, %c, {shift}; @{p} bra L{p[2:]};"
                ),
                lambda lane, given: x(lane, given) + max(shift, 1) * number,
            ),
        ]
        self.predicates += 1
        text, evaluate = pick.choice(choices)
        self.define(text, lambda lane, given: evaluate(lane, given) & WORD)

    def text(self, access: str) -> str:
        body = "\n".join(self.lines)
        return f"""//
.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 base, .param .u64 first, .param .u64 second, .param .u32 third)
{{
.reg .pred %p<{self.predicates + 1}>;
.reg .b16 %h<4>;
.reg .b32 %s, %t, %c, %r<4>;
.reg .b64 %a, %base, %d<{len(self.values) + 1}>;
{body}
and.b64 %a, %d{len(self.values) - 1}, {WINDOW};
add.u64 %a, %a, %base;
{access}
ret;
}}
"""


ACCESSES = (
    (2, "st.global.u16 [%a], 0;"), (4, "st.global.u32 [%a], 0;"), (8, "st.global.u64 [%a], 0;"), (16, "st.global.v4.u32 [%a], {%t, %t, %t, %t};"),
)  # fmt: skip


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    pick = random.Random(seed)
    driver = Driver()
    wrong, faults = [], 0
    for number in range(count):
        program = Program(pick)
        program.begin()
        for _ in range(pick.randrange(1, 7)):
            program.step()
        size, access = pick.choice(ACCESSES)
        text = program.text(access)
        for _ in range(3):
            given = {
                name: pick.choice([0, 1, 2, 4, 8, 12, 16, 64, 1000, 1003]) for name in ("first", "second", "third")
            }
            shift = pick.choice([0, 0, 0, 16, 8, 4, 2, 1])
            _, evaluate = program.values[-1]
            addresses = [shift + (evaluate(lane, given) & WINDOW) for lane in range(LANES)]
            expected = MISALIGNED if any(address % size for address in addresses) else 0
            found = launch(driver, text, shift, given)
            faults += expected != 0
            if found != expected:
                wrong.append(
                    {
                        "number": number,
                        "expected": expected,
                        "found": found,
                        "given": given,
                        "base": shift,
                        "text": text,
                    }
                )
    json.dump({"wrong": wrong, "faults": faults}, sys.stdout)


def launch(driver: Driver, text: str, shift: int, given: dict[str, int]) -> int:
    numbers = [ctypes.c_uint64(given["first"]), ctypes.c_uint64(given["second"]), ctypes.c_uint32(given["third"])]
    result = result_of(driver, text, shift, numbers)
    if result:
        driver.reset()
    return result


if __name__ == "__main__":
    main()
