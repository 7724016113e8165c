"""Decoded instructions as text, in the syntax of LLVM's AMDGPU assembler (operands and offsets; of the modifiers neg, abs and clamp)."""

from __future__ import annotations

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna.decode import LITERAL, NULL, VECTOR, Instruction
from cuttle.device.rdna.waits import memory_registers

_NAMES = {106: "vcc_lo", 107: "vcc_hi", 124: "null", 125: "m0", 126: "exec_lo", 127: "exec_hi", 235: "src_shared_base",
          236: "src_shared_limit", 237: "src_private_base", 238: "src_private_limit", 240: "0.5", 241: "-0.5", 242: "1.0",
          243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0", 248: "0.15915494", 251: "src_vccz", 252: "src_execz",
          253: "src_scc"}  # fmt: skip
_PAIRS = {106: "vcc", 126: "exec"}


def operand(code: int, dwords: int = 1, half: str = "", literal: int | None = None) -> str:
    """One operand: `v[0:1]`, `s4`, `vcc_lo`, `0x40490fdb`, `-16`."""
    if code >= VECTOR:
        return _registers("v", code - VECTOR, dwords) + half
    if code < 106:
        return _registers("s", code, dwords)
    if 108 <= code < 124:
        return _registers("ttmp", code - 108, dwords)
    if dwords == 2 and code in _PAIRS:
        return _PAIRS[code]
    if code == LITERAL:
        return f"{literal or 0:#x}"
    if 128 <= code <= 208:
        return str(code - 128 if code <= 192 else 192 - code)
    return _NAMES.get(code, f"?{code}")


def _registers(letter: str, first: int, dwords: int) -> str:
    return f"{letter}{first}" if dwords == 1 else f"{letter}[{first}:{first + dwords - 1}]"


def operands(instruction: Instruction, family: str) -> list[str]:
    """The operands in assembly order, without offsets and modifiers."""
    if instruction.encoding in ("DS", "FLAT", "GLOBAL", "SCRATCH", "SMEM"):
        return _memory_operands(instruction)
    if instruction.encoding in ("SOPP", "MUBUF"):
        return [f"{instruction.immediate:#x}"] if instruction.immediate else []
    shape = _shape(instruction, family)
    codes = _codes(instruction)
    texts = []
    for index, code in enumerate(codes):
        letter = shape[index] if index < len(shape) else "1"
        half = ""
        if letter == "H" and code >= VECTOR:
            code, half = _half(instruction, code, index)
        text = operand(code, 1 if letter in ".H" else int(letter, 36), half, instruction.literal)
        texts.append(_signed(instruction, text, index - (len(codes) - len(instruction.sources))))
    if instruction.encoding == "SOPK":
        texts.append(f"{instruction.immediate:#x}")
    return texts


def _codes(instruction: Instruction) -> list[int]:
    encoding, name = instruction.encoding, instruction.mnemonic
    codes = []
    if encoding.startswith(("VOP", "SOP1", "SOP2", "SOPK")) and encoding != "VOPC" and not name.startswith("v_cmp"):
        codes.append(instruction.destination)
    if instruction.scalar_destination != NULL or (encoding == "VOP3" and _has_carry(name)):
        if not name.startswith("v_cmpx"):
            codes.append(instruction.scalar_destination)
    elif name.startswith("v_cmp") and not name.startswith("v_cmpx"):
        codes.append(instruction.scalar_destination)
    if name in _WITHOUT_RESULT:
        codes.clear()
    if name == "s_getpc_b64":
        return codes
    # v_dual_cndmask takes VCC without saying so.
    return [*codes, *(instruction.sources[:2] if name == "v_dual_cndmask_b32" else instruction.sources)]


_WITHOUT_RESULT = {"s_setpc_b64", "s_sleep_var", "s_barrier_signal", "s_barrier_signal_isfirst", "s_barrier_init", "s_barrier_join",
                   "s_alloc_vgpr", "s_setreg_imm32_b32", "s_version", "s_rfe_b64"}  # fmt: skip


def _has_carry(name: str) -> bool:
    return "_co_" in name or name.startswith(("v_div_scale", "v_mad_u64_u32", "v_mad_i64_i32"))


def _shape(instruction: Instruction, family: str) -> str:
    column = 2 if family == "gfx11" else 3
    encodings = {"VOP3": ("VOP3", "VOP2", "VOP1", "VOPC")}.get(instruction.encoding, (instruction.encoding,))
    for encoding in encodings:
        row = OPCODES.get(encoding, {}).get(instruction.mnemonic)
        if row is not None:
            return str(row[column] or row[5 - column])
    return ""


def _half(instruction: Instruction, code: int, index: int) -> tuple[int, str]:
    if instruction.encoding in ("VOP1", "VOP2", "VOPC"):
        return VECTOR + (code - VECTOR & 127), ".h" if code - VECTOR >> 7 else ".l"
    results = len(_codes(instruction)) - len(instruction.sources)
    bit = 3 if index < results else index - results
    return code, ".h" if instruction.op_sel >> bit & 1 else ".l"


def _signed(instruction: Instruction, text: str, source: int) -> str:
    if source < 0 or instruction.encoding == "VOP3P":
        return text
    if instruction.abs >> source & 1:
        text = f"|{text}|"
    return f"-{text}" if instruction.neg >> source & 1 else text


def _memory_operands(instruction: Instruction) -> list[str]:
    reads, writes = memory_registers(instruction)
    encoding = instruction.encoding
    texts = [operand(code, count) for code, count in writes]
    if "load" not in instruction.mnemonic and "store" not in instruction.mnemonic and encoding in ("GLOBAL", "SMEM"):
        if "atomic" not in instruction.mnemonic:
            return []  # cache control
    if encoding == "SMEM":
        texts += [operand(code, count) for code, count in reads[:1]]
        if instruction.scalar_address != NULL:
            texts.append(operand(instruction.scalar_address))
        return texts
    if encoding == "DS":
        return texts + [operand(code, count) for code, count in reads]
    scalar = (
        [operand(instruction.scalar_address, 1 if encoding == "SCRATCH" else 2)]
        if instruction.scalar_address != NULL
        else ["off"]
    )
    vector = [operand(code, count) for code, count in reads if code >= VECTOR]
    if encoding == "SCRATCH" and not instruction.has_vector_address:
        vector.insert(0, "off")
    return texts + vector + (scalar if encoding != "FLAT" else [])


def disassemble(instruction: Instruction, family: str) -> str:
    """One instruction as a line of text."""
    if instruction.parts:
        return " :: ".join(disassemble(part, family) for part in instruction.parts)
    text = f"{instruction.mnemonic} {', '.join(operands(instruction, family))}".rstrip()
    if instruction.encoding == "DS" and "2addr" in instruction.mnemonic:
        text += "".join(f" offset{n}:{o}" for n, o in enumerate((instruction.offset, instruction.offset1)) if o)
    elif instruction.encoding == "DS" and instruction.offset | instruction.offset1 << 8:
        text += f" offset:{instruction.offset | instruction.offset1 << 8}"
    elif instruction.encoding == "SMEM" and instruction.offset and "load" in instruction.mnemonic:
        text += f"{' offset:' if instruction.scalar_address != NULL else ', '}{instruction.offset:#x}"
    elif instruction.offset and instruction.encoding in ("FLAT", "GLOBAL", "SCRATCH"):
        text += f" offset:{instruction.offset}"
    return text + (" clamp" if instruction.clamp else "")
