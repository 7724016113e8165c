"""Encodes single instructions for tests, and runs them on one wave. Layouts as in `decode.py`, written down a second time on purpose."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna.compile import compile_instruction
from cuttle.device.rdna.decode import Decoder, Instruction
from cuttle.device.rdna.memory import Memory
from cuttle.device.rdna.waves import Shape, View, Waves

V = 256
MODE = 0x3F0  # nearest even, denormals kept, DX10_CLAMP, IEEE


def family_of(mnemonic: str, encoding: str) -> str:
    """gfx11 if it is there, else gfx12."""
    return "gfx11" if OPCODES[encoding][mnemonic][0] is not None else "gfx12"


def number(mnemonic: str, encoding: str) -> int:
    row = OPCODES[encoding][mnemonic]
    found = row[0] if row[0] is not None else row[1]
    assert found is not None
    return found


def vop3(mnemonic: str, destination: int, sources: list[int], *, scalar_destination: int = 0, op_sel: int = 0, neg: int = 0, abs_: int = 0,
         clamp: int = 0, omod: int = 0) -> tuple[str, bytes]:  # fmt: skip
    """The long form of a VOP1, VOP2, VOPC or VOP3 instruction: (family, words)."""
    encoding = next(e for e in ("VOPC", "VOP1", "VOP2", "VOP3") if mnemonic in OPCODES[e])
    op = {"VOPC": 0, "VOP2": 0x100, "VOP1": 0x180, "VOP3": 0}[encoding] + number(mnemonic, encoding)
    padded = [*sources, 0, 0, 0]
    word = (
        0b110101 << 26
        | op << 16
        | clamp << 15
        | (op_sel << 11 | abs_ << 8 | scalar_destination << 8)
        | destination & 255
    )
    second = neg << 29 | omod << 27 | padded[2] << 18 | padded[1] << 9 | padded[0]
    return family_of(mnemonic, encoding), struct.pack("<2I", word, second)


def vop2_literal(mnemonic: str, destination: int, first: int, second: int, literal: int) -> tuple[str, bytes]:
    op = number(mnemonic, "VOP2")
    return family_of(mnemonic, "VOP2"), struct.pack(
        "<2I", op << 25 | (destination & 255) << 17 | (second & 255) << 9 | first, literal
    )


def vopd(mnemonic: str, destination: int, first: int, second: int, literal: int) -> tuple[str, bytes]:
    """The instruction as second part, beside `v_dual_mov_b32 v0, v1`."""
    op = number(mnemonic, "VOPDY")
    words = (
        0b110010 << 26 | 8 << 22 | op << 17 | (V + 1),
        0 << 24 | (destination & 255) >> 1 << 17 | (second & 255) << 9 | first,
        literal,
    )
    return family_of(mnemonic, "VOPDY"), struct.pack("<3I", *words)


def vop3p(mnemonic: str, destination: int, sources: list[int], *, op_sel: int = 0, op_sel_hi: int = 7, neg: int = 0, neg_hi: int = 0,
          clamp: int = 0) -> tuple[str, bytes]:  # fmt: skip
    padded = [*sources, 0, 0]
    word = (
        0b11001100 << 24
        | number(mnemonic, "VOP3P") << 16
        | clamp << 15
        | (op_sel_hi >> 2) << 14
        | op_sel << 11
        | neg_hi << 8
        | destination & 255
    )
    second = neg << 29 | (op_sel_hi & 3) << 27 | padded[2] << 18 | padded[1] << 9 | padded[0]
    return family_of(mnemonic, "VOP3P"), struct.pack("<2I", word, second)


def sop(
    mnemonic: str, destination: int, sources: list[int], *, immediate: int = 0, literal: int | None = None
) -> tuple[str, bytes]:
    """Any instruction of the scalar unit."""
    encoding = next(e for e in ("SOP2", "SOP1", "SOPC", "SOPK", "SOPP") if mnemonic in OPCODES[e])
    op = number(mnemonic, encoding)
    a, b = [*sources, 0, 0][:2]
    word = {
        "SOP2": 0b10 << 30 | op << 23 | destination << 16 | b << 8 | a,
        "SOP1": 0b101111101 << 23 | destination << 16 | op << 8 | a,
        "SOPC": 0b101111110 << 23 | op << 16 | b << 8 | a,
        "SOPK": 0b1011 << 28 | op << 23 | destination << 16 | immediate & 0xFFFF,
        "SOPP": 0b101111111 << 23 | op << 16 | immediate & 0xFFFF,
    }[encoding]
    return family_of(mnemonic, encoding), struct.pack("<I", word) + (
        b"" if literal is None else struct.pack("<I", literal)
    )


def ds(
    mnemonic: str, destination: int, address: int, data: int = 0, other: int = 0, offset: int = 0, offset1: int = 0
) -> tuple[str, bytes]:
    word = 0b110110 << 26 | number(mnemonic, "DS") << 18 | offset1 << 8 | offset
    return family_of(mnemonic, "DS"), struct.pack("<2I", word, destination << 24 | other << 16 | data << 8 | address)


def flat(mnemonic: str, family: str, destination: int, address: int, data: int = 0, *, scalar: int = 124, offset: int = 0, returns: bool = False,
         uses_vector: bool = True) -> bytes:  # fmt: skip
    """A flat, scratch or global instruction of either family."""
    encoding = mnemonic.partition("_")[0].upper()
    segment = ("FLAT", "SCRATCH", "GLOBAL").index(encoding)
    vector = int(uses_vector and encoding == "SCRATCH")
    if family == "gfx11":
        op = OPCODES[encoding][mnemonic][0]
        assert op is not None
        word = 0b110111 << 26 | op << 18 | segment << 16 | int(returns) << 14 | offset & 0x1FFF
        return struct.pack("<2I", word, destination << 24 | vector << 23 | scalar << 16 | data << 8 | address)
    op = OPCODES[encoding][mnemonic][1]
    assert op is not None
    word = 0b111011 << 26 | segment << 24 | op << 14 | scalar
    return struct.pack(
        "<3I", word, data << 23 | int(returns) << 20 | vector << 17 | destination, (offset & 0xFFFFFF) << 8 | address
    )


class Wave:
    """One group of waves with registers that a test sets. Lane values: one number for all lanes, or 32."""

    def __init__(self, count: int = 1, mode: int = MODE, lds_bytes: int = 1024, scratch_bytes: int = 256) -> None:
        self.memory = Memory()
        self.waves = Waves(Shape(64, 1, count, lds_bytes, scratch_bytes), self.memory, mode)
        self.waves.scalars[126] = 0xFFFFFFFF

    def set_vector(self, register: int, value: Any, bits: int = 32) -> None:
        values = np.broadcast_to(np.array(value, np.uint64), (self.waves.count, 32))
        self.waves.vectors[register] = (values & 0xFFFFFFFF).astype(np.uint32)
        if bits == 64:
            self.waves.vectors[register + 1] = (values >> np.uint64(32)).astype(np.uint32)

    def set_scalar(self, register: int, value: int, bits: int = 32) -> None:
        self.waves.scalars[register] = value & 0xFFFFFFFF
        if bits == 64:
            self.waves.scalars[register + 1] = value >> 32 & 0xFFFFFFFF

    def vector(self, register: int, bits: int = 32) -> list[int]:
        """The lanes of the first wave."""
        values = self.waves.vectors[register][0].astype(np.uint64)
        if bits == 64:
            values |= self.waves.vectors[register + 1][0].astype(np.uint64) << np.uint64(32)
        return [int(x) for x in values]

    def scalar(self, register: int, bits: int = 32) -> int:
        low = int(self.waves.scalars[register][0])
        return low | int(self.waves.scalars[register + 1][0]) << 32 if bits == 64 else low

    @property
    def scc(self) -> int:
        return int(self.waves.condition[0])

    def run(self, family: str, code: bytes) -> Any:
        """Decodes and executes one instruction; returns what its closure returned."""
        instruction: Instruction = Decoder(family).decode(code, 0, 0x1000)
        assert instruction.size <= len(code)
        with np.errstate(all="ignore"):
            return compile_instruction(instruction, family)(View(self.waves, np.arange(self.waves.count)))
