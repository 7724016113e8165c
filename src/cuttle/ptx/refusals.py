"""Whether a kernel contains what Cuttle does not run, found out by a quick look at its text.

What compiling alone can find (a form that an op function refuses) is not seen here.
"""

from __future__ import annotations

import re

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.refused import refused_by
from cuttle.errors import PtxError, Where
from cuttle.ptx.body import opcode_spellings
from cuttle.ptx.opcode_roots import split_opcode
from cuttle.ptx.parser import ModuleIndex, parse_function
from cuttle.ptx.stubs import stub_reason

_CALL = re.compile(r"\bcall(?:\.uni)?\s+(?:\([^)]*\)\s*,\s*)?([%$A-Za-z_][\w$]*)")
# A body this short may be one that libraries compile for targets they do not support.
_SHORT_BODY = 4096


def reason_against(root: str, modifiers: tuple[str, ...]) -> tuple[str, str] | None:
    """Error code and reason why an instruction is not translated; None if its row and the list of refused PTX allow it."""
    row = OPCODES.get(root)
    if row is None:
        return "PTX-0304", "unknown instruction"
    listed = refused_by(root, modifiers)
    if listed is not None:
        return listed.code, f"not supported: {listed.title}"
    if row.status in ("todo", "refuse"):
        return "PTX-0304", "not translated yet" if row.status == "todo" else "not supported"
    return None


def refusal_of(index: ModuleIndex, kernel: str) -> PtxError | None:
    """The error that compiling the kernel is going to end with, as far as a look at the spellings tells.

    Functions that it calls by name, directly or not, count; those that only a pointer leads to do not.
    """
    text = index.source.text
    wanted, seen = [index.aliases.get(kernel, kernel)], set()
    while wanted:
        name = wanted.pop()
        entry = index.functions.get(name)
        if name in seen or entry is None or not entry.is_defined:
            continue
        seen.add(name)
        for spelling in sorted(opcode_spellings(text, entry.body_start, entry.body_end)):
            parts = split_opcode(spelling)
            found = reason_against(parts[0], parts[1]) if parts is not None else ("PTX-0304", "unknown instruction")
            if found is not None:
                where = Where(instruction=spelling, kernel=kernel)
                return PtxError(found[0], f"{spelling}: {found[1]}", where)
        for match in _CALL.finditer(text, entry.body_start, entry.body_end):
            wanted.append(index.aliases.get(match[1], match[1]))
    entry = index.functions.get(index.aliases.get(kernel, kernel))
    if entry is not None and entry.is_defined and entry.body_end - entry.body_start <= _SHORT_BODY:
        try:
            reason = stub_reason(parse_function(index, kernel), index.variables)
        except PtxError as error:
            return error
        if reason is not None:
            return PtxError("PTX-0305", reason, Where(kernel=kernel))
    return None
