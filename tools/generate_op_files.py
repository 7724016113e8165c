"""Writes a PTX file test for each pure root opcode and each refused one: src/cuttle/selftest/files/<family>/<opcode>.ptx.

    python tools/generate_op_files.py

Files that are there stay as they are. The expectations of pure opcodes are recorded (`tools/record_files.py`). A file has up to four forms of its opcode, spread over
the row's syntax, and eight rows of operands; each of eight threads takes one row.
"""

from __future__ import annotations

import json
import lzma
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.row import Opcode
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.lower.ops.forms import Form, inputs, synthesise

TESTS = Path(__file__).resolve().parents[1] / "src" / "cuttle" / "selftest" / "files"
PURE = ("arithmetic", "integer", "floating", "logic", "comparison", "conversion", "video")
BY_HAND = ("cvta", "isspacep")
GOLDEN = TESTS.parents[1] / "sweep" / "recordings" / "golden_ptx.xz"
NEWER = ("clmad",)  # no GPU of its generation to record on: the expectation is the manual's definition
ROWS, FORMS = 8, 4
SLOT = 8
MARK = "// Written by tools/generate_op_files.py."

REFUSED = {
    "istypep": "istypep.texref %p0, %d0;\n  @%p0 trap;",
    "multimem.ld_reduce": "multimem.ld_reduce.relaxed.gpu.global.add.f32 %f0, [%d0];",
    "multimem.st": "multimem.st.relaxed.gpu.global.f32 [%d0], %f0;",
    "multimem.red": "multimem.red.relaxed.gpu.global.add.f32 [%d0], %f0;",
    "multimem.cp.async.bulk": "multimem.cp.async.bulk.global.shared::cta.bulk_group [%d0], [%d1], %r0;",
    "multimem.cp.reduce.async.bulk": "multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [%d1], %r0;",
    "clusterlaunchcontrol.try_cancel": "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%d0], [%d1];",
    "clusterlaunchcontrol.query_cancel": "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p0, %q0;",
    "cp.async.bulk.prefetch.tensor": "cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%d0, {%r0}];",
    "cp.async.bulk.tensor": "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%d0], [%d1, {%r0}], [%d2];",
    "cp.reduce.async.bulk.tensor": "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%d0, {%r0}], [%d1];",
    "tensormap.replace": "tensormap.replace.tile.global_address.global.b1024.b64 [%d0], %d1;",
    "tensormap.cp_fenceproxy": "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%d1], 128;",
    "wgmma.mma_async": "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, 1, 1, 1, 0, 0;",
    "wgmma.mma_async.sp": "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, %r0, 0, 1, 1, 1, 0, 0;",
    "wgmma.fence": "wgmma.fence.sync.aligned;",
    "wgmma.commit_group": "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group": "wgmma.wait_group.sync.aligned 0;",
    "tcgen05.alloc": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%d0], 32;",
    "tcgen05.dealloc": "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, 32;",
    "tcgen05.relinquish_alloc_permit": "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "tcgen05.ld": "tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r0}, [%r1];",
    "tcgen05.ld.red": "tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r0, %r1}, %r2, [%r3];",
    "tcgen05.st": "tcgen05.st.sync.aligned.16x64b.x1.b32 [%r1], {%r0};",
    "tcgen05.wait::ld": "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.wait::st": "tcgen05.wait::st.sync.aligned;",
    "tcgen05.cp": "tcgen05.cp.cta_group::1.128x256b [%r0], %d0;",
    "tcgen05.shift": "tcgen05.shift.cta_group::1.down [%r0];",
    "tcgen05.mma": "tcgen05.mma.cta_group::1.kind::f16 [%r0], %d0, %d1, %r1, %p0;",
    "tcgen05.mma.sp": "tcgen05.mma.sp.cta_group::1.kind::f16 [%r0], %d0, %d1, [%r1], %r2, %p0;",
    "tcgen05.mma.ws": "tcgen05.mma.ws.cta_group::1.kind::f16 [%r0], %d0, %d1, %r1, %p0;",
    "tcgen05.mma.ws.sp": "tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%r0], %d0, %d1, [%r1], %r2, %p0;",
    "tcgen05.fence::before_thread_sync": "tcgen05.fence::before_thread_sync;",
    "tcgen05.fence::after_thread_sync": "tcgen05.fence::after_thread_sync;",
    "tcgen05.commit": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%d0];",
}  # fmt: skip


def file_name(root: str) -> str:
    """A root opcode as a file name: colons are not allowed everywhere."""
    return root.replace("::", "__") + ".ptx"


def recorded_forms() -> set[str]:
    """Names of the forms that an H200 has run (`tools/record_ptx.py`): ptxas does not take the others for sm_90."""
    head = lzma.decompress(GOLDEN.read_bytes()).partition(b"\n")[0]
    return {item["form"] for item in json.loads(head)["forms"]}


def chosen(row: Opcode, recorded: set[str]) -> list[Form]:
    """Up to four forms, spread over the row's syntax, whose operands fit into 64 bits."""
    spellings = [name for name in expand_all(row.syntax) if name in recorded or row.name in NEWER or row.name == "lop3"]
    picks = [spellings[index * (len(spellings) - 1) // max(FORMS - 1, 1)] for index in range(FORMS)]
    forms: list[Form] = []
    for spelling in [*dict.fromkeys(picks), *spellings]:
        form = synthesise(spelling, {3: 0x96} if row.name == "lop3" else None)
        if len(forms) < FORMS and all(width <= 64 for _, width in (*form.sources, *form.destinations)):
            if form.name not in [other.name for other in forms]:
                forms.append(form)
    return forms


def body(number: int, form: Form, first: int, result: int) -> tuple[list[str], int, int]:
    """One form in a scope of its own: operands from slots `first` on, results to slots `result` on; the next slots."""
    lines = ["  {"]
    for prefix, items in (("s", form.sources), ("d", form.destinations)):
        for index, (_, width) in enumerate(items):
            lines.append(f"    .reg .{'pred' if width == 1 else f'b{width}'} %{prefix}{index};")
    lines.append("    .reg .pred %flag;")
    sources = [*form.sources, *([("pred", 1)] if form.carry_in else [])]
    for index, (_, width) in enumerate(sources):
        place = f"[%in+{SLOT * ROWS * (first + index)}]"
        target = f"%s{index}"
        if width == 1:
            flag = "%flag" if index == len(form.sources) else target
            lines += [f"    ld.global.u8 %h0, {place};", f"    setp.ne.u16 {flag}, %h0, 0;"]
        else:
            lines.append(f"    ld.global.b{width} {target}, {place};")
    subtract = form.instruction.opcode.startswith("sub")
    if form.carry_in:
        lines.append("    selp.u32 %t0, 1, 0, %flag;")
        lines.append("    sub.cc.u32 %t1, 0, %t0;" if subtract else "    add.cc.u32 %t1, %t0, 0xffffffff;")
    lines.append(f"    {form.text}")
    if form.carry_out:
        lines.append("    subc.u32 %t2, 0, 0;" if subtract else "    addc.u32 %t2, 0, 0;")
        lines += ["    and.b32 %t2, %t2, 1;", "    cvt.u16.u32 %h0, %t2;"]
    destinations = [*form.destinations, *([("carry", 1)] if form.carry_out else [])]
    for index, (kind, width) in enumerate(destinations):
        place = f"[%out+{SLOT * ROWS * (result + index)}]"
        if width == 1 and kind != "carry":
            lines.append(f"    selp.u16 %h0, 1, 0, %d{index};")
        lines.append(f"    st.global.u8 {place}, %h0;" if width == 1 else f"    st.global.b{width} {place}, %d{index};")
    return [*lines, "  }"], first + len(sources), result + len(destinations)


def carry_less(high: bool, a: int, b: int, c: int) -> int:
    """`clmad` as the manual defines it."""
    product = 0
    for bit in range(64):
        product ^= (a << bit) * (b >> bit & 1)
    return (product >> 64 if high else product & (1 << 64) - 1) ^ c


def pure_file(row: Opcode, recorded: set[str]) -> str:
    """The test of a pure opcode, without expectations."""
    version, target = ("9.1", "sm_100") if row.name in NEWER else ("8.7", "sm_90")
    expected: list[int] = []
    lines: list[str] = []
    words: list[str] = []
    first = result = 0
    forms = chosen(row, recorded)
    for number, form in enumerate(forms):
        types = [name for name, _ in form.sources] + (["pred"] if form.carry_in else [])
        # Special values stand at the front, ordinary ones behind them.
        places = [(5 * index + 7 * number) % 64 + 96 * (index % 2) for index in range(ROWS)]
        columns = [[column[at] for at in places] for column in inputs(types, 512, zlib.crc32(form.name.encode()))]
        words += [" ".join(hex(value) for value in column) for column in columns]
        if row.name == "clmad":
            expected += [carry_less(form.instruction.has("hi"), *operands) for operands in zip(*columns, strict=True)]
        more, first, result = body(number, form, first, result)
        lines += more
    names = ", ".join(form.name for form in forms)
    head = [
        f"// {names}",
        MARK,
        f"//: run block={ROWS}",
        *(f"//: in u64 {text}" for text in words),
        f"//: out u64 {result * ROWS}",
    ]
    if expected:
        head += [f"//: expect {' '.join(hex(value) for value in expected)}", "//: from the manual's definition"]
    start = f"""\
.version {version}
.target {target}
.address_size 64
.visible .entry test(.param .u64 out, .param .u64 in)
{{
  .reg .b16 %h0;
  .reg .b32 %t<4>;
  .reg .b64 %in, %out, %at;
  ld.param.u64 %out, [out];
  ld.param.u64 %in, [in];
  mov.u32 %t0, %tid.x;
  mul.wide.u32 %at, %t0, {SLOT};
  add.u64 %in, %in, %at;
  add.u64 %out, %out, %at;"""
    return "\n".join([*head, start, *lines, "  ret;", "}"]) + "\n"


def refused_file(row: Opcode) -> str:
    """The test that a kernel with an opcode that cannot be translated fails, and says so."""
    return f"""\
// {row.name} is not translated: a kernel with it fails, by itself.
{MARK}
//: run block=32
//: out u32 1
//: expect refused
//: from the row's status
.version 9.0
.target sm_100a
.address_size 64
.visible .entry test(.param .u64 out, .param .u64 in)
{{
  .reg .pred %p<4>;
  .reg .b32 %r<4>;
  .reg .f32 %f<4>;
  .reg .b64 %d<4>;
  .reg .b128 %q<4>;
  {REFUSED[row.name]}
  ret;
}}
"""


def main() -> None:
    recorded = recorded_forms()
    for row in OPCODES.values():
        path = TESTS / row.family / file_name(row.name)
        if path.exists():
            continue
        if row.status == "refuse":
            text = refused_file(row)
        elif row.family in PURE and row.name not in BY_HAND:
            text = pure_file(row, recorded)
        else:
            continue
        print(path.relative_to(TESTS))
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
