"""What a fault message can say about a place in a kernel: the instruction, and the source line that `.loc` names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cuttle.abi.ptx_isa import OPCODES
from cuttle.lower.ops.dispatch import spell
from cuttle.ptx.ir import Instruction

Sites = dict[str, tuple[str, str, int]]
FEW = 16  # instructions that touch memory: so many are kept even where no code says that it comes from them


def may_fault(instruction: Instruction) -> bool:
    """Whether code of the instruction may fault."""
    row = OPCODES.get(instruction.opcode)
    return row is None or row.effects != "pure"


def fault_sites(instructions: Iterable[Instruction], lines: Collection[int], files: Mapping[int, str]) -> Sites:
    """PTX line → (instruction, source file, source line); "" and 0 without `.loc`.

    For the PTX lines that code is known to come from. LLVM forgets that where it moves or joins code; so in small kernels all
    instructions are there that may fault: a message can name the few that come into question.
    """
    all_of_them = list(instructions)
    risky = [each for each in all_of_them if may_fault(each)]
    if len(risky) <= FEW:
        lines = {*lines, *(each.location.line for each in risky)}
    sites: Sites = {}
    for instruction in all_of_them:
        place = instruction.location
        if place.line in lines and str(place.line) not in sites:
            file = files.get(place.source_file, "")
            sites[str(place.line)] = (spell(instruction), file, place.source_line if file else 0)
    return sites
