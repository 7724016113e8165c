"""Control flow (PTX ISA 9.0, 9.7.12, 9.7.19): carried out by the lowering itself, without op functions."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

ROWS: tuple[Opcode, ...] = (
    Opcode("bra", "control", ": X", "control", syntax=("bra[.uni]",), section="9.7.12.3"),
    Opcode("brx.idx", "control", ": u32 X", "control", syntax=("brx.idx[.uni]",), since=("6.0", "sm_30"), section="9.7.12.4"),
    Opcode("call", "control", ": X*", "control", syntax=("call[.uni]",), section="9.7.12.5"),
    Opcode("ret", "control", ":", "control", syntax=("ret[.uni]",), section="9.7.12.6"),
    Opcode("exit", "control", ":", "control", syntax=("exit",), section="9.7.12.7"),
    Opcode("trap", "control", ":", "control", syntax=("trap",), section="9.7.19.4"),
    Opcode("brkpt", "control", ":", "control", syntax=("brkpt",), section="9.7.19.1"),
)  # fmt: skip
