"""Bytes that are no code object for the emulated GPUs: what the error says, and that it comes with a hint."""

from __future__ import annotations

import pytest

from cuttle.device.rdna.code_object import CodeObject
from cuttle.device.rdna.errors import CodeObjectError
from cuttle.errors import error_row
from cuttle.lower.amdgpu.compile_kernel import compile_kernel
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.ptx.parser import parse_module
from tests.lower.amdgpu.kernels import VECTOR_ADD


def image(target: str, version: int = 5):
    return compile_kernel(parse_module(VECTOR_ADD), "vector_add", AmdgpuOptions(target, version))


def flagged(flags: int) -> bytes:
    """A code object whose `e_flags` (ELF64: bytes 48 to 51) are others."""
    data = image("gfx1100").code_object
    return data[:48] + flags.to_bytes(4, "little") + data[52:]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda: image("gfx1030").code_object, r"it is for gfx1030 \(RX 6800.*executed here are gfx1100, "),
        (lambda: image("gfx11-generic", 6).code_object, r"it is for gfx11-generic \(all gfx11xx\)"),
        (lambda: flagged(0x4C), r"it is for gfx942 \(MI300A"),
        (lambda: flagged(0xFE), r"an unknown target \(e_flags 0xfe\)"),
        (lambda: image("gfx1100").relocatable, "not linked"),
        (lambda: image("gfx1100").code_object[:200], "damaged code object"),
        (lambda: b"\x7fELF", "damaged code object"),
    ],
    ids=["older-gpu", "generic", "wave64", "unknown", "relocatable", "truncated", "no-elf"],
)
def test_what_the_error_says(data, words: str) -> None:
    with pytest.raises(CodeObjectError, match=words) as error:
        CodeObject.parse(data())
    row = error_row(error.value.code)
    assert row is not None
    assert row.hint
    assert "hint: " in error.value.render()
