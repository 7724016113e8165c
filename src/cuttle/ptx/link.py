"""Linking of PTX modules: separately compiled programs (`nvcc -rdc=true`) and `cuLink*`.

Rules of linkage (PTX ISA 9.x, section 11.6): `.visible` is a strong definition, `.weak` yields to a strong one or to
an earlier weak one, `.common` merges to the largest, no linkage means local to its module. Local symbols that clash
with other modules are renamed. `.extern` shared arrays without size stay: they are the launch's dynamic memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cuttle.errors import PtxError
from cuttle.ptx.ir import Function, Instruction, Location, Module, Variable
from cuttle.ptx.parser import parse_module
from cuttle.ptx.rename import rename_function, rename_variable

# Functions that the device itself provides; nobody defines them in PTX.
DEVICE_FUNCTIONS: frozenset[str] = frozenset({"vprintf", "malloc", "free", "__assertfail"})

_MAX_NAMES_IN_MESSAGE = 12
_SM = re.compile(r"sm_(\d+)([af]?)\Z")


@dataclass(frozen=True, slots=True)
class LinkInput:
    """One module to link, and the name by which messages call it (object file or input name)."""

    name: str
    module: Module


def link_texts(
    texts: Sequence[tuple[str, bytes | str]],
    provided: frozenset[str] = DEVICE_FUNCTIONS,
    allow_unresolved: bool = False,
) -> Module:
    """Parse and link (name, PTX text) pairs. Raises PtxError."""
    inputs = [LinkInput(name, parse_module(text, name)) for name, text in texts]
    return link_modules(inputs, provided, allow_unresolved)


def link_modules(
    inputs: Sequence[LinkInput], provided: frozenset[str] = DEVICE_FUNCTIONS, allow_unresolved: bool = False
) -> Module:
    """One module out of several; the inputs are not changed. Raises PtxError (PTX-04xx).

    `provided` names functions that need no definition. With `allow_unresolved` symbols may stay `.extern`.
    """
    if not inputs:
        raise PtxError("PTX-0405", "there are no modules to link")
    sizes = {item.module.address_size for item in inputs}
    if len(sizes) > 1:
        raise PtxError("PTX-0404", f"modules of {' and '.join(map(str, sorted(sizes)))}-bit addresses cannot be linked")
    linker = _Linker(inputs)
    linker.choose_definitions()
    result = linker.merge()
    if not allow_unresolved:
        _check_resolved(result, linker.users, provided)
    return result


def unresolved_symbols(module: Module, provided: frozenset[str] = DEVICE_FUNCTIONS) -> tuple[str, ...]:
    """Names that are declared but defined nowhere, in order of declaration."""
    names = [
        f.name
        for f in module.functions.values()
        if f.statements is None and f.name not in provided and f.name not in module.aliases
    ]
    names.extend(v.name for v in module.variables.values() if v.linkage == "extern" and not _is_dynamic_shared(v))
    return tuple(names)


def _check_resolved(module: Module, users: dict[str, list[str]], provided: frozenset[str]) -> None:
    missing = unresolved_symbols(module, provided)
    if not missing:
        return
    shown = [f"`{name}` (used by {', '.join(users.get(name, ['?'])[:3])})" for name in missing[:_MAX_NAMES_IN_MESSAGE]]
    if len(missing) > _MAX_NAMES_IN_MESSAGE:
        shown.append(f"and {len(missing) - _MAX_NAMES_IN_MESSAGE} more")
    raise PtxError("PTX-0401", f"{len(missing)} unresolved symbol{'s' * (len(missing) > 1)}: {'; '.join(shown)}")


def _is_dynamic_shared(variable: Variable) -> bool:
    return variable.space == "shared" and variable.size_bytes == 0


@dataclass(slots=True)
class _Definition:
    """The definition that a global name ends up with; `module` is the index of the input."""

    module: int
    thing: Function | Variable | str
    linkage: str


class _Linker:
    def __init__(self, inputs: Sequence[LinkInput]) -> None:
        self.inputs = inputs
        self.definitions: dict[str, _Definition] = {}
        self.users: dict[str, list[str]] = {}
        self.renames: list[dict[str, str]] = [{} for _ in inputs]

    # -- first pass: who defines what ---------------------------------------------------------------------------

    def choose_definitions(self) -> None:
        for index, item in enumerate(self.inputs):
            module = item.module
            for thing in _things(module):
                if _is_external(thing):
                    self.users.setdefault(thing.name, []).append(item.name)
                elif thing.linkage:
                    self._define(thing.name, _Definition(index, thing, thing.linkage))
            for alias, target in module.aliases.items():
                owner = module.functions[target]
                if owner.linkage:
                    self._define(alias, _Definition(index, target, "weak"))
        taken = set(self.definitions) | set(self.users)
        for index, item in enumerate(self.inputs):
            local = [t.name for t in _things(item.module) if not t.linkage and not _is_external(t)]
            local.extend(a for a, t in item.module.aliases.items() if not item.module.functions[t].linkage)
            for name in local:
                fresh, number = name, 0
                while fresh in taken:
                    number += 1
                    fresh = f"{name}$m{index}" if number == 1 else f"{name}$m{index}_{number}"
                if fresh != name:
                    self.renames[index][name] = fresh
                taken.add(fresh)

    def _define(self, name: str, new: _Definition) -> None:
        old = self.definitions.get(name)
        if old is None:
            self.definitions[name] = new
            return
        if _space(old.thing) != _space(new.thing):
            raise self._disagreement(name, old.module, _space(old.thing), new)
        if old.linkage == new.linkage == "visible":
            raise PtxError("PTX-0402", f"`{name}` is defined in {self._name(old)} and in {self._name(new)}")
        if old.linkage == new.linkage == "common":
            if isinstance(old.thing, Variable) and isinstance(new.thing, Variable):
                larger = max((old, new), key=lambda d: d.thing.size_bytes if isinstance(d.thing, Variable) else 0)
                align = max(old.thing.align, new.thing.align)
                assert isinstance(larger.thing, Variable)
                self.definitions[name] = _Definition(larger.module, replace(larger.thing, align=align), "common")
            return
        strength = {"visible": 3, "common": 2, "weak": 1}
        if strength.get(new.linkage, 0) > strength.get(old.linkage, 0):
            self.definitions[name] = new

    def _disagreement(self, name: str, index: int, kind: str, definition: _Definition) -> PtxError:
        other = f"a {_space(definition.thing)} in {self._name(definition)}"
        return PtxError("PTX-0403", f"`{name}` is a {kind} in {self.inputs[index].name} but {other}")

    def _name(self, definition: _Definition) -> str:
        return self.inputs[definition.module].name

    # -- second pass: build the result --------------------------------------------------------------------------

    def merge(self) -> Module:
        modules = [item.module for item in self.inputs]
        result = Module(max(m.version for m in modules), _merge_targets(modules), modules[0].address_size)
        for index, module in enumerate(modules):
            files = _merge_files(result, module)
            rename = self.renames[index]
            for variable in module.variables.values():
                self._merge_variable(result, index, rename_variable(variable, rename), variable.name)
            for function in module.functions.values():
                definition = self.definitions.get(function.name)
                if function.statements is None and definition is not None and isinstance(definition.thing, Variable):
                    raise self._disagreement(function.name, index, "function", definition)
                if self._is_wanted(index, function):
                    moved = rename_function(_with_files(function, files), rename)
                    self._check_declared(index, function)
                    known = result.functions.get(moved.name)
                    if known is None or known.statements is None:
                        result.functions[moved.name] = moved
            for alias, target in module.aliases.items():
                owner = self.definitions.get(alias)
                if owner is None or owner.module == index:
                    result.aliases[rename.get(alias, alias)] = rename.get(target, target)
        for alias in result.aliases:
            if alias in result.functions and result.functions[alias].statements is None:
                del result.functions[alias]
        return result

    def _is_wanted(self, index: int, function: Function) -> bool:
        """Local functions, chosen definitions, and declarations as long as nothing better is there."""
        definition = self.definitions.get(function.name)
        return (
            definition is None
            or function.name in self.renames[index]
            or (definition.module == index and definition.thing is function)
        )

    def _check_declared(self, index: int, function: Function) -> None:
        """Declarations of other modules must agree with a definition in kind and number of parameters."""
        if function.statements is None or not function.linkage:
            return
        for other in self.inputs:
            declared = other.module.functions.get(function.name)
            if declared is None or declared.statements is not None or not _is_external(declared):
                continue
            if len(declared.parameters) != len(function.parameters) or declared.is_entry != function.is_entry:
                raise PtxError(
                    "PTX-0403",
                    f"`{function.name}` has {len(function.parameters)} parameters in {self.inputs[index].name} but "
                    f"{len(declared.parameters)} in {other.name}",
                )

    def _merge_variable(self, result: Module, index: int, variable: Variable, original: str) -> None:
        definition = self.definitions.get(original)
        if definition is not None and original not in self.renames[index]:
            chosen = definition.thing
            if variable.linkage == "extern":
                if _space(chosen) != _space(variable):
                    raise self._disagreement(original, index, _space(variable), definition)
                return
            if definition.module == index and isinstance(chosen, Variable):
                result.variables[original] = replace(rename_variable(chosen, self.renames[index]), name=original)
            return
        known = result.variables.get(variable.name)
        if known is not None:  # the same external symbol, declared by several modules
            align = max(known.align, variable.align)
            variable = replace(known if known.size_bytes else variable, align=align)
        result.variables[variable.name] = variable


def _things(module: Module) -> Iterable[Function | Variable]:
    yield from module.functions.values()
    yield from module.variables.values()


def _is_external(thing: Function | Variable) -> bool:
    if isinstance(thing, Function):
        return thing.statements is None
    return thing.linkage == "extern"


def _space(thing: Function | Variable | str) -> str:
    return f".{thing.space} variable" if isinstance(thing, Variable) else "function"


def _merge_targets(modules: Sequence[Module]) -> tuple[str, ...]:
    """The highest `sm_NN`, and the union of the options."""
    best, options = ("", -1), dict[str, None]()
    for module in modules:
        for word in module.target:
            match = _SM.match(word)
            if match is None:
                options[word] = None
            elif int(match[1]) > best[1] or (int(match[1]) == best[1] and match[2]):
                best = (word, int(match[1]))
    return (best[0], *options) if best[0] else tuple(options)


def _merge_files(result: Module, module: Module) -> dict[int, int]:
    """Add the module's files to the result; the numbers that changed."""
    numbers = {name: number for number, name in result.files.items()}
    changed: dict[int, int] = {}
    for number, name in module.files.items():
        new = numbers.get(name)
        if new is None:
            new = number
            if new in result.files:
                new = max(result.files) + 1
            result.files[new] = name
            numbers[name] = new
        if new != number:
            changed[number] = new
    return changed


def _with_files(function: Function, changed: dict[int, int]) -> Function:
    if not changed or function.statements is None:
        return function
    statements = [
        replace(s, location=Location(s.location.line, changed[s.location.source_file], s.location.source_line))
        if isinstance(s, Instruction) and s.location.source_file in changed
        else s
        for s in function.statements
    ]
    return replace(function, statements=statements)
