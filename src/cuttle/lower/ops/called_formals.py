"""Whose parameters a `call` fills in: asked by every way of lowering a call that is not inlined."""

from __future__ import annotations

from cuttle.lower.ops.dispatch import refusal
from cuttle.ptx.ir import Function, Instruction, Module, Prototype

# What nvcc calls for `<<<...>>>` and streams in device code (CUDA programming guide, "CUDA Dynamic Parallelism").
DEVICE_LAUNCHES = ("__cudaCDP", "cudaGetParameterBuffer", "cudaLaunchDevice")


def formals_of(
    module: Module,
    caller: Function,
    instruction: Instruction,
    callee: str | None,
    prototype: str | None,
    arguments: int,
) -> Function | Prototype:
    """The called function, or the shape of the functions that a call through a pointer may mean.

    `callee` is None for a call through a pointer; `prototype` then names a `.callprototype` or a `.calltargets` of the
    caller (PTX ISA, `call`). Raises PtxError if there is none (`PTX-0304`), or if it does not take as many arguments as the
    call has (`PTX-0207`): its parameters would be whatever the stack holds. ptxas refuses such a call, too.
    """
    formals: Function | Prototype | None
    if callee is not None:
        formals = module.functions.get(module.aliases.get(callee, callee))
        if formals is None or formals.statements is None:
            if callee.startswith(DEVICE_LAUNCHES):
                raise refusal(
                    instruction, f"dynamic parallelism is not supported ({callee}: a kernel launches a kernel)"
                )
            raise refusal(instruction, f"the function {callee} has no body")
    else:
        formals = caller.prototypes.get(prototype or "")
        for name in caller.call_targets.get(prototype or "", ())[:1]:
            formals = module.functions.get(module.aliases.get(name, name))
        if formals is None:
            raise refusal(instruction, "an indirect call without a prototype")
    if len(formals.parameters) != arguments:
        reason = f"{arguments} arguments for {formals.name}, which takes {len(formals.parameters)}"
        raise refusal(instruction, reason, "PTX-0207")
    return formals
