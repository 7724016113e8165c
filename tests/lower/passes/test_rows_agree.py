"""The passes' own tables against the rows of `abi/ptx_isa`."""

from __future__ import annotations

from cuttle.abi.ptx_isa import OPCODES
from cuttle.lower.passes.build_graph import _NO_DESTINATION, carry_use
from cuttle.lower.passes.build_ssa import PURE_ROOTS
from cuttle.lower.passes.infer_shapes import LANE_RESULT, UNIFORM_RESULT
from cuttle.ptx.ir import Instruction, Location


def test_pure_roots_are_pure_in_the_rows() -> None:
    for name in PURE_ROOTS:
        if name in OPCODES and name != "mbarrier.pending_count":  # reads only its operand
            assert OPCODES[name].effects in ("pure", "read"), name


def test_carry_flag() -> None:
    for name, row in OPCODES.items():
        plain = Instruction(name, ("u32",), ("u32",), (), None, Location(1))
        with_cc = Instruction(name, ("cc", "u32"), ("u32",), (), None, Location(1))
        assert carry_use(plain) == (row.reads_carry, False)
        if row.writes_carry:
            assert carry_use(with_cc) == (row.reads_carry, True)


def test_destinations() -> None:
    for name, row in OPCODES.items():
        written = row.operands.partition(":")[0].split()
        if name in _NO_DESTINATION and name not in ("bar", "barrier"):
            assert not written, name


def test_results_that_do_not_follow_from_the_operands() -> None:
    """What writes memory or looks at other lanes is named in the shape analysis: equal operands do not mean equal
    results there (`mbarrier.arrive` of 32 lanes on one word)."""
    known = LANE_RESULT | UNIFORM_RESULT | {"vote", "redux.sync", "bar", "barrier"}
    for name, row in OPCODES.items():
        if row.effects in ("write", "cross") and row.operands.partition(":")[0].split():
            assert name in known, name
