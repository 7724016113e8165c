"""The PTX kernels of sweeps: one per form, the same on every device and in the recorders."""

from __future__ import annotations

from cuttle.lower.ops.forms import Form
from cuttle.sweep.forms import result_operands, source_operands, storage_bytes

HEADER = ".version 9.0\n.target {target}\n.address_size 64\n"


def kernel(form: Form, name: str) -> str:
    """A kernel `name(in, out, count, first, step)`: one element per thread.

    The operand columns follow one another at `in`; with step != 0 the (only) operand is first + index * step instead.
    """
    sources, destinations = source_operands(form), result_operands(form)
    lines = [
        f".visible .entry {name}(.param .u64 pin, .param .u64 pout, .param .u32 pcount, .param .u64 pfirst, .param .u64 pstep)",
        "{",
        ".reg .pred %stop, %sweep, %q<16>;",
        ".reg .b16 %h<16>;",
        ".reg .b32 %me, %size, %block, %count, %t<16>;",
        ".reg .b64 %in, %out, %index, %total, %a, %first, %step, %value;",
    ]
    for prefix, items in (("s", form.sources), ("d", form.destinations)):
        for index, (_, width) in enumerate(items):
            lines.append(f".reg .{'pred' if width == 1 else f'b{width}'} %{prefix}{index};")
    lines += [
        "ld.param.u64 %in, [pin];", "ld.param.u64 %out, [pout];", "ld.param.u32 %count, [pcount];",
        "ld.param.u64 %first, [pfirst];", "ld.param.u64 %step, [pstep];",
        "mov.u32 %me, %tid.x;", "mov.u32 %size, %ntid.x;", "mov.u32 %block, %ctaid.x;",
        "mad.lo.u32 %me, %block, %size, %me;", "setp.ge.u32 %stop, %me, %count;", "@%stop ret;",
        "cvt.u64.u32 %index, %me;", "cvt.u64.u32 %total, %count;", "setp.ne.u64 %sweep, %step, 0;",
        "mad.lo.u64 %value, %index, %step, %first;",
    ]  # fmt: skip
    offset = 0
    for index, (_, width) in enumerate(sources):
        size = storage_bytes(width)
        lines += [f"mad.lo.u64 %a, %total, {offset}, %in;", f"mad.lo.u64 %a, %index, {size}, %a;"]
        offset += size
        target = f"%s{index}"
        if width == 1:
            flag = f"%q{index}" if index == len(form.sources) else target
            lines += [f"ld.global.u8 %h{index}, [%a];", f"setp.ne.u16 {flag}, %h{index}, 0;"]
        elif width == 128:
            lines.append(f"ld.global.b128 {target}, [%a];")
        elif len(sources) == 1:
            # Guarded: in a sweep there is no column to read.
            lines.append(f"@!%sweep ld.global.b{width} {target}, [%a];")
            lines.append(
                f"@%sweep cvt.u{width}.u64 {target}, %value;" if width < 64 else f"@%sweep mov.b64 {target}, %value;"
            )
        else:
            lines.append(f"ld.global.b{width} {target}, [%a];")
    subtract = form.instruction.opcode.startswith("sub")
    if form.carry_in:
        flag = f"%q{len(form.sources)}"
        lines.append(f"selp.u32 %t0, 1, 0, {flag};")
        lines.append("sub.cc.u32 %t1, 0, %t0;" if subtract else "add.cc.u32 %t1, %t0, 0xffffffff;")
    lines.append(form.text)
    if form.carry_out:
        lines.append("subc.u32 %t2, 0, 0;" if subtract else "addc.u32 %t2, 0, 0;")
        lines += ["and.b32 %t2, %t2, 1;", "cvt.u16.u32 %h15, %t2;"]
    offset = 0
    for index, (_, width) in enumerate(destinations):
        size = storage_bytes(width)
        lines += [f"mad.lo.u64 %a, %total, {offset}, %out;", f"mad.lo.u64 %a, %index, {size}, %a;"]
        offset += size
        if width == 1:
            if index < len(form.destinations):
                lines.append(f"selp.u16 %h15, 1, 0, %d{index};")
            lines.append("st.global.u8 [%a], %h15;")
        else:
            lines.append(f"st.global.b{width} [%a], %d{index};")
    return "\n".join([*lines, "ret;", "}"])
