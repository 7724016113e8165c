"""Video opcodes (PTX ISA 9.0, 9.7.18): scalar with byte/half selection, and 2- and 4-way SIMD."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_SCALAR = (
    ("vadd", "9.7.18.1.1"), ("vsub", "9.7.18.1.1"), ("vabsdiff", "9.7.18.1.1"), ("vmin", "9.7.18.1.1"),
    ("vmax", "9.7.18.1.1"), ("vshl", "9.7.18.1.2"), ("vshr", "9.7.18.1.2"), ("vmad", "9.7.18.1.3"),
    ("vset", "9.7.18.1.4"),
)  # fmt: skip
_SIMD = tuple(
    (f"{root}{ways}", f"9.7.18.2.{section}")
    for ways, section in (("2", 1), ("4", 2))
    for root in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
)

ROWS: tuple[Opcode, ...] = (
    *(
        Opcode(name, "video", "u32: b32 b32 b32?", since=("2.0", "sm_20"), status="todo", section=section)
        for name, section in _SCALAR
    ),
    *(
        Opcode(name, "video", "u32: b32 b32 b32?", since=("3.0", "sm_30"), status="todo", section=section)
        for name, section in _SIMD
    ),
)
