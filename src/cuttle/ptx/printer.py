"""IR to PTX text. `parse_module(print_module(m))` equals `m` in all but places (`without_places`).

Names in the IR are unique in each function, so bodies are printed without nested blocks; registers are declared one
by one, since the IR keeps only those that occur.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cuttle.ptx.ir import (
    TYPE_BITS,
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    LabelMark,
    Location,
    Module,
    Negated,
    Operand,
    Parameter,
    PredicatePair,
    Prototype,
    Register,
    SelectedRegister,
    Sink,
    SpecialRegister,
    Symbol,
    TextureOperand,
    Variable,
    Vector,
    parameter_registers,
)

_PER_LINE = 12


def print_module(module: Module) -> str:
    """The whole module: header, files, declarations, variables, aliases, bodies."""
    lines = [
        f".version {module.version[0]}.{module.version[1]}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
        "",
    ]
    lines.extend(f'.file {number} "{name}"' for number, name in module.files.items())
    for function in module.functions.values():
        if function.statements is None or not function.is_entry:
            lines.append(print_header(function) + ";")
    lines.extend(print_variable(variable) for variable in module.variables.values())
    lines.extend(f".alias {alias}, {target};" for alias, target in module.aliases.items())
    for function in module.functions.values():
        if function.statements is not None:
            lines.append("")
            lines.append(print_function(function))
    return "\n".join(lines) + "\n"


def print_function(function: Function) -> str:
    """One function with its body, or its declaration."""
    if function.statements is None:
        return print_header(function) + ";"
    lines = [print_header(function), "{"]
    lines.extend(_registers(function))
    lines.extend("\t" + print_variable(variable) for variable in function.variables.values())
    lines.extend("\t" + print_prototype(prototype) for prototype in function.prototypes.values())
    lines.extend(f"{name}: .branchtargets {', '.join(targets)};" for name, targets in function.branch_targets.items())
    lines.extend(f"{name}: .calltargets {', '.join(targets)};" for name, targets in function.call_targets.items())
    place = (0, 0)
    for statement in function.statements:
        if isinstance(statement, LabelMark):
            lines.append(f"{statement.name}:")
            continue
        location = statement.location
        if (location.source_file, location.source_line) != place:
            place = (location.source_file, location.source_line)
            lines.append(f"\t.loc {place[0]} {place[1]} 0")
        lines.append("\t" + print_instruction(statement))
    lines.append("}")
    return "\n".join(lines)


def print_header(function: Function) -> str:
    """`.visible .entry name(...)` with performance directives, without body or semicolon."""
    words = []
    if function.linkage:
        words.append("." + function.linkage)
    words.append(".entry" if function.is_entry else ".func")
    if function.results:
        words.append(_parameters(function.results))
    words.append(function.name + _parameters(function.parameters))
    for name, values in function.directives.items():
        words.append(f".{name} {', '.join(map(str, values))}".rstrip())
    return " ".join(words)


def print_prototype(prototype: Prototype) -> str:
    results = _parameters(prototype.results) + " " if prototype.results else ""
    return f"{prototype.name}: .callprototype {results}_ {_parameters(prototype.parameters)};"


def _parameters(parameters: tuple[Parameter, ...]) -> str:
    return "(" + ", ".join(_parameter(parameter) for parameter in parameters) + ")"


def _parameter(parameter: Parameter) -> str:
    width = TYPE_BITS[parameter.type] // 8 or 1
    count = parameter.size_bytes // width
    if parameter.space == "reg":
        vector = f" .v{count}" if count > 1 else ""
        return f".reg{vector} .{parameter.type} {parameter.name}"
    align = f" .align {parameter.align}" if parameter.align != width else ""
    return f".{parameter.space}{align} .{parameter.type} {parameter.name}{_extent(parameter.size_bytes, width)}"


def _extent(size_bytes: int, width: int) -> str:
    """`[n]`, `[]` for unsized, nothing for a scalar."""
    if size_bytes == width:
        return ""
    return f"[{size_bytes // width}]" if size_bytes else "[]"


def _registers(function: Function) -> Iterator[str]:
    formal: set[str] = set()
    for parameter in (*function.results, *function.parameters):
        if parameter.space == "reg":
            formal.update(parameter_registers(parameter))
    by_type: dict[str, list[str]] = {}
    for name, type_name in function.registers.items():
        if name not in formal:
            by_type.setdefault(type_name, []).append(name)
    for type_name, names in by_type.items():
        for start in range(0, len(names), _PER_LINE):
            yield f"\t.reg .{type_name} {', '.join(names[start : start + _PER_LINE])};"


def print_variable(variable: Variable) -> str:
    """A variable with its initialiser."""
    width = TYPE_BITS[variable.type] // 8 or 1
    words = ["." + variable.linkage] if variable.linkage else []
    words.append("." + variable.space)
    if variable.managed:
        words.append(".attribute(.managed)")
    words.append(f".align {variable.align} .{variable.type} {variable.name}{_extent(variable.size_bytes, width)}")
    text = " ".join(words)
    if variable.initial is not None:
        text += " = " + _initialiser(variable, width)
    return text + ";"


def _initialiser(variable: Variable, width: int) -> str:
    data = variable.initial or b""
    symbols = {relocation.offset: relocation for relocation in variable.relocations}
    used = max([len(data.rstrip(b"\0")), *(r.offset + r.size for r in variable.relocations)])
    elements = []
    for offset in range(0, max(used, 1), width):
        relocation = symbols.get(offset)
        if relocation is None:
            elements.append(_element(data[offset : offset + width], variable.type))
            continue
        text = f"generic({relocation.symbol})" if relocation.generic else relocation.symbol
        if relocation.addend:
            text += f"+{relocation.addend}"
        elements.append(f"{relocation.mask:#x}({text})" if relocation.mask else text)
    if variable.size_bytes == width:
        return elements[0]
    return "{" + ", ".join(elements) + "}"


def _element(data: bytes, type_name: str) -> str:
    bits = int.from_bytes(data, "little")
    if type_name == "f32":
        return f"0f{bits:08X}"
    if type_name == "f64":
        return f"0d{bits:016X}"
    return str(bits)


def print_instruction(instruction: Instruction) -> str:
    """`@!%p1 add.s32 %r1, %r2, 4;`"""
    text = ".".join((instruction.opcode, *instruction.modifiers))
    if instruction.guard is not None:
        text = f"{print_guard(instruction.guard)} {text}"
    call = instruction.call
    if call is not None:
        parts = []
        if call.results:
            parts.append(f"({', '.join(map(print_operand, call.results))})")
        parts.append(call.callee.name)
        if call.arguments or call.prototype:
            parts.append(f"({', '.join(map(print_operand, call.arguments))})")
        if call.prototype:
            parts.append(call.prototype)
        return f"{text} {', '.join(parts)};"
    if instruction.operands:
        text += " " + ", ".join(map(print_operand, instruction.operands))
    return text + ";"


def print_guard(guard: Guard) -> str:
    return f"@{'!' if guard.negated else ''}{guard.register.name}"


def print_operand(operand: Operand) -> str:
    """One operand as PTX text."""
    match operand:
        case Register() | SpecialRegister() | Label():
            return operand.name
        case Immediate(bits, 32):
            return f"0f{bits:08X}"
        case Immediate(bits, 64):
            return f"0d{bits:016X}"
        case Immediate(bits):
            return str(bits - (1 << 64) if bits >> 63 else bits)
        case Symbol(name, offset):
            return f"{name}+{offset}" if offset else name
        case Address(None, offset):
            return f"[{offset}]"
        case Address(base, offset):
            return f"[{print_operand(base)}{f'+{offset}' if offset else ''}]" if base else f"[{offset}]"
        case Vector(elements):
            return "{" + ", ".join(map(print_operand, elements)) + "}"
        case Negated(register):
            return "!" + register.name
        case Sink():
            return "_"
        case PredicatePair(first, second):
            return f"{print_operand(first)}|{print_operand(second)}"
        case SelectedRegister(register, selector, negated):
            return f"{'-' if negated else ''}{register.name}{'.' + selector if selector else ''}"
        case TextureOperand(texture, sampler, coordinates):
            handles = [texture, sampler] if sampler is not None else [texture]
            return f"[{', '.join(map(print_operand, (*handles, coordinates)))}]"


def without_places(module: Module) -> Module:
    """A copy whose lines in the PTX text are 0, for comparing modules; places in the CUDA source are kept."""
    functions = {}
    for name, function in module.functions.items():
        statements = function.statements
        if statements is not None:
            statements = [
                replace(s, location=Location(0, s.location.source_file, s.location.source_line))
                if isinstance(s, Instruction)
                else s
                for s in statements
            ]
        functions[name] = replace(function, statements=statements, line=0)
    return replace(module, functions=functions)
