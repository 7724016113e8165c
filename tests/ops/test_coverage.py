"""The coverage rule: what ptxas takes for sm_80 or sm_90 stands in the rows, is translated, and was recorded.

`accepted_ptx.xz` is ptxas' answer to 180,000 spellings (`tools/ask_ptxas.py`); the slow test asks again.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lowering import lower

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.refused import REFUSED, refused_by
from cuttle.errors import PtxError
from cuttle.lower.ops.coverage import canonical, stands_in_rows
from cuttle.ptx.opcode_roots import split_opcode
from cuttle.sweep import golden
from cuttle.sweep.cells import OPCODES_OF_CELLS
from cuttle.sweep.forms import PURE, SKIPPED
from tests.cuda_toolchain import from_wheels
from tools.ask_ptxas import accepted_spellings, candidates, read_accepted, statements

ACCEPTED = read_accepted()
CODES = {row.code for row in REFUSED}
PARTS = 4


def ptxas() -> str:
    return str(from_wheels().nvcc.with_name("ptxas"))


def root_of(spelling: str) -> tuple[str, tuple[str, ...]]:
    parts = split_opcode(spelling)
    assert parts is not None
    return parts[0], parts[1]


def test_the_answer_is_there() -> None:
    assert len(ACCEPTED) > 18000
    assert {"add.s32", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"} <= set(ACCEPTED)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_accepted_form_is_translated_or_refused_by_the_list(part: int) -> None:
    """And those that are translated stand in a row that is neither `todo` nor `refuse`."""
    problems = []
    for spelling, (_, index) in list(ACCEPTED.items())[part::PARTS]:
        opcode, modifiers = root_of(spelling)
        try:
            lower(list(statements(spelling))[index])
        except PtxError as error:
            if error.code not in CODES:
                problems.append(f"{spelling}: {error.code} {error.message}")
            continue
        if refused_by(opcode, modifiers):
            problems.append(f"{spelling}: translated although the list refuses it")
        if OPCODES[opcode].status in ("todo", "refuse") or not stands_in_rows(spelling):
            problems.append(f"{spelling}: translated, but in no row")
    assert not problems, f"{len(problems)} of the forms:\n" + "\n".join(problems[:20])


@pytest.mark.parametrize("path", [golden.PTX, golden.PTX_SECOND], ids=lambda path: path.stem)
def test_every_accepted_pure_form_is_recorded(path: Path) -> None:
    header, _ = golden.load(path)
    recorded = {canonical(item["form"].split(" ")[0]) for item in header["forms"]}
    missing = []
    for spelling in ACCEPTED:
        opcode, modifiers = root_of(spelling)
        if OPCODES[opcode].family in PURE and opcode not in SKIPPED and not refused_by(opcode, modifiers):
            if canonical(spelling) not in recorded:
                missing.append(spelling)
    assert not missing


@pytest.mark.parametrize("path", [golden.CELLS, golden.CELLS_SECOND], ids=lambda path: path.stem)
def test_every_accepted_memory_form_is_recorded(path: Path) -> None:
    """Loads, stores and atomics on generic, global and shared addresses."""
    recorded = {canonical(item["form"]) for item in golden.load(path)[0]["forms"]}
    missing = []
    for spelling in ACCEPTED:
        opcode, modifiers = root_of(spelling)
        elsewhere = {"const", "local", "param", "param::entry", "param::func"} & set(modifiers)
        if opcode in OPCODES_OF_CELLS and not elsewhere and canonical(spelling) not in recorded:
            missing.append(spelling)
    assert not missing


@pytest.mark.nvcc
@pytest.mark.parametrize("seed", [1, 2])
def test_ptxas_says_so_still(seed: int) -> None:
    """A fixed sample of the spellings, asked again."""
    asked = random.Random(seed).sample(candidates(), 1500)
    answer = accepted_spellings(asked, ptxas())
    assert {text: target for text, (target, _) in answer.items()} == {
        text: ACCEPTED[text][0] for text in asked if text in ACCEPTED
    }


@pytest.mark.slow
@pytest.mark.nvcc
def test_ptxas_says_so_of_everything() -> None:
    assert accepted_spellings(candidates(), ptxas()) == ACCEPTED
