"""Functions that are called for real and in which a warp, or where lanes part a lane, may have to wait, or lanes end.

The vector leg calls them on the worker's own stack, from which it cannot go back to the scheduler in the middle. Kernels that may
reach such a function are compiled by the plain leg, which keeps every lane's place in memory: slow, but right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cuttle.lower.cpu.plan import KernelPlan
from cuttle.lower.passes.graph import Exit
from cuttle.lower.passes.warp_operations import waits_for_lanes
from cuttle.ptx.ir import Function, Module, Prototype, matches_call


def must_stop(plan: KernelPlan) -> bool:
    """Whether the function has a barrier, a waiting loop, or ends its thread."""
    for block in plan.graph.blocks:
        if any(plan.is_stop(node) for node in block.nodes):
            return True
        if isinstance(block.terminator, Exit) and block.terminator.kind == "exit":
            return True
    return bool(plan.spin_loops)


def shapes_of_pointers(function: Function, module: Module) -> list[Function | Prototype]:
    """The parameters and results of a function's calls through pointers."""
    targets = (
        module.functions.get(module.aliases.get(name, name))
        for names in function.call_targets.values()
        for name in names[:1]
    )
    return [*function.prototypes.values(), *(target for target in targets if target is not None)]


def called_from(plan: KernelPlan, functions: Mapping[str, KernelPlan]) -> Iterator[str]:
    """The real functions that one graph may call: by name, or through a pointer whose calls look like them."""
    for block in plan.graph.blocks:
        for node in block.nodes:
            callee = node.call.callee if node.call is not None else None
            if callee is not None and callee in functions:
                yield callee
    shapes = shapes_of_pointers(plan.graph.function, plan.module)
    for name, function in functions.items():
        if any(matches_call(function.graph.function, shape) for shape in shapes):
            yield name


def stops_in_functions(kernel: KernelPlan, functions: Mapping[str, KernelPlan]) -> bool:
    """Whether the kernel may reach a function that must stop."""
    reached: set[str] = set()
    pending = [kernel]
    while pending:
        for name in called_from(pending.pop(), functions):
            if name not in reached:
                reached.add(name)
                pending.append(functions[name])
    return any(must_stop(functions[name]) or (kernel.lanes_part and has_gate(functions[name])) for name in reached)


def has_gate(plan: KernelPlan) -> bool:
    """Whether the function has an operation that waits for other lanes of its warp."""
    return any(waits_for_lanes(node) for block in plan.graph.blocks for node in block.nodes)
