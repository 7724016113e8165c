"""From a parsed module and a kernel's name to a linked code object and its metadata."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from cuttle.abi.amdgpu_abi import AMDGPU_LAUNCH
from cuttle.abi.kernel_abi import FUNCTION_HANDLE_BASE
from cuttle.abi.ptx_isa.refused_on_amdgpu import STATIC_SHARED
from cuttle.abi.targets import LDS_BYTES, MAX_GROUP_THREADS
from cuttle.errors import PtxError, Where
from cuttle.lower.amdgpu.compile_object import compile_object
from cuttle.lower.amdgpu.link_code_object import LinkError, link_code_object
from cuttle.lower.amdgpu.module_text import (
    ModuleText,
    launch_offset,
    write_function,
    write_kernel,
    write_refusal,
)
from cuttle.lower.amdgpu.options import AmdgpuOptions, gpu_target
from cuttle.lower.amdgpu.plan import (
    REDUCTION_BYTES,
    SOFTWARE_BARRIER_BYTES,
    FunctionPlan,
    is_barrier,
    needs_software_barriers,
)
from cuttle.lower.cpu.calls import formal_offsets
from cuttle.lower.cpu.compile_kernel import called_by_name, called_functions, where_fields
from cuttle.lower.cpu.compile_object import CodeGenerationError
from cuttle.lower.cpu.layout import DYNAMIC_ALIGN, MemoryLayout, lay_out
from cuttle.lower.ops.check_operands import check_called
from cuttle.lower.ops.policy import policy
from cuttle.lower.passes.build_graph import build
from cuttle.lower.passes.graph import Graph
from cuttle.ptx.address_taken import address_taken
from cuttle.ptx.ir import Function, Module

LARGE_TEXT = 2_000_000


@dataclass(frozen=True, slots=True)
class CompiledCodeObject:
    """`code_object` is the loadable ELF file; `metadata` as `image_metadata` says; the texts are there if they were asked for."""

    code_object: bytes
    metadata: dict[str, Any]
    source: str
    relocatable: bytes
    ir: str = ""
    assembly: str = ""


@dataclass(frozen=True, slots=True)
class AmdgpuPlan:
    """The analysed kernel, the device functions it calls for real, and LDS bytes without dynamic shared memory."""

    kernel: FunctionPlan
    functions: dict[str, FunctionPlan]
    called: frozenset[str]
    lds_bytes: int


def plan_kernel(module: Module, kernel: str, options: AmdgpuOptions) -> AmdgpuPlan:
    """Everything that can be decided before text is written."""
    gpu_target(options)
    function = module.functions.get(kernel)
    if function is None or not function.is_entry:
        raise PtxError("PTX-0301", f"there is no kernel {kernel} in the module")
    check_called(module, function)
    graph = build(module, function)
    graphs = called_functions(module, graph)
    layout = lay_out(module, graph, *graphs.values())
    reduction_at, barriers_at = reserve_words(layout, graph, module)
    if layout.dynamic_offset > LDS_BYTES:
        raise PtxError(
            STATIC_SHARED.code, f"{layout.dynamic_offset} bytes of static shared memory; a work-group has {LDS_BYTES}"
        )
    handles = {name: FUNCTION_HANDLE_BASE | index for index, name in enumerate(address_taken(module))}
    own = lay_out(module, graph)
    plan = FunctionPlan(
        module, graph, options, True, replace(layout, local=own.local, local_align=own.local_align), own.local_bytes,
        handles, {}, 0, reduction_at, barriers_at,
    )  # fmt: skip
    functions = {}
    for name, called in graphs.items():
        formals, formal_bytes = formal_offsets(called.function)
        mine = lay_out(module, called)
        functions[name] = FunctionPlan(
            module, called, options, False, replace(layout, local=mine.local, local_align=mine.local_align),
            mine.local_bytes, handles, formals, formal_bytes,
        )  # fmt: skip
    by_name = frozenset(name for each in (graph, *graphs.values()) for name in called_by_name(each))
    return AmdgpuPlan(plan, functions, by_name, layout.dynamic_offset)


def reserve_words(layout: MemoryLayout, graph: Graph, module: Module) -> tuple[int, int]:
    """Makes room for the words that barriers need between static and dynamic shared memory; their offsets, or -1."""
    nodes = [node for block in graph.blocks for node in block.nodes if is_barrier(node)]
    end = -(-layout.static_shared_bytes // 4) * 4
    reduction_at = barriers_at = -1
    if any(node.instruction.has("red") for node in nodes):
        reduction_at, end = end, end + REDUCTION_BYTES
    if needs_software_barriers(graph):
        barriers_at, end = end, end + SOFTWARE_BARRIER_BYTES
    dynamic = [
        name
        for name, offset in layout.shared.items()
        if offset == layout.dynamic_offset and unsized(module, graph, name)
    ]
    align = max([DYNAMIC_ALIGN, *(variable_align(module, graph, name) for name in dynamic)])
    layout.dynamic_offset = -(-end // align) * align
    for name in dynamic:
        layout.shared[name] = layout.dynamic_offset
    return reduction_at, barriers_at


def unsized(module: Module, graph: Graph, name: str) -> bool:
    variable = graph.function.variables.get(name) or module.variables.get(name)
    return variable is not None and variable.size_bytes == 0


def variable_align(module: Module, graph: Graph, name: str) -> int:
    variable = graph.function.variables.get(name) or module.variables.get(name)
    return variable.align if variable is not None else 1


def most_threads(function: Function) -> int:
    """Threads of the largest block that the kernel's own directives allow (`.maxntid`, `.reqntid`): fewer leave more registers."""
    sizes = [function.directives[name] for name in ("maxntid", "reqntid") if name in function.directives]
    return min([MAX_GROUP_THREADS, *(max(prod(size), 1) for size in sizes)])


def kernel_text(plan: AmdgpuPlan, kernel: str, options: AmdgpuOptions) -> str:
    """The LLVM text of a planned kernel."""
    policy.fast_math, policy.generate_nan = False, options.exact_nan
    try:
        return written_text(plan, kernel, options)
    finally:
        policy.generate_nan = False


def written_text(plan: AmdgpuPlan, kernel: str, options: AmdgpuOptions) -> str:
    text = ModuleText(options, plan.lds_bytes, most_threads(plan.kernel.graph.function))
    write_kernel(plan.kernel, kernel, text)
    for name, function in plan.functions.items():
        try:
            write_function(function, name, text)
        except PtxError:
            if name in plan.called:
                raise
            # Only a pointer may lead here, and most likely none does: such a call faults.
            write_refusal(function, name, text)
    return text.text()


def compile_kernel(
    module: Module, kernel: str, options: AmdgpuOptions, *, want_ir: bool = False, want_assembly: bool = False
) -> CompiledCodeObject:
    """Compiles one kernel. Raises PtxError with the kernel's name for what cannot be translated, DeviceError for the target."""
    try:
        plan = plan_kernel(module, kernel, options)
        source = kernel_text(plan, kernel, options)
    except PtxError as error:
        where = error.where or Where()
        if where.kernel:
            raise
        raise PtxError(
            error.code, error.message, Where(**{**where_fields(where), "kernel": kernel}), hint=error.hint
        ) from error
    optimization = 0 if len(source) > LARGE_TEXT else options.optimization
    try:
        compiled = compile_object(
            source, options.target, optimization, want_ir=want_ir, want_assembly=want_assembly
        )  # fmt: skip
        linked = link_code_object(compiled.object)
    except (CodeGenerationError, LinkError) as error:
        raise PtxError("PTX-0390", f"code generation failed: {error}", Where(kernel=kernel)) from error
    metadata = image_metadata(plan, kernel, options)
    return CompiledCodeObject(linked, metadata, source, compiled.object, compiled.ir, compiled.assembly)


def image_metadata(plan: AmdgpuPlan, kernel: str, options: AmdgpuOptions) -> dict[str, Any]:
    """What a device needs to launch the kernel, beyond what the code object's own metadata say."""
    function = plan.kernel.graph.function
    at = launch_offset(function.parameter_bytes)
    return {
        "name": kernel,
        "target": options.target,
        "code_object_version": options.code_object_version,
        "block_shape": list(options.block_shape) if options.block_shape else None,
        "parameters": [[p.offset, p.size_bytes] for p in function.parameters],
        "launch_offset": at,
        "kernarg_bytes": at + AMDGPU_LAUNCH.bytes + 8 * len(plan.kernel.layout.symbols),
        "symbols": plan.kernel.layout.symbols,
        "static_shared_bytes": plan.lds_bytes,
        "uses_dynamic_shared": plan.kernel.layout.uses_dynamic_shared,
        "scan": plan.kernel.scan,
    }
