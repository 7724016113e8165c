"""The predefined, read-only registers of PTX (PTX ISA 9.x, chapter 10) and their types.

A vector register such as `%tid` is read by component (`%tid.x`); its whole is a four-element vector.
"""

from __future__ import annotations

_VECTORS = "%tid %ntid %ctaid %nctaid %clusterid %nclusterid %cluster_ctaid %cluster_nctaid".split()
_B32 = """%laneid %warpid %nwarpid %smid %nsmid %cluster_ctarank %cluster_nctarank %lanemask_eq %lanemask_le
    %lanemask_lt %lanemask_ge %lanemask_gt %clock %clock_hi %globaltimer_lo %globaltimer_hi %total_smem_size
    %aggr_smem_size %dynamic_smem_size WARP_SZ %reserved_smem_offset_begin %reserved_smem_offset_end
    %reserved_smem_offset_cap %reserved_smem_offset_0 %reserved_smem_offset_1""".split()
_U64 = "%clock64 %globaltimer %gridid %current_graph_exec".split()

SPECIAL_REGISTERS: dict[str, str] = {
    **{name: "v4.u32" for name in _VECTORS},
    **{f"{name}.{component}": "u32" for name in _VECTORS for component in "xyzw"},
    **{name: "u32" for name in _B32},
    **{name: "u64" for name in _U64},
    **{f"%pm{number}": "u32" for number in range(8)},
    **{f"%pm{number}_64": "u64" for number in range(8)},
    **{f"%envreg{number}": "b32" for number in range(32)},
    "%is_explicit_cluster": "pred",
}
