"""Texture and surface opcodes (PTX ISA 9.0, 9.7.10 and 9.7.11)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

ROWS: tuple[Opcode, ...] = (
    Opcode("tex", "texture", "D: G X*", "read", status="todo", section="9.7.10.3"),
    Opcode("tld4", "texture", "D: G X*", "read", since=("2.2", "sm_20"), status="todo", section="9.7.10.4"),
    Opcode("txq", "texture", "b32: A", "read", since=("1.5", "sm_10"), status="todo", section="9.7.10.5"),
    Opcode("istypep", "texture", "P: b64", since=("4.0", "sm_30"), status="refuse", section="9.7.10.6"),
    Opcode("suld", "texture", "T: S", "read", since=("1.5", "sm_10"), status="todo", section="9.7.11.1"),
    Opcode("sust", "texture", ": S T", "write", since=("1.5", "sm_10"), status="todo", section="9.7.11.2"),
    Opcode("sured", "texture", ": S T", "write", since=("2.0", "sm_20"), status="todo", section="9.7.11.3"),
    Opcode("suq", "texture", "b32: A", "read", since=("1.5", "sm_10"), status="todo", section="9.7.11.4"),
)
