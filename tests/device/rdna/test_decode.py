"""The decoder against LLVM: the assembly text of compiled kernels, and (if `rocm-llvm-python` is there) its disassembler on random words."""

from __future__ import annotations

import importlib.util
import random
import re
import struct
from typing import Any

import pytest

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna.code_object import CodeObject
from cuttle.device.rdna.decode import Decoder
from cuttle.device.rdna.disassemble import disassemble
from cuttle.device.rdna.errors import CodeObjectError, IllegalInstruction
from tests.device.rdna import test_kernels
from tests.device.rdna.kernels import TARGETS, assembly, code_object

KERNELS = {"saxpy": test_kernels.SAXPY, "matmul": test_kernels.MATMUL, "reduce": test_kernels.REDUCE, "calls": test_kernels.CALLS,
           "mirror": test_kernels.DYNAMIC, "spin": test_kernels.SPIN}  # fmt: skip


def normal(text: str) -> list[str]:
    """Mnemonic without encoding suffix, then registers, and the offset, as a list."""
    text = text.split(";")[0].strip()
    mnemonic, _, rest = text.partition(" ")
    mnemonic = re.sub(r"_e(32|64)(_dpp)?$|_dpp$", "", mnemonic)
    found = re.findall(
        r"\b(?:v|s|ttmp)(?:\d+|\[\d+:\d+\])(?:\.[lh])?|\bvcc_lo\b|\bvcc\b|\bexec_lo\b|\bexec\b|\bnull\b|\bm0\b|\boff\b|offset\d?:-?\w+",
        rest,
    )
    return [mnemonic, *(x.replace("offset:0x", "offset:#") for x in found)]


def halves(parts: str) -> list[list[str]]:
    return [normal(part) for part in parts.split(" :: ")]


def assembly_instructions(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        line = line.split(";")[0].rstrip()
        if re.match(r"\t[a-z]", line) and not line.strip().startswith("."):
            lines.append(line.strip())
    return lines


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_compiled_code_decodes_to_the_assembly_text(name: str, target: str) -> None:
    # Padding before aligned loops is not in the text.
    expected = [
        x for x in assembly_instructions(assembly(KERNELS[name], target)) if not x.startswith(("s_code_end", "s_nop"))
    ]
    code = CodeObject.parse(code_object(KERNELS[name], target))
    decoder = Decoder(code.family)
    got: list[str] = []
    functions = sorted((at, size) for symbol, (at, size) in code.symbols.items() if size and not symbol.endswith(".kd"))
    for address, size in functions:
        segment = next(s for s in code.segments if s[0] <= address < s[0] + s[1])
        if not any(
            start <= code.kernels[k].entry < start + length for start, length, _, _ in [segment] for k in code.kernels
        ):
            continue  # data
        at = address - segment[0]
        while at < address - segment[0] + size:
            instruction = decoder.decode(segment[2], at)
            if instruction.mnemonic not in ("s_nop", "s_code_end"):
                got.append(disassemble(instruction, code.family))
            at += instruction.size
    assert [halves(x)[0][0] for x in got] == [halves(x)[0][0] for x in expected]
    for mine, theirs in zip(got, expected, strict=True):
        # Labels, immediates and hardware register names are spelled otherwise; registers and offsets must agree.
        assert [h for h in halves(mine)] == [h for h in halves(theirs)], (mine, theirs)


def _disassembler(target: str) -> Any:
    if importlib.util.find_spec("rocm") is None or importlib.util.find_spec("rocm.llvm") is None:
        pytest.skip("rocm-llvm-python is not installed")
    from tools.record_rdna_opcodes import Disassembler, load_library

    return Disassembler(load_library(""), target)


@pytest.mark.parametrize("target", TARGETS)
def test_random_words_decode_as_llvm_does(target: str) -> None:
    """Every encoding that is executed, with random fields: what LLVM takes is decoded to the same mnemonic, size and registers."""
    reference = _disassembler(target)
    family, source = target[:5], random.Random(1)
    decoder = Decoder(family)
    prefixes = [(0, 1), (0b10, 2), (0b110101, 6), (0b11001100, 8), (0b110010, 6), (0b111101, 6), (0b110110, 6),
                (0b110111, 6) if family == "gfx11" else (0b111011, 6)]  # fmt: skip
    known = {name for rows in OPCODES.values() for name in rows}
    compared = 0
    for _ in range(60000):
        prefix, bits = source.choice(prefixes)
        words = [prefix << 32 - bits | source.getrandbits(32 - bits), source.getrandbits(32), source.getrandbits(32)]
        text = reference.text(*words)
        mnemonic = re.sub(r"_e(32|64)(_dpp)?$|_dpp$", "", text.partition(" ")[0])
        if not text or mnemonic not in known or " gds" in text or "Warning" in text:
            continue
        instruction = decoder.decode(struct.pack("<5I", *words, 0, 0), 0)
        assert instruction.mnemonic == mnemonic, text
        mine = disassemble(instruction, family)
        spelled_otherwise = "offset" in text or "dpp" in text or "prefetch" in text or mnemonic.startswith("s_buffer")
        if not spelled_otherwise:
            assert halves(mine) == halves(text), (text, mine)
        compared += 1
    assert compared > 5000


def test_unknown_words_are_refused() -> None:
    for family in ("gfx11", "gfx12"):
        decoder = Decoder(family)
        for word in (0xFFFFFFFF, 0xF8000000, 0xF0000000):
            with pytest.raises(IllegalInstruction):
                decoder.decode(struct.pack("<5I", word, 0, 0, 0, 0), 0)
        with pytest.raises(IllegalInstruction, match="ends here"):
            decoder.decode(b"\0\0", 0)
        with pytest.raises(IllegalInstruction, match="cut off"):
            decoder.decode(struct.pack("<I", 0xD6130000), 0)


def test_random_words_end_in_decoding_or_refusal() -> None:
    source = random.Random(2)
    for family in ("gfx11", "gfx12"):
        decoder = Decoder(family)
        for _ in range(20000):
            try:
                instruction = decoder.decode(source.randbytes(20), 0)
            except IllegalInstruction:
                continue
            assert 4 <= instruction.size <= 20
            disassemble(instruction, family)


@pytest.mark.parametrize(("count_at", "offset_at", "size"), [(56, 32, 56), (60, 40, 64)], ids=["segments", "sections"])
def test_endless_header_tables_are_refused(count_at: int, offset_at: int, size: int) -> None:
    """65,535 entries that all load the whole file would be read into gigabytes."""
    data = bytearray(code_object(test_kernels.SAXPY, "gfx1100"))
    (table,) = struct.unpack_from("<Q", data, offset_at)
    entries = 20_000
    struct.pack_into("<Q", data, offset_at, len(data))
    struct.pack_into("<H", data, count_at, entries)
    data += bytes(data[table : table + size]) * entries
    with pytest.raises(CodeObjectError, match="segments or sections"):
        CodeObject.parse(bytes(data))


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_code_objects_are_refused_or_read(target: str) -> None:
    good = code_object(test_kernels.SAXPY, target)
    source = random.Random(3)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(source.randint(1, 8)):
            data[source.randrange(len(data))] = source.getrandbits(8)
        try:
            CodeObject.parse(bytes(data))
        except CodeObjectError:
            pass
    for cut in range(0, len(good), 97):
        try:
            CodeObject.parse(good[:cut])
        except CodeObjectError:
            pass
    for bad in (b"", b"\x7fELF", b"no elf at all" * 10):
        with pytest.raises(CodeObjectError):
            CodeObject.parse(bad)
