"""Rows, roots, op functions and parser agree on names and operands."""

from __future__ import annotations

import compile_amdgpu
import pytest

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.syntax import expand, expand_all
from cuttle.errors import PtxError
from cuttle.lower.ops import dispatch
from cuttle.ptx.ir import Instruction
from cuttle.ptx.opcode_roots import ROOTS
from cuttle.ptx.parser import parse_module


def test_every_root_has_a_row() -> None:
    assert set(OPCODES) == set(ROOTS)


def test_expand() -> None:
    assert expand("add[.sat].(s32|u32)") == ["add.s32", "add.u32", "add.sat.s32", "add.sat.u32"]
    assert expand("a(.x|.y[.z])") == ["a.x", "a.y", "a.y.z"]
    with pytest.raises(ValueError, match="unbalanced"):
        expand("a(.x")


@pytest.mark.parametrize("name", sorted(OPCODES))
def test_row(name: str) -> None:
    """A translated row has a function and a syntax; others are refused by name."""
    row = OPCODES[name]
    assert row.section
    for spelling in expand_all(row.syntax):
        assert spelling == name or spelling.startswith((name + ".", name.partition(".")[0] + "."))
    if row.family == "control" or row.status in ("todo", "refuse"):
        with pytest.raises(PtxError, match="PTX-05" if row.status == "refuse" else "PTX-0304"):
            dispatch.find(name)
        return
    assert dispatch.find(name)[1].__doc__
    assert row.syntax


def test_parser_reads_the_forms() -> None:
    """The text of a form parses into the very instruction it was made from."""
    for form in compile_amdgpu.chosen_forms()[::4]:
        registers = [
            f".reg .{'pred' if width == 1 else f'b{width}'} %{prefix}{index};"
            for prefix, items in (("s", form.sources), ("d", form.destinations))
            for index, (_, width) in enumerate(items)
        ]
        registers += [f".reg .b64 %a{index};" for index in range(3)]
        body = "\n".join([*registers, form.text, "ret;"])
        module = parse_module(f".version 9.0\n.target sm_90\n.address_size 64\n.entry k()\n{{\n{body}\n}}\n")
        statements = module.functions["k"].statements
        assert statements
        instruction = statements[0]
        assert isinstance(instruction, Instruction)
        assert (instruction.modifiers, instruction.types) == (form.instruction.modifiers, form.instruction.types)
        assert instruction.operands == form.instruction.operands
        assert dispatch.signature(instruction) == dispatch.signature(form.instruction)
