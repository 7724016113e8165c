"""The LLVM module of a kernel in the plain leg."""

from __future__ import annotations

from typing import Any

from cuttle.lower.ops.policy import policy
from cuttle.lower.plain.program import Program, plan_program
from cuttle.lower.plain.scheduler import FRAME_BYTES, scheduler_text
from cuttle.lower.plain.steps import StepCode, write_step
from cuttle.ptx.ir import Module

# Both scheduler and steps declare these.
SHARED_DECLARATIONS = ("@llvm.memset.p0.i64", "@llvm.cttz.i32")


def plain_text(module: Module, kernel: str, attributes: str, stack_bytes: int) -> tuple[Program, str]:
    """The program and its text; `attributes` are those of every function, `stack_bytes` the limit on a
    thread's stack. Raises PtxError."""
    policy.exact_nan, policy.fast_math = True, False
    program = plan_program(module, kernel, stack_bytes)
    codes = [write_step(program, step) for step in program.steps]
    return program, "\n".join(
        [*declared(codes), *(text for code in codes for text in code.functions), scheduler_text(program, codes),
         f"attributes #0 = {{ {attributes} }}", ""]
    )  # fmt: skip


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


def plain_metadata(program: Program, linked: Any) -> dict[str, Any]:
    """What the executor is told (abi/kernel_abi.py IMAGE_METADATA)."""
    function = program.module.functions[program.kernel]
    dynamic = program.uses_dynamic_shared
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
        "lines": [],
    }  # fmt: skip
