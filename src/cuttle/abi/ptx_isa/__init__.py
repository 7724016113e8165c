"""The PTX instruction set as rows: one `Opcode` per root opcode of PTX ISA 9.x, grouped by family."""

from __future__ import annotations

from cuttle.abi.ptx_isa.arithmetic import ROWS as ARITHMETIC
from cuttle.abi.ptx_isa.asynchronous import ROWS as ASYNCHRONOUS
from cuttle.abi.ptx_isa.atomics import ROWS as ATOMICS
from cuttle.abi.ptx_isa.barrier import ROWS as BARRIER
from cuttle.abi.ptx_isa.comparison import ROWS as COMPARISON
from cuttle.abi.ptx_isa.control import ROWS as CONTROL
from cuttle.abi.ptx_isa.conversion import ROWS as CONVERSION
from cuttle.abi.ptx_isa.floating import ROWS as FLOATING
from cuttle.abi.ptx_isa.integer import ROWS as INTEGER
from cuttle.abi.ptx_isa.logic import ROWS as LOGIC
from cuttle.abi.ptx_isa.matrix import ROWS as MATRIX
from cuttle.abi.ptx_isa.memory import ROWS as MEMORY
from cuttle.abi.ptx_isa.row import Opcode
from cuttle.abi.ptx_isa.texture import ROWS as TEXTURE
from cuttle.abi.ptx_isa.video import ROWS as VIDEO
from cuttle.abi.ptx_isa.warp import ROWS as WARP

FAMILIES: tuple[tuple[Opcode, ...], ...] = (
    ARITHMETIC,
    INTEGER,
    FLOATING,
    LOGIC,
    COMPARISON,
    CONVERSION,
    MEMORY,
    ATOMICS,
    WARP,
    BARRIER,
    CONTROL,
    VIDEO,
    MATRIX,
    TEXTURE,
    ASYNCHRONOUS,
)

OPCODES: dict[str, Opcode] = {row.name: row for rows in FAMILIES for row in rows}
