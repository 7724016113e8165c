"""`cuttle compile FILE.ptx`: shows what a PTX file becomes, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style
from cuttle.cli.result import Remark, Result, Text, failure
from cuttle.errors import CuttleError
from cuttle.ptx.ir import Function, Instruction, LabelMark
from cuttle.ptx.parser import index_module, parse_function, parse_module
from cuttle.ptx.printer import print_function, print_instruction

STAGES = ("ptx", "ir", "llvm", "optimized", "asm", "image")


if TYPE_CHECKING:
    ShapeType = click.ParamType[tuple[int, int, int]]
else:
    ShapeType = click.ParamType  # takes no parameters in click 8.1


class BlockShape(ShapeType):
    """`256` or `16,16,1`: one to three extents."""

    name = "X,Y,Z"

    def convert(
        self, value: str | tuple[int, int, int], param: click.Parameter | None, context: click.Context | None
    ) -> tuple[int, int, int]:
        if isinstance(value, tuple):
            return value
        parts = value.replace("x", ",").split(",")
        if not 1 <= len(parts) <= 3 or not all(part.strip().isdigit() for part in parts):
            raise CuttleError("CLI-0503", f"{value} is no block shape")
        extents = [int(part) for part in parts] + [1] * (3 - len(parts))
        if not 1 <= extents[0] * extents[1] * extents[2] <= 1024:
            raise CuttleError("CLI-0503", f"a block of {value} threads is not possible")
        return extents[0], extents[1], extents[2]


def ir_text(function: Function) -> str:
    """The typed IR as a listing: parameters at their offsets, registers with types, instructions with their lines."""
    return "\n".join(_ir_lines(function)) + "\n"


def _ir_lines(function: Function) -> Iterator[str]:
    yield f"{'entry' if function.is_entry else 'function'} {function.name}"
    for parameter in function.parameters:
        yield f"  parameter {parameter.name}: {parameter.type} at {parameter.offset}, {parameter.size_bytes} bytes"
    for result in function.results:
        yield f"  result {result.name}: {result.type}, {result.size_bytes} bytes"
    for variable in function.variables.values():
        yield f"  {variable.space} {variable.name}: {variable.type}, {variable.size_bytes} bytes, align {variable.align}"
    by_type: dict[str, list[str]] = {}
    for register, type_name in function.registers.items():
        by_type.setdefault(type_name, []).append(register)
    for type_name, registers in by_type.items():
        yield f"  registers {type_name}: {' '.join(registers)}"
    for statement in function.statements or ():
        if isinstance(statement, LabelMark):
            yield f"{statement.name}:"
        elif isinstance(statement, Instruction):
            types = " ".join(statement.types)
            yield f"  {statement.location.line:>5}  {print_instruction(statement).strip():<60}  // {types}".rstrip(" /")


@verb("compile")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--kernel", help="This kernel only (default: all).")
@click.option("--emit", type=click.Choice(STAGES), default="llvm", help="What to show.")
@click.option("--block-shape", type=BlockShape(), metavar="X,Y,Z", help="Specialise on this block size.")
@click.option("--cpu", default="", metavar="NAME", help="LLVM processor name (default: this machine's).")
@click.option(
    "--optimization",
    type=click.Choice(["0", "2"]),
    default="2",
    help="LLVM's level: 0 is the fast tier, 2 the optimised one.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
def command(
    style: Style,
    file: Path,
    kernel: str | None,
    emit: str,
    block_shape: tuple[int, int, int] | None,
    cpu: str,
    optimization: str,
    output: Path | None,
) -> Result:
    """Compile PTX for the CPU device and show a stage.

    Stages: ptx (normalised), ir (typed), llvm (as written by Cuttle), optimized (by LLVM), asm, image (metadata).
    """
    try:
        text = file.read_bytes()
    except OSError as error:
        return failure("compile", CuttleError("CLI-0501", f"{file}: {error.strerror}"))
    index = index_module(text, str(file))
    names = list(index.entries)
    if kernel is not None:
        if kernel not in names:
            known = ", ".join(names[:20]) or "none"
            return failure("compile", CuttleError("CLI-0502", f"{file} has no kernel {kernel}; it has: {known}"))
        names = [kernel]
    if emit == "ptx":
        stages = {name: print_function(parse_function(index, name)) for name in names}
    elif emit == "ir":
        stages = {name: ir_text(parse_function(index, name)) for name in names}
    else:
        from cuttle.cli.compile_stages import lowered, require_processor

        if cpu:
            require_processor(cpu)
        module = parse_module(text, str(file))
        stages = {name: lowered(module, name, emit, block_shape, cpu, int(optimization)) for name in names}
    joined = "\n".join(stages.values())
    data = {"file": str(file), "stage": emit, "kernels": stages}
    if output is not None:
        try:
            output.write_text(joined)
        except OSError as error:
            raise CuttleError("CLI-0602", f"{output}: {error.strerror}") from None
        return Result("compile", data, [Text(str(output))])
    return Result("compile", data, [Text(joined)] if names else [Remark(f"{file} has no kernels")])
