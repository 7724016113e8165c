"""The LLVM module of a kernel in the plain leg."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cuttle.errors import PtxError
from cuttle.lower.fault_sites import fault_sites
from cuttle.lower.ops.policy import policy
from cuttle.lower.plain.program import TRAP, Program, Step, plan_program
from cuttle.lower.plain.scheduler import FRAME_BYTES, scheduler_text
from cuttle.lower.plain.steps import StepCode, write_step
from cuttle.ptx.ir import Module

if TYPE_CHECKING:
    from cuttle.lower.cpu.link_image import Linked

# Both scheduler and steps declare these.
SHARED_DECLARATIONS = ("@llvm.memset.p0.i64", "@llvm.cttz.i32")


def plain_text(module: Module, kernel: str, attributes: str, stack_bytes: int) -> tuple[Program, str]:
    """The program and its text; `attributes` are those of every function, `stack_bytes` the limit on a
    thread's stack. Raises PtxError."""
    policy.exact_nan, policy.fast_math = True, False
    program = plan_program(module, kernel, stack_bytes)
    codes = [code_of(program, step) for step in program.steps]
    return program, "\n".join(
        [*declared(codes), *(text for code in codes for text in code.functions), scheduler_text(program, codes),
         f"attributes #0 = {{ {attributes} }}", ""]
    )  # fmt: skip


def code_of(program: Program, step: Step) -> StepCode:
    """The code of a step. Where only a pointer may lead, and most likely none does, what cannot be translated traps."""
    try:
        return write_step(program, step)
    except PtxError:
        if step.function in program.named:
            raise
        return write_step(program, replace(step, kind="instruction", instruction=TRAP))


def declared(codes: list[StepCode]) -> list[str]:
    """Tables, intrinsics and helper functions that the steps use, each once."""
    constants: dict[str, str] = {}
    declarations: dict[str, str] = {}
    for machine in (machine for code in codes for machine in code.machines):
        constants.update(machine.emitter.constants)
        declarations.update(machine.emitter.declarations)
    for name in SHARED_DECLARATIONS:
        declarations.pop(name, None)
    return [*constants.values(), *declarations.values()]


def plain_metadata(program: Program, linked: Linked) -> dict[str, Any]:
    """What the executor is told (abi/kernel_abi.py IMAGE_METADATA)."""
    function = program.module.functions[program.kernel]
    dynamic = program.uses_dynamic_shared
    lines = step_lines(program, linked)
    return {
        "name": program.kernel,
        "blocks": linked.symbols["blocks"],
        "step": linked.symbols["step"],
        "fixups": list(linked.fixups),
        "imports": [list(item) for item in linked.imports],
        "data_offset": linked.data_offset,
        "symbols": program.symbols,
        "static_shared_bytes": program.dynamic_offset if dynamic else program.static_shared_bytes,
        "local_bytes": program.local_bytes,
        "frame_bytes": FRAME_BYTES,
        "can_stop": True,
        "may_yield": True,
        "block_shape": None,
        "max_index": None,
        "parameters": [[each.offset, each.size_bytes] for each in function.parameters],
        "report": {
            "mode": "plain", "plain": 0, "scalar": 0, "gathers": 0, "scatters": 0, "masked_blocks": 0,
            "stops": len(program.steps),
        },
        "lines": [list(pair) for pair in lines],
        "sites": fault_sites(
            (step.instruction for step in program.steps), {line for _, line in lines}, program.module.files
        ),
    }  # fmt: skip


def step_lines(program: Program, linked: Linked) -> list[tuple[int, int]]:
    """Where the code of which PTX line begins: steps have functions of their own, whose names end in the step's number."""
    found = []
    for name, offset in linked.symbols.items():
        match = re.fullmatch(r"(?:step|behind|across)(\d+)", name)
        found.append((offset, program.steps[int(match[1])].instruction.location.line if match else 0))
    return sorted(found)
