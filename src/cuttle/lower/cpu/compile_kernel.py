"""From a parsed module and a kernel's name to an image file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from cuttle.abi.kernel_abi import DRIVER_FUNCTIONS, FUNCTION_HANDLE_BASE
from cuttle.errors import PtxError, Where
from cuttle.lower.cpu.calls import formal_offsets, function_symbol
from cuttle.lower.cpu.compile_object import (
    CodeGenerationError,
    CodeOptions,
    compile_object,
    function_attributes,
    has_avx512,
    has_avx512_bytes,
)
from cuttle.lower.cpu.image_file import pack_image
from cuttle.lower.cpu.layout import lay_out
from cuttle.lower.cpu.link_image import Linked, LinkError, link_image
from cuttle.lower.cpu.module_text import ModuleText, write_function, write_kernel, write_refusal
from cuttle.lower.cpu.options import CompileOptions, Target
from cuttle.lower.cpu.plan import KernelPlan
from cuttle.lower.cpu.stops_in_functions import stops_in_functions
from cuttle.lower.fault_sites import fault_sites
from cuttle.lower.ops.check_operands import check_called
from cuttle.lower.ops.dispatch import load_functions
from cuttle.lower.ops.policy import policy
from cuttle.lower.passes.build_graph import build
from cuttle.lower.passes.graph import Graph
from cuttle.lower.passes.register_parameters import with_memory_parameters
from cuttle.ptx.address_taken import address_taken
from cuttle.ptx.ir import Instruction, Location, Module, SpecialRegister

# Sizes of text from which on the optimised tier does less: O2 simplifies large loops that are entered in many places (at
# resume points) again and again, several times as long as O1 takes; and in the end either takes minutes.
LARGE_TEXT, ENORMOUS_TEXT = 600_000, 16_000_000
STACK_OPCODES = ("alloca", "stacksave", "stackrestore")
CLUSTER_OPCODES = ("mapa", "getctarank", "barrier.cluster")
TRAP = Instruction("trap", (), (), (), None, Location(0))
IMPORTS = frozenset(("memcpy", "memset", "memmove"))


@dataclass(frozen=True, slots=True)
class CompiledImage:
    """`file_bytes` is the image file; the texts are there if they were asked for."""

    file_bytes: bytes
    metadata: dict[str, Any]
    source: str
    ir: str = ""
    assembly: str = ""


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """The analysed kernel and the device functions it calls for real (recursive ones, function pointers).

    `called` are those that are called by name. `formal_bytes`: room for the largest parameters and results of a call, which
    the caller writes before the callee can look whether there is room for itself.
    """

    kernel: KernelPlan
    functions: dict[str, KernelPlan]
    called: frozenset[str]
    formal_bytes: int


def plan_kernel(module: Module, kernel: str, options: CompileOptions, target: Target) -> ImagePlan:
    """Everything that can be decided before text is written."""
    function = module.functions.get(kernel)
    if function is None or not function.is_entry:
        raise PtxError("PTX-0301", f"there is no kernel {kernel} in the module")
    check_called(module, function)
    graph = build(module, function)
    graphs = called_functions(module, graph)
    layout = lay_out(module, graph, *graphs.values())
    handles = {name: FUNCTION_HANDLE_BASE | index for index, name in enumerate(address_taken(module))}
    own = lay_out(module, graph)
    layout.local = own.local
    word, own_bytes = stack_place(graph, own.local_bytes)
    stride = options.stack_bytes if graphs or word >= 0 else own_bytes
    places = {name: formal_offsets(called.function) for name, called in graphs.items()}
    most = max((size for _, size in places.values()), default=0)
    if own_bytes + most > stride:
        stride = own_bytes + options.stack_bytes
    clusters = any(looks_at_clusters(each) for each in (graph, *graphs.values()))
    plan = KernelPlan(module, graph, options, target, True, layout, stride, handles, {}, own_bytes, clusters, word)
    functions = {}
    for name, called in graphs.items():
        formals, formal_bytes = places[name]
        mine = lay_out(module, called)
        local = {variable: formal_bytes + offset for variable, offset in mine.local.items()}
        word, own_bytes = stack_place(called, formal_bytes + mine.local_bytes)
        functions[name] = KernelPlan(
            module, called, options, target, False, replace(layout, local=local), stride, handles, formals,
            own_bytes, clusters, word,
        )  # fmt: skip
    return ImagePlan(plan, functions, reached_by_name(graph, graphs), most)


def stack_place(graph: Graph, local_bytes: int) -> tuple[int, int]:
    """Where each lane notes the end of its stack (-1: the graph has no `alloca`), and the graph's local bytes with that."""
    if not any(node.opcode in STACK_OPCODES for block in graph.blocks for node in block.nodes):
        return -1, local_bytes
    place = -(-local_bytes // 16) * 16
    return place, place + 16


def looks_at_clusters(graph: Graph) -> bool:
    """Whether a graph has an instruction or register that is about clusters."""
    for block in graph.blocks:
        for node in block.nodes:
            if node.opcode in CLUSTER_OPCODES or "shared::cluster" in node.instruction.modifiers:
                return True
            if any(isinstance(operand, SpecialRegister) and "cluster" in operand.name for operand in node.operands):
                return True
    return False


def called_by_name(graph: Graph) -> set[str]:
    """Functions that a graph calls directly."""
    calls = (node.call for block in graph.blocks for node in block.nodes)
    return {call.callee for call in calls if call is not None and call.callee is not None}


def reached_by_name(graph: Graph, graphs: dict[str, Graph]) -> frozenset[str]:
    """Functions that the kernel calls by name, or that those call so."""
    reached: set[str] = set()
    pending = [graph]
    while pending:
        for name in called_by_name(pending.pop()) - reached:
            reached.add(name)
            if name in graphs:
                pending.append(graphs[name])
    return frozenset(reached)


def called_functions(module: Module, graph: Graph) -> dict[str, Graph]:
    """Graphs of all functions that are called for real, from here or from one another."""
    graphs: dict[str, Graph] = {}
    pending = wanted_functions(module, graph)
    while pending:
        name = pending.pop()
        function = module.functions.get(module.aliases.get(name, name))
        if name in graphs or function is None or function.statements is None or name in DRIVER_FUNCTIONS:
            continue
        try:
            check_called(module, function)
        except PtxError:
            if name in called_by_name(graph):
                raise
            # Only a pointer may lead here, and most likely none does: such a call traps.
            function = replace(function, statements=[TRAP])
        graphs[name] = build(module, with_memory_parameters(function))
        pending.extend(wanted_functions(module, graphs[name]))
    return graphs


def wanted_functions(module: Module, graph: Graph) -> list[str]:
    """What a graph calls by name, and everything a call through a pointer may reach if it has one."""
    indirect = any(node.call is not None and node.call.callee is None for block in graph.blocks for node in block.nodes)
    return [*graph.needed, *(address_taken(module) if indirect else ())]


def kernel_text(plan: ImagePlan, code: CodeOptions) -> str:
    """The LLVM text of a planned image."""
    policy.exact_nan = plan.kernel.options.exact_nan
    policy.fast_math = plan.kernel.options.fast_math
    text = ModuleText(function_attributes(code))
    write_kernel(plan.kernel, text)
    for name, function in plan.functions.items():
        try:
            write_function(function, function_symbol(name), text, plan.formal_bytes)
        except PtxError:
            if name in plan.called:
                raise
            # Only a pointer may lead here, and most likely none does: such a call faults.
            write_refusal(function, function_symbol(name), text)
    return text.text()


def code_options(options: CompileOptions) -> CodeOptions:
    return CodeOptions(opt_level=options.optimization, cpu=options.processor or "host")


def compile_kernel(
    module: Module, kernel: str, options: CompileOptions, *, want_ir: bool = False, want_assembly: bool = False
) -> CompiledImage:
    """Compiles one kernel. Raises PtxError with the kernel's name for everything that cannot be translated."""
    code = code_options(options)
    if options.plain:
        return compile_plain(module, kernel, code, options.stack_bytes, want_ir=want_ir, want_assembly=want_assembly)
    try:
        plan = plan_kernel(module, kernel, options, Target(has_avx512(code), has_avx512_bytes(code)))
        if stops_in_functions(plan.kernel, plan.functions):
            stack_bytes = options.stack_bytes
            return compile_plain(module, kernel, code, stack_bytes, want_ir=want_ir, want_assembly=want_assembly)
        source = kernel_text(plan, code)
    except PtxError as error:
        raise naming_kernel(error, kernel) from error
    if len(source) > ENORMOUS_TEXT:
        code = replace(code, opt_level=0)
    elif len(source) > LARGE_TEXT and plan.kernel.unified:
        code = replace(code, opt_level=min(code.opt_level, 1))
    try:
        compiled = compile_object(source, code, want_ir=want_ir, want_assembly=want_assembly)
        linked = link_image(compiled.object, exports=("blocks", "step"), allowed_imports=IMPORTS)
    except (CodeGenerationError, LinkError) as error:
        raise PtxError("PTX-0390", f"code generation failed: {error}", Where(kernel=kernel)) from error
    metadata = image_metadata(plan, kernel, linked)
    return CompiledImage(pack_image(metadata, linked.blob), metadata, source, compiled.ir, compiled.assembly)


def compile_plain(
    module: Module,
    kernel: str,
    code: CodeOptions,
    stack_bytes: int,
    *,
    want_ir: bool = False,
    want_assembly: bool = False,
) -> CompiledImage:
    """The same by way of the plain leg, always at LLVM's level 0."""
    from cuttle.lower.plain.image_text import plain_metadata, plain_text  # seldom needed, and workers start often

    try:
        program, source = plain_text(module, kernel, function_attributes(code), stack_bytes)
    except PtxError as error:
        raise naming_kernel(error, kernel) from error
    try:
        compiled = compile_object(source, replace(code, opt_level=0), want_ir=want_ir, want_assembly=want_assembly)
        linked = link_image(compiled.object, exports=("blocks", "step"), allowed_imports=IMPORTS)
    except (CodeGenerationError, LinkError) as error:
        raise PtxError("PTX-0390", f"code generation failed: {error}", Where(kernel=kernel)) from error
    metadata = plain_metadata(program, linked)
    return CompiledImage(pack_image(metadata, linked.blob), metadata, source, compiled.ir, compiled.assembly)


def naming_kernel(error: PtxError, kernel: str) -> PtxError:
    """The error, with the kernel's name if it has none."""
    where = error.where or Where()
    if where.kernel:
        return error
    return PtxError(error.code, error.message, Where(**{**where_fields(where), "kernel": kernel}), hint=error.hint)


def warm_up() -> None:
    """What the first compilation of a process would have to wait for: op functions, LLVM's tables for the processor."""
    load_functions()
    compile_object("define void @nothing() {\n  ret void\n}\n", CodeOptions(opt_level=0))


def where_fields(where: Where) -> dict[str, Any]:
    return {name: getattr(where, name) for name in where.__dataclass_fields__}


def instructions_of(image: ImagePlan) -> Iterator[Instruction]:
    for plan in (image.kernel, *image.functions.values()):
        for block in plan.graph.blocks:
            yield from (node.instruction for node in block.nodes)


def image_metadata(image: ImagePlan, kernel: str, linked: Linked) -> dict[str, Any]:
    plan = image.kernel
    counts = plan.counts
    stops = [[stop.identifier, line] for stop in plan.stops if (line := plan.line_of(stop))]
    lines = {line for _, line in linked.lines} | {line for _, line in stops}
    mode = "scan" if plan.spin_loops or plan.forest.irreducible else "regions"
    return {
        "name": kernel,
        "blocks": linked.symbols["blocks"],
        "step": linked.symbols["step"],
        "fixups": list(linked.fixups),
        "imports": [list(item) for item in linked.imports],
        "data_offset": linked.data_offset,
        "symbols": plan.layout.symbols,
        "static_shared_bytes": plan.layout.dynamic_offset
        if plan.layout.uses_dynamic_shared
        else plan.layout.static_shared_bytes,
        "local_bytes": plan.layout_local_bytes,
        "frame_bytes": plan.frame_bytes,
        "can_stop": bool(plan.stops),
        "may_yield": bool(plan.spin_loops),
        "block_shape": list(plan.options.block_shape) if plan.options.block_shape else None,
        "max_index": plan.options.max_index if plan.options.affine else None,
        "aligned": sorted([place, size - 1] for place, size in plan.aligned_places.items()),
        "parameters": [[p.offset, p.size_bytes] for p in plan.graph.function.parameters],
        "report": {
            "mode": mode,
            "plain": counts.plain,
            "scalar": counts.scalar,
            "gathers": counts.gathers,
            "scatters": counts.scatters,
            "masked_blocks": len(plan.masked),
            "stops": len(plan.stops),
            "lockstep": plan.lockstep,
        },
        "lines": [list(pair) for pair in linked.lines],
        "stops": stops,
        "sites": fault_sites(instructions_of(image), lines, image.kernel.module.files),
    }
