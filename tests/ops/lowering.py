"""One instruction through the CPU's lowering up to LLVM text: does Cuttle translate it, and if not, why not?"""

from __future__ import annotations

import re
from functools import cache

from cuttle.lower.cpu.compile_kernel import code_options, has_avx512, kernel_text, plan_kernel
from cuttle.lower.cpu.options import CompileOptions, Target
from cuttle.lower.plain.image_text import plain_text
from cuttle.ptx.parser import parse_module

HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"


def with_uses(statement: str) -> str:
    """`{ .reg ...; instruction; }` with a store of every register behind the instruction: nobody may leave it out."""
    uses = []
    for kind, name in re.findall(r"\.reg \.(\w+) (%\w+);", statement):
        if name in ("%place", "%use"):
            continue
        if kind == "pred":
            uses.append(f"selp.u32 %use, 1, 0, {name}; st.volatile.global.u32 [%place], %use;")
        else:
            uses.append(f"st.volatile.global.{kind} [%place], {name};")
    start = ".reg .b64 %place; .reg .b32 %use; mov.u64 %place, 4096;"
    return start + statement.strip()[:-1] + " ".join(uses) + "}"


@cache
def _target() -> Target:
    return Target(has_avx512(code_options(CompileOptions())))


def lower_plain(statement: str) -> str:
    """The same by the plain leg."""
    module = parse_module(f"{HEADER}.visible .entry k()\n{{\n{with_uses(statement)}\nret;\n}}\n")
    return plain_text(module, "k", "", 1 << 16)[1]


def lower(statement: str) -> str:
    """The LLVM text of a kernel that executes the statement; raises CuttleError."""
    module = parse_module(f"{HEADER}.visible .entry k()\n{{\n{with_uses(statement)}\nret;\n}}\n")
    options = CompileOptions(block_shape=(32, 1, 1))
    return kernel_text(plan_kernel(module, "k", options, _target()), code_options(options))
