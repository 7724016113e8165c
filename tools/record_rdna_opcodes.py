"""Records the opcode numbers of RDNA3 and RDNA4 instructions: `python tools/record_rdna_opcodes.py`.

Drives LLVM's AMDGPU disassembler (C API of the library in PyPI's `rocm-llvm-python`; any LLVM 22 will do:
`--library PATH`) through all opcode numbers of each encoding and writes `src/cuttle/abi/rdna/opcodes.py`: facts only, no text
of LLVM's. Field layouts: AMD, RDNA3 and RDNA4 Instruction Set Architecture, chapter "Microcode Formats".
"""

from __future__ import annotations

import argparse
import ctypes
import re
import struct
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("gfx1100", "gfx1200")
V = 256  # operand codes from here on are vector registers
NULL = 124


class Disassembler:
    """LLVM's disassembler for one target."""

    def __init__(self, library: ctypes.CDLL, target: str) -> None:
        create = library.LLVMCreateDisasmCPUFeatures
        create.restype = ctypes.c_void_p
        create.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int,
                           ctypes.c_void_p, ctypes.c_void_p]  # fmt: skip
        library.LLVMDisasmInstruction.restype = ctypes.c_size_t
        library.LLVMDisasmInstruction.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64,
                                                  ctypes.c_char_p, ctypes.c_size_t]  # fmt: skip
        self._library = library
        self._handle = create(b"amdgcn-amd-amdhsa", target.encode(), b"+real-true16", None, 0, None, None)
        if not self._handle:
            raise SystemExit(f"this LLVM has no disassembler for {target}")

    def text(self, *words: int) -> str:
        """The instruction, or an empty string if the words are none."""
        code = struct.pack(f"<{len(words) + 2}I", *words, 0, 0)
        buffer = ctypes.create_string_buffer(512)
        size = self._library.LLVMDisasmInstruction(self._handle, code, len(code), 0, buffer, 512)
        text = buffer.value.decode().strip().replace("\t", " ")
        return text if size and "Invalid" not in text and not text.startswith("illegal") else ""


def load_library(path: str) -> ctypes.CDLL:
    if not path:
        import importlib.util

        spec = importlib.util.find_spec("rocm.llvm")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("install rocm-llvm-python, or name a library with --library")
        path = str(Path(next(iter(spec.submodule_search_locations))) / "librocmllvm.so")
    library = ctypes.CDLL(path)
    for part in ("TargetInfo", "Target", "TargetMC", "Disassembler"):
        getattr(library, f"LLVMInitializeAMDGPU{part}")()
    return library


def candidates(target: str) -> Iterator[tuple[str, int, list[tuple[int, ...]]]]:
    """Encoding, opcode number and instruction words to try (the first that decodes counts)."""
    new = target == "gfx1200"
    for op in range(0x60):
        yield "SOP2", op, [(0b10 << 30 | op << 23 | 4 << 16 | 8 << 8 | 12,)]
    for op in range(128):
        yield "SOPC", op, [(0b101111110 << 23 | op << 16 | 8 << 8 | 12,)]
        yield "SOPP", op, [(0b101111111 << 23 | op << 16 | imm,) for imm in (0, 1)]
    for op in range(29):
        yield "SOPK", op, [(0b1011 << 28 | op << 23 | d << 16 | 1,) for d in (4, NULL)]
    for op in range(256):
        yield "SOP1", op, [(0b101111101 << 23 | 4 << 16 | op << 8 | 12,)]
        at = 13 if new else 18
        if not new or op < 64:
            yield "SMEM", op, [(0b111101 << 26 | op << at | d << 6 | 4, NULL << 25) for d in (16, 0)]
        fields = ((4, 8, 12, 2), (4, 0, 12, 2), (4, 0, 0, 2), (0, 8, 12, 2), (0, 0, 12, 2), (0, 0, 0, 2), (0, 0, 0, 0),
                  (4, 0, 0, 0), (0, 0, 12, 0))  # fmt: skip
        yield "DS", op, [(0b110110 << 26 | op << 18, d << 24 | b << 16 | a << 8 | x) for d, b, a, x in fields]
        for segment, name in enumerate(("FLAT", "SCRATCH", "GLOBAL")):
            if new:
                head = 0b111011 << 26 | segment << 24 | op << 14
                yield name, op, [(head | NULL, 4 | 12 << 23, 2), (head | 8, 4 | 12 << 23, 2),
                                 (head | NULL, 4 | 12 << 23 | 1 << 20, 2)]  # fmt: skip
            elif op < 128:
                head = 0b110111 << 26 | op << 18 | segment << 16
                yield name, op, [(head, 4 << 24 | NULL << 16 | 12 << 8 | 2), (head, 4 << 24 | 8 << 16 | 12 << 8 | 2),
                                 (head | 1 << 14, 4 << 24 | NULL << 16 | 12 << 8 | 2)]  # fmt: skip
        yield "VOPC", op, [(0b0111110 << 25 | op << 17 | 8 << 9 | V + 12,)]
    for op in range(62):
        yield "VOP2", op, [(op << 25 | 4 << 17 | 8 << 9 | V + 12, 0x3F123456)]
    for op in range(128):
        yield "VOP1", op, [(0b0111111 << 25 | 4 << 17 | op << 9 | s,) for s in (V + 12, 12)]
        packed: list[tuple[int, ...]] = [
            (0b11001100 << 24 | op << 16 | 4 | high << 14, V + 8 | (V + b) << 9 | c << 18 | low << 27)
            for b, third in ((12, V + 16), (24, V + 32))
            for high in (1, 0)
            for low in (3, 0)
            for c in (third, 0)
        ]
        yield "VOP3P", op, packed
    for op in range(0x200, 1024):
        head = 0b110101 << 26 | op << 16 | 4
        yield "VOP3", op, [(head, V + 8 | (V + 12) << 9 | (V + 16) << 18), (head, V + 8 | (V + 12) << 9),
                           (head, 8 | 12 << 9 | (V + 16) << 18), (head, V + 8 | 12 << 9),
                           (head, 8 | 12 << 9), (head, 8)]  # fmt: skip
    for op in range(16):
        head = 0b110010 << 26 | op << 22 | 3 << 17 | V + 8
        yield "VOPDX", op, [(head | x << 9, 4 << 24 | 3 << 17 | 14 << 9 | V + 9, 7) for x in (5, 0)]
    for op in range(32):
        head = 0b110010 << 26 | 3 << 22 | op << 17 | 5 << 9 | V + 8
        yield "VOPDY", op, [(head, 4 << 24 | 3 << 17 | y << 9 | V + 9, 7) for y in (14, 0)]


def widths(operands: str) -> str:
    """One character an operand: dwords in base 36, `H` for half a register, `.` for none."""
    result = ""
    for operand in re.split(r", (?![^\[]*\])", operands):
        word = operand.strip().split(" ")[0]
        if match := re.fullmatch(r"[vs]\[(\d+):(\d+)\]", word):
            result += "0123456789abcdefghijklmnopqrstuvwxyz"[int(match[2]) - int(match[1]) + 1]
        elif re.fullmatch(r"v\d+\.[lh]", word):
            result += "H"
        else:
            result += "1" if re.fullmatch(r"[vs]\d+", word) else "."
    return result


def record(library: ctypes.CDLL) -> dict[str, dict[str, list[tuple[int, str] | None]]]:
    table: dict[str, dict[str, list[tuple[int, str] | None]]] = {}
    for index, target in enumerate(TARGETS):
        disassembler = Disassembler(library, target)
        for encoding, op, words in candidates(target):
            text = next(filter(None, (disassembler.text(*w) for w in words)), "")
            if encoding in ("VOPDX", "VOPDY") and text:
                text = text.split(" :: ")[encoding == "VOPDY"]
            if not text:
                continue
            mnemonic, _, operands = text.partition(" ")
            mnemonic = re.sub(r"_e(32|64)$", "", mnemonic)
            table.setdefault(encoding, {}).setdefault(mnemonic, [None, None])[index] = (op, widths(operands))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", default="", help="a shared library with LLVM's C API and AMDGPU disassembler")
    table = record(load_library(parser.parse_args().library))
    lines = [
        '"""Opcode numbers of RDNA3 (gfx11) and RDNA4 (gfx12) instructions; generated by tools/record_rdna_opcodes.py.',
        "",
        "Per encoding: mnemonic to (number on gfx11, number on gfx12, operand widths on gfx11, on gfx12); None: not there. Widths:",
        "one character an operand in assembly order, dwords in hexadecimal (`g`: 16), `H` for half a register, `.` for none.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "OPCODES: dict[str, dict[str, tuple[int | None, int | None, str, str]]] = {",
    ]
    for encoding, rows in table.items():
        lines.append(f'    "{encoding}": {{')
        for mnemonic, (old, new) in rows.items():
            old_op, old_widths = old or (None, "")
            new_op, new_widths = new or (None, "")
            lines.append(f'        "{mnemonic}": ({old_op}, {new_op}, "{old_widths}", "{new_widths}"),')
        lines.append("    },")
    lines.append("}")
    path = ROOT / "src" / "cuttle" / "abi" / "rdna" / "opcodes.py"
    path.write_text("\n".join(lines) + "\n")
    print({encoding: len(rows) for encoding, rows in table.items()})


if __name__ == "__main__":
    main()
