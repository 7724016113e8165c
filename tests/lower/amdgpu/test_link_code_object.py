"""Our linker against `ld.lld`, and against damaged objects. Against AMD's comgr: tests/device/hip/test_libraries.py."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from cuttle.lower.amdgpu.compile_kernel import CompiledCodeObject, compile_kernel
from cuttle.lower.amdgpu.compile_object import compile_object
from cuttle.lower.amdgpu.link_code_object import LinkError, link_code_object
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.ptx.parser import parse_module
from tests.lower.amdgpu.kernels import KERNELS

TARGETS = ("gfx1100", "gfx1200")


@cache
def compiled(name: str, target: str, version: int = 5) -> CompiledCodeObject:
    return compile_kernel(parse_module(KERNELS[name]), name, AmdgpuOptions(target, version))


def linked_by_lld(relocatable: bytes, folder: Path) -> bytes:
    (folder / "in.o").write_bytes(relocatable)
    command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-o", "out", "in.o"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return (folder / "out").read_bytes()


def dynamic_symbols(data: bytes) -> dict[str, tuple[str, str, int, int]]:
    """Name: type, visibility, size, value, from the dynamic table alone, as a loader finds it."""
    elf = ELFFile(io.BytesIO(data))
    table = next(s for s in elf.iter_segments() if s["p_type"] == "PT_DYNAMIC")
    return {
        symbol.name: (
            symbol["st_info"]["type"], symbol["st_other"]["visibility"], symbol["st_size"], symbol["st_value"],
        )
        for symbol in table.iter_symbols()
        if symbol.name
    }  # fmt: skip


def memory_image(data: bytes) -> bytearray:
    """What a loader maps, from address 0 on; overlapping segments are an error."""
    elf = ELFFile(io.BytesIO(data))
    end = 0
    image = bytearray()
    for segment in elf.iter_segments():
        if segment["p_type"] != "PT_LOAD":
            continue
        assert segment["p_vaddr"] >= end, "segments overlap"
        assert segment["p_vaddr"] % 4096 == segment["p_offset"] % 4096
        assert not image or segment["p_vaddr"] // 4096 > (end - 1) // 4096, "two segments on one page"
        end = segment["p_vaddr"] + segment["p_memsz"]
        image += bytes(end - len(image))
        image[segment["p_vaddr"] : segment["p_vaddr"] + segment["p_filesz"]] = segment.data()
    return image


def section(data: bytes, name: str) -> tuple[int, bytes]:
    found = ELFFile(io.BytesIO(data)).get_section_by_name(name)
    return found["sh_addr"], found.data()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_agrees_with_lld(name: str, target: str, tmp_path: Path) -> None:
    image = compiled(name, target)
    theirs = linked_by_lld(image.relocatable, tmp_path)
    ours = image.code_object
    mine, other = dynamic_symbols(ours), dynamic_symbols(theirs)
    assert {n: row[:3] for n, row in mine.items()} == {n: row[:3] for n, row in other.items()}
    assert set(mine) == {name, f"{name}.kd"}
    for header in ("e_flags", "e_machine", "e_type", "e_version"):
        assert ELFFile(io.BytesIO(ours)).header[header] == ELFFile(io.BytesIO(theirs)).header[header]
    assert ours[:16] == theirs[:16]
    for data, symbols in ((ours, mine), (theirs, other)):
        memory = memory_image(data)
        place = symbols[f"{name}.kd"][3]
        entry = int.from_bytes(memory[place + 16 : place + 24], "little", signed=True)
        assert place + entry == symbols[name][3], "the descriptor does not lead to the code"
    assert section(ours, ".note")[1] == section(theirs, ".note")[1]
    # Code differs only where distances between sections do; constants lie at other distances.
    assert len(section(ours, ".text")[1]) == len(section(theirs, ".text")[1])
    if not any(s.name == ".rela.text" for s in ELFFile(io.BytesIO(image.relocatable)).iter_sections()):
        assert section(ours, ".text")[1] == section(theirs, ".text")[1]


def test_distances_to_constants() -> None:
    """Every `s_getpc_b64` plus literals in the linked code leads into `.rodata` or to a function."""
    image = compiled("calls", "gfx1100")
    elf = ELFFile(io.BytesIO(image.relocatable))
    relocations = [r for s in elf.iter_sections() if s.name == ".rela.text" for r in s.iter_relocations()]
    assert relocations
    address, code = section(image.code_object, ".text")
    symbols = elf.get_section_by_name(".symtab")
    low = {r["r_offset"]: r for r in relocations if r["r_info_type"] == 10}
    assert low
    for offset, relocation in low.items():
        symbol = symbols.get_symbol(relocation["r_info_sym"])
        owner = elf.get_section(symbol["st_shndx"]).name
        distance = int.from_bytes(code[offset : offset + 4], "little", signed=True)
        target = address + offset + distance - relocation["r_addend"]
        assert target == section(image.code_object, owner)[0] + symbol["st_value"], symbol.name


@pytest.mark.parametrize("seed", range(40))
def test_damaged_objects_are_refused_or_linked(seed: int) -> None:
    """A damaged object raises LinkError or links: nothing else."""
    chance = random.Random(seed)
    data = bytearray(compiled("calls", "gfx1100").relocatable)
    if seed % 4 == 0:
        data = data[: chance.randrange(len(data))]
    else:
        for _ in range(chance.choice((1, 3, 30))):
            area = (
                range(64)
                if seed % 4 == 1
                else range(len(data) - 1500, len(data))
                if seed % 4 == 2
                else range(len(data))
            )
            data[chance.choice(area)] = chance.randrange(256)
    try:
        link_code_object(bytes(data))
    except LinkError:
        pass


def test_undefined_symbols_are_refused() -> None:
    text = (
        "declare void @missing()\ndefine protected amdgpu_kernel void @k() {\n  call void @missing()\n  ret void\n}\n"
    )
    with pytest.raises(LinkError, match="missing|relocation type"):
        link_code_object(compile_object(text, "gfx1100").object)
