"""vprintf with arguments that are in no local variable, and formats that only the host wrote."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cuttle.abi.amdgpu_abi import AMDGPU_OUTPUT, RECORD_PRINTF
from cuttle.device.device_output import format_text
from cuttle.lower.amdgpu.calls import argument_bytes, argument_count
from tests.lower.amdgpu.kernels import HEADER
from tests.lower.amdgpu.launcher import TARGETS, Gpu

# Format, values as struct packs them with C's alignment, bytes, what is printed.
CASES = (
    (b"plain", "", (), 0, b"plain"),
    (b"100%%", "", (), 0, b"100%"),
    (b"%d", "i", (-5,), 4, b"-5"),
    (b"%d %f", "id", (7, 2.5), 16, b"7 2.500000"),
    (b"%f %d", "di", (0.5, -1), 12, b"0.500000 -1"),
    (b"%lld|%hhu", "qI", (-(1 << 40), 200), 12, b"-1099511627776|200"),
    (b"%u%%%lu", "IQ", (3, 1 << 33), 16, b"3%8589934592"),
    (b"%zu %c", "QI", (1 << 35, 65), 12, b"34359738368 A"),
    (b"%*.*f|%x", "iidI", (7, 2, 1.5, 255), 20, b"   1.50|ff"),
    (b"%5d|%-5u|%05d", "iIi", (1, 2, 3), 12, b"    1|2    |00003"),
)
DECLARE = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
CALL = (
    "{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %d2; st.param.b64 [a], %d3;\n"
    "call (r), vprintf, (f, a); ld.param.b32 %r1, [r]; }\n"
)
# Lane n prints the nth format with arguments in global memory, or copied to shared memory.
BODY = (
    ".visible .entry k(.param .u64 p, .param .u64 o) { .reg .b64 %d<8>; .reg .b32 %r<4>; {SPACE}\n"
    "ld.param.u64 %d0, [p]; ld.param.u64 %d1, [o]; mov.u32 %r0, %tid.x; mul.wide.u32 %d4, %r0, 16; add.u64 %d0, %d0, %d4;\n"
    "ld.global.u64 %d2, [%d0]; ld.global.u64 %d3, [%d0+8]; {COPY}\n"
    + CALL
    + "mul.wide.u32 %d4, %r0, 4; add.u64 %d1, %d1, %d4; st.global.u32 [%d1], %r1; ret; }"
)
SHARED = (
    ".shared .align 8 .b8 own[1024];",
    "mov.u64 %d5, own; mul.wide.u32 %d4, %r0, 32; add.u64 %d5, %d5, %d4;\n"
    + "".join(f"ld.global.u64 %d6, [%d3+{at}]; st.shared.u64 [%d5+{at}], %d6;\n" for at in range(0, 32, 8))
    + "cvta.shared.u64 %d3, %d5;",
)


def test_measures_of_literals() -> None:
    for form, kinds, _, size, _ in CASES:
        assert (argument_count(form), argument_bytes(form)) == (len(kinds), size), form


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("space", "copy"), [("", ""), SHARED], ids=["global", "shared"])
def test_records(space: str, copy: str, target: str) -> None:
    gpu = Gpu(HEADER + DECLARE + BODY.replace("{SPACE}", space).replace("{COPY}", copy), target)
    pairs = []
    for form, kinds, values, size, _ in CASES:
        packed = b""
        for kind, value in zip(kinds, values, strict=True):
            width = struct.calcsize(kind)
            packed += bytes(-len(packed) % width) + struct.pack(f"<{kind}", value)
        assert len(packed) == size
        pairs += [gpu.put(form + b"\0"), gpu.put(packed.ljust(32, b"\xee"))]
    table, counts = gpu.put(np.array(pairs, np.uint64)), np.zeros(len(CASES), np.uint32)
    out = gpu.put(counts)
    gpu.launch("k", (1, 1, 1), (len(CASES), 1, 1), [table, out])
    assert gpu.fault()[0] == 0
    assert gpu.get(out, counts).tolist() == [len(kinds) for _, kinds, *_ in CASES]
    area, at = bytes(gpu.buffers[gpu.output][AMDGPU_OUTPUT.bytes :]), 0
    for lane, (form, _, _, size, printed) in enumerate(CASES):
        length, kind, address = struct.unpack_from("<IIQ", area, at)
        assert (length, kind, address) == (16 + -(-size // 8) * 8, RECORD_PRINTF, pairs[2 * lane]), form
        assert format_text(form, area[at + 16 : at + length], lambda _: b"") == printed
        at += length
    assert area[at : at + 8] == bytes(8)
