"""Who calls whom: functions called directly, and those that can reach themselves."""

from __future__ import annotations

from collections.abc import Iterable

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


def in_cycles(roots: Iterable[str], calls: dict[str, tuple[str, ...]]) -> set[str]:
    """Members of cycles among the functions reachable from `roots` (Tarjan, iterative)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    result: set[str] = set()
    for root in roots:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        work = [(root, iter(calls[root]))]
        while work:
            name, targets = work[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    path.append(target)
                    on_path.add(target)
                    work.append((target, iter(calls[target])))
                    break
                if target in on_path:
                    low[name] = min(low[name], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    component = set()
                    while True:
                        member = path.pop()
                        on_path.discard(member)
                        component.add(member)
                        if member == name:
                            break
                    if len(component) > 1 or name in calls[name]:
                        result |= component
    return result
