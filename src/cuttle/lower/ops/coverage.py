"""Whether a spelling stands in the rows: up to modifiers that change no result, and names for the same thing.

Rows list what makes a difference. Caching, prefetching and eviction hints make none; nor do memory ordering and scope
here, because every access is at least as strong as the strongest; and `.shared::cta` is `.shared` by another name.
"""

from __future__ import annotations

from functools import cache

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.ptx.ir import TYPE_BITS
from cuttle.ptx.opcode_roots import split_opcode

HINTS = frozenset(
    "ca cg cs lu cv wb wt nc L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"
    " L2::evict_normal L2::evict_last L2::evict_first L2::cache_hint L2::64B L2::128B L2::256B aligned".split()
)
ORDERINGS = frozenset("weak relaxed acquire release acq_rel volatile mmio cta cluster gpu sys".split())
SAME_SPACE = {
    "shared::cta": "shared", "shared::cluster": "shared", "param::entry": "param", "param::func": "param",
}  # fmt: skip
# Families in which those modifiers are what they are above; elsewhere (fences, prefetches) they are the instruction.
HINTED = ("memory", "atomics", "texture", "asynchronous", "mbarrier", "wmma", "matrix", "conversion")
_EXCEPT = ("prefetch", "prefetchu", "applypriority", "discard", "createpolicy", "isspacep")


@cache
def canonical(spelling: str) -> tuple[object, ...]:
    """The opcode, the modifiers that matter in any order, and the types in theirs. ValueError for unknown opcodes."""
    parts = split_opcode(spelling)
    if parts is None:
        raise ValueError(f"unknown opcode: {spelling}")
    opcode, modifiers, types = parts
    row = OPCODES[opcode]
    rest = [name for name in modifiers if name not in TYPE_BITS]
    if row.family in HINTED and opcode not in _EXCEPT:
        rest = [SAME_SPACE.get(name, name) for name in rest if name not in HINTS and name not in ORDERINGS]
    return opcode, types, tuple(sorted(rest))


@cache
def _canonical_forms(opcode: str) -> frozenset[tuple[object, ...]]:
    return frozenset(canonical(spelling) for spelling in expand_all(OPCODES[opcode].syntax))


def stands_in_rows(spelling: str) -> bool:
    """Whether the row of the spelling's opcode lists it."""
    parts = split_opcode(spelling)
    return parts is not None and canonical(spelling) in _canonical_forms(parts[0])
