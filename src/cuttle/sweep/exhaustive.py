"""Sweeps over all operands there are: forms whose sources have 16 or 32 bits together, as digests of blocks.

One kernel per form (`digest_kernel`) computes, for each block of consecutive operands, two 32-bit sums over the results r
of the operands v (both modulo 2**32, so that the order in which threads add does not matter):

    x = sum of mix(r ^ v)        mix(h) = g ^ g >> 15 with g = h * 0x9e3779b1
    y = sum of r * (v | 1)

One wrong result in a block always changes y, since v | 1 is odd; several are missed with a chance of 2**-64. The same PTX
runs on the GPU that is recorded and on the device that is tested.
"""

from __future__ import annotations

import lzma
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuttle.errors import SweepError
from cuttle.lower.ops.forms import Form
from cuttle.sweep.forms import all_forms, source_operands
from cuttle.sweep.golden import FOLDER, load, recorded_form

DIGESTS = FOLDER / "digests_ptx.xz"
THREADS = 4096  # per block of operands
BLOCKS = {16: 16, 32: 256}  # blocks by the bits of the operands
_SALT, _FACTOR = 0x632BE5AB, 0x9E3779B1


@dataclass(frozen=True, slots=True)
class Digests:
    """What the GPU answered for one form: the digest of each block of operands."""

    form: Form
    blocks: tuple[int, ...]


def operand_bits(form: Form) -> int:
    """Bits of all sources together, if the form can be swept exhaustively; else 0."""
    widths = [width for _, width in source_operands(form)]
    total = sum(widths)
    if total not in BLOCKS or 1 in widths or not form.destinations:
        return 0
    return total


def exhaustive_forms() -> list[Form]:
    """Every pure form whose sources have 16 or 32 bits together."""
    return [form for form in all_forms() if operand_bits(form)]


def block_bits(form: Form) -> int:
    """Bits of the number of an operand within its block."""
    bits = operand_bits(form)
    return bits - (BLOCKS[bits].bit_length() - 1)


def digest_kernel(form: Form, name: str) -> str:
    """A kernel `name(out, first)`: 4096 threads per block of operands, each block's x and y added at `out`.

    Blocks are numbered from `first` on; `out` must be zero before.
    """
    bits = block_bits(form)
    lines = [
        f".visible .entry {name}(.param .u64 pout, .param .u32 pfirst)",
        "{",
        ".reg .pred %again;",
        ".reg .b16 %none;",
        ".reg .b32 %me, %size, %group, %block, %value, %left, %salt, %mix, %high, %x, %y, %w<8>;",
        ".reg .b64 %out, %at;",
    ]
    for prefix, items in (("s", form.sources), ("d", form.destinations)):
        for index, (_, width) in enumerate(items):
            lines.append(f".reg .{'pred' if width == 1 else f'b{width}'} %{prefix}{index};")
    lines += [
        "ld.param.u64 %out, [pout];", "ld.param.u32 %block, [pfirst];",
        "mov.u32 %me, %tid.x;", "mov.u32 %size, %ntid.x;", "mov.u32 %group, %ctaid.x;",
        "mad.lo.u32 %me, %group, %size, %me;", "shr.u32 %group, %me, 12;", "and.b32 %me, %me, 4095;",
        "mad.wide.u32 %out, %group, 8, %out;", "add.u32 %block, %block, %group;",
        f"shl.b32 %value, %block, {bits};", "add.u32 %value, %value, %me;", f"mov.u32 %left, {1 << bits - 12};",
        "mov.u32 %x, 0;", "mov.u32 %y, 0;", "mov.u16 %none, 0;",
        "$loop:",
    ]  # fmt: skip
    if len(form.sources) == 2:
        lines += ["cvt.u16.u32 %s0, %value;", "shr.u32 %high, %value, 16;", "cvt.u16.u32 %s1, %high;"]
    else:
        width = form.sources[0][1]
        lines.append("mov.b32 %s0, %value;" if width == 32 else "cvt.u16.u32 %s0, %value;")
    lines.append(form.text)
    words = 0
    for index, (_, width) in enumerate(form.destinations):
        source = f"%d{index}"
        if width == 1:
            lines.append(f"selp.u32 %w{words}, 1, 0, {source};")
        elif width == 16:
            # Not `cvt.u32.u16`: ptxas 13.0 takes the upper half for zero, but `set` with a 16-bit result fills it on an H200.
            lines.append(f"mov.b32 %w{words}, {{{source}, %none}};")
        elif width == 32:
            lines.append(f"mov.b32 %w{words}, {source};")
        else:
            lines.append(f"mov.b64 {{%w{words}, %w{words + 1}}}, {source};")
        words += max(width // 32, 1)
    for word in range(words):
        lines += [
            f"add.u32 %salt, %value, {word * _SALT & 0xFFFFFFFF};",
            f"xor.b32 %mix, %w{word}, %salt;", f"mul.lo.u32 %mix, %mix, {_FACTOR};", "shr.u32 %high, %mix, 15;",
            "xor.b32 %mix, %mix, %high;", "add.u32 %x, %x, %mix;",
            "or.b32 %salt, %salt, 1;", f"mad.lo.u32 %y, %w{word}, %salt, %y;",
        ]  # fmt: skip
    lines += [
        f"add.u32 %value, %value, {THREADS};", "sub.u32 %left, %left, 1;", "setp.ne.u32 %again, %left, 0;",
        "@%again bra $loop;",
        "red.global.add.u32 [%out], %x;", "red.global.add.u32 [%out+4], %y;",
        "ret;", "}",
    ]  # fmt: skip
    return "\n".join(lines)


def digests_of(raw: bytes) -> tuple[int, ...]:
    """The digests that a kernel wrote: 8 bytes per block."""
    return struct.unpack(f"<{len(raw) // 8}Q", raw)


def recorded_digests(path: Path = DIGESTS) -> Iterator[Digests]:
    """What the GPU answered."""
    header, body = load(path)
    at = 0
    for item in header["forms"]:
        form = recorded_form(path, item["form"])
        bits = operand_bits(form)
        if not bits or item["bytes"] != 8 * BLOCKS[bits]:
            raise SweepError("SWP-0101", f"{path}: {item['form']}: recorded with another number of blocks")
        yield Digests(form, digests_of(body[at : at + item["bytes"]]))
        at += item["bytes"]


def pack(header: bytes, blobs: list[bytes]) -> bytes:
    """A recording: the header's line and the results."""
    return lzma.compress(header + b"\n" + b"".join(blobs), preset=9 | lzma.PRESET_EXTREME)
