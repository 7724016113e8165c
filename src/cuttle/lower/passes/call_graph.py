"""Who calls whom: functions called directly, and those that can reach themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cuttle.lower.passes.strongly_connected import strongly_connected
from cuttle.ptx.ir import Function, Instruction, Module, Symbol


def recursive_functions(module: Module) -> frozenset[str]:
    """Names of the functions that can reach themselves by direct calls."""
    calls = {name: tuple(callees(module, f)) for name, f in module.functions.items()}
    return frozenset(in_cycles(calls, calls))


def callees(module: Module, function: Function) -> dict[str, None]:
    """Functions with a body that `function` calls directly, in order."""
    found: dict[str, None] = {}
    for statement in function.statements or ():
        if type(statement) is Instruction and statement.call is not None:
            callee = statement.call.callee
            if isinstance(callee, Symbol):
                name = module.aliases.get(callee.name, callee.name)
                target = module.functions.get(name)
                if target is not None and target.statements is not None:
                    found[name] = None
    return found


def in_cycles(roots: Iterable[str], calls: Mapping[str, Sequence[str]]) -> set[str]:
    """Members of cycles among the functions reachable from `roots`."""
    components = strongly_connected(roots, calls, calls.__getitem__)
    return {name for members in components if len(members) > 1 or members[0] in calls[members[0]] for name in members}
