"""The closed list of refused PTX: every row refuses its example with its own code, and nothing else is refused."""

from __future__ import annotations

import pytest
from lowering import lower, lower_plain

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.refused import REFUSED, Refused, refused_by
from cuttle.errors import PtxError, error_row

REGISTERS = "".join(
    f".reg .{kind} %{letter}{number}; "
    for letter, kind in (("h", "b16"), ("r", "b32"), ("l", "b64"), ("q", "b128"), ("p", "pred"))
    for number in range(9)
)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.code)
def test_example_is_refused_with_its_code(row: Refused) -> None:
    with pytest.raises(PtxError) as caught:
        lower("{ " + REGISTERS + row.example + " }")
    assert caught.value.code == row.code
    assert caught.value.hint == row.hint
    assert caught.value.where.line > 0 or row.rules, "the place is named"
    page = error_row(row.code)
    assert page is not None and page.title == row.title


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.code)
def test_the_plain_leg_refuses_the_same(row: Refused) -> None:
    with pytest.raises(PtxError) as caught:
        lower_plain("{ " + REGISTERS + row.example + " }")
    assert (caught.value.code, caught.value.hint) == (row.code, row.hint)


def test_codes_are_unique() -> None:
    assert len({row.code for row in REFUSED}) == len(REFUSED)


@pytest.mark.parametrize("name", sorted(name for name, row in OPCODES.items() if row.status == "refuse"))
def test_refused_opcode_stands_in_the_list(name: str) -> None:
    assert refused_by(name, ()) is not None


def test_only_the_kernel_that_uses_it_is_refused() -> None:
    assert "define" in lower("{ .reg .b32 %r0; add.s32 %r0, %r0, %r0; }")
    assert refused_by("fma", ("rn", "bf16")) is None
    assert refused_by("fma", ("rz", "f32")) is None
