"""Instruction words to `Instruction`s: the encodings of RDNA3 (gfx11) and RDNA4 (gfx12).

Field layouts: AMD, RDNA3 and RDNA4 Instruction Set Architecture, chapter "Microcode Formats". Opcode numbers: `abi/rdna/opcodes.py`.
Operand codes are those of the 9-bit source fields: 0-105 scalar registers, 106 VCC, 128-208 and 240-248 constants, from
256 on vector registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from struct import unpack_from

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna.errors import IllegalInstruction

VECTOR = 256
VCC = 106
NULL = 124
M0 = 125
EXEC = 126
SCC = 253
LITERAL = 255
DPP8, DPP8_FETCH_INACTIVE, DPP16 = 233, 234, 250

_HAS_LITERAL = {"v_fmamk_f32", "v_fmaak_f32", "v_fmamk_f16", "v_fmaak_f16", "s_fmaak_f32", "s_fmamk_f32", "v_dual_fmaak_f32",
                "v_dual_fmamk_f32", "s_setreg_imm32_b32"}  # fmt: skip


@dataclass(slots=True)
class DataParallelPrimitive:
    """How src0 is taken from other lanes: `control` of DPP16, or `lanes` of DPP8."""

    control: int = 0
    lanes: tuple[int, ...] = ()
    fetch_inactive: bool = False
    bound_control: bool = False
    bank_mask: int = 15
    row_mask: int = 15


@dataclass(slots=True)
class Instruction:
    """One decoded instruction. Fields that its encoding lacks keep their defaults; `size` is in bytes."""

    encoding: str
    mnemonic: str = ""
    address: int = 0
    size: int = 4
    destination: int = NULL
    scalar_destination: int = NULL
    sources: tuple[int, ...] = ()
    literal: int | None = None
    neg: int = 0
    abs: int = 0
    neg_hi: int = 0
    op_sel: int = 0
    op_sel_hi: int = 0
    omod: int = 0
    clamp: bool = False
    dpp: DataParallelPrimitive | None = None
    offset: int = 0
    offset1: int = 0
    scalar_address: int = NULL
    has_vector_address: bool = False
    returns: bool = False  # an atomic that returns the old value
    immediate: int = 0
    parts: tuple[Instruction, ...] = field(default_factory=tuple)


def bits(word: int, high: int, low: int) -> int:
    return word >> low & (1 << high - low + 1) - 1


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> width - 1 else value


@cache
def opcode_names(target: str) -> dict[tuple[str, int], str]:
    """(encoding, opcode number) to mnemonic, VOP3's copies of VOP1, VOP2 and VOPC included. `target`: gfx11 or gfx12."""
    column = {"gfx11": 0, "gfx12": 1}[target]
    names = {}
    for encoding, rows in OPCODES.items():
        for mnemonic, row in rows.items():
            number = row[column]
            if isinstance(number, int):
                names[encoding, number] = mnemonic
                base = {"VOPC": 0, "VOP2": 0x100, "VOP1": 0x180}.get(encoding)
                if base is not None and mnemonic not in _HAS_LITERAL:
                    names["VOP3", base + number] = mnemonic
    return names


class Decoder:
    """Decodes for one target family (`gfx11` or `gfx12`)."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._names = opcode_names(target)

    def decode(self, code: bytes | memoryview, offset: int, address: int = 0) -> Instruction:
        """The instruction at `offset` of `code`; `address` is noted in it. Raises IllegalInstruction."""
        if offset + 4 > len(code):
            raise IllegalInstruction("the code ends here")
        padded = bytes(code[offset : offset + 20]).ljust(20, b"\0")
        words = unpack_from("<5I", padded)
        instruction = self._decode(words)
        instruction.address = address
        if offset + instruction.size > len(code):
            raise IllegalInstruction("the instruction is cut off")
        return instruction

    def _name(self, instruction: Instruction, number: int, word: int) -> str:
        name = self._names.get((instruction.encoding, number))
        if name is None:
            raise IllegalInstruction(
                f"{instruction.encoding} has no opcode {number} on {self.target} (word {word:#010x})"
            )
        instruction.mnemonic = name
        return name

    def _decode(self, words: tuple[int, ...]) -> Instruction:
        word = words[0]
        if word >> 31 == 0:
            return self._vector_short(words)
        if word >> 30 == 0b10:
            return self._scalar(words)
        prefix = word >> 26
        if prefix == 0b110101:
            return self._vector_long(words)
        if prefix == 0b110011 and bits(word, 25, 24) == 0:
            return self._packed(words)
        if prefix == 0b110010:
            return self._dual(words)
        if prefix == 0b111101:
            return self._scalar_memory(words)
        if prefix == 0b110110:
            return self._data_share(words)
        if prefix == 0b111000 and self.target == "gfx11" and bits(word, 25, 18) in (43, 44):
            name = "buffer_gl0_inv" if bits(word, 25, 18) == 43 else "buffer_gl1_inv"
            return Instruction("MUBUF", mnemonic=name, size=8)
        if prefix == 0b110111 and self.target == "gfx11":
            return self._flat_old(words)
        if prefix == 0b111011 and self.target == "gfx12":
            return self._flat_new(words)
        raise IllegalInstruction(f"word {word:#010x} begins no instruction that this emulator knows")

    # -- scalar ------------------------------------------------------------------------------------------------------

    def _scalar(self, words: tuple[int, ...]) -> Instruction:
        word = words[0]
        top = word >> 23
        if top == 0b101111111:
            instruction = Instruction("SOPP", immediate=word & 0xFFFF)
            self._name(instruction, bits(word, 22, 16), word)
            return instruction
        if top == 0b101111110:
            instruction = Instruction("SOPC", sources=(word & 255, bits(word, 15, 8)))
            self._name(instruction, bits(word, 22, 16), word)
        elif top == 0b101111101:
            instruction = Instruction("SOP1", destination=bits(word, 22, 16), sources=(word & 255,))
            self._name(instruction, bits(word, 15, 8), word)
        elif word >> 28 == 0b1011:
            instruction = Instruction("SOPK", destination=bits(word, 22, 16), immediate=word & 0xFFFF)
            self._name(instruction, bits(word, 27, 23), word)
        else:
            instruction = Instruction("SOP2", destination=bits(word, 22, 16), sources=(word & 255, bits(word, 15, 8)))
            self._name(instruction, bits(word, 29, 23), word)
        self._take_literal(instruction, words)
        return instruction

    def _take_literal(self, instruction: Instruction, words: tuple[int, ...]) -> None:
        if LITERAL in instruction.sources or instruction.mnemonic in _HAS_LITERAL:
            instruction.literal = words[instruction.size // 4]
            instruction.size += 4

    def _scalar_memory(self, words: tuple[int, ...]) -> Instruction:
        word, second = words[:2]
        new = self.target == "gfx12"
        instruction = Instruction(
            "SMEM", size=8, destination=bits(word, 12, 6), sources=(2 * (word & 63),), scalar_address=second >> 25
        )
        instruction.offset = signed(second & 0xFFFFFF, 24) if new else signed(second & 0x1FFFFF, 21)
        self._name(instruction, bits(word, 18, 13) if new else bits(word, 25, 18), word)
        return instruction

    # -- vector ------------------------------------------------------------------------------------------------------

    def _vector_short(self, words: tuple[int, ...]) -> Instruction:
        word = words[0]
        source = word & 511
        if bits(word, 31, 25) == 0b0111111:
            instruction = Instruction("VOP1", destination=VECTOR + bits(word, 24, 17), sources=(source,))
            self._name(instruction, bits(word, 16, 9), word)
        elif bits(word, 31, 25) == 0b0111110:
            instruction = Instruction("VOPC", sources=(source, VECTOR + bits(word, 16, 9)))
            self._name(instruction, bits(word, 24, 17), word)
            instruction.scalar_destination = EXEC if instruction.mnemonic.startswith("v_cmpx") else VCC
        else:
            sources = (source, VECTOR + bits(word, 16, 9))
            instruction = Instruction("VOP2", destination=VECTOR + bits(word, 24, 17), sources=sources)
            name = self._name(instruction, bits(word, 30, 25), word)
            if name.endswith("_co_ci_u32"):
                instruction.scalar_destination = VCC
                instruction.sources = (*sources, VCC)
            elif name == "v_cndmask_b32":
                instruction.sources = (*sources, VCC)
            elif "fmaak" in name:
                instruction.sources = (*sources, LITERAL)
            elif "fmamk" in name:
                instruction.sources = (source, LITERAL, sources[1])
        if source in (DPP8, DPP8_FETCH_INACTIVE, DPP16):
            self._take_dpp(instruction, words)
        else:
            self._take_literal(instruction, words)
        if instruction.mnemonic == "v_readfirstlane_b32":
            instruction.destination -= VECTOR
        return instruction

    def _take_dpp(self, instruction: Instruction, words: tuple[int, ...]) -> None:
        kind = instruction.sources[0]
        word = words[instruction.size // 4]
        instruction.size += 4
        instruction.sources = (VECTOR + (word & 255), *instruction.sources[1:])
        if LITERAL in instruction.sources:
            raise IllegalInstruction("DPP and a literal in one instruction")
        if kind == DPP16:
            instruction.dpp = DataParallelPrimitive(
                control=bits(word, 16, 8), fetch_inactive=bool(bits(word, 18, 18)), bound_control=bool(bits(word, 19, 19)),
                bank_mask=bits(word, 27, 24), row_mask=word >> 28
            )  # fmt: skip
            if instruction.encoding in ("VOP1", "VOP2", "VOPC"):
                instruction.neg = bits(word, 20, 20) | bits(word, 22, 22) << 1
                instruction.abs = bits(word, 21, 21) | bits(word, 23, 23) << 1
        else:
            lanes = tuple(bits(word, 10 + 3 * n, 8 + 3 * n) for n in range(8))
            instruction.dpp = DataParallelPrimitive(lanes=lanes, fetch_inactive=kind == DPP8_FETCH_INACTIVE)

    def _vector_long(self, words: tuple[int, ...]) -> Instruction:
        word, second = words[:2]
        number = bits(word, 25, 16)
        instruction = Instruction(
            "VOP3", size=8, destination=VECTOR + (word & 255), clamp=bool(word >> 15 & 1), neg=second >> 29,
            omod=bits(second, 28, 27), sources=(second & 511, bits(second, 17, 9), bits(second, 26, 18))
        )  # fmt: skip
        name = self._name(instruction, number, word)
        if name in WITH_CARRY_OUT:
            instruction.scalar_destination = bits(word, 14, 8)
        else:
            instruction.abs = bits(word, 10, 8)
            instruction.op_sel = bits(word, 14, 11)
        if number < 0x100:
            instruction.scalar_destination = EXEC if name.startswith("v_cmpx") else word & 127
            instruction.destination = NULL
        elif name in SCALAR_RESULT:
            instruction.destination -= VECTOR
        instruction.sources = instruction.sources[: self._source_count(name)]
        if instruction.sources and instruction.sources[0] in (DPP8, DPP8_FETCH_INACTIVE, DPP16):
            self._take_dpp(instruction, words)
        else:
            self._take_literal(instruction, words)
        return instruction

    def _source_count(self, name: str) -> int:
        if name == "v_cndmask_b32" or name.endswith("_co_ci_u32"):
            return 3
        column = 2 if self.target == "gfx11" else 3
        for encoding in ("VOPC", "VOP1", "VOP2", "VOP3"):
            row = OPCODES[encoding].get(name)
            if row is not None and (shape := row[column]):
                results = 2 if name in WITH_CARRY_OUT else 1
                if name.startswith("v_cmpx"):
                    results = 0
                return len(str(shape)) - results
        raise AssertionError(name)

    def _packed(self, words: tuple[int, ...]) -> Instruction:
        word, second = words[:2]
        instruction = Instruction(
            "VOP3P", size=8, destination=VECTOR + (word & 255), clamp=bool(word >> 15 & 1), neg=second >> 29,
            neg_hi=bits(word, 10, 8), op_sel=bits(word, 13, 11), op_sel_hi=bits(second, 28, 27) | bits(word, 14, 14) << 2,
            sources=(second & 511, bits(second, 17, 9), bits(second, 26, 18))
        )  # fmt: skip
        name = self._name(instruction, bits(word, 22, 16), word)
        shape = OPCODES["VOP3P"][name][2 if self.target == "gfx11" else 3]
        instruction.sources = instruction.sources[: len(str(shape)) - 1]
        if instruction.sources[0] in (DPP8, DPP8_FETCH_INACTIVE, DPP16):
            self._take_dpp(instruction, words)
        else:
            self._take_literal(instruction, words)
        return instruction

    def _dual(self, words: tuple[int, ...]) -> Instruction:
        word, second = words[:2]
        first = Instruction(
            "VOPDX", destination=VECTOR + (second >> 24), sources=(word & 511, VECTOR + bits(word, 16, 9))
        )
        other = Instruction("VOPDY", sources=(second & 511, VECTOR + bits(second, 16, 9)))
        other.destination = VECTOR + (bits(second, 23, 17) << 1 | (~second >> 24 & 1))
        self._name(first, bits(word, 25, 22), word)
        self._name(other, bits(word, 21, 17), word)
        instruction = Instruction("VOPD", mnemonic=first.mnemonic, size=8, parts=(first, other))
        literal: int | None = None
        for part in instruction.parts:
            if LITERAL in part.sources or part.mnemonic in _HAS_LITERAL:
                literal = words[2]
            if part.mnemonic == "v_dual_cndmask_b32":
                part.sources = (*part.sources, VCC)
            elif "fmaak" in part.mnemonic:
                part.sources = (*part.sources, LITERAL)
            elif "fmamk" in part.mnemonic:
                part.sources = (part.sources[0], LITERAL, part.sources[1])
            elif part.mnemonic == "v_dual_mov_b32":
                part.sources = part.sources[:1]
        if literal is not None:
            instruction.size = 12
            first.literal = other.literal = instruction.literal = literal
        return instruction

    # -- memory ------------------------------------------------------------------------------------------------------

    def _data_share(self, words: tuple[int, ...]) -> Instruction:
        word, second = words[:2]
        if bits(word, 17, 17):
            raise IllegalInstruction("the global data share is not there on compute targets of this emulator")
        instruction = Instruction(
            "DS", size=8, destination=VECTOR + (second >> 24), offset=word & 255, offset1=bits(word, 15, 8),
            sources=(VECTOR + (second & 255), VECTOR + bits(second, 15, 8), VECTOR + bits(second, 23, 16))
        )  # fmt: skip
        self._name(instruction, bits(word, 25, 18), word)
        return instruction

    def _flat_old(self, words: tuple[int, ...]) -> Instruction:
        word, second = words[:2]
        encoding = {0: "FLAT", 1: "SCRATCH", 2: "GLOBAL"}.get(bits(word, 17, 16))
        if encoding is None:
            raise IllegalInstruction(f"word {word:#010x}: flat instruction with segment 3")
        instruction = Instruction(
            encoding, size=8, destination=VECTOR + (second >> 24), scalar_address=bits(second, 22, 16),
            offset=signed(word & 0x1FFF, 13), returns=bool(word >> 14 & 1), has_vector_address=bool(second >> 23 & 1),
            sources=(VECTOR + (second & 255), VECTOR + bits(second, 15, 8))
        )  # fmt: skip
        self._name(instruction, bits(word, 24, 18), word)
        return self._finish_flat(instruction)

    def _flat_new(self, words: tuple[int, ...]) -> Instruction:
        word, second, third = words[:3]
        encoding = {0: "FLAT", 1: "SCRATCH", 2: "GLOBAL"}.get(bits(word, 25, 24))
        if encoding is None:
            raise IllegalInstruction(f"word {word:#010x}: flat instruction with segment 3")
        instruction = Instruction(
            encoding, size=12, destination=VECTOR + (second & 255), scalar_address=word & 127,
            offset=signed(third >> 8, 24), returns=bool(second >> 20 & 1), has_vector_address=bool(second >> 17 & 1),
            sources=(VECTOR + (third & 255), VECTOR + bits(second, 30, 23))
        )  # fmt: skip
        self._name(instruction, bits(word, 21, 14), word)
        return self._finish_flat(instruction)

    def _finish_flat(self, instruction: Instruction) -> Instruction:
        if instruction.encoding != "SCRATCH":
            instruction.has_vector_address = True
        if instruction.encoding == "FLAT":
            instruction.scalar_address = NULL
        if "atomic" not in instruction.mnemonic:
            instruction.returns = False
        return instruction


WITH_CARRY_OUT = {"v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_add_co_ci_u32", "v_sub_co_ci_u32", "v_subrev_co_ci_u32",
                  "v_div_scale_f32", "v_div_scale_f64", "v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_u64_u32",
                  "v_mad_co_i64_i32"}  # fmt: skip
SCALAR_RESULT = {"v_readlane_b32", "v_readfirstlane_b32", "v_s_exp_f32", "v_s_exp_f16", "v_s_log_f32", "v_s_log_f16", "v_s_rcp_f32",
                 "v_s_rcp_f16", "v_s_rsq_f32", "v_s_rsq_f16", "v_s_sqrt_f32", "v_s_sqrt_f16"}  # fmt: skip
