"""Offsets of variables."""

from __future__ import annotations

from cuttle.lower.cpu.layout import lay_out
from cuttle.lower.passes.build_graph import build
from tests.lower.passes.graphs import module_of

TEXT = """
.global .u32 unused;
.const .u32 table[4];
.global .u32 counter;
.shared .align 4 .b8 odd[6];
.extern .shared .align 32 .b8 dynamic[];
.func g() { .shared .align 16 .b8 tile[40]; .local .align 8 .b8 stack[12]; st.shared.b32 [tile], 1;
  st.local.b32 [stack], 2; ret; }
.func h() { ret; }
.visible .entry k(.param .u64 q)
{
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .local .align 4 .b8 buffer[20];
  ld.global.u32 %r1, [counter]; ld.const.u32 %r2, [table+4]; st.shared.b32 [odd], %r1; st.shared.b32 [dynamic], %r2;
  mov.u64 %rd1, buffer; mov.u64 %rd2, h; mov.u64 %rd3, q; st.global.v2.u64 [counter], {%rd1, %rd2};
  st.global.u64 [%rd3], %rd3; call g, (); ld.global.u32 %r3, [counter+4]; st.local.u32 [%rd1], %r3; ret;
}
"""


def test_layout() -> None:
    module = module_of(TEXT)
    layout = lay_out(module, build(module, module.functions["k"]))
    assert layout.symbols == ["counter", "table"] and layout.symbol_index("table") == 1
    assert layout.shared == {"g::tile": 0, "odd": 40, "dynamic": 64}
    assert (layout.static_shared_bytes, layout.dynamic_offset, layout.uses_dynamic_shared) == (46, 64, True)
    assert layout.local == {"g::stack": 0, "buffer": 12} and layout.local_bytes == 32
    assert layout.functions == ["h"] and layout.parameters == ["q"]
