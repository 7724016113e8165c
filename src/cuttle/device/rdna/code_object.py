"""Linked AMDGPU code objects: ELF, metadata, kernel descriptors; and their placing in emulated memory.

Layouts: LLVM, "User Guide for AMDGPU Backend", sections "Code Object Metadata", "Kernel Descriptor" and "Relocation Records". Everything in a code
object is checked before it is used.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import NoteSection, SymbolTableSection

from cuttle.abi.targets import GPU_TARGETS
from cuttle.device.rdna.errors import CodeObjectError
from cuttle.device.rdna.memory import Memory

EM_AMDGPU = 224
# Low byte of e_flags (EF_AMDGPU_MACH) to target.
TARGETS = {0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102", 0x44: "gfx1103", 0x48: "gfx1200", 0x4E: "gfx1201"}
_METADATA_NOTE = 32
_ABS64, _RELATIVE64 = 3, 13
_IMAGE_LIMIT = 1 << 28
_HEADERS_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument of the metadata."""

    offset: int
    size: int
    kind: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel descriptor with what the metadata adds. Sizes in bytes; `entry` is the address of the code in the image."""

    name: str
    entry: int
    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    rsrc1: int
    rsrc2: int
    properties: int
    arguments: tuple[Argument, ...]
    dynamic_stack: bool
    largest_group: int

    @property
    def vector_registers(self) -> int:
        return ((self.rsrc1 & 63) + 1) * 8

    @property
    def mode(self) -> int:
        """The MODE register at start: rounding and denormals, DX10_CLAMP (bit 8), IEEE (bit 9, gfx11)."""
        return (self.rsrc1 >> 12 & 0xFF) | (self.rsrc1 >> 21 & 1) << 8 | (self.rsrc1 >> 23 & 1) << 9


@dataclass(slots=True)
class CodeObject:
    """A parsed code object. `segments`: (address, bytes in memory, file contents, writable)."""

    target: str
    version: int
    segments: list[tuple[int, int, bytes, bool]] = field(default_factory=list)
    relocations: list[tuple[int, int, int]] = field(default_factory=list)  # place, addend, symbol value
    symbols: dict[str, tuple[int, int]] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)

    @property
    def family(self) -> str:
        return self.target[:5]

    @staticmethod
    def parse(data: bytes) -> CodeObject:
        """Parses a linked code object; raises CodeObjectError for anything else."""
        try:
            elf = ELFFile(io.BytesIO(data))
            return _parse(elf)
        except CodeObjectError:
            raise
        except (ELFError, struct.error, msgspec.DecodeError, UnicodeDecodeError, KeyError, ValueError, TypeError, AssertionError,
                IndexError, AttributeError, OverflowError, MemoryError) as error:  # fmt: skip
            raise CodeObjectError(f"damaged code object: {type(error).__name__}: {error}") from None


def target_name(flags: int) -> str:
    """What people call the target of a code object's `e_flags`."""
    row = next((row for row in GPU_TARGETS if row.machine == flags & 0xFF), None)
    return f"{row.name} ({row.products})" if row is not None else f"an unknown target (e_flags {flags:#x})"


def _parse(elf: Any) -> CodeObject:
    header = elf.header
    if header["e_machine"] not in ("EM_AMDGPU", EM_AMDGPU) or elf.elfclass != 64 or not elf.little_endian:
        raise CodeObjectError("not a 64-bit AMDGPU ELF file")
    if header["e_type"] != "ET_DYN":
        raise CodeObjectError("not linked: a relocatable object, or no shared object")
    target = TARGETS.get(header["e_flags"] & 0xFF)
    if target is None:
        raise CodeObjectError(
            f"it is for {target_name(header['e_flags'])}; executed here are {', '.join(TARGETS.values())}"
        )
    code = CodeObject(target, int(header["e_ident"]["EI_ABIVERSION"]) + 2)
    # A linked code object has four segments to load and a dozen sections; tables of 65,535 entries, each the whole file, would
    # take all memory.
    if elf.num_segments() > _HEADERS_LIMIT or elf.num_sections() > _HEADERS_LIMIT:
        raise CodeObjectError(f"more than {_HEADERS_LIMIT} segments or sections")
    for segment in elf.iter_segments():
        if segment["p_type"] != "PT_LOAD":
            continue
        size, contents = segment["p_memsz"], segment.data()
        if size > _IMAGE_LIMIT or segment["p_vaddr"] > _IMAGE_LIMIT or len(contents) > size:
            raise CodeObjectError("a segment of impossible size")
        code.segments.append((segment["p_vaddr"], size, contents, bool(segment["p_flags"] & 2)))
    if not code.segments:
        raise CodeObjectError("nothing to load")
    if sum(size for _, size, _, _ in code.segments) > _IMAGE_LIMIT:
        raise CodeObjectError("segments of impossible size")
    _read_symbols(elf, code)
    _read_relocations(elf, code)
    for row in _read_metadata(elf).get("amdhsa.kernels", []):
        kernel = _read_kernel(code, row)
        code.kernels[kernel.name] = kernel
    return code


def _read_symbols(elf: Any, code: CodeObject) -> None:
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection):
            for symbol in section.iter_symbols():
                if symbol.name and symbol["st_shndx"] != "SHN_UNDEF":
                    code.symbols[symbol.name] = (symbol["st_value"], symbol["st_size"])


def _read_relocations(elf: Any, code: CodeObject) -> None:
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        table = elf.get_section(section["sh_link"])
        for relocation in section.iter_relocations():
            kind = relocation["r_info_type"]
            value = 0
            if kind == _ABS64:
                symbol = table.get_symbol(relocation["r_info_sym"])
                if symbol["st_shndx"] == "SHN_UNDEF":
                    raise CodeObjectError(f"undefined symbol {symbol.name}")
                value = symbol["st_value"]
            elif kind != _RELATIVE64:
                raise CodeObjectError(f"relocation of type {kind} in a linked object")
            code.relocations.append((relocation["r_offset"], relocation["r_addend"], value))


def _read_metadata(elf: Any) -> dict[str, Any]:
    sources = [x for x in elf.iter_sections() if isinstance(x, NoteSection)]
    sources += [x for x in elf.iter_segments() if x["p_type"] == "PT_NOTE"]
    for source in sources:
        for note in source.iter_notes():
            if note["n_name"].rstrip("\0") == "AMDGPU" and note["n_type"] in (_METADATA_NOTE, str(_METADATA_NOTE)):
                found = msgspec.msgpack.decode(note["n_descdata"])
                if isinstance(found, dict):
                    return found
    raise CodeObjectError("no metadata note")


def _read_kernel(code: CodeObject, row: dict[str, Any]) -> Kernel:
    name, symbol = str(row[".name"]), str(row[".symbol"])
    if symbol not in code.symbols:
        raise CodeObjectError(f"the descriptor {symbol} is missing")
    address = code.symbols[symbol][0]
    descriptor = _contents(code, address, 64)
    lds, scratch, kernarg = struct.unpack_from("<3I", descriptor)
    (entry,) = struct.unpack_from("<q", descriptor, 16)
    rsrc1, rsrc2, properties, preload = struct.unpack_from("<2I2H", descriptor, 48)
    if not properties >> 10 & 1 or row.get(".wavefront_size") != 32:
        raise CodeObjectError(f"kernel {name} is for waves of 64")
    if preload:
        raise CodeObjectError(f"kernel {name} wants its arguments preloaded, which these targets cannot do")
    arguments = tuple(Argument(int(x[".offset"]), int(x[".size"]), str(x[".value_kind"])) for x in row.get(".args", []))
    size = int(row[".kernarg_segment_size"])
    if (
        kernarg != size
        or size > 1 << 16
        or any(x.offset < 0 or x.size < 0 or x.offset + x.size > size for x in arguments)
    ):
        raise CodeObjectError(f"kernel {name}: arguments outside the kernel argument segment")
    return Kernel(
        name, address + entry, lds, scratch, size, rsrc1, rsrc2, properties, arguments,
        bool(properties >> 11 & 1), int(row.get(".max_flat_workgroup_size", 1024))
    )  # fmt: skip


def _contents(code: CodeObject, address: int, size: int) -> bytes:
    for start, length, contents, _ in code.segments:
        if start <= address and address + size <= start + length:
            return contents[address - start : address - start + size].ljust(size, b"\0")
    raise CodeObjectError(f"{address:#x} is in no segment")


def place(code: CodeObject, memory: Memory) -> tuple[int, list[int]]:
    """Puts the image into memory and relocates it; returns what is added to its addresses, and where the segments lie."""
    end = max(start + size for start, size, _, _ in code.segments)
    base = memory.reserve(end + 16)
    images: list[tuple[int, Any, bool]] = []
    for start, size, contents, writable in code.segments:
        low = start & ~15
        image = np.zeros(-(-(start + size - low) // 16) * 16, np.uint8)
        image[start - low : start - low + len(contents)] = np.frombuffer(contents, np.uint8)
        images.append((low, image, writable))
    for offset, addend, value in code.relocations:
        for low, image, _ in images:
            if low <= offset and offset + 8 <= low + len(image):
                word = np.array([(base + value + addend) & 0xFFFFFFFFFFFFFFFF], np.uint64)
                image[offset - low : offset - low + 8] = word.view(np.uint8)
                break
        else:
            raise CodeObjectError(f"a relocation of {offset:#x}, which is in no segment")
    try:
        for low, image, writable in images:
            memory.map(base + low, image, writable=writable)
    except ValueError as error:
        raise CodeObjectError(f"segments that overlap: {error}") from None
    return base, [base + low for low, _, _ in images]
